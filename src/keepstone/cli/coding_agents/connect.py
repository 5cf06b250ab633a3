"""Connect clients: write the MCP server and the hooks into their configuration files, and take them out again.

The file as it was before is kept in the user's data folder. `undo` writes it back byte for byte, unless the file was changed
since: then only our entries are taken out.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from keepstone.cli.coding_agents import create_folder, user_folder
from keepstone.cli.coding_agents.config_files import ConfigFile, JsonFile, TomlFile
from keepstone.errors import ConfigurationError
from keepstone.maintenance.files import whole

_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")
_OUR_HOOK = re.compile(r"\bkeepstone['\"]?\s+hook\s")
_HOOK_PROJECT = "auto"  # hooks know the folder of their session in every client
_HOOK_TIMEOUTS = {"session-start": 10, "prompt": 5, "pre-compact": 10, "stop": 10, "session-end": 10}  # seconds
State = Literal["connected", "outdated", "not connected"]


@dataclass(frozen=True, slots=True)
class Launch:
    """How clients start keepstone: the program with its first arguments, and the options for store and scope."""

    program: tuple[str, ...]
    options: tuple[str, ...] = ()
    project: str | None = None  # of --project; None: the client's default

    @classmethod
    def here(cls, options: Sequence[str] = (), project: str | None = None) -> Launch:
        """This installation of keepstone."""
        own = Path(sys.argv[0] or "keepstone")
        beside = Path(sys.executable).parent / "keepstone"
        if own.name in ("keepstone", "keepstone.exe") and own.exists():
            return cls((str(own.absolute()),), tuple(options), project)
        if beside.exists():
            return cls((str(beside),), tuple(options), project)
        return cls((sys.executable, "-m", "keepstone"), tuple(options), project)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A configuration file before and after; None: it does not exist."""

    path: Path
    before: bytes | None
    after: bytes | None

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        old, new = ((each or b"").decode("utf-8", "replace").splitlines(keepends=True) for each in (self.before, self.after))
        lines = difflib.unified_diff(old, new, str(self.path), str(self.path), n=2)
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class ClientState:
    """What is known about a client on this machine."""

    name: str
    title: str
    installed: bool
    state: State
    hooks: bool  # whether the client has hooks
    files: tuple[str, ...]


@cache
def clients() -> Mapping[str, Mapping[str, Any]]:
    """The table of clients."""
    return tomllib.loads((Path(__file__).parent / "clients.toml").read_text(encoding="utf-8"))


def get_client(name: str) -> Mapping[str, Any]:
    """One client of the table. Raises ConfigurationError."""
    table = clients()
    if name not in table:
        raise ConfigurationError(f"there is no client {name!r:.60}: use {', '.join(table)}.")
    return table[name]


def find_sessions(name: str) -> Path:
    """Where a client keeps its sessions. Raises ConfigurationError if there are none."""
    path = _locate(get_client(name)["sessions"])
    if not path.exists():
        raise ConfigurationError(f"{name} has kept no sessions in {path}: name the folder, or the file.")
    return path


def list_clients(launch: Launch) -> list[ClientState]:
    """Every client with its state."""
    found = []
    for name, client in clients().items():
        files = tuple(dict.fromkeys(str(_locate(part["file"])) for part in (client["server"], client.get("hooks")) if part))
        folders = [_expand(path) for path in client.get("installed", ())] or [Path(path).parent for path in files]
        installed = any(path.exists() for path in folders) or shutil.which(client.get("program", "")) is not None
        found.append(ClientState(name, client["title"], installed, _state(name, launch), "hooks" in client, files))
    return found


def _state(name: str, launch: Launch) -> State:
    try:
        if not plan_connection(name, launch):
            return "connected"
        return "outdated" if plan_removal(name) else "not connected"
    except ConfigurationError:
        return "not connected"


