"""upkeep: retention, compaction, verification and re-embedding.

Commands that work on the job queue open the memory without its worker thread, as the commands of `jobs` do.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from keepstone.cli import options as o
from keepstone.cli import render
from keepstone.cli.arguments import duration
from keepstone.cli.exit_codes import OK, PROBLEMS, PROVIDER
from keepstone.cli.invocation import Invocation
from keepstone.cli.jobs import WITHOUT_WORKER, get_records
from keepstone.cli.output import Output, out, print_warnings, progress, write_json
from keepstone.errors import NotFound, ValidationError
from keepstone.ports.serialize import document
from keepstone.types import Record

if TYPE_CHECKING:
    from datetime import timedelta

    from keepstone.maintenance.compaction import CompactReport
    from keepstone.maintenance.policy import RunReport
    from keepstone.maintenance.reembedding import ReembedReport
    from keepstone.maintenance.retention import ArchiveReport, PurgeReport
    from keepstone.maintenance.upkeep import Upkeep
    from keepstone.maintenance.verification import VerifyReport
    from keepstone.memory import Memory
    from keepstone.ports.maintenance import ArchivedRecord, ArchiveReason

app = typer.Typer()
upkeep = typer.Typer(no_args_is_help=True, help="Maintenance of a store: retention, compaction, verification.")

POLICY = Path(__file__).with_name("policy.toml").read_text(encoding="utf-8")
EPILOG = "\b\nA policy is a TOML file. Every field with its default:\n" + "\n".join(f"  {line}" for line in POLICY.splitlines())
MAX_SHOWN_RECORDS = 10
_JOB_RESULTS = {"compact": "condensed", "verify": "flagged for review", "purge": "erased"}  # the other jobs archive
_NO_MODEL_NOTE = "Learning jobs keep waiting: name a model with --model or KEEPSTONE_MODEL."
_POLL_SECONDS = 1.0  # seconds between two looks at what a schedule has done


# -- by a policy --------------------------------------------------------------------------------------------------
@o.command(upkeep, "run", epilog=EPILOG)
def run(
    call: Invocation,
    policy: Annotated[str | None, typer.Option(metavar="FILE", help="The policy, a TOML file.  [default: see below]")] = None,
    dry_run: o.DryRun = False,
    model: o.Model = None,
    every: Annotated[str | None, typer.Option(metavar="TIME", help="Keep running, and repeat at this interval: 24h …")] = None,
) -> int:
    """Run the maintenance policy in all scopes of the store.

    Learning jobs run if a model is named; otherwise they keep waiting. The run can be interrupted and repeated. With --every it
    runs at once and after each interval, until Ctrl-C or SIGTERM (exit code 0). If several processes run it, one does the work.
    """
    period = duration(every, "--every")
    if period is not None and dry_run:
        raise ValidationError("--every and --dry-run exclude each other: use one of them.")
    named = call.model(model)
    with call.open(missing="refuse", model=named, settings=WITHOUT_WORKER) as memory:
        if period is None:
            return _run_once(call, memory, policy, dry_run, named)
        with _stop_on_signals() as stop:
            _run_schedule(call, memory, policy, period, named, stop)
    return OK


def _run_once(call: Invocation, memory: Memory, policy: str | None, dry_run: bool, model: str | None) -> int:
    with progress(call, "maintaining") as bar:
        report = memory.upkeep.run(policy, dry_run=dry_run, progress=bar)
    call.answer(document(report), lambda out: render_run(out, call, report, model is None))
    if report.failed:
        return PROVIDER
    problems = [problem for problem in report.problems if model is not None or not waits_for_model(problem)]
    return PROBLEMS if report.ran and problems else OK


def _run_schedule(
    call: Invocation, memory: Memory, policy: str | None, period: timedelta, model: str | None, stop: threading.Event
) -> None:
    """Run a policy now and at each interval until `stop` is set. Each run prints a line."""
    scheduler = memory.upkeep.schedule(policy, every=period)  # raises if the policy cannot be read
    try:
        with print_warnings(as_json=call.json):
            _run_once(call, memory, policy, False, model)
            sys.stdout.flush()
            seen = 0
            while not stop.wait(_POLL_SECONDS):
                if scheduler.runs > seen:
                    seen = scheduler.runs
                    now = datetime.now(UTC)
                    if call.json:
                        write_json({"ran_at": now.isoformat(), "runs": seen}, sys.stdout)
                    else:
                        out().line(("done again", "bold green"), f"  {render.format_time(now)}")
                    sys.stdout.flush()
    finally:
        scheduler.stop()


@contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; a second signal ends the process. A signal that the process ignores stays ignored."""
    stop = threading.Event()

    def handle(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in handlers.items() if handler is not signal.SIG_IGN}
    for number in handlers:
        signal.signal(number, handle)
    try:
        yield stop
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


