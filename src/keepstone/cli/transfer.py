"""export, import, backup, sync, chats, migrate."""

from __future__ import annotations

import atexit
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keepstone.cli import options as o
from keepstone.cli import render
from keepstone.cli.arguments import text_or_pipe
from keepstone.cli.exit_codes import OK, PROBLEMS
from keepstone.cli.invocation import Invocation
from keepstone.cli.memory_commands import confirm
from keepstone.cli.output import Output, out, progress, write_json
from keepstone.errors import ConfigurationError, ValidationError
from keepstone.ports.serialize import document

if TYPE_CHECKING:
    from keepstone.importing import ImportSummary, Outcome
    from keepstone.importing.vault import Change
    from keepstone.memory import Memory

app = typer.Typer()
Plaintext = Annotated[bool, typer.Option("--plaintext", help="Allow this for an encrypted store: the file is not encrypted.")]


@o.command(app, "export")
def export(
    call: Invocation,
    file: o.File,
    everything: Annotated[
        bool, typer.Option("--everything", help="All data of this user, with every agent, for an access request.")
    ] = False,
    plaintext: Plaintext = False,
) -> None:
    """Write the scope to a file as JSONL.

    Each line is a record with its history. An existing file is replaced atomically. With --everything, states, jobs, reviews
    and the audit log are written too; such a file cannot be imported.
    """
    what = "line" if everything else "record"
    with call.open(missing="refuse") as memory, progress(call, "exporting") as bar:
        count = memory.export(file, everything=everything, plaintext=plaintext, progress=bar)
    call.answer(
        {"path": file, f"{what}s": count},
        lambda out: out.line(("exported", "bold green"), f"  {render.plural(count, what)} to {file}"),
    )


@o.command(app, "import")
def import_(
    call: Invocation,
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="A file, an archive or a folder; - reads standard input. Or a coding agent whose sessions are imported: "
            "claude-code, codex, gemini-cli or cursor.",
        ),
    ],
    place: Annotated[
        str | None,
        typer.Argument(metavar="FOLDER", help="The folder with the agent's sessions.", show_default="its own folder"),
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="NAME",
            help="The format: auto, keepstone, mem0, letta, zep, langmem, chatgpt, claude, markdown, lines, bullets, csv, "
            "json, files or a coding agent.",
        ),
    ] = "auto",
    dry_run: o.DryRun = False,
    fields: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="NAME=COLUMN", help="The column of a field: content=note, tag=topic; may be repeated."),
    ] = None,
    users: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="For memories of several users or projects: one refuses them, each uses a scope for each, all uses this scope.",
            show_default="one; each for coding agents",
        ),
    ] = None,
    learn: Annotated[
        bool, typer.Option("--learn", help="Treat the messages as your own words and learn facts from them, as hooks do.")
    ] = False,
    report: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the result of each entry to a file, as JSONL.", show_default=False),
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="The source of all entries, instead of the file's own: web:… or another.")
    ] = None,
) -> int:
    """Import an export of keepstone or another system, or any text.

    A keepstone export is imported as a whole, or not at all if a line is invalid; existing records are skipped. Entries of other
    systems (mem0, Letta, Zep and Graphiti, LangMem, archives of ChatGPT and Claude, folders of Markdown) are imported one by one
    with the source import:NAME. In plain files each line (lines), bullet (bullets), row (csv) or object (json) is a memory;
    --field names columns, and all other columns become metadata. Importing again adds only new entries; --dry-run shows a sample.

    Sessions of a coding agent go into the store of its hooks, memory.db in the user's data folder, unless --db names another;
    each project has a scope of its own, and tool calls are kept as steps.
    """
    from keepstone.cli.coding_agents.connect import find_sessions
    from keepstone.importing.coding_agents import CLIENTS
    from keepstone.importing.flow import format_of, import_from

    if path in CLIENTS and (place is not None or not os.path.exists(path)):
        format, path = path, place or str(find_sessions(path))
    elif place is not None:
        raise ValidationError(
            f"import takes one path, or a coding agent and a path: {path!r:.60} is none of {', '.join(CLIENTS)}."
        )
    if format in CLIENTS:
        from keepstone.cli.serve import choose_store

        call = choose_store(call)
    shown = "standard input" if path == "-" else path
    if path == "-":
        path = _save_input()
    found = format_of(path, format)
    columns = _columns(fields)
    if found == "keepstone" and not dry_run and report is None:
        with call.open() as memory:
            return _import_own(call, memory, path, source)
    with call.open(missing="empty" if dry_run else "create") as memory:
        run = partial(import_from, memory, path, format=found, dry_run=dry_run, users=users, source=source, fields=columns)
        return _import_foreign(call, partial(run, learn=learn), path, report, shown)