def plan_connection(name: str, launch: Launch) -> list[FileChange]:
    """The changes that connect a client; none if it is connected. Raises ConfigurationError for a file that cannot be read."""
    client = get_client(name)
    files: dict[Path, tuple[bytes | None, ConfigFile]] = {}
    server = _locate(client["server"]["file"])
    files[server] = _read(server)
    _put_server(files[server][1], client["server"], _arguments(client, launch, ["mcp"]), launch)
    if "hooks" in client:
        hooks = _locate(client["hooks"]["file"])
        files.setdefault(hooks, _read(hooks))
        file = files[hooks][1]
        assert isinstance(file, JsonFile)
        for event, hook in client["hooks"]["events"].items():
            options = [] if name == "claude-code" else ["--client", name]
            argv = [*launch.program, *_arguments(client, launch, ["hook", hook, *options], project=_HOOK_PROJECT)]
            _put_hook(file, client["hooks"], event, shlex.join(argv), _HOOK_TIMEOUTS[hook])
    return _changes(files)


def _arguments(client: Mapping[str, Any], launch: Launch, first: list[str], project: str | None = None) -> list[str]:
    chosen = launch.project or project or client.get("project")
    return [*first, *launch.options, *(["--project", chosen] if chosen else [])]


def _put_server(file: ConfigFile, server: Mapping[str, Any], arguments: list[str], launch: Launch) -> None:
    argv = [*launch.program, *arguments]
    fill = {"{command}": argv[0], "{args}": argv[1:], "{argv}": argv}
    entry = {
        key: fill.get(value, value) if isinstance(value, str) else dict(value) if isinstance(value, dict) else value
        for key, value in server["entry"].items()
    }
    other: Sequence[str] | None = server.get("other_path")  # of our entry, in files that have such a table
    path: Sequence[str] = other if other is not None and file.get(other[:-1]) is not None else server["path"]
    if file.get(path) != entry:
        file.put(path, entry)


def _put_hook(file: JsonFile, hooks: Mapping[str, Any], event: str, command: str, seconds: int) -> None:
    if "version" in hooks and file.get(["version"]) is None:
        file.put(["version"], hooks["version"])
    timeout = seconds * hooks["timeout_unit"]
    entry: dict[str, Any] = {"command": command, "timeout": timeout}
    if hooks["layout"] == "groups":
        entry = {"hooks": [{"type": "command", **entry}]}
    found = [at for at, given in enumerate(file.get(["hooks", event]) or []) if _is_ours(given)]
    if len(found) == 1 and file.get(["hooks", event])[found[0]] == entry:
        return
    for at in reversed(found):
        file.delete(["hooks", event, at])
    file.append(["hooks", event], entry)


def _is_ours(entry: Any) -> bool:
    """Whether an entry of hooks runs keepstone."""
    if not isinstance(entry, Mapping):
        return False
    commands = [entry.get("command"), *(each.get("command") for each in entry.get("hooks", ()) if isinstance(each, Mapping))]
    return any(isinstance(command, str) and _OUR_HOOK.search(command) for command in commands)


def plan_removal(name: str) -> list[FileChange]:
    """The changes that take our entries out of a client's files; none if there are none."""
    client = get_client(name)
    files: dict[Path, tuple[bytes | None, ConfigFile]] = {}
    server = _locate(client["server"]["file"])
    files[server] = _read(server)
    for path in (client["server"]["path"], client["server"].get("other_path")):
        if path is not None and files[server][1].get(path) is not None:
            files[server][1].delete(path)
    if "hooks" in client:
        hooks = _locate(client["hooks"]["file"])
        file = files.setdefault(hooks, _read(hooks))[1]
        assert isinstance(file, JsonFile)
        for event in client["hooks"]["events"]:
            for at in reversed([at for at, given in enumerate(file.get(["hooks", event]) or []) if _is_ours(given)]):
                file.delete(["hooks", event, at])
    return _changes(files)


def _changes(files: Mapping[Path, tuple[bytes | None, ConfigFile]]) -> list[FileChange]:
    changes = []
    for path, (before, file) in files.items():
        after = file.text.encode("utf-8")
        if after != (before or b"") and not (before is None and file.value == {}):
            changes.append(FileChange(path, before, after))
    return changes


