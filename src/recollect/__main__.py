"""`python -m recollect`: the command line."""

import sys

from recollect.cli import main

if __name__ == "__main__":
    sys.exit(main())