def _import_own(call: Invocation, memory: Memory, path: str, source: str | None) -> int:
    with progress(call, "importing") as bar:
        done = memory.import_(path, source=source, progress=bar)
    call.answer(document(done), lambda out: render.imported(out, done))
    return PROBLEMS if done.errors else OK


def _import_foreign(call: Invocation, run: Callable[..., ImportSummary], path: str, report: str | None, shown: str) -> int:
    if report is not None:
        target = Path(os.path.realpath(report))
        if target == Path(os.path.realpath(call.db)) or target.is_relative_to(os.path.realpath(path)):
            raise ValidationError(
                f"--report is {report!r:.100}, which the import itself reads or writes: name another file, in another folder."
            )
    count = 0

    def record(outcome: Outcome) -> None:
        nonlocal count
        count += 1
        if record_outcome is not None:
            record_outcome(outcome)

    with write_report(report) as record_outcome, progress(call, "importing") as bar:
        try:
            done = run(each=record, progress=bar)
        except KeyboardInterrupt:
            kept = f"{render.plural(count, 'entry', 'entries')} of {shown} {'was' if count == 1 else 'were'} imported and kept"
            raise KeyboardInterrupt(f"interrupted: {kept}; run the same command again to go on.") from None
    if done.entries == done.refused == 1 and done.problems[0].where == "the file":  # nothing of it could be read
        raise ValidationError(done.problems[0].reason.replace("name it, content=COLUMN", "name it with --field content=COLUMN"))
    call.answer({**document(done), "refused": done.refused}, lambda out: render_summary(out, done, shown, report))
    return PROBLEMS if done.refused else OK


def _columns(given: list[str] | None) -> dict[str, str]:
    """The mapping of --field."""
    pairs = [each.partition("=") for each in given or ()]
    for name, _, column in pairs:
        if not name or not column:
            raise ValidationError(f"--field {name!r:.40} names no column: use NAME=COLUMN, such as content=note.")
    return {name: column for name, _, column in pairs}


def _save_input() -> str:
    """Standard input as a file, which is read more than once; its suffix says whether it is JSON."""
    import tempfile

    text = text_or_pipe("-", "the import")
    suffix = ".json" if text.lstrip()[:1] in ("{", "[") else ".txt"
    with tempfile.NamedTemporaryFile("w", suffix=suffix, prefix="keepstone-import-", encoding="utf-8", delete=False) as file:
        file.write(text)
    atexit.register(Path(file.name).unlink, missing_ok=True)
    return file.name


vault = typer.Typer(help="Memories as Markdown notes, for Obsidian and other editors.")
Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="The folder of the notes.")]
_MARKS = {"new": "+", "changed": "~", "conflict": "!", "gone": "!"}
_WHY_NOT = {"conflict": "changed in the store since: export again", "gone": "forgotten or archived since"}


@o.command(vault, "export")
def export_vault(call: Invocation, folder: Folder, plaintext: Plaintext = False) -> None:
    """Write each memory except messages as a note, FOLDER/TAG/words-ID.md.

    Notes of the same memories are replaced; other files in the folder stay.
    """
    from keepstone.backend import backend_of
    from keepstone.importing.vault import export_vault

    with call.open(missing="refuse") as memory:
        if call.url is None:
            backend_of(memory).check_plaintext(plaintext)
        count = export_vault(memory, folder)
    call.answer(
        {"path": folder, "notes": count},
        lambda out: out.line(("exported", "bold green"), f"  {render.plural(count, 'note')} to {folder}"),
    )


