"""`keepstone index`: an index of vectors in another engine, mended or made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from keepstone.cli import options as o
from keepstone.cli import show
from keepstone.cli.invocation import Invocation
from keepstone.cli.jobs import WITHOUT_WORKER
from keepstone.cli.progress import progress
from keepstone.ports.serialize import document

if TYPE_CHECKING:
    from keepstone.memory import Memory

app = typer.Typer()
index = typer.Typer(no_args_is_help=True, help="An index of vectors in another engine: Chroma, Qdrant, Pinecone.")
app.add_typer(index, name="index")

Which = Annotated[
    str | None, typer.Option("--index", metavar="SPEC", help="chroma:/folder, qdrant:http://…, pinecone:NAME (KEEPSTONE_INDEX).")
]


def _opened(call: Invocation, spec: str | None) -> Memory:
    settings = dict(WITHOUT_WORKER) if spec is None else {**WITHOUT_WORKER, "index": spec}
    return call.open(missing="refuse", settings=settings)


@o.command(index, "repair")
def repair(call: Invocation, index: Which = None) -> None:
    """Mend the index where it differs from the store, in every scope.

    What is missing is put in, what should not be there is taken out. 'keepstone doctor' says whether there is anything to mend.
    """
    with _opened(call, index) as memory, progress(call, "comparing") as bar:
        report = memory.upkeep.repair_index(progress=bar)
    call.answer(
        document(report),
        lambda out: out.line(("repaired", "bold green"), f"  {report.put:,} put, {report.dropped:,} taken out"),
    )


@o.command(index, "rebuild")
def rebuild(call: Invocation, index: Which = None) -> None:
    """Empty the index and put every memory in again, in every scope."""
    with _opened(call, index) as memory, progress(call, "indexing") as bar:
        count = memory.upkeep.rebuild_index(progress=bar)
    call.answer(
        {"entries": count},
        lambda out: out.line(("rebuilt", "bold green"), f"  {show.counted(count, 'entry', 'entries')}"),
    )
