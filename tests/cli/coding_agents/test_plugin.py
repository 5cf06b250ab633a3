"""The plugin for Claude Code, Codex and Cursor: versions, hooks and commands fit the package. `tools/check_clients.py` has the
vendors' own programs install it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from keepstone import __version__
from keepstone.agent.tools import schemas
from keepstone.cli.coding_agents.connect import clients
from keepstone.cli.coding_agents.hook_process import is_hook, parse_options

ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "plugins" / "claude-code"


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_versions_are_those_of_the_package() -> None:
    marketplace = read(ROOT / ".claude-plugin" / "marketplace.json")
    (entry,) = marketplace["plugins"]
    assert (ROOT / entry["source"]).resolve() == PLUGIN
    assert {entry["version"], marketplace["metadata"]["version"]} == {__version__}
    for client in ("claude", "codex", "cursor"):
        manifest = read(PLUGIN / f".{client}-plugin" / "plugin.json")
        assert (manifest["name"], manifest["version"]) == (entry["name"], __version__)
        assert all((PLUGIN / manifest[part]).exists() for part in ("skills", "mcpServers", "hooks") if part in manifest)
    for other in (ROOT / ".agents" / "plugins", ROOT / ".cursor-plugin"):
        source = read(other / "marketplace.json")["plugins"][0]["source"]
        assert (ROOT / (source["path"] if isinstance(source, dict) else source)).resolve() == PLUGIN


@pytest.mark.parametrize(("file", "name"), [("hooks.json", "claude-code"), ("hooks.json", "codex"), ("cursor.json", "cursor")])
def test_the_hooks_are_those_that_connect_writes(file: str, name: str) -> None:
    found = {}
    for event, (entry,) in read(PLUGIN / "hooks" / file)["hooks"].items():
        program, *arguments = shlex.split(entry.get("command") or entry["hooks"][0]["command"])
        assert (program, is_hook(arguments)) == ("keepstone", True)
        answered = parse_options(arguments[2:]).get("client", "claude-code")
        assert clients()[answered]["hooks"]["answer"] == clients()[name]["hooks"]["answer"]
        found[event] = arguments[1]
    assert found == clients()[name]["hooks"]["events"]


def test_commands_and_skill_name_tools_that_exist() -> None:
    tools = {tool["name"] for tool in schemas(True, "anthropic")} | {"search_conversations", "memory_context"}
    pages = [*(PLUGIN / "commands").glob("*.md"), PLUGIN / "skills" / "memory" / "SKILL.md"]
    assert {page.stem for page in pages} == {"remember", "recall", "forget", "SKILL"}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert text.startswith("---\n")
        assert "\ndescription: " in text.split("---")[1]
        named = set(
            re.findall(r"\b\w+_(?:memory|conversations|context)\b", text.replace("mcp__plugin_keepstone_keepstone__", ""))
        )
        assert named <= tools, page
        assert named, page
