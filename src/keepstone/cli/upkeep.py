"""The jobs of `keepstone upkeep`.

A command that works on the queue opens the memory without its worker thread, as the commands of `jobs` do.
"""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, cast

import typer

from keepstone.cli import options as o
from keepstone.cli import upkeep_view as view
from keepstone.cli.exits import OK, PROBLEMS, PROVIDER
from keepstone.cli.given import duration
from keepstone.cli.invocation import Invocation
from keepstone.cli.jobs import WITHOUT_WORKER, found
from keepstone.cli.progress import progress
from keepstone.errors import NotFound, ValidationError
from keepstone.ports.serialize import document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from keepstone.maintenance.policy import RunReport
    from keepstone.memory import Memory
    from keepstone.ports.maintenance import ArchiveReason

app = typer.Typer()
upkeep = typer.Typer(no_args_is_help=True, help="Jobs that keep a store in order.")

POLICY = """lapse = true                  # put aside what has outlived its time to live
age_days = 365                # ... what was neither changed nor read for so long; 0: never
age_messages = false          # ... messages too
fade_days = 90         # ... what matters little and was hardly ever read
fade_importance = 0.3
fade_reads = 1
cap = 5000                    # ... what is over so many memories of a scope; 0: never
compact_days = 0              # condense what was not changed for so long; 0: never
verify = true                 # flag what is stale, contradicted or unsupported
purge_days = 30               # erase what has been aside for so long
trust_clock = false           # a clock that jumps by more than a week is right
learn = true                  # work on what waits for a model"""
EPILOG = "\b\nA policy is a TOML file; what it does not name is as in the default:\n" + "\n".join(
    f"  {line}" for line in POLICY.splitlines()
)
_LOOK = 1.0  # seconds between two looks at what a schedule has done


# -- by a policy --------------------------------------------------------------------------------------------------
@o.command(upkeep, "run", epilog=EPILOG)
def run(
    call: Invocation,
    policy: Annotated[str | None, typer.Option(metavar="FILE", help="What to do, as a TOML file; else the default.")] = None,
    dry_run: o.DryRun = False,
    model: o.Model = None,
    every: Annotated[str | None, typer.Option(metavar="TIME", help="Keep running, and do it again so often: 24h, 30m …")] = None,
) -> int:
    """Do what a policy says in all scopes of the store.

    What waits for a model is learned from where one is named; else it keeps waiting. It can be stopped and run again. With
    --every it runs now, then again and again, until Ctrl-C or SIGTERM ends it (exit code 0); of several processes one runs it.
    """
    period = duration(every, "--every")
    if period is not None and dry_run:
        raise ValidationError("--every and --dry-run do not go together: try it out first, then let it run.")
    named = call.model(model)
    with call.open(missing="refuse", model=named, settings=WITHOUT_WORKER) as memory:
        if period is None:
            return _once(call, memory, policy, dry_run, named)
        with _until_ended() as ended:
            _scheduled(call, memory, policy, period, named, ended)
    return OK


def _once(call: Invocation, memory: Memory, policy: str | None, dry_run: bool, model: str | None) -> int:
    with progress(call, "keeping in order") as bar:
        report = memory.upkeep.run(policy, dry_run=dry_run, progress=bar)
    call.answer(document(report), lambda out: view.ran(out, call, report, model is None))
    if report.failed:
        return PROVIDER
    return PROBLEMS if report.ran and _troubled(report, model) else OK


def _troubled(report: RunReport, model: str | None) -> bool:
    return any(not (model is None and view.waits(problem)) for problem in report.problems)


def _scheduled(
    call: Invocation, memory: Memory, policy: str | None, period: timedelta, model: str | None, ended: threading.Event
) -> None:
    """Run a policy now and every so often until it is ended; each run is said, on a line of its own with --json."""
    scheduler = memory.upkeep.schedule(policy, every=period)  # a policy that cannot be read is refused here
    try:
        with view.warnings(call):
            _once(call, memory, policy, False, model)
            sys.stdout.flush()
            seen = 0
            while not ended.wait(_LOOK):
                if scheduler.runs > seen:
                    seen = scheduler.runs
                    view.again(call, seen)
    finally:
        scheduler.stop()