# -- retention ----------------------------------------------------------------------------------------------------
@o.command(upkeep, "age")
def age(
    call: Invocation,
    older_than: o.OlderThan = "365d",
    since: Annotated[
        str, typer.Option(metavar="WHAT", help="Count the age from the last change or read (used), or from created.")
    ] = "used",
    kinds: o.Kinds = None,
    keyed: Annotated[bool, typer.Option("--keyed", help="Include values under keys.")] = False,
    dry_run: o.DryRun = False,
) -> None:
    """Archive memories neither changed nor read for a long time. With --since created: all that are older.

    Without --kind, all kinds but messages. Archived memories are not recalled; nothing is erased.
    """
    span = duration(older_than, "--older-than") or 0.0
    _archive(call, lambda upkeep: upkeep.age(older_than=span, since=since, kinds=kinds or None, keyed=keyed, dry_run=dry_run))


@o.command(upkeep, "lapse")
def lapse(call: Invocation, dry_run: o.DryRun = False) -> None:
    """Archive memories whose time to live has ended. Purge erases them later."""
    _archive(call, lambda upkeep: upkeep.lapse(dry_run=dry_run))


@o.command(upkeep, "fade")
def fade(
    call: Invocation,
    importance: Annotated[float, typer.Option(metavar="0..1", help="Only memories with a lower importance.")] = 0.3,
    reads: Annotated[int, typer.Option(metavar="N", help="Only memories read at most this often.")] = 1,
    older_than: o.OlderThan = "30d",
    dry_run: o.DryRun = False,
) -> None:
    """Archive facts of low importance that were hardly ever read.

    Archived memories are not recalled; nothing is erased.
    """
    span = duration(older_than, "--older-than") or 0.0
    _archive(
        call,
        lambda upkeep: upkeep.fade(importance=importance, reads=reads, older_than=span, dry_run=dry_run),
    )


@o.command(upkeep, "cap")
def cap(
    call: Invocation,
    most: Annotated[int, typer.Argument(metavar="MOST", help="Maximum number of memories in the scope.")],
    kinds: o.Kinds = None,
    dry_run: o.DryRun = False,
) -> None:
    """Archive memories in excess of a maximum number.

    The least important, least read and longest unchanged go first. Messages and values under keys do not count.
    """
    _archive(call, lambda upkeep: upkeep.cap(most, kinds=kinds or None, dry_run=dry_run))


def _archive(call: Invocation, job: Callable[[Upkeep], ArchiveReport]) -> None:
    call.show(lambda memory: job(memory.upkeep), lambda out, report: render_archived(out, call, report), missing="refuse")


@o.command(upkeep, "archive")
def archive(call: Invocation, ids: o.Ids) -> None:
    """Archive memories by their ids. 'keepstone upkeep undo TICKET' restores them."""
    _archive(call, lambda upkeep: upkeep.archive(ids))


@o.command(upkeep, "archived")
def archived(call: Invocation, limit: o.Limit = 1000) -> None:
    """List archived memories, oldest first. Each with the reason and the date."""
    call.show(
        lambda memory: memory.upkeep.archived(limit=limit),
        lambda out, archived: render_listed(out, call, archived),
        field="archived",
        missing="refuse",
    )