def apply_changes(name: str, changes: Sequence[FileChange]) -> None:
    """Write the changes, after the files as they were have been kept. Raises ConfigurationError."""
    kept = _read_kept(name)
    without = {change.path: change.after for change in plan_removal(name)}
    for change in changes:
        known = kept.get(str(change.path))
        if known is None or known["after"] != _digest(change.before):  # else the file is as we left it: keep the older state
            before = without.get(change.path, change.before)
            missing = [str(folder) for folder in change.path.parents if not folder.exists()]
            kept[str(change.path)] = {"before": _store(name, change.path, before), "folders": missing}
        kept[str(change.path)]["after"] = _digest(change.after)
    _write(_folder(name) / "files.json", json.dumps(kept, indent=1).encode())
    for change in changes:
        _write(change.path, change.after)


def undo(name: str, dry_run: bool = False) -> list[FileChange]:
    """Put the files of a client back as they were before they were connected, and return the changes."""
    kept = _read_kept(name)
    removal = {change.path: change for change in plan_removal(name)}
    changes: list[FileChange] = []
    for path in dict.fromkeys([*map(Path, kept), *removal]):
        known = kept.get(str(path))
        now = path.read_bytes() if path.exists() else None
        backup = None if known is None or known["before"] is None else _folder(name) / known["before"]
        if known is not None and known["after"] == _digest(now) and (backup is None or backup.exists()):
            before = None if backup is None else backup.read_bytes()
            changes.append(FileChange(path, now, before))
        elif path in removal:
            changes.append(removal[path])
    if not dry_run:
        for change in changes:
            _write(change.path, change.after)
            for folder in kept.get(str(change.path), {}).get("folders", []):
                if os.path.isdir(folder) and not os.listdir(folder):
                    os.rmdir(folder)
        shutil.rmtree(_folder(name), ignore_errors=True)
    return changes


def _locate(file: Any) -> Path:
    """The configuration file on this system: the first one that exists, else the first."""
    names = file if isinstance(file, list) else file.get(sys.platform, file["linux"])
    paths = [_expand(name) for name in names]
    return Path(os.path.realpath(next((path for path in paths if path.exists()), paths[0])))


def _expand(text: str) -> Path:
    filled = _VARIABLE.sub(lambda found: os.environ.get(found[1]) or found[2], text)
    return Path(os.path.expanduser(filled))


def _read(path: Path) -> tuple[bytes | None, ConfigFile]:
    try:
        before = path.read_bytes() if path.exists() else None
        text = (before or b"").decode("utf-8")
        file: ConfigFile = TomlFile(text) if path.suffix == ".toml" else JsonFile(text)
        if not isinstance(file.value, dict):
            raise ValueError("it is not an object")
        return before, file
    except (OSError, ValueError) as error:  # a JSON or TOML error is a ValueError
        raise ConfigurationError(f"{path} cannot be read ({error}): correct it, then connect again.") from None


def _write(path: Path, content: bytes | None) -> None:
    try:
        if content is None:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        with whole(path) as file:
            os.chmod(file.fileno(), mode)
            file.write(content)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written ({error}): change its rights, then connect again.") from None


# -- the files as they were ------------------------------------------------------------------------------------------------
def _folder(name: str) -> Path:
    return user_folder() / "connect" / name


def _read_kept(name: str) -> dict[str, Any]:
    try:
        kept: dict[str, Any] = json.loads((_folder(name) / "files.json").read_text(encoding="utf-8"))
        return kept
    except FileNotFoundError:
        return {}


def _store(name: str, path: Path, before: bytes | None) -> str | None:
    """Keep a file as it was; the name it is kept under."""
    create_folder(user_folder())
    if before is None:
        return None
    kept = f"{_digest(str(path).encode())[:12]}.before"
    _write(_folder(name) / kept, before)
    return kept


def _digest(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()
