"""`python -m keepstone`: the command line."""

import sys

from keepstone.cli import main

if __name__ == "__main__":
    sys.exit(main())