@contextmanager
def _until_ended() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; a second signal ends the process. A signal that the process ignores stays ignored."""
    ended = threading.Event()

    def end(*_: object) -> None:
        if ended.is_set():
            raise KeyboardInterrupt
        ended.set()

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in handlers.items() if handler is not signal.SIG_IGN}
    for number in handlers:
        signal.signal(number, end)
    try:
        yield ended
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


# -- retention ----------------------------------------------------------------------------------------------------
@o.command(upkeep, "age")
def age(
    call: Invocation,
    older_than: o.OlderThan = "365d",
    kinds: o.Kinds = None,
    keyed: Annotated[bool, typer.Option("--keyed", help="Values under keys too.")] = False,
    dry_run: o.DryRun = False,
) -> None:
    """Put aside what was neither changed nor read for long.

    Of these kinds, or of all but messages. It is no longer recalled; nothing is erased.
    """
    span = duration(older_than, "--older-than") or 0.0
    with call.open(missing="refuse") as memory:
        report = memory.upkeep.age(older_than=span, kinds=kinds or None, keyed=keyed, dry_run=dry_run)
    call.answer(document(report), lambda out: view.archived(out, call, report))


@o.command(upkeep, "lapse")
def lapse(call: Invocation, dry_run: o.DryRun = False) -> None:
    """Put aside what has outlived its time to live, so that purge can erase it in time."""
    with call.open(missing="refuse") as memory:
        report = memory.upkeep.lapse(dry_run=dry_run)
    call.answer(document(report), lambda out: view.archived(out, call, report))


@o.command(upkeep, "consolidate")
def consolidate(
    call: Invocation,
    importance: Annotated[float, typer.Option(metavar="0..1", help="Only what matters less than this.")] = 0.3,
    reads: Annotated[int, typer.Option(metavar="N", help="Only what was read at most so often.")] = 1,
    older_than: o.OlderThan = "30d",
    dry_run: o.DryRun = False,
) -> None:
    """Put aside facts that matter little and were hardly ever read.

    They are no longer recalled; nothing is erased.
    """
    span = duration(older_than, "--older-than") or 0.0
    with call.open(missing="refuse") as memory:
        report = memory.upkeep.fade(importance=importance, reads=reads, older_than=span, dry_run=dry_run)
    call.answer(document(report), lambda out: view.archived(out, call, report))


@o.command(upkeep, "cap")
def cap(
    call: Invocation,
    most: Annotated[int, typer.Argument(metavar="MOST", help="How many memories the scope may have.")],
    kinds: o.Kinds = None,
    dry_run: o.DryRun = False,
) -> None:
    """Put aside what is over, where the scope may have so many memories.

    The least important, least read and longest untouched first; messages and values under keys stay.
    """
    with call.open(missing="refuse") as memory:
        report = memory.upkeep.cap(most, kinds=kinds or None, dry_run=dry_run)
    call.answer(document(report), lambda out: view.archived(out, call, report))


@o.command(upkeep, "aside")
def archived(call: Invocation, limit: o.Limit = 1000) -> None:
    """What is put aside at present, the longest first, with why and since when."""
    with call.open(missing="refuse") as memory:
        listed = memory.upkeep.archived(limit=limit)
    call.answer({"aside": document(list(listed))}, lambda out: view.listed(out, call, listed))


@o.command(upkeep, "undo")
def undo(
    call: Invocation,
    tickets: Annotated[list[int], typer.Argument(metavar="TICKET...", help="The number a report names for undoing it.")],
) -> None:
    """Take back what a job has put aside, by the ticket of its report.

    A ticket of which nothing comes back is an error (exit code 3).
    """
    with call.open(missing="refuse") as memory:
        ids = [id for ticket in tickets for id in memory.upkeep.undo(ticket)]
        records = found(memory, ids[: view.FIRST])
    if not ids:
        which = ", ".join(map(str, tickets))
        raise NotFound(f"nothing came back for ticket {which} ({call.place}): 'keepstone upkeep aside' shows what is put aside.")
    call.answer({"tickets": tickets, "ids": ids}, lambda out: view.back(out, len(ids), records))


@o.command(upkeep, "bring-back")
def restore(call: Invocation, ids: o.Ids) -> None:
    """Bring back records that were put aside, by their ids.

    What has been remembered anew meanwhile stays aside. If none comes back it is an error (exit code 3).
    """
    with call.open(missing="refuse") as memory:
        count = memory.upkeep.restore(ids)
    if not count:
        raise NotFound(f"none of these came back ({call.place}): 'keepstone upkeep aside' shows what is put aside.")
    call.answer({"back": count}, lambda out: view.back(out, count, ()))


@o.command(upkeep, "purge")
def purge(
    call: Invocation,
    after: Annotated[str, typer.Option(metavar="TIME", help="Only what has been aside for longer: 30d, 12h …")] = "30d",
    why: Annotated[
        list[str] | None,
        typer.Option(metavar="WHY", help="Only what was put aside as aged, expired, faded …; may be repeated."),
    ] = None,
    dry_run: o.DryRun = False,
    trust_clock: Annotated[bool, typer.Option("--trust-clock", help="Believe a clock that has jumped ahead.")] = False,
) -> None:
    """Erase what has been aside for long enough; it cannot be undone.

    What was compacted stays, as the source of what replaced it.
    """
    span = duration(after, "--after") or 0.0
    with call.open(missing="refuse") as memory:
        report = memory.upkeep.purge(
            after=span, why=cast("list[ArchiveReason] | None", why or None), dry_run=dry_run, trust_clock=trust_clock
        )
    call.answer(document(report), lambda out: view.purged(out, report))


# -- content ------------------------------------------------------------------------------------------------------
@o.command(upkeep, "compact")
def compact(
    call: Invocation,
    older_than: Annotated[str, typer.Option(metavar="TIME", help="Only what was not changed for so long: 30d …")] = "30d",
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
    """Condense related memories that are old into fewer.

    By the model, where one is named; else by their own sentences. The originals are put aside, as parents of what replaces them.
    """
    span = duration(older_than, "--older-than") or 0.0
    with call.open(missing="refuse", model=call.model(model), settings=WITHOUT_WORKER) as memory:
        with progress(call, "condensing") as bar:
            report = memory.upkeep.compact(
                older_than=span, kinds=tuple(kinds or ("fact", "note")), tag=tag, dry_run=dry_run, progress=bar
            )
        made = found(memory, report.digests[: view.FIRST])
        groups = [found(memory, group) for group in report.groups[: view.FIRST]]
    call.answer(document(report), lambda out: view.compacted(out, call, report, made, groups))
    return PROBLEMS if report.problems else OK


@o.command(upkeep, "verify")
def verify(
    call: Invocation,
    stale_after: Annotated[
        str, typer.Option(metavar="TIME", help="What was left alone for so long may be stale: 180d …")
    ] = "180d",
    dry_run: o.DryRun = False,
) -> None:
    """Flag what is stale, contradicted or unsupported for review.

    Memories are held against newer messages and against each other; 'keepstone review' then works through what was flagged.
    Probes of the outside world take functions, and so the library.
    """
    span = duration(stale_after, "--stale-after") or 0.0
    with call.open(missing="refuse") as memory:
        with progress(call, "checking") as bar:
            report = memory.upkeep.verify(stale_after=span, dry_run=dry_run, progress=bar)
        records = {record.id: record for record in found(memory, [flag.id for flag in report.flags[: view.FIRST]])}
    call.answer(document(report), lambda out: view.verified(out, report, records, dry_run))


@o.command(upkeep, "reembed")
def reembed(call: Invocation) -> int:
    """Embed every record that waits for its vector.

    With --embedder (or KEEPSTONE_EMBEDDER) the whole store moves to that one: the old vectors answer until all the new ones are
    there. It can be stopped and run again.
    """
    moving = call.embedder is not None
    with (
        call.open(missing="refuse", embedder="none" if moving else None) as memory,
        progress(call, "embedding") as bar,
    ):
        report = memory.upkeep.reembed(embedder=call.embedder, progress=bar)
    call.answer(document(report), lambda out: view.reembedded(out, report))
    return PROVIDER if report.failed else OK


app.add_typer(upkeep, name="upkeep")
