"""What commands answer, for people. Imports: output, types, desk's values by type."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from recollect.cli.documents import because
from recollect.cli.output import Output, Part
from recollect.types import (
    AuditRow,
    Diagnosis,
    Explanation,
    ForgetReceipt,
    ImportReport,
    Recall,
    Receipt,
    Record,
    Usage,
    Version,
)

if TYPE_CHECKING:
    from recollect.desk import Job, Session

_ACTION_STYLES = {"added": "green", "duplicate": "yellow", "quarantined": "yellow", "refused": "red"}
_GAP = " · "


def receipt(out: Output, done: Receipt) -> None:
    """One line: action, id, version, reasons."""
    version = f"  version {done.version}" if done.version > 1 else ""
    out.line(
        (done.action, f"bold {_ACTION_STYLES.get(done.action, 'cyan')}"),
        "  ",
        done.id or "-",
        *_dim(version),
        *_said(done.reasons),
    )


def forgotten(out: Output, done: ForgetReceipt) -> None:
    """One line: how many, which if it was one, reasons."""
    which = f"  {done.ids[0]}" if len(done.ids) == 1 else ""
    out.line(("forgotten", "bold green"), f"  {counted(done.forgotten, 'record')}", which, *_said(done.reasons))


def _said(reasons: Sequence[str]) -> list[Part]:
    return _dim("  " + "; ".join(reasons)) if reasons else []


def _dim(text: str) -> list[Part]:
    return [(text, "dim")] if text else []


def recall(out: Output, found: Recall) -> None:
    """The hits, best first, each with the reasons and where it comes from."""
    for rank, hit in enumerate(found, 1):
        lead = f"{rank:>2}  {hit.score:.2f}  "
        _content(out, hit.record, [(f"{rank:>2}", "bold"), "  ", (f"{hit.score:.2f}", "cyan"), "  "], len(lead))
        for about in (", ".join(because(hit.signals)), _about(hit.record)):
            out.line((" " * len(lead) + about, "dim"), indent=len(lead))
    if found.left_out:
        out.line((f"{counted(found.left_out, 'more hit')} did not fit the token budget.", "dim"))


def nothing(out: Output, query: str, considered: int, place: str) -> None:
    """That a recall found nothing, and what to try."""
    if considered:
        out.line(f"Nothing found for {query!r:.80} among {counted(considered, 'memory', 'memories')}.")
        out.line(("Try other words, or --min-similarity 0 to see what comes nearest.", "dim"))
    else:
        out.line(f"Nothing found for {query!r:.80}: no memory here fits the scope and the filters ({place}).")
        out.line(("Try 'recollect list', fewer filters, or another --tenant, --agent, --user or --db.", "dim"))


def records(out: Output, found: Sequence[Record]) -> None:
    """Some records, one after the other."""
    for record in found:
        _content(out, record, [], 0)
        out.line(("    " + _about(record), "dim"))


def _content(out: Output, record: Record, lead: list[Part], indent: int) -> None:
    first, *rest = record.content.split("\n")
    named: list[Part] = [(record.key, "bold"), " = "] if record.key is not None else []
    indent = indent or 4
    out.line(*lead, *named, first, indent=indent)
    for line in rest:
        out.line(" " * indent + line, indent=indent)


def _about(record: Record) -> str:
    what = record.kind if record.tag == "general" else f"{record.kind}/{record.tag}"
    extra = [record.session] if record.session is not None else []
    ends = [f"until {record.expires_at:%Y-%m-%d}"] if record.expires_at is not None else []
    odd = [record.status] if record.status != "active" else []
    return _GAP.join([record.id, what, f"{record.occurred_at:%Y-%m-%d}", record.source, *extra, *ends, *odd])


def history(out: Output, versions: Sequence[Version]) -> None:
    """Every version with the time in which it held."""
    for each in versions:
        out.line((f"version {each.version}", "bold"), "  ", (each.action, "cyan"), "  ", each.content.replace("\n", "\n    "))
        until = f" until {moment(each.valid_to)}" if each.valid_to else ""
        out.line(
            (
                f"    holds from {moment(each.valid_from)}{until or ', still does'}{_GAP}known since {moment(each.known_from)}",
                "dim",
            )
        )


def explanation(out: Output, why: Explanation) -> None:
    """Whether it was recalled, and every reason."""
    verdict: Part = (f"recalled as number {why.rank}", "bold green") if why.recalled else ("not recalled", "bold yellow")
    out.line(verdict, f"  {why.id}  score {why.score:.2f}")
    for reason in why.reasons:
        out.line(("    " + reason, "dim"))


def audit(out: Output, rows: Sequence[AuditRow]) -> None:
    """The trail, newest first."""
    for row in rows:
        what = f"{row.verb}: {row.action}"
        version = f" version {row.version}" if row.id else ""
        out.line(
            (moment(row.at), "dim"), f"  {what}", f"  {row.id or '-'}{version}", *_dim(f"  by {row.source}"), *_said(row.reasons)
        )


def diagnosis(out: Output, report: Diagnosis) -> None:
    """Healthy or not, and what to do."""
    if report.healthy:
        out.line(
            ("healthy", "bold green"), f"  {counted(report.records, 'record')}", *_dim("  checked: " + ", ".join(report.checks))
        )
        return
    out.line((counted(len(report.findings), "problem"), "bold red"), f"  in {counted(report.records, 'record')}")
    for finding in report.findings:
        out.line(f"    {finding.check}: {finding.problem}")
        out.line((f"        what to do: {finding.remedy}", "dim"))


def imported(out: Output, report: ImportReport) -> None:
    """What an import did, or the lines that kept it from doing anything."""
    if not report.errors:
        skipped = f", {report.skipped} were there already" if report.skipped else ""
        out.line(("imported", "bold green"), f"  {counted(report.added, 'record')}{skipped}")
        return
    out.line(("nothing imported", "bold red"), f"  {counted(len(report.errors), 'bad line')}")
    for number, problem in report.errors:
        out.line(f"    line {number}: {problem}")


def moment(at: datetime) -> str:
    """A time for people, in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S}Z"


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun.

    >>> counted(1, "record"), counted(2, "memory", "memories")
    ('1 record', '2 memories')
    """
    return f"{number} {one if number == 1 else many or one + 's'}"


def noted(out: Output, facts: Sequence[Record]) -> None:
    """What was learned, a fact a line."""
    for fact in facts:
        out.line(("noted", "green"), f"  {one_line(fact.content)}", *_dim(f"  {fact.id}"))


def jobs(out: Output, listed: Sequence[Job]) -> None:
    """Queued work: which, since when, how it went."""
    styles = {"waiting": "bold", "running": "bold cyan", "failed": "bold red"}
    for job in listed:
        what = f"  {counted(len(job.ids), 'message')}" + (f" of {job.session}" if job.session is not None else "")
        tries = f"{_GAP}{counted(job.attempts, 'try', 'tries')}" if job.attempts else ""
        due = f"{_GAP}due {moment(job.due)}" if job.state == "waiting" else ""
        about = f"    since {moment(job.created_at)}{tries}{due}"
        out.line((f"{job.number:>3}  {job.state}", styles[job.state]), what)
        out.line((about, "dim"))
        if job.problem:
            out.line((f"    {job.problem}", "yellow"))


def sessions(out: Output, found: Sequence[Session], current: str | None = None) -> None:
    """Conversations, the last one spoken in first; the one under way is marked."""
    widest = max((len(one_line(each.name, 40)) for each in found), default=0)
    for each in found:
        mark = "" if current is None else "* " if each.name == current else "  "
        name, spoken = one_line(each.name, 40), counted(each.messages, "message")
        out.line(mark, (f"{name:<{widest}}", "bold"), f"  {spoken:>12}", *_dim(f"  {each.first:%Y-%m-%d} to {moment(each.last)}"))


def took(usage: Usage | None) -> list[Part]:
    """What a model took, dimmed, for the end of a line."""
    return _dim(f"  {spent(usage)}") if usage is not None and usage.calls else []


def spent(usage: Usage) -> str:
    """Tokens and cost in words.

    >>> spent(Usage(1200, 40, cached_tokens=1000))
    '1,200 tokens in (1,000 cached), 40 out'
    """
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    cost = f", cost {usage.cost:.4f}" if usage.cost is not None else ""
    tokens = "token" if usage.input_tokens == 1 else "tokens"
    return f"{usage.input_tokens:,} {tokens} in{cached}, {usage.output_tokens:,} out{cost}"


def one_line(text: str, most: int = 200) -> str:
    """Text for a place where there is one line, cut where it is long.

    >>> one_line("a\\n  b", 10)
    'a b'
    """
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