@o.command(upkeep, "undo")
def undo(
    call: Invocation,
    tickets: Annotated[list[int], typer.Argument(metavar="TICKET", help="The ticket that a report shows.")],
) -> None:
    """Restore the memories that one job archived. Its report names the ticket.

    It is an error (exit code 3) if no memory is restored.
    """
    with call.open(missing="refuse") as memory:
        ids = [id for ticket in tickets for id in memory.upkeep.undo(ticket)]
        records = get_records(memory, ids[:MAX_SHOWN_RECORDS])
    if not ids:
        which = ", ".join(map(str, tickets))
        raise NotFound(f"no memory was restored for ticket {which} ({call.place}): 'keepstone upkeep archived' lists tickets.")
    call.answer({"tickets": tickets, "ids": ids}, lambda out: render_restored(out, len(ids), records))


@o.command(upkeep, "restore")
def restore(call: Invocation, ids: o.Ids) -> None:
    """Restore archived memories by their ids.

    A memory that was stored again in the meantime stays archived. It is an error (exit code 3) if no memory is restored.
    """
    with call.open(missing="refuse") as memory:
        count = memory.upkeep.restore(ids)
    if not count:
        raise NotFound(f"no memory was restored ({call.place}): 'keepstone upkeep archived' lists archived memories.")
    call.answer({"restored": count}, lambda out: render_restored(out, count, ()))


@o.command(upkeep, "purge")
def purge(
    call: Invocation,
    after: Annotated[str, typer.Option(metavar="TIME", help="Only memories archived for longer: 30d, 12h …")] = "30d",
    why: Annotated[
        list[str] | None,
        typer.Option(metavar="WHY", help="Only memories archived for this reason: aged, expired, faded …; may be repeated."),
    ] = None,
    dry_run: o.DryRun = False,
    trust_clock: Annotated[bool, typer.Option("--trust-clock", help="Accept a clock that has jumped ahead.")] = False,
) -> None:
    """Erase memories archived long enough ago. This cannot be undone.

    Compacted memories stay, as the sources of their summary.
    """
    span, reasons = duration(after, "--after") or 0.0, cast("list[ArchiveReason] | None", why or None)
    call.show(
        lambda memory: memory.upkeep.purge(after=span, why=reasons, dry_run=dry_run, trust_clock=trust_clock),
        render_purged,
        missing="refuse",
    )


# -- content ------------------------------------------------------------------------------------------------------
@o.command(upkeep, "compact")
def compact(
    call: Invocation,
    older_than: Annotated[str, typer.Option(metavar="TIME", help="Only memories not changed for this long: 30d …")] = "30d",
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--kind", metavar="KIND", help="Only this kind; may be repeated.  [default: fact, note]", show_default=False
        ),
    ] = None,
    tag: o.OnlyTag = None,
    dry_run: o.DryRun = False,
    model: o.Model = None,
) -> int:
    """Condense related old memories into fewer.

    A model writes them if one is named; otherwise their own sentences are used. The originals are archived as parents of the new
    memories.
    """
    span = duration(older_than, "--older-than") or 0.0
    with call.open(missing="refuse", model=call.model(model), settings=WITHOUT_WORKER) as memory:
        with progress(call, "condensing") as bar:
            report = memory.upkeep.compact(
                older_than=span, kinds=tuple(kinds or ("fact", "note")), tag=tag, dry_run=dry_run, progress=bar
            )
        made = get_records(memory, report.digests[:MAX_SHOWN_RECORDS])
        groups = [get_records(memory, group) for group in report.groups[:MAX_SHOWN_RECORDS]]
    call.answer(document(report), lambda out: render_compacted(out, call, report, made, groups))
    return PROBLEMS if report.problems else OK


