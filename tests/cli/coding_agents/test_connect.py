"""`keepstone connect`: every client's own file gets our entry, keeps the rest, and is put back byte for byte."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.cli.coding_agents.config_files import JsonFile, TomlFile
from keepstone.cli.coding_agents.connect import (
    Launch,
    apply_changes,
    clients,
    list_clients,
    plan_connection,
    undo,
)
from keepstone.errors import ConfigurationError
from tests.cli.support import process

LAUNCH = Launch(("/opt/keepstone",), ("--user", "dana"))
COMMENTED = """// my settings
{
\t"theme": "dark", // at night
\t"mcpServers": {"other": {"command": "other"}},
\t"hooks": {
\t\t"Stop": [
\t\t\t{"hooks": [{"type": "command", "command": "say done"}]}, /* mine */
\t\t],
\t},
}
"""
TOML = '# mine\nmodel = "o4"\n\n[mcp_servers.other]\ncommand = "other"'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def files_of(home: Path) -> dict[Path, bytes]:
    data = home / ".local"
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file() and data not in path.parents}


def config(path: Path) -> Any:
    text = path.read_text()
    return tomllib.loads(text) if path.suffix == ".toml" else JsonFile(text).value


@pytest.mark.parametrize("name", clients())
@pytest.mark.parametrize("there", [True, False], ids=["with files", "without files"])
def test_a_client_is_connected_once_and_disconnected_byte_for_byte(home: Path, name: str, there: bool) -> None:
    targets = [change.path for change in plan_connection(name, LAUNCH)]
    if there:
        for path in targets:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(TOML if path.suffix == ".toml" else COMMENTED)
            path.chmod(0o640)
    before, folders = files_of(home), sorted(path for path in home.rglob("*") if path.is_dir())
    known = {path: config(path) for path in before}

    changes = plan_connection(name, LAUNCH)
    assert files_of(home) == before  # a plan writes nothing
    apply_changes(name, changes)

    server = clients()[name]["server"]
    entry: Any = config(targets[0])
    for key in server["path"]:
        entry = entry[key]
    argv = entry["command"] if isinstance(entry["command"], list) else [entry["command"], *entry["args"]]
    assert argv[:4] == ["/opt/keepstone", "mcp", "--user", "dana"]
    if "hooks" in clients()[name]:
        hooks = config(targets[-1])["hooks"]
        for event, hook in clients()[name]["hooks"]["events"].items():
            assert f"/opt/keepstone hook {hook} " in json.dumps(hooks[event][-1])
    for path, old in known.items():
        new = config(path)
        assert all(json.dumps(value)[1:-1] in json.dumps(new[key]) for key, value in old.items() if key != "hooks")
        assert path.suffix == ".toml" or "// at night" in path.read_text()
        assert "hooks" not in clients()[name] or path.suffix == ".toml" or new["hooks"]["Stop"][0] == old["hooks"]["Stop"][0]
        assert path.stat().st_mode & 0o777 == 0o640
    assert plan_connection(name, LAUNCH) == []
    assert next(each.state for each in list_clients(LAUNCH) if each.name == name) == "connected"

    apply_changes(name, plan_connection(name, Launch(("/elsewhere/keepstone",))))  # another installation takes its place
    assert b"/opt/keepstone" not in b"".join(files_of(home).values())

    undo(name)
    assert files_of(home) == before
    if not there:
        assert not [path for path in home.rglob("*") if path.is_dir() and ".local" not in str(path) and path not in folders]


def test_what_was_changed_since_stays_when_a_client_is_disconnected(home: Path) -> None:
    settings = home / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"theme": "dark"}')
    apply_changes("gemini-cli", plan_connection("gemini-cli", LAUNCH))
    changed = JsonFile(settings.read_text())
    changed.put(["theme"], "light")
    changed.append(["hooks", "SessionEnd"], {"hooks": [{"type": "command", "command": "say bye"}]})
    settings.write_text(changed.text)

    undo("gemini-cli")
    assert config(settings) == {
        "theme": "light",
        "hooks": {"SessionEnd": [{"hooks": [{"type": "command", "command": "say bye"}]}]},
    }


def test_a_file_that_cannot_be_read_is_left_alone(home: Path) -> None:
    broken = home / ".cursor" / "mcp.json"
    broken.parent.mkdir()
    broken.write_text('{"mcpServers": {')
    with pytest.raises(ConfigurationError, match=r"mcp\.json cannot be read .* correct it"):
        plan_connection("cursor", LAUNCH)
    assert files_of(home) == {broken: b'{"mcpServers": {'}


def test_the_list_needs_no_store(home: Path) -> None:
    there = {"HOME": str(home), "KEEPSTONE_URL": "http://127.0.0.1:9"}
    shown = process("connect", "--list", cwd=home, **there)
    assert (shown.returncode, "claude-code" in shown.stdout) == (0, True), shown.stderr
    refused = process("connect", "claude-code", cwd=home, **there)
    assert (refused.returncode, "names a server" in refused.stderr) == (5, True)


def test_the_command_shows_the_change_and_makes_it(home: Path) -> None:
    def run(*arguments: str) -> str:
        done = process(*arguments, cwd=home, HOME=str(home))
        assert done.returncode == 0, done.stderr
        return done.stdout

    shown = run("connect", "claude-code", "--dry-run", "--db", "mine.db")
    assert f'+        "{home}/mine.db"' in shown
    assert "would change" in shown
    assert files_of(home) == {}
    connected = run("connect", "claude-code", "--project", "shop")
    assert f"changed  {home}/.claude/settings.json" in connected
    assert "connected Claude Code" in connected
    assert "connected already" in run("connect", "claude-code", "--project", "shop")
    listed = {each["name"]: each["state"] for each in json.loads(run("connect", "--list", "--json"))["clients"]}
    assert listed["claude-code"] == "outdated"  # it was connected with --project shop
    assert listed["zed"] == "not connected"
    assert "disconnected" in run("connect", "claude-code", "--undo")
    assert files_of(home) == {}
    refused = process("connect", "emacs", cwd=home, HOME=str(home))
    assert (refused.returncode, "use claude-code, claude-desktop" in refused.stderr) == (5, True)


# -- editing JSON ------------------------------------------------------------------------------------------------------------
NAMES = st.sampled_from(["a", "b", "c", 'q"//x', "/*"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(NAMES, VALUES, max_size=4),
    st.lists(NAMES, min_size=1, max_size=3),
    VALUES,
    st.sampled_from([None, 1, 4, "\t"]),
)
def test_an_edit_changes_one_value_and_nothing_else(start: Any, path: list[str], value: Any, indent: Any) -> None:
    text = json.dumps(start, indent=indent)
    text = text.replace("\n", " // note\n/* more, */", 1) + "\n" if indent is not None else text
    expected = json.loads(json.dumps(start))
    holder = expected
    for name in path[:-1]:
        if not isinstance(holder.setdefault(name, {}), dict):
            return  # the path leads through a value
        holder = holder[name]
    had = path[-1] in holder
    holder[path[-1]] = value

    file = JsonFile(text)
    file.put(path, value)
    assert file.value == expected
    assert ("// note" in file.text) == ("// note" in text)
    if isinstance(value, list):
        file.append(path, {"new": [1]})
        assert file.get(path) == [*value, {"new": [1]}]
        file.delete([*path, len(value)])
        assert file.get(path) in (value, None)
    if file.get(path) is not None and not had:
        file.delete(path)
        assert file.get(path) is None


def test_a_table_of_toml_is_replaced_where_others_follow() -> None:
    file = TomlFile('[mcp_servers.keepstone]\ncommand = "old"\n\n[mcp_servers.keepstone_two]\ncommand = "b"\n')
    file.put(["mcp_servers", "keepstone"], {"command": "new", "args": ["mcp"]})
    assert file.value == {"mcp_servers": {"keepstone_two": {"command": "b"}, "keepstone": {"command": "new", "args": ["mcp"]}}}
