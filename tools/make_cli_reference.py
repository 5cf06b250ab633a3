"""Writes docs/reference/cli.md from the command line itself, so that the page cannot lag behind it.

    python tools/make_cli_reference.py           # write the file
    python tools/make_cli_reference.py --print   # show it

A test compares the file with what this prints.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from typer.main import get_command

from keepstone.cli.app import app
from keepstone.cli.exits import MEANINGS
from keepstone.cli.options import COMMON

TARGET = Path(__file__).parent.parent / "docs" / "reference" / "cli.md"

HEAD = """# The command line

<!-- Made by tools/make_cli_reference.py; do not edit. -->

`keepstone COMMAND …`, or `python -m keepstone COMMAND …`. Without a terminal, with `NO_COLOR` set or on a dumb terminal
the output is plain text. With `--json` standard output holds exactly one JSON document, and an error is one JSON object on
standard error: `{"error": {"type": "NotFound", "message": "…"}}`. A `chat` answers each message with a document on a line,
`upkeep run --every` each run.

A question to a store that does not exist yet is answered as by an empty one, and no file is made; `export`, `backup`, `chats`,
`doctor`, `health`, `audit verify`, `upkeep` and the commands of `jobs` refuse. `remember`, `set`, `learn`, `import` and `chat`
make the store. Text that begins with a dash goes after `--`.

Only commands with `--model` use a model, and only if one is named there or in `KEEPSTONE_MODEL`; `--model none` goes without.
"""

GROUPS: dict[str, tuple[tuple[str, ...], tuple[str, str]]] = {
    "Talking": (
        ("chat", "sessions"),
        (
            "keepstone chat --user dana --model anthropic:claude-sonnet-5-5",
            'echo "What do I prefer?" | keepstone chat --user dana --json',
        ),
    ),
    "Writing": (
        ("remember", "update", "forget"),
        (
            'keepstone remember "Dana prefers dark mode." --tag preferences',
            'echo "Dana lives in Porto." | keepstone remember --key dana.home --importance 0.8',
        ),
    ),
    "Reading": (
        ("recall", "context", "list", "history", "diff", "why"),
        (
            'keepstone recall "Where does Dana live?" --limit 3',
            "keepstone list --tag preferences --json",
            "keepstone diff --since 2026-01-01",
        ),
    ),
    "Values": (
        ("set", "value", "category"),
        ("keepstone set dana.account KX-20417-883 --category account", "keepstone value dana.account"),
    ),
    "Learning": (
        ("learn", "jobs", "jobs run", "jobs retry", "jobs drop"),
        ('keepstone learn "My name is Dana and I live in Porto."', "keepstone jobs run --model ollama:llama3.3"),
    ),
    "Moving": (
        ("export", "import", "backup", "chats", "migrate"),
        (
            "keepstone export memories.jsonl",
            "keepstone --db copy.db import memories.jsonl",
            "keepstone export dana.jsonl --everything --user dana",
            "keepstone migrate --from keepstone.db --to moved.db",
        ),
    ),
    "Keeping": (
        ("doctor", "audit", "audit verify"),
        ("keepstone doctor", "keepstone audit --limit 10", "keepstone audit verify"),
    ),
    "Indexes": (
        ("index repair", "index rebuild"),
        ("keepstone index repair --index chroma:./vectors", "keepstone index rebuild --index chroma:./vectors"),
    ),
    "PostgreSQL": (
        ("postgres setup", "postgres sql", "postgres check"),
        (
            'keepstone postgres setup --db "$DATABASE_URL" --login app',
            "keepstone postgres sql > setup.sql",
            'keepstone postgres check --db "$DATABASE_URL"',
        ),
    ),
    "Reviewing": (
        ("review", "review list", "review resolve", "health"),
        ("keepstone review", "keepstone health", "keepstone health --fix --check duplicates", "keepstone health memories.jsonl"),
    ),
    "Testing": (
        ("test",),
        (
            """echo '{"version": 1, "given": [{"remember": "Dana prefers dark mode."}],
  "tests": [{"ask": "Which theme does Dana like?", "must_recall": ["dark mode"]}]}' > memtest.json""",
            "keepstone test",
            "keepstone test memtest.json --junit memtest.xml",
        ),
    ),
    "Upkeep": (
        (
            "upkeep run",
            "upkeep age",
            "upkeep lapse",
            "upkeep consolidate",
            "upkeep cap",
            "upkeep aside",
            "upkeep undo",
            "upkeep bring-back",
            "upkeep purge",
            "upkeep compact",
            "upkeep verify",
            "upkeep reembed",
        ),
        (
            "keepstone upkeep run --dry-run",
            "keepstone upkeep run --model ollama:llama3.3",
            "keepstone upkeep consolidate --older-than 90d --dry-run",
            "keepstone upkeep reembed --embedder static --json",
        ),
    ),
    "Serving": (
        ("serve", "keys create", "keys list", "keys revoke"),
        ("keepstone keys create --name dana --expires 90d", "keepstone keys list --json"),
    ),
    "MCP": (
        ("mcp",),
        ("""echo '{"jsonrpc": "2.0", "id": 1, "method": "ping"}' | keepstone mcp --db memory.db --user dana""",),
    ),
}


