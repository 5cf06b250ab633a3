"""keepstone serve."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keepstone.cli import options as o
from keepstone.cli.invocation import Invocation
from keepstone.cli.output import Output, err, out, write_json
from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError
from keepstone.settings import Settings

if TYPE_CHECKING:
    from keepstone.server.service import Service

app = typer.Typer()
_FIRST = "first"  # the name of the key that is made where there is none


@o.command(app, "serve")
def serve(
    call: Invocation,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen; 0.0.0.0 for all networks.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            help="The port; 0 for any.  [default: 8700, or the next that is free]",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=64, help="How many processes answer.  [default: 2, or 1 on one core]", show_default=False
        ),
    ] = None,
    model: o.Model = None,
    first_key: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Keep the first key in a file of your own, to show it again at the next start."),
    ] = None,
) -> None:
    """Serve the memory to many: HTTP API, MCP and a dashboard.

    Where the store has no key yet, one is made and shown, this once. It is the operator's: it may do everything, and acts for
    the user that X-Keepstone-User names. 'keepstone keys create' makes those for others. Ctrl-C or SIGTERM ends it: what is under
    way is answered first.
    """
    try:
        from keepstone.server.serve import ServeOptions, address_of, bind_socket, default_workers
        from keepstone.server.serve import serve as run
    except ImportError as error:
        raise ConfigurationError(
            f"the server needs more packages ({error}): install them with {install_command('server')}."
        ) from None

    options = ServeOptions(
        call.db, call.embedder, call.model(model), host, port, workers or default_workers(call.db), _patience(call.db)
    )  # fmt: skip
    listener = bind_socket(options)
    with listener, _gathered(options.workers):
        address = address_of(listener)
        run(options, listener, lambda service: _greet(call, service, address, port, first_key))


def _patience(db: str) -> dict[str, Any]:
    """A server behind a server answers within seconds that it cannot, so that whoever asks can try again."""
    usual = Settings.load().busy_timeout == Settings().busy_timeout
    return {"busy_timeout": 5.0} if usual and "://" in db else {}


@contextlib.contextmanager
def _gathered(workers: int) -> Iterator[None]:
    """With several processes their figures are gathered in a folder, so that /metrics has the sum whoever answers."""
    if workers == 1 or "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="keepstone-metrics-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        yield


def _greet(call: Invocation, service: Service, address: str, asked: int | None, kept: str | None) -> Callable[[], None]:
    """What to say once the server answers."""
    key = _key(service, kept)

    def said() -> None:
        if call.json:
            write_json({"address": address, "key": key, "store": call.shown, "mcp": settings_for(address, key)}, _stdout())
        else:
            _welcome(out(), call, address, asked, key)
        _stdout().flush()

    return said


def _stdout() -> Any:
    import sys

    return sys.stdout


def _key(service: Service, kept: str | None) -> str | None:
    """The first key: made where the store has none, else as it was kept; None where nobody knows it any more."""
    from keepstone.errors import Unauthenticated
    from keepstone.server.identity import RIGHTS
    from keepstone.server.keys import PREFIX, KeyDraft

    if kept is not None and (held := _read(kept)):
        try:
            service.keys.check(held)
            return held
        except Unauthenticated:
            if not held.startswith(PREFIX):
                raise ConfigurationError(f"--first-key {kept} holds something that is no key: name another file.") from None
            err().line((f"note: the key in {kept} is no key of this store; a new one takes its place.", "yellow"))
    elif service.keys.list():
        return None
    key, identity = service.keys.create(KeyDraft(_FIRST, service=True, rights=RIGHTS))
    if kept is not None:
        try:
            _write(kept, key)
        except ConfigurationError:
            service.keys.revoke(identity.id)  # or the next start would find a key that nobody knows
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
                os.fchmod(file.fileno(), 0o600)  # the file may have been there before, open to others
            file.write(key + "\n")
    except OSError as error:
        raise ConfigurationError(f"--first-key {path} cannot be written ({error}): name another file.") from None


def settings_for(address: str, key: str | None) -> dict[str, Any]:
    """What an MCP client is told, in the form that most of them take."""
    headers = {"Authorization": f"Bearer {key or 'ks_…'}"}
    return {"mcpServers": {"keepstone": {"type": "http", "url": f"{address}/mcp", "headers": headers}}}


def _welcome(show: Output, call: Invocation, address: str, asked: int | None, key: str | None) -> None:
    show.line(("keepstone", "bold"), f" serves {call.shown}")
    if asked is None and not address.endswith(":8700"):
        show.line(("note: port 8700 is taken, so this one is used", "yellow"))
    show.line()
    show.line("  dashboard  ", (f"{address}/" + (f"#key={key}" if key else ""), "bold cyan"))
    show.line("  HTTP API   ", f"{address}/v1", ("   described in ", "dim"), (f"{address}/openapi.json", "dim"))
    show.line("  MCP        ", f"{address}/mcp")
    if key is None:
        show.line(
            "  key        ",
            "those that were made before; another: ",
            (f"keepstone keys create --name NAME --db {call.shown}", "bold"),
        )
    else:
        show.line("  key        ", (key, "bold green"))
    show.line()
    show.line("For an MCP client, in its settings (Cursor: ~/.cursor/mcp.json, Claude Code: .mcp.json in a project):")
    show.block(json.dumps(settings_for(address, key), indent=2))
    show.line(
        "Claude Code:  ",
        ("claude mcp add --transport http keepstone " + f'{address}/mcp --header "Authorization: Bearer {key or "ks_…"}"', "dim"),
    )
    show.line()
    body = '{"content": "Dana prefers dark mode."}'
    show.line("Try it:  ", (f"curl {address}/v1/memories -H 'Authorization: Bearer {key or 'ks_…'}' --json '{body}'", "dim"))
    show.line(("Ctrl-C ends it.", "dim"))
