"""migrate: a whole store into another."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keepstone.cli import show
from keepstone.cli.invocation import Invocation
from keepstone.cli.output import Output, out, write_json
from keepstone.cli.progress import progress
from keepstone.ports.serialize import document

if TYPE_CHECKING:
    from keepstone.maintenance.store_migration import Moved

app = typer.Typer()


@app.command("migrate")
def migrate(
    context: typer.Context,
    source: Annotated[str, typer.Option("--from", metavar="STORE", help="The store to move: a file or a postgresql:// URL.")],
    target: Annotated[str, typer.Option("--to", metavar="STORE", help="Where it goes: a file or a URL without anything in it.")],
    only: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="Move this tenant alone.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Answer with one JSON document.", show_default=False)] = False,
) -> None:
    """Move a whole store, all scopes, into an empty one.

    Memories with their history, vectors and audit trail, states, jobs and reviews; from a file to PostgreSQL, back, or between
    two of a kind. Nobody may write to either meanwhile. If it is interrupted, run it again: it goes on. In the end every row is
    compared on both sides and the trail is verified; the source stays as it is. Of the options of every command it takes --json
    and --tenant, which moves that tenant alone; KEEPSTONE_TENANT does not.
    """
    from keepstone.maintenance.store_migration import move_store

    before: dict[str, Any] = context.obj or {}
    call = Invocation.of({}, {"json": json or before.get("json")})
    with progress(call, "moving") as bar:
        moved = move_store(source, target, tenant=only or before.get("tenant"), progress=bar)
    if call.json:
        write_json(document(moved), sys.stdout)
    else:
        _show(out(), moved)


def _show(out: Output, moved: Moved) -> None:
    what = f"{show.counted(moved.records, 'record')} of {show.counted(moved.tenants, 'tenant')}"
    out.line(("moved", "bold green"), f"  {what} to {moved.target}{', taken up again' if moved.resumed else ''}")
    pace = moved.rows / max(moved.seconds, 0.001)
    out.line(f"    {moved.rows:,} rows compared, the audit trail verified; {moved.seconds:.1f} s, {pace:,.0f} rows a second")
    out.line((f"    {moved.source} is as it was: let nobody write to it any more", "dim"))
