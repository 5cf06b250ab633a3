"""export, import, backup, chats."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from keepstone.cli import import_view, show
from keepstone.cli import options as o
from keepstone.cli.exits import OK, PROBLEMS
from keepstone.cli.invocation import Invocation
from keepstone.cli.progress import progress
from keepstone.errors import ValidationError
from keepstone.ports.serialize import document

if TYPE_CHECKING:
    from keepstone.memory import Memory

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
        count = memory.export(file, everything=everything, progress=bar)
    call.answer(
        {"path": file, f"{what}s": count},
        lambda out: out.line(("exported", "bold green"), f"  {show.counted(count, what)} to {file}"),
    )


@o.command(app, "import")
def import_(
    call: Invocation,
    path: Annotated[str, typer.Argument(metavar="PATH", help="An export, an archive or a folder of Markdown.")],
    format: Annotated[
        str,
        typer.Option(
            "--from", metavar="NAME", help="Whose it is: auto, mem0, letta, zep, langmem, chatgpt, claude, markdown or keepstone."
        ),
    ] = "auto",
    dry_run: o.DryRun = False,
    users: Annotated[
        str,
        typer.Option(
            metavar="HOW",
            help="Of several users' memories: one refuses them, each gives every user a scope, all puts them into this one.",
        ),
    ] = "one",
    report: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write what became of each entry to a file, as JSONL.", show_default=False),
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose word all of it is: web:… or the like, whatever the file says.")
    ] = None,
) -> int:
    """Read an export of keepstone or of another system into the scope.

    Of keepstone's own: all of its lines or, if any is bad, none; records that are there already are skipped. Of others (mem0,
    Letta, Zep and Graphiti, LangMem; the archives of ChatGPT and Claude; folders of Markdown): every entry by itself, as the word
    of import:NAME, and running it again adds only what is new.
    """
    from keepstone.importing import recognise

    found = (recognise(path) or "keepstone") if format == "auto" else format
    if found == "keepstone" and not dry_run and report is None:
        with call.open() as memory:
            return _own(call, memory, path, source)
    with call.open(missing="empty" if dry_run else "create") as memory:
        return _foreign(call, memory, path, found, dry_run, users, report, source)


def _own(call: Invocation, memory: Memory, path: str, source: str | None) -> int:
    with progress(call, "importing") as bar:
        done = memory.import_(path, source=source, progress=bar)
    call.answer(document(done), lambda out: show.imported(out, done))
    return PROBLEMS if done.errors else OK


def _foreign(
    call: Invocation, memory: Memory, path: str, format: str, dry_run: bool, users: str, report: str | None, source: str | None
) -> int:
    from keepstone.importing import import_from

    if report is not None:
        target = Path(os.path.realpath(report))
        if target == Path(os.path.realpath(call.db)) or target.is_relative_to(os.path.realpath(path)):
            raise ValidationError(
                f"--report is {report!r:.100}, which is read or written itself: name another file, in another folder."
            )
    with import_view.reporting(report) as each, progress(call, "importing") as bar:
        done = import_from(memory, path, format=format, dry_run=dry_run, users=users, source=source, each=each, progress=bar)
    call.answer({**document(done), "refused": done.refused}, lambda out: import_view.summary(out, done, path, report))
    return PROBLEMS if done.refused else OK


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
        count = memory.conversation.export_chats(file, format=format, only_successes=only_successes)
    call.answer(
        {"path": file, "chats": count},
        lambda out: out.line(("exported", "bold green"), f"  {show.counted(count, 'chat')} to {file}"),
    )
