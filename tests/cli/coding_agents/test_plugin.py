"""The Claude Code plugin: versions, hooks and commands fit the package."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

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
    manifest = read(PLUGIN / ".claude-plugin" / "plugin.json")
    assert manifest["name"] == entry["name"] == "keepstone"
    assert {manifest["version"], entry["version"], marketplace["metadata"]["version"]} == {__version__}


def test_the_hooks_are_those_that_connect_writes() -> None:
    hooks = read(PLUGIN / "hooks" / "hooks.json")["hooks"]
    found = {}
    for event, groups in hooks.items():
        program, *arguments = shlex.split(groups[0]["hooks"][0]["command"])
        assert (program, is_hook(arguments)) == ("keepstone", True)
        parse_options(arguments[2:])
        found[event] = arguments[1]
    assert found == clients()["claude-code"]["hooks"]["events"]


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
