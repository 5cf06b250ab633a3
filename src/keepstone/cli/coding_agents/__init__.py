"""Coding agents as clients: their configuration (`connect`), their hooks, and the project that a folder belongs to.

Here are the folders and files that all of it keeps for this user. Hooks start with this module, so it imports little.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

_MAX_LOG_BYTES = 256 * 1024
_MAX_SHOWN_ERRORS = 5
_MAX_SOCKET_FOLDER_BYTES = 60  # the whole address may have about 100


def user_folder() -> Path:
    """The data folder of the user's programs on this system."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Application Support")
    else:
        given = os.environ.get("XDG_DATA_HOME", "")
        base = given if os.path.isabs(given) else str(Path.home() / ".local" / "share")
    return Path(base) / "keepstone"


def create_folder(folder: Path) -> Path:
    """Create a folder that only the user can read."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def socket_folder() -> Path:
    """A folder for sockets, which need short paths. Raises OSError if another user owns it."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    usable = os.path.isabs(runtime) and len(os.fsencode(runtime)) <= _MAX_SOCKET_FOLDER_BYTES
    base = Path(runtime) / "keepstone" if usable else Path(f"/tmp/keepstone-{os.getuid()}")
    create_folder(base)
    found = base.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise OSError(f"{base} does not belong to this user alone")
    return base


def hook_log() -> Path:
    """The file with the errors of hooks, one JSON object a line."""
    return user_folder() / "hooks.log"


def log_hook_error(event: str, error: str) -> None:
    """Append an error to the log of hooks; never raises. Half of a log that has become too long is dropped."""
    try:
        create_folder(user_folder())
        path = hook_log()
        if path.exists() and path.stat().st_size > _MAX_LOG_BYTES:
            path.write_bytes(path.read_bytes()[_MAX_LOG_BYTES // 2 :].partition(b"\n")[2])
        line = json.dumps({"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "event": event, "error": error[:2000]})
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as file:
            file.write(line + "\n")
    except OSError:
        pass


def read_hook_errors() -> list[dict[str, Any]]:
    """The newest errors of hooks, newest last."""
    try:
        lines = hook_log().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    found: list[dict[str, Any]] = []
    for line in lines[-_MAX_SHOWN_ERRORS:]:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # a line that was cut
    return found
