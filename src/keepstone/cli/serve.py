"""serve and mcp: the memory as an HTTP server, or over standard input and output."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keepstone.cli import options as o
from keepstone.cli.coding_agents import create_folder, user_folder
from keepstone.cli.invocation import Invocation
from keepstone.cli.output import Output, err, out, write_json
from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError
from keepstone.settings import Settings

if TYPE_CHECKING:
    from keepstone.server.service import Service

app = typer.Typer()
_FIRST_KEY_NAME = "first"


@o.command(app, "serve")
def serve(
    call: Invocation,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The address to listen on; 0.0.0.0 for all networks.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            help="The port; 0 for any free one.  [default: 8700, or the next free one]",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=64, help="The number of processes.  [default: 2, or 1 on one core]", show_default=False
        ),
    ] = None,
    model: o.Model = None,
    first_key: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Keep the first key in this file, to show it again at the next start."),
    ] = None,
) -> None:
    """Serve the memory over HTTP, with an API, MCP and a dashboard.

    If the store has no key yet, an operator key is created and shown once. It has all rights and acts for the user named in
    X-Keepstone-User. 'keepstone keys create' creates keys for others. Ctrl-C or SIGTERM stops the server after the current
    requests.
    """
    try:
        from keepstone.server.serve import ServeOptions, address_of, bind_socket, default_workers
        from keepstone.server.serve import serve as run
    except ImportError as error:
        raise ConfigurationError(
            f"the server needs more packages ({error}): install them with {install_command('server')}."
        ) from None

    # A shorter busy timeout with a database server, so that clients get an answer and can retry.
    usual = Settings.load().busy_timeout == Settings().busy_timeout
    settings = {"busy_timeout": 5.0} if usual and "://" in call.db else {}
    options = ServeOptions(call.db, call.embedder, call.model(model), host, port, workers or default_workers(call.db), settings)
    if call.reembed:
        call.open().close()
    listener = bind_socket(options)
    with listener, _collect_metrics(options.workers):
        address = address_of(listener)
        run(options, listener, lambda service: _make_greeting(call, service, address, port, first_key))


@contextlib.contextmanager
def _collect_metrics(workers: int) -> Iterator[None]:
    """With several processes, metrics are collected in a folder, so that each process reports the sum."""
    if workers == 1 or "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="keepstone-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        yield


def _make_greeting(call: Invocation, service: Service, address: str, asked: int | None, kept: str | None) -> Callable[[], None]:
    """The function that prints the addresses once the server is ready."""
    key = _key(service, kept)

    def greet() -> None:
        if call.json:
            write_json({"address": address, "key": key, "store": call.shown, "mcp": settings_for(address, key)}, sys.stdout)
        else:
            _render_greeting(out(), call, address, asked, key, kept)
        sys.stdout.flush()

    return greet


def _key(service: Service, kept: str | None) -> str | None:
    """The first key: created if the store has none, or read from the file; None if it is not known."""
    from keepstone.errors import Unauthenticated
    from keepstone.server.identity import RIGHTS
    from keepstone.server.keys import PREFIX, KeyDraft

    if kept is not None and (known := _read(kept)):
        try:
            service.keys.check(known)
            return known
        except Unauthenticated:
            if not known.startswith(PREFIX):
                raise ConfigurationError(f"--first-key {kept} does not contain a key: name another file.") from None
            err().line((f"note: the key in {kept} does not belong to this store; a new one replaces it.", "yellow"))
    elif service.keys.list():
        return None
    key, identity = service.keys.create(KeyDraft(_FIRST_KEY_NAME, service=True, rights=RIGHTS))
    if kept is not None:
        try:
            _write(kept, key)
        except ConfigurationError:
            service.keys.revoke(identity.id)  # the next start must not find an unknown key
            raise
    return key


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--first-key {path} cannot be read ({error}): name another file.") from None


def _write(path: str, key: str) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            if hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), 0o600)  # an existing file may be readable by others
            file.write(key + "\n")
    except OSError as error:
        raise ConfigurationError(f"--first-key {path} cannot be written ({error}): name another file.") from None


def settings_for(address: str, key: str | None) -> dict[str, Any]:
    """The settings of an MCP client, in the form that most clients read."""
    headers = {"Authorization": f"Bearer {key or 'ks_…'}"}
    return {"mcpServers": {"keepstone": {"type": "http", "url": f"{address}/mcp", "headers": headers}}}


def _render_greeting(show: Output, call: Invocation, address: str, asked: int | None, key: str | None, kept: str | None) -> None:
    show.line(("keepstone", "bold"), f" serves {call.shown}")
    if asked is None and not address.endswith(":8700"):
        show.line(("note: port 8700 is in use", "yellow"))
    show.line()
    show.line("Settings for an MCP client (Cursor: ~/.cursor/mcp.json, Claude Code: .mcp.json in a project):")
    show.block(json.dumps(settings_for(address, key), indent=2))
    show.line(
        "Claude Code:  ",
        ("claude mcp add --transport http keepstone " + f'{address}/mcp --header "Authorization: Bearer {key or "ks_…"}"', "dim"),
    )
    show.line()
    body = '{"content": "Dana prefers dark mode."}'
    show.line("Try it:  ", (f"curl {address}/v1/memories -H 'Authorization: Bearer {key or 'ks_…'}' --json '{body}'", "dim"))
    show.line()
    show.line("  dashboard  ", (f"{address}/" + (f"#key={key}" if key else ""), "bold cyan"))
    show.line("  HTTP API   ", f"{address}/v1", ("   described in ", "dim"), (f"{address}/openapi.json", "dim"))
    show.line("  MCP        ", f"{address}/mcp")
    if key is None:
        show.line(
            "  key        ",
            "an existing one; create another with ",
            (f"keepstone keys create --name NAME --db {call.shown}", "bold"),
        )
    else:
        where = f"kept in {kept}" if kept is not None else "not shown again"
        show.line("  key        ", (key, "bold green"), (f"   with all rights, {where}", "dim"))
    show.line(("Press Ctrl-C to stop.", "dim"))


@o.command(app, "mcp", db_default="memory.db in the user's data folder")
def mcp(
    call: Invocation,
    allow_forget: Annotated[
        bool, typer.Option("--allow-forget", help="Offer the tool forget_memory, which erases permanently.")
    ] = False,
    project: o.Project = "off",
) -> None:
    """Serve the memory to an MCP client over stdio.

    The client (Claude Desktop, Claude Code, Cursor, VS Code …) starts this command; 'keepstone connect' sets it up. All clients
    share one memory unless --db or KEEPSTONE_DB names another.
    """
    if (url := call.url) is not None:
        raise ConfigurationError(
            f"KEEPSTONE_URL names a server, and this command needs a store: point the MCP client at "
            f"{url.rstrip('/')}/mcp, or unset KEEPSTONE_URL."
        )
    from keepstone.importing.project import project_agent

    try:
        from keepstone.server.mcp.stdio import serve
    except ImportError as error:
        raise ConfigurationError(
            f"the MCP server needs more packages ({error}): install them with {install_command('mcp')}."
        ) from None

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="keepstone: %(message)s")
    agent = project_agent(project, os.getcwd())
    with choose_store(call).open() as memory:
        serve(memory if agent is None else memory.with_scope(agent=agent), allow_forget)


def choose_store(call: Invocation) -> Invocation:
    """The call with the named store, or with that of the user."""
    if "db" in call.named:
        return call
    try:
        return replace(call, db=str(create_folder(user_folder()) / "memory.db"))
    except OSError as error:
        raise ConfigurationError(f"the folder {user_folder()} cannot be created ({error}): name a store with --db.") from None
