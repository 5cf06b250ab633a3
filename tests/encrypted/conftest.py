"""apsw-sqlite3mc takes the place of apsw, so these tests are run in an environment of their own: `make encrypted`. What happens
without it is tested in the main one."""

from __future__ import annotations

import os

HERE = bool(os.environ.get("KEEPSTONE_ENCRYPTED"))
collect_ignore = ["test_without_the_extra.py"] if HERE else ["test_encryption.py", "test_encryption_commands.py"]