def page() -> str:
    """The whole page."""
    root: Any = get_command(app)
    listed = {name for names, _ in GROUPS.values() for name in names}
    missing = set(_names(root)) - listed
    if missing:
        raise SystemExit(f"no group in {Path(__file__).name} lists {', '.join(sorted(missing))}: add it.")
    parts = [HEAD, "## Options of every command", "", "They may stand before or after the command.", ""]
    parts += _table([each for each in root.params if each.name in COMMON])
    for title, (names, examples) in GROUPS.items():
        parts += ["", f"## {title}", "", "```sh", *examples, "```"]
        for name in names:
            parts += _command(name, _found(root, name))
    parts += ["", "## Exit codes", "", "| code | meaning |", "|---|---|"]
    parts += [f"| {code} | {meaning} |" for code, meaning in MEANINGS.items()]
    return "\n".join(parts) + "\n"


def _names(group: Any, before: str = "") -> list[str]:
    names: list[str] = []
    for name, command in group.commands.items():
        names += _names(command, f"{before}{name} ") if hasattr(command, "commands") else [before + name]
    return names


def _found(root: Any, name: str) -> Any:
    for part in name.split():
        root = root.commands[part]
    return root


def _command(name: str, command: Any) -> list[str]:
    own = [each for each in command.params if each.name not in COMMON and each.name != "help"]
    arguments = [_shown(each) for each in own if each.param_type_name == "argument"]
    lines = ["", f"### {name}", "", f"`{' '.join(['keepstone', name, *arguments, '[OPTIONS]'])}`", ""]
    lines.append("\n\n".join(paragraph.replace("\n", " ") for paragraph in (command.help or "").split("\n\n")))
    return [*lines, *(["", *_table(own)] if own else []), *_epilog(command)]


def _epilog(command: Any) -> list[str]:
    """What stands below the options: a sentence, and an example in TOML."""
    if not command.epilog:
        return []
    sentence, *example = str(command.epilog).removeprefix("\b\n").split("\n")
    return ["", sentence, "", "```toml", *(line.removeprefix("  ") for line in example), "```"]


def _shown(argument: Any) -> str:
    name = str(argument.metavar).strip("[]")
    return name if argument.required else f"[{name}]"


def _table(parameters: list[Any]) -> list[str]:
    lines = ["| option | meaning | default |", "|---|---|---|"]
    for each in parameters:
        flags = ", ".join(f"`{flag}`" for flag in each.opts) if each.param_type_name == "option" else f"`{_shown(each)}`"
        value = f" {each.metavar}" if each.param_type_name == "option" and each.metavar else ""
        text, _, fallback = (each.help or "").partition("  [")
        default = "" if each.default is None or each.default is False else f"`{each.default}`"
        lines.append(f"| {flags}{value} | {text} | {fallback.rstrip(']') or default} |".replace("  |", " |"))
    return lines


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(page(), end="")
    else:
        TARGET.parent.mkdir(parents=True, exist_ok=True)
        TARGET.write_text(page(), encoding="utf-8")
