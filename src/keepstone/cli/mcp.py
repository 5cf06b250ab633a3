"""keepstone mcp: the memory as an MCP server over standard input and output."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from keepstone.cli import options as o
from keepstone.cli.invocation import Invocation
from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError

app = typer.Typer()


@o.command(app, "mcp")
def mcp(
    call: Invocation,
    allow_forget: Annotated[bool, typer.Option("--allow-forget", help="Offer forget_memory too, which erases for good.")] = False,
) -> None:
    """Give the memory to an MCP client, over standard input and output.

    The client (Claude Desktop, Claude Code, Cursor, VS Code …) starts this command itself. Where neither --db nor KEEPSTONE_DB
    names a store, it is the file memory.db in the user's own data folder, so that all clients share one memory.
    """
    if (url := call.url) is not None:
        raise ConfigurationError(
            f"KEEPSTONE_URL names a server, and this command serves a store of this machine: point the MCP client at "
            f"{url.rstrip('/')}/mcp, or unset KEEPSTONE_URL."
        )
    try:
        from keepstone.server.mcp.stdio import serve
    except ImportError as error:
        raise ConfigurationError(
            f"the MCP server needs more packages ({error}): install them with {install_command('mcp')}."
        ) from None

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="keepstone: %(message)s")
    with _placed(call).open() as memory:
        serve(memory, allow_forget)


def _placed(call: Invocation) -> Invocation:
    """The call with its store: the one that was named, else that of the user."""
    return call if "db" in call.named else replace(call, db=str(_made(user_folder()) / "memory.db"))


def user_folder() -> Path:
    """Where the user's programs keep their data, on this system."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Application Support")
    else:
        given = os.environ.get("XDG_DATA_HOME", "")
        base = given if os.path.isabs(given) else str(Path.home() / ".local" / "share")
    return Path(base) / "keepstone"


def _made(folder: Path) -> Path:
    """A folder that only the user can look into."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"the folder {folder} cannot be made ({error}): name a store with --db.") from None
    return folder
