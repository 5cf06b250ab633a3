"""connect and hook: coding agents and other MCP clients, set up and served."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from importlib.util import find_spec
from typing import Annotated

import typer

from keepstone.cli import options as o
from keepstone.cli.coding_agents import hook_process
from keepstone.cli.coding_agents.connect import (
    ClientState,
    FileChange,
    Launch,
    apply_changes,
    get_client,
    list_clients,
    plan_connection,
    undo,
)
from keepstone.cli.invocation import DEFAULTS, Invocation
from keepstone.cli.output import Output, err
from keepstone.distribution import install_command
from keepstone.errors import ValidationError

app = typer.Typer()


@o.command(app, "connect")
def connect(
    call: Invocation,
    client: Annotated[
        str | None, typer.Argument(metavar="CLIENT", help="claude-code, codex, cursor … ('connect --list' names them all).")
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Show the clients, which are installed, and which are connected.")
    ] = False,
    undo_: Annotated[bool, typer.Option("--undo", help="Restore the client's files.")] = False,
    dry_run: o.DryRun = False,
    project: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The project whose memory is used: a name, auto (the folder's git repository) or off.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Connect Claude Code, Cursor, Codex or another client.

    The clients are Claude Code, Claude Desktop, Codex, Cursor, VS Code, Windsurf, Zed, Gemini CLI and OpenCode. The MCP server
    and, where the client has them, hooks are written into its own configuration, with the options for store and scope.
    --dry-run shows the change without making it. The original files are kept, and --undo restores them.
    """
    if not list_:
        call.require_store("connect")
    launch = Launch.here(_options(call), project)
    call = replace(call, db=":memory:")  # no store is opened: whether there is one does not matter
    if list_ or client is None:
        if not list_:
            raise ValidationError("connect needs the name of a client: 'keepstone connect --list' names them.")
        states = list_clients(launch)
        call.answer({"clients": [asdict(state) for state in states]}, lambda out: _render_states(out, states))
        return
    title = get_client(client)["title"]
    if undo_:
        changes = undo(client, dry_run)
    else:
        changes = plan_connection(client, launch)
        if changes and not dry_run:
            apply_changes(client, changes)
    done = ("disconnected" if undo_ else "connected") if not dry_run else "would change" if changes else "unchanged"
    document = {"client": client, "action": done, "files": [{"path": str(each.path), "diff": each.diff} for each in changes]}
    call.answer(document, lambda out: _render_changes(out, title, changes, undo_, dry_run, get_client(client)["next"]))
    if not undo_ and find_spec("mcp") is None:
        err().line((f"note: the MCP server needs more packages: install them with {install_command('mcp')}.", "yellow"))


def _options(call: Invocation) -> list[str]:
    """The options for store and scope that are not the defaults, for the command in the configuration."""
    options: list[str] = []
    for name, usual in DEFAULTS.items():
        value = getattr(call, name)
        if name in call.named and value not in (None, usual):
            path = name == "db" and value != ":memory:" and "://" not in value
            options += [f"--{name}", os.path.abspath(value) if path else value]
    return options


def _render_states(out: Output, states: list[ClientState]) -> None:
    for state in states:
        style = {"connected": "green", "outdated": "yellow"}.get(state.state, "dim")
        installed = "installed" if state.installed else "not found"
        out.line(f"{state.name:<15}", (f"{state.state:<14}", style), f"{installed:<10}", (f"  {state.files[0]}", "dim"))


def _render_changes(out: Output, title: str, changes: list[FileChange], undone: bool, dry_run: bool, next_: str) -> None:
    for change in changes:
        if dry_run:
            out.block(change.diff.rstrip("\n"))
        else:
            out.line(f"{'restored' if undone else 'changed'}  {change.path}")
    files = ", ".join(str(change.path) for change in changes)
    if not changes:
        out.line(f"{title} is {'not connected' if undone else 'connected already'}: nothing to change.")
    elif dry_run:
        out.line(("would change ", "bold"), files)
    elif undone:
        out.line(("disconnected ", "bold green"), f"{title}.")
    else:
        out.line(("connected ", "bold green"), f"{title}. {next_}")


@o.command(app, "hook")
def hook(
    call: Invocation,
    event: Annotated[str, typer.Argument(metavar="EVENT", help="session-start, prompt, pre-compact, stop or session-end.")],
    client: Annotated[str, typer.Option(metavar="NAME", help="The client whose formats are used.")] = "claude-code",
    project: o.Project = "auto",
) -> None:
    """Run a hook of a coding agent. Its JSON is read from standard input, the response is written to standard output.

    session-start and prompt add memories to the session. pre-compact, stop and session-end store what was said. A hook ends
    within seconds and with exit code 0; its errors are in a log that 'keepstone doctor' shows.
    """
    raise ValidationError(f"there is no hook {event!r:.60}: use {', '.join(hook_process.EVENTS)}.")