@o.command(upkeep, "verify")
def verify(
    call: Invocation,
    stale_after: Annotated[str, typer.Option(metavar="TIME", help="Age from which a memory may be stale: 180d …")] = "180d",
    dry_run: o.DryRun = False,
) -> None:
    """Flag stale, contradicted and unsupported memories for review.

    Memories are compared with newer messages and with each other. 'keepstone review' then shows the flagged ones. Checks against
    external systems need the Python library.
    """
    span = duration(stale_after, "--stale-after") or 0.0
    with call.open(missing="refuse") as memory:
        with progress(call, "checking") as bar:
            report = memory.upkeep.verify(stale_after=span, dry_run=dry_run, progress=bar)
        records = {record.id: record for record in get_records(memory, [flag.id for flag in report.flags[:MAX_SHOWN_RECORDS]])}
    call.answer(document(report), lambda out: render_verified(out, report, records, dry_run))


@o.command(upkeep, "reembed")
def reembed(call: Invocation) -> int:
    """Embed every record that has no vector yet.

    With --embedder (or KEEPSTONE_EMBEDDER) the whole store moves to that embedder. The old vectors are used until all new ones
    exist. The command can be interrupted and repeated.
    """
    moving = call.embedder is not None
    with (
        call.open(missing="refuse", embedder="none" if moving else None) as memory,
        progress(call, "embedding") as bar,
    ):
        report = memory.upkeep.reembed(embedder=call.embedder, progress=bar)
    call.answer(document(report), lambda out: render_reembedded(out, report))
    return PROVIDER if report.failed else OK


app.add_typer(upkeep, name="upkeep")


# -- archiving and restoring ---------------------------------------------------------------------------------------
def render_archived(out: Output, call: Invocation, report: ArchiveReport) -> None:
    """The number of archived records, the first of them, and the command that undoes it."""
    done = "would be archived" if report.dry_run else "archived"
    out.line((done, "bold green"), f"  {render.plural(len(report.ids), 'record')}")
    render_first(out, report.records)
    if report.ticket:
        out.line((call.undo_command([report.ticket]), "cyan"))


def render_first(out: Output, records: Sequence[Record]) -> None:
    """The first records with their details, and the number of the others."""
    for record in records[:MAX_SHOWN_RECORDS]:
        out.line(f"    {render.shorten(record.content)}")
        out.line(("        " + render.about(record), "dim"), indent=8)
    _render_more(out, len(records) - MAX_SHOWN_RECORDS)


def _render_more(out: Output, count: int) -> None:
    if count > 0:
        out.line((f"    … and {count} more (--json lists all)", "dim"))


def render_listed(out: Output, call: Invocation, archived: Sequence[ArchivedRecord]) -> None:
    """Archived records with the reason and the date."""
    for item in archived:
        out.line(render.shorten(item.record.content))
        out.line((f"    {item.why} · since {render.format_time(item.at)} · ticket {item.ticket} · {item.record.id}", "dim"))
    if not archived:
        out.line(f"No memory is archived ({call.place}).")
        return
    out.line(("'keepstone upkeep restore ID' or 'keepstone upkeep undo TICKET' restores them.", "dim"))


def render_restored(out: Output, count: int, records: Sequence[Record]) -> None:
    """The number of restored records, and the first of them."""
    out.line(("restored", "bold green"), f"  {render.plural(count, 'record')}")
    render_first(out, records)
    _render_more(out, count - len(records) if records else 0)


def render_purged(out: Output, report: PurgeReport) -> None:
    """What was erased, and how many records are not old enough."""
    done = "would be erased" if report.dry_run else "erased"
    waiting = f", {report.waiting} {'is' if report.waiting == 1 else 'are'} not old enough" if report.waiting else ""
    out.line((done, "bold green"), f"  {render.plural(len(report.ids), 'record')}{waiting}")
    for id in report.ids[:MAX_SHOWN_RECORDS]:
        out.line((f"    {id}", "dim"))
    _render_more(out, len(report.ids) - MAX_SHOWN_RECORDS)
    for reason in report.reasons:
        out.line((f"note: {reason.replace('trust_clock', '--trust-clock')}", "yellow"))


