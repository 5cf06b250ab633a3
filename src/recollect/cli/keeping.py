"""doctor, audit and the jobs of `recollect upkeep`. Imports: options, show, progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli import options as o
from recollect.cli import show
from recollect.cli.documents import document
from recollect.cli.exits import OK, PROBLEMS, PROVIDER
from recollect.cli.given import duration
from recollect.cli.invocation import Invocation
from recollect.cli.jobs import needed, worked
from recollect.cli.output import Output
from recollect.cli.progress import progress

if TYPE_CHECKING:
    from recollect.upkeep.fading import FadeReport
    from recollect.upkeep.reembedding import ReembedReport

app = typer.Typer()
upkeep = typer.Typer(no_args_is_help=True, help="Jobs that keep a store in order.")


@o.command(app, "doctor")
def doctor(call: Invocation) -> int:
    """Check the whole store; it only reads.

    The file itself, the hashes of contents, and that text, words and vectors agree.
    """
    with call.open(missing="refuse") as memory, progress(call, "checking") as bar:
        report = memory.doctor(progress=bar)
    call.answer(document(report), lambda out: show.diagnosis(out, report))
    return OK if report.healthy else PROBLEMS


@o.command(app, "audit")
def audit(call: Invocation, since: o.Since = None, limit: o.Limit = 100) -> None:
    """What was done in this scope, newest first; never content."""
    with call.open(missing="empty") as memory:
        rows = memory.audit(since=since, limit=limit)
    empty = f"Nothing was done here yet ({call.place})."
    call.answer({"rows": document(list(rows))}, lambda out: show.audit(out, rows) if rows else out.line(empty))


@o.command(upkeep, "reembed")
def reembed(call: Invocation) -> int:
    """Embed every record that waits for its vector.

    With --embedder (or RECOLLECT_EMBEDDER) the whole store moves to that one first. It can be stopped and run again.
    """
    moving = call.embedder is not None
    with (
        call.open(missing="refuse", embedder="none" if moving else None) as memory,
        progress(call, "embedding") as bar,
    ):
        report = memory.upkeep.reembed(embedder=call.embedder, progress=bar)
    call.answer(document(report), lambda out: _reembedded(out, report))
    return PROVIDER if report.failed else OK


def _reembedded(out: Output, report: ReembedReport) -> None:
    out.line(("embedded", "bold green"), f"  {show.counted(report.embedded, 'record')}")
    if report.failed:
        out.line((f"{show.counted(report.failed, 'record')} could not be embedded: {report.problem}", "red"))


@o.command(upkeep, "run")
def run(call: Invocation, model: o.Model = None) -> int:
    """Learn from every message that waits, in all scopes.

    The model looks for facts in them. It can be stopped and run again; what fails waits, and 'recollect jobs' shows it.
    """
    with (
        call.open(missing="refuse", model=needed(call, model), settings={"worker": False}) as memory,
        progress(call, "learning") as bar,
    ):
        report = memory.upkeep.run(progress=bar)
    call.answer(document(report), lambda out: worked(out, report))
    return PROVIDER if report.failed else OK


@o.command(upkeep, "consolidate")
def consolidate(
    call: Invocation,
    importance: Annotated[float, typer.Option(metavar="0..1", help="Only what matters less than this.")] = 0.3,
    reads: Annotated[int, typer.Option(metavar="N", help="Only what was read at most so often.")] = 1,
    older_than: Annotated[str, typer.Option(metavar="TIME", help="Only what was left alone for so long: 30d, 12h …")] = "30d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Put aside facts that matter little and were hardly ever read.

    They are no longer recalled; nothing is erased.
    """
    age = duration(older_than, "--older-than") or 0.0
    with call.open(missing="refuse") as memory:
        report = memory.upkeep.consolidate(importance=importance, reads=reads, older_than=age, dry_run=dry_run)
    call.answer(document(report), lambda out: _faded(out, report))


def _faded(out: Output, report: FadeReport) -> None:
    done = "would be put aside" if report.dry_run else "put aside"
    out.line((done, "bold green"), f"  {show.counted(len(report.ids), 'record')}")
    show.records(out, report.records)


app.add_typer(upkeep, name="upkeep")
