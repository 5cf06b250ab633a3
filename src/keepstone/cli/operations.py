"""doctor, audit and index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from keepstone.cli import options as o
from keepstone.cli import render
from keepstone.cli.arguments import moment
from keepstone.cli.coding_agents import read_hook_errors
from keepstone.cli.exit_codes import OK, PROBLEMS
from keepstone.cli.invocation import Invocation
from keepstone.cli.jobs import WITHOUT_WORKER
from keepstone.cli.output import progress
from keepstone.ports.serialize import document
from keepstone.settings import ignored_settings

if TYPE_CHECKING:
    from keepstone.memory import Memory

app = typer.Typer()
audit_log = typer.Typer()


@o.command(app, "doctor")
def doctor(call: Invocation) -> int:
    """Check the integrity of the whole store; nothing is changed.

    It checks the file, the content hashes, and that texts, keywords and vectors agree, and names the settings of this folder's
    keepstone.toml that are ignored and the last errors of hooks.
    """
    with call.open(missing="refuse") as memory, progress(call, "checking") as bar:
        report = memory.upkeep.doctor(progress=bar)
    ignored = ignored_settings()
    hook_errors = read_hook_errors()
    result = {**document(report), "ignored_settings": list(ignored), "hook_errors": hook_errors}
    call.answer(result, lambda out: render.diagnosis(out, report, ignored, hook_errors))
    return OK if report.healthy else PROBLEMS


@o.alone(audit_log)
def audit(call: Invocation, since: o.Since = None, limit: o.Limit = 100) -> None:
    """List what was done in this scope, without contents. Newest first."""
    empty = f"The audit log of this scope is empty ({call.place})."
    call.show(
        lambda memory: memory.audit(since=moment(since, "--since"), limit=limit),
        lambda out, rows: render.audit(out, rows) if rows else out.line(empty),
        field="rows",
    )


@o.command(audit_log, "verify")
def verify(
    call: Invocation,
    head: Annotated[
        str | None, typer.Option(metavar="HASH", help="The head that an earlier check printed; it must be in the log.")
    ] = None,
) -> int:
    """Verify the tenant's audit log.

    Every entry contains a hash of the one before. Keep the printed head elsewhere and pass it to a later check, which then
    detects a log that was rewritten as a whole.
    """
    report = call.show(lambda memory: memory.audit.verify(head=head), render.chain_report, missing="refuse")
    return OK if report.whole else PROBLEMS


app.add_typer(audit_log, name="audit")


index = typer.Typer(no_args_is_help=True, help="An external vector index: Chroma, Qdrant, Pinecone.")
app.add_typer(index, name="index")

Which = Annotated[
    str | None, typer.Option("--index", metavar="SPEC", help="chroma:/folder, qdrant:http://…, pinecone:NAME (KEEPSTONE_INDEX).")
]


def _open_index(call: Invocation, spec: str | None) -> Memory:
    settings = dict(WITHOUT_WORKER) if spec is None else {**WITHOUT_WORKER, "index": spec}
    return call.open(missing="refuse", settings=settings)


@o.command(index, "repair")
def repair(call: Invocation, index: Which = None) -> None:
    """Repair the index where it differs from the store, in every scope.

    Missing entries are added and superfluous ones deleted. 'keepstone doctor' reports differences.
    """
    with _open_index(call, index) as memory, progress(call, "comparing") as bar:
        report = memory.upkeep.repair_index(progress=bar)
    call.answer(
        document(report),
        lambda out: out.line(("repaired", "bold green"), f"  {report.put:,} added, {report.dropped:,} deleted"),
    )


@o.command(index, "rebuild")
def rebuild(call: Invocation, index: Which = None) -> None:
    """Delete all entries of the index and add every memory again, in every scope."""
    with _open_index(call, index) as memory, progress(call, "indexing") as bar:
        count = memory.upkeep.rebuild_index(progress=bar)
    call.answer(
        {"entries": count},
        lambda out: out.line(("rebuilt", "bold green"), f"  {render.plural(count, 'entry', 'entries')}"),
    )