# -- content ------------------------------------------------------------------------------------------------------
def render_compacted(
    out: Output, call: Invocation, report: CompactReport, made: Sequence[Record], groups: Sequence[Sequence[Record]]
) -> None:
    """The counts before and after, and the first new memories, or in a dry run the first groups."""
    gone = sum(map(len, report.groups))
    done = "would be condensed" if report.dry_run else "condensed"
    saved = f"{report.tokens_before:,} tokens to {report.tokens_after:,}"
    into = f" into {len(report.groups)}, {saved}" if gone else f" of {report.before} old enough"
    out.line((done, "bold green"), f"  {render.plural(gone, 'memory', 'memories')}{into}", *render.usage_suffix(report.usage))
    for record, group in zip(made, report.groups, strict=False):
        out.line(f"    {render.shorten(record.content)}")
        out.line((f"        from {len(group)} memories · {render.about(record)}", "dim"), indent=8)
    for records in [] if made else groups:
        out.line((f"    {render.plural(len(records), 'memory', 'memories')} to be condensed into one:", "dim"))
        for record in records:
            out.line(f"        {render.shorten(record.content, 100)}", indent=8)
    _render_more(out, len(report.groups) - MAX_SHOWN_RECORDS)
    render.problems(out, report.problems)
    if report.tickets:
        out.line((call.undo_command(report.tickets), "cyan"))


def render_verified(out: Output, report: VerifyReport, records: Mapping[str, Record], dry_run: bool) -> None:
    """The number of checked memories, the first findings, and the next step."""
    new = "" if dry_run else f", {report.flagged} new on the review list"
    wrong = render.plural(len(report.flags), "finding")
    out.line(("checked", "bold green"), f"  {render.plural(report.checked, 'memory', 'memories')}: {wrong}{new}")
    for flag in report.flags[:MAX_SHOWN_RECORDS]:
        record = records.get(flag.id)
        out.line((f"    {flag.flag}", "yellow"), f"  {render.shorten(record.content) if record else flag.id}")
        out.line((f"        {flag.reason} · {flag.id}", "dim"), indent=8)
    _render_more(out, len(report.flags) - MAX_SHOWN_RECORDS)
    render.problems(out, report.problems)
    if report.flags and not dry_run:
        out.line(("'keepstone review' shows the flagged memories.", "dim"))


def render_reembedded(out: Output, report: ReembedReport) -> None:
    """The number of embedded records, and the problem with the others."""
    out.line(("embedded", "bold green"), f"  {render.plural(report.embedded, 'record')}")
    if report.failed:
        out.line((f"{render.plural(report.failed, 'record')} could not be embedded: {report.problem}", "red"))
    if not report.moved:
        out.line(("The store still uses its old embedder: run the command again to continue.", "yellow"))


# -- by a policy --------------------------------------------------------------------------------------------------
def waits_for_model(problem: str) -> bool:
    """Whether the problem is only that no model is set."""
    return "wait for a model" in problem


def render_run(out: Output, call: Invocation, report: RunReport, modelless: bool) -> None:
    """What a run learned, and what each job did in each scope."""
    problems = [problem for problem in report.problems if not (modelless and waits_for_model(problem))]
    if not report.ran:
        out.line(("did not run", "bold yellow"), f"  {'; '.join(problems)}")
        return
    out.line(("would do" if report.dry_run else "done", "bold green"), f"  in {render.plural(report.scopes, 'scope')}")
    if report.done:
        render.learned(out, report.done, report.learned, report.usage, ("    learned", "green"))
    for done in report.jobs:
        user = f", user {done.scope.user}" if done.scope.user else ""
        where = f"  tenant {done.scope.tenant}, agent {done.scope.agent}{user}"
        what = f"{render.plural(done.records, 'record')} {_JOB_RESULTS.get(done.job, 'archived')}"
        out.line((f"    {done.job:<12}", "bold"), f"  {what}", (where, "dim"), indent=8)
        if done.tickets:
            out.line((f"        {call.undo_command(done.tickets, done.scope)}", "cyan"), indent=8)
    for line in report.tuned:
        out.line(("    engine", "bold"), f"  {line}", indent=8)
    if not report.jobs and not report.done and not report.tuned:
        out.line(("    Nothing to do.", "dim"))
    render.problems(out, problems, report.failed)
    if len(problems) < len(report.problems):
        out.line((_NO_MODEL_NOTE, "dim"))
