"""doctor, and the audit trail with its check."""

from __future__ import annotations

from typing import Annotated

import typer

from keepstone.cli import options as o
from keepstone.cli import show
from keepstone.cli.exits import OK, PROBLEMS
from keepstone.cli.invocation import Invocation
from keepstone.cli.progress import progress
from keepstone.ports.serialize import document

app = typer.Typer()
trail = typer.Typer()


@o.command(app, "doctor")
def doctor(call: Invocation) -> int:
    """Check the whole store; it only reads.

    The file itself, the hashes of contents, and that text, words and vectors agree.
    """
    with call.open(missing="refuse") as memory, progress(call, "checking") as bar:
        report = memory.upkeep.doctor(progress=bar)
    call.answer(document(report), lambda out: show.diagnosis(out, report))
    return OK if report.healthy else PROBLEMS


@o.alone(trail)
def audit(call: Invocation, since: o.Since = None, limit: o.Limit = 100) -> None:
    """What was done in this scope, newest first; never content."""
    with call.open(missing="empty") as memory:
        rows = memory.audit(since=since, limit=limit)
    empty = f"Nothing was done here yet ({call.place})."
    call.answer({"rows": document(list(rows))}, lambda out: show.audit(out, rows) if rows else out.line(empty))


@o.command(trail, "verify")
def verify(
    call: Invocation,
    head: Annotated[
        str | None, typer.Option(metavar="HASH", help="The head of an earlier check: it must be in the trail.")
    ] = None,
) -> int:
    """Check that the tenant's audit trail is what was written.

    Every row holds a hash of the one before. Keep the head that is printed somewhere else, and give it to a later check: then
    nobody can have written the whole trail anew.
    """
    with call.open(missing="refuse") as memory:
        report = memory.audit.verify(head=head)
    call.answer(document(report), lambda out: show.chain(out, report))
    return OK if report.whole else PROBLEMS


app.add_typer(trail, name="audit")