@o.command(vault, "import")
def import_vault(
    call: Invocation,
    folder: Folder,
    dry_run: o.DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> int:
    """Show the edits in a folder of notes, and apply them after confirmation.

    Notes without an id become memories. A memory whose note was deleted stays. A memory that was changed in the store since the
    export is not overwritten.
    """
    from keepstone.importing.vault import apply_changes, compare_vault

    with call.open(missing="empty" if dry_run else "create") as memory:
        changes = compare_vault(memory, folder)
        wanted = [change for change in changes if change.what in ("new", "changed")]
        if not call.json:
            for change in changes:
                _render_change(out(), change)
        if wanted and not dry_run and not yes:
            confirm(f"Apply {render.plural(len(wanted), 'change')} to {call.place} in {call.shown}?")
        receipts = [] if dry_run else apply_changes(memory, wanted)
    refused = [receipt for receipt in receipts if receipt.action == "refused"]

    def show(out: Output) -> None:
        for receipt in refused:
            render.receipt(out, receipt)
        head = "would apply" if dry_run else "applied"
        done = len(wanted) - len(refused)
        out.line((head, "bold green"), f"  {render.plural(done, 'change')}, {len(changes) - len(wanted)} skipped")

    shown = [{"what": change.what, "file": change.file, "id": change.id} for change in changes]
    call.answer({"changes": shown, "receipts": document(receipts)}, show)
    return PROBLEMS if refused else OK


def _render_change(out: Output, change: Change) -> None:
    why = f"  ({_WHY_NOT[change.what]})" if change.what in _WHY_NOT else ""
    out.line((f"{_MARKS[change.what]} {change.file}", "bold"), (why, "yellow"))
    if change.before is not None and change.what == "changed":
        if change.tag not in (None, change.before.tag):
            out.line(f"    tag {change.before.tag} becomes {change.tag}")
        if change.content != change.before.content.strip("\n"):
            out.line((f"    - {render.shorten(change.before.content)}", "red"), indent=6)
            out.line((f"    + {render.shorten(change.content)}", "green"), indent=6)
    elif change.what == "new":
        out.line((f"    + {render.shorten(change.content)}", "green"), indent=6)


app.add_typer(vault, name="vault")


@o.command(app, "backup")
def backup(call: Invocation, file: o.File) -> None:
    """Copy the whole store, all scopes, to a new file.

    The copy is consistent, even while other processes write to the store.
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
    format: Annotated[str, typer.Option(metavar="NAME", help="The message format: openai or anthropic.")] = "openai",
    only_successes: Annotated[bool, typer.Option("--only-successes", help="Leave out tasks that failed.")] = False,
    plaintext: Plaintext = False,
) -> None:
    """Write conversations and tasks to a file for fine-tuning.

    The file is JSONL, with a conversation or a task on each line. An existing file is replaced atomically.
    """
    with call.open(missing="refuse") as memory:
        count = memory.conversation.export_chats(file, format=format, only_successes=only_successes, plaintext=plaintext)
    call.answer(
        {"path": file, "chats": count},
        lambda out: out.line(("exported", "bold green"), f"  {render.plural(count, 'chat')} to {file}"),
    )


@o.command(app, "sync")
def sync(
    call: Invocation,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Another store (file or URL), a server's URL, or a folder.")],
    full: Annotated[bool, typer.Option("--full", help="Compare everything again, not only what changed.")] = False,
    plaintext: Plaintext = False,
) -> None:
    """Synchronise the scope with a store, a server or a folder. Changes go in both directions.

    The target is another store, the http(s):// URL of a server (its key is in KEEPSTONE_KEY), or an existing folder that another
    program synchronises between machines. Memories that both sides changed keep both versions and are listed by
    'keepstone review'; memories forgotten on one side are forgotten on both. An interrupted run can be repeated.
    """
    from keepstone.client.client import Client
    from keepstone.sync import sync as synchronise

    call.require_store("sync")
    names = {name: getattr(call, name) for name in ("agent", "user") if name in call.named}
    with call.open() as memory:
        side: Any = Client(target, **names) if target.startswith(("http://", "https://")) else target
        report = synchronise(memory, side, full=full, plaintext=plaintext, embedder=call.embedder or "auto")
    call.answer(document(report), lambda out: render.synchronised(out, report))


_ACTION_MEANINGS = {
    "new": "would be imported",
    "added": "added",
    "updated": "changed since the last import",
    "superseded": "replaced an older memory",
    "merged": "merged with an equivalent memory",
    "duplicate": "already stored",
    "redacted": "added without their sensitive data",
    "quarantined": "look like instructions, and wait for a review",
    "skipped": "contain nothing to import",
    "refused": "could not be imported",
}
_ACTION_STYLES = {"refused": "bold red", "quarantined": "yellow", "redacted": "yellow"}
_MAX_SHOWN_PROBLEMS = 20


@contextmanager
def write_report(path: str | None) -> Iterator[Callable[[Outcome], None] | None]:
    """Write the outcome of every entry to a file; None without a file."""
    if path is None:
        yield None
        return
    try:
        private = partial(os.open, mode=0o600)  # it contains imported texts
        file = open(path, "w", encoding="utf-8", newline="\n", buffering=1, opener=private)  # noqa: SIM115
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"cannot write the report {path!r:.100} ({problem}): choose another path.") from None
    with file:
        yield lambda outcome: print(json.dumps(document(outcome), ensure_ascii=False), file=file)


def render_summary(out: Output, done: ImportSummary, path: str, report: str | None) -> None:
    """The number of entries per outcome, and the problems of the refused ones."""
    head = "would import" if done.dry_run else "imported"
    out.line(
        (head, "bold green" if not done.refused else "bold yellow"),
        f"  {render.plural(done.entries, 'entry', 'entries')} of {path} ({done.format})",
    )
    width = max((len(str(count)) for count in done.counts.values()), default=1)
    for action, meaning in _ACTION_MEANINGS.items():
        if count := done.counts.get(action, 0):
            out.line(f"    {count:>{width}}  ", (f"{action:<12}", _ACTION_STYLES.get(action, "")), meaning)
    for reason, count in list(done.skipped.items())[:_MAX_SHOWN_PROBLEMS]:
        out.line(f"    {'':>{width}}  ", (f"{count:>12} × ", "dim"), reason)
    for text in done.sample:
        out.line(("    e.g. ", "dim"), text)
    for outcome in done.problems[:_MAX_SHOWN_PROBLEMS]:
        out.line(f"    {outcome.file}, {outcome.where}: {outcome.reason}")
    if done.refused > _MAX_SHOWN_PROBLEMS:
        out.line(f"    … and {done.refused - _MAX_SHOWN_PROBLEMS} more{'' if report else ': --report FILE lists all of them'}")


@app.command("migrate")
def migrate(
    context: typer.Context,
    source: Annotated[str, typer.Option("--from", metavar="STORE", help="The source store: a file or a postgresql:// URL.")],
    target: Annotated[str, typer.Option("--to", metavar="STORE", help="The target store, which must be empty: a file or a URL.")],
    only: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="Move only this tenant.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Answer with one JSON document.", show_default=False)] = False,
) -> None:
    """Copy a whole store, all scopes, into an empty one.

    It copies memories with their history, vectors, audit log, states, jobs and reviews between files and PostgreSQL databases.
    No process may write to either store meanwhile. An interrupted migration continues when it is run again. At the end every row
    is compared and the audit log is verified. The source is not changed. Of the common options it takes --json and --tenant;
    KEEPSTONE_TENANT is ignored.
    """
    from keepstone.maintenance.store_migration import move_store

    before: dict[str, Any] = context.obj or {}
    call = Invocation.of({}, {"json": json or before.get("json")})
    with progress(call, "moving") as bar:
        migration = move_store(source, target, tenant=only or before.get("tenant"), progress=bar)
    if call.json:
        write_json(document(migration), sys.stdout)
    else:
        what = f"{render.plural(migration.records, 'record')} of {render.plural(migration.tenants, 'tenant')}"
        pace = migration.rows / max(migration.seconds, 0.001)
        took = f"{migration.seconds:.1f} s, {pace:,.0f} rows a second"
        out().line(("moved", "bold green"), f"  {what} to {migration.target}{', resumed' if migration.resumed else ''}")
        out().line(f"    {migration.rows:,} rows compared, audit log verified; {took}")
        out().line((f"    {migration.source} is unchanged: stop writing to it", "dim"))
