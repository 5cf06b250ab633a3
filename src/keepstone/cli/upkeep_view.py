"""What the jobs of upkeep and the repairs of `health` answer, for people."""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from keepstone.cli import show
from keepstone.cli.invocation import Invocation
from keepstone.cli.output import Output, err, out, write_json
from keepstone.types import Record, Scope

if TYPE_CHECKING:
    from keepstone.maintenance.compaction import CompactReport
    from keepstone.maintenance.policy import Done, RunReport
    from keepstone.maintenance.reembedding import ReembedReport
    from keepstone.maintenance.retention import ArchiveReport, PurgeReport
    from keepstone.maintenance.verification import VerifyReport
    from keepstone.ports.maintenance import ArchivedRecord

FIRST = 10  # records that are shown of a report
_WORDS = {"compact": "condensed", "verify": "flagged for review", "purge": "erased"}  # the other jobs put aside
_KEEPS = "What waits to be learned from keeps waiting: name a model with --model or KEEPSTONE_MODEL."


def undoing(call: Invocation, tickets: Sequence[int], scope: Scope | None = None) -> str:
    """The command that undoes something, to be copied: with the store and the scope where they are not the usual ones."""
    usual = Invocation.of({}, {})
    where = {"db": call.shown, "tenant": call.tenant, "agent": call.agent, "user": call.user}
    if scope is not None:
        where |= {"tenant": scope.tenant, "agent": scope.agent, "user": scope.user}
    if call.url is not None:
        del where["db"]  # the server is named by the environment
    options = [f" --{name} {shlex.quote(value)}" for name, value in where.items() if value != getattr(usual, name)]
    return f"undo with: keepstone upkeep undo {' '.join(map(str, tickets))}{''.join(options)}"


# -- putting aside and back ---------------------------------------------------------------------------------------
def archived(out: Output, call: Invocation, report: ArchiveReport) -> None:
    """How many records were put aside, the first of them, and how to undo it."""
    done = "would be put aside" if report.dry_run else "put aside"
    out.line((done, "bold green"), f"  {show.counted(len(report.ids), 'record')}")
    first(out, report.records)
    if report.ticket:
        out.line((undoing(call, [report.ticket]), "cyan"))


def first(out: Output, records: Sequence[Record]) -> None:
    """The first of some records, a line each and one about them, and how many more there are."""
    for record in records[:FIRST]:
        out.line(f"    {show.one_line(record.content)}")
        out.line(("        " + show.about(record), "dim"), indent=8)
    _more(out, len(records) - FIRST)


def _more(out: Output, count: int) -> None:
    if count > 0:
        out.line((f"    … and {count} more (--json lists all)", "dim"))


def listed(out: Output, call: Invocation, found: Sequence[ArchivedRecord]) -> None:
    """What is put aside, why and since when."""
    for each in found:
        out.line(show.one_line(each.record.content))
        out.line((f"    {each.why} · since {show.moment(each.at)} · ticket {each.ticket} · {each.record.id}", "dim"))
    if not found:
        out.line(f"Nothing is put aside ({call.place}).")
        return
    out.line(("'keepstone upkeep bring-back ID' or 'keepstone upkeep undo TICKET' takes it back.", "dim"))


def back(out: Output, count: int, records: Sequence[Record]) -> None:
    """What came back."""
    out.line(("back", "bold green"), f"  {show.counted(count, 'record')}")
    first(out, records)
    _more(out, count - len(records) if records else 0)


def purged(out: Output, report: PurgeReport) -> None:
    """What was erased, and what still waits for it."""
    done = "would be erased" if report.dry_run else "erased"
    waiting = f", {report.waiting} {'waits' if report.waiting == 1 else 'wait'} for longer" if report.waiting else ""
    out.line((done, "bold green"), f"  {show.counted(len(report.ids), 'record')}{waiting}")
    for id in report.ids[:FIRST]:
        out.line((f"    {id}", "dim"))
    _more(out, len(report.ids) - FIRST)
    for reason in report.reasons:
        out.line((f"note: {reason.replace('trust_clock', '--trust-clock')}", "yellow"))


# -- content ------------------------------------------------------------------------------------------------------
def compacted(
    out: Output, call: Invocation, report: CompactReport, made: Sequence[Record], groups: Sequence[Sequence[Record]]
) -> None:
    """How many memories became how many; the first of what was made, or of what it would be made of."""
    gone = sum(map(len, report.groups))
    done = "would be condensed" if report.dry_run else "condensed"
    saved = f"{report.tokens_before:,} tokens to {report.tokens_after:,}"
    into = f" into {len(report.groups)}, {saved}" if gone else f" of {report.before} that are old enough"
    out.line((done, "bold green"), f"  {show.counted(gone, 'memory', 'memories')}{into}", *show.took(report.usage))
    for record, group in zip(made, report.groups, strict=False):
        out.line(f"    {show.one_line(record.content)}")
        out.line((f"        made of {len(group)} · {show.about(record)}", "dim"), indent=8)
    for records in [] if made else groups:
        out.line((f"    {show.counted(len(records), 'memory', 'memories')} that belong together:", "dim"))
        for record in records:
            out.line(f"        {show.one_line(record.content, 100)}", indent=8)
    _more(out, len(report.groups) - FIRST)
    for problem in report.problems:
        out.line((f"    {problem}", "red"))
    if report.tickets:
        out.line((undoing(call, report.tickets), "cyan"))


