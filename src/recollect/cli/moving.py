"""export, import, backup, chats. Imports: options, show, progress."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from recollect.cli import options as o
from recollect.cli import show
from recollect.cli.documents import document
from recollect.cli.exits import OK, PROBLEMS
from recollect.cli.invocation import Invocation
from recollect.cli.progress import progress

app = typer.Typer()


@o.command(app, "export")
def export(
    call: Invocation,
    file: o.File,
    everything: Annotated[
        bool, typer.Option("--everything", help="All that is kept of this user, with every agent: for an access request.")
    ] = False,
) -> None:
    """Write the scope to a file as JSONL.

    Each line is a record with its history. A file that exists is replaced, whole or not at all. With --everything also states,
    jobs, reviews and the audit trail are written; such a file is to be read, and cannot be imported.
    """
    what = "line" if everything else "record"
    with call.open(missing="refuse") as memory, progress(call, "exporting") as bar:
        count = memory.export_everything(file, progress=bar) if everything else memory.export(file, progress=bar)
    call.answer(
        {"path": file, f"{what}s": count},
        lambda out: out.line(("exported", "bold green"), f"  {show.counted(count, what)} to {file}"),
    )


@o.command(app, "import")
def import_(
    call: Invocation,
    file: o.File,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose word all of it is: web:… or the like, whatever the file says.")
    ] = None,
) -> int:
    """Read an export into the scope.

    All of its lines or, if any is bad, none. Records that are there already are skipped.
    """
    with call.open() as memory, progress(call, "importing") as bar:
        report = memory.import_(file, source=source, progress=bar)
    call.answer(document(report), lambda out: show.imported(out, report))
    return PROBLEMS if report.errors else OK


@o.command(app, "backup")
def backup(call: Invocation, file: o.File) -> None:
    """Copy the whole store, all scopes, to a new file.

    The copy is consistent, also while others write to the store.
    """
    with call.open(missing="refuse") as memory, progress(call, "copying") as bar:
        memory.backup(file, progress=bar)
    size = os.path.getsize(file)
    call.answer(
        {"path": file, "bytes": size},
        lambda out: out.line(("backed up", "bold green"), f"  {size / 1024:,.0f} KiB to {file}"),
    )


@o.command(app, "chats")
def chats(
    call: Invocation,
    file: o.File,
    format: Annotated[str, typer.Option(metavar="NAME", help="Whose shape the messages have: openai or anthropic.")] = "openai",
    only_successes: Annotated[bool, typer.Option("--only-successes", help="Leave out tasks that failed.")] = False,
) -> None:
    """Write conversations and tasks to a file for fine-tuning.

    JSONL, a conversation or a task on each line. A file that exists is replaced, whole or not at all.
    """
    with call.open(missing="refuse") as memory:
        count = memory.export_chats(file, format=format, only_successes=only_successes)
    call.answer(
        {"path": file, "chats": count},
        lambda out: out.line(("exported", "bold green"), f"  {show.counted(count, 'chat')} to {file}"),
    )