def verified(out: Output, report: VerifyReport, records: Mapping[str, Record], dry_run: bool) -> None:
    """What was checked, the first of what is wrong, and where to go on."""
    new = "" if dry_run else f", {report.flagged} new on the review list"
    wrong = show.counted(len(report.flags), "finding")
    out.line(("checked", "bold green"), f"  {show.counted(report.checked, 'memory', 'memories')}: {wrong}{new}")
    for flag in report.flags[:FIRST]:
        record = records.get(flag.id)
        out.line((f"    {flag.flag}", "yellow"), f"  {show.one_line(record.content) if record else flag.id}")
        out.line((f"        {flag.reason} · {flag.id}", "dim"), indent=8)
    _more(out, len(report.flags) - FIRST)
    for problem in report.problems:
        out.line((f"    {problem}", "red"))
    if report.flags and not dry_run:
        out.line(("'keepstone review' works through what was flagged.", "dim"))


def reembedded(out: Output, report: ReembedReport) -> None:
    """How many records got a vector, and what kept the others from it."""
    out.line(("embedded", "bold green"), f"  {show.counted(report.embedded, 'record')}")
    if report.failed:
        out.line((f"{show.counted(report.failed, 'record')} could not be embedded: {report.problem}", "red"))
    if not report.moved:
        out.line(("The store still has its old embedder; run it again to go on.", "yellow"))


# -- by a policy --------------------------------------------------------------------------------------------------
def waits(problem: str) -> bool:
    """Whether a problem is only that there is no model."""
    return "wait for a model" in problem


def ran(out: Output, call: Invocation, report: RunReport, modelless: bool) -> None:
    """What a run came to: what was learned, and what each job did in each scope."""
    told = [problem for problem in report.problems if not (modelless and waits(problem))]
    if not report.ran:
        out.line(("did not run", "bold yellow"), f"  {'; '.join(told)}")
        return
    out.line(("would do" if report.dry_run else "done", "bold green"), f"  in {show.counted(report.scopes, 'scope')}")
    if report.done:
        learned = show.counted(len(report.learned), "fact")
        out.line(("    learned", "green"), f"  {learned} from {show.counted(report.done, 'job')}", *show.took(report.usage))
    for done in report.jobs:
        _job(out, call, done)
    for line in report.tuned:
        out.line(("    engine", "bold"), f"  {line}", indent=8)
    if not report.jobs and not report.done and not report.tuned:
        out.line(("    There was nothing to do." if not report.dry_run else "    There is nothing to do.", "dim"))
    if report.failed:
        out.line((f"    {show.counted(report.failed, 'job')} failed; 'keepstone jobs' shows what waits:", "red"))
    for problem in told:
        out.line((f"    {problem}", "red"))
    if len(told) < len(report.problems):
        out.line((_KEEPS, "dim"))


def _job(out: Output, call: Invocation, done: Done) -> None:
    user = f", user {done.scope.user}" if done.scope.user else ""
    where = f"  tenant {done.scope.tenant}, agent {done.scope.agent}{user}"
    what = f"{show.counted(done.records, 'record')} {_WORDS.get(done.job, 'put archived')}"
    out.line((f"    {done.job:<12}", "bold"), f"  {what}", (where, "dim"), indent=8)
    if done.tickets:
        out.line((f"        {undoing(call, done.tickets, done.scope)}", "cyan"), indent=8)


def again(call: Invocation, runs: int) -> None:
    """That a schedule has run once more."""
    now = datetime.now(UTC)
    if call.json:
        write_json({"ran_at": now.isoformat(), "runs": runs}, sys.stdout)
    else:
        out().line(("done again", "bold green"), f"  {show.moment(now)}")
    sys.stdout.flush()


@contextmanager
def warnings(call: Invocation) -> Iterator[None]:
    """What a schedule logs is said on standard error meanwhile, for no report tells it."""
    log, handler = logging.getLogger("keepstone.maintenance"), _Warning(logging.WARNING)
    handler.as_json = call.json
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class _Warning(logging.Handler):
    as_json = False

    def emit(self, record: logging.LogRecord) -> None:
        if self.as_json:
            write_json({"warning": record.getMessage()}, sys.stderr)
        else:
            err().line((f"warning: {record.getMessage()}", "yellow"))
