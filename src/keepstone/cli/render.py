"""Output of commands for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from keepstone.cli.output import Output, Part
from keepstone.ports.serialize import because
from keepstone.types import (
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
    from keepstone.maintenance.audit import Diff
    from keepstone.ports.maintenance import ChainReport
    from keepstone.ports.queue import Job, Session
    from keepstone.sync import SyncReport

_ACTION_STYLES = {"added": "green", "duplicate": "yellow", "quarantined": "yellow", "refused": "red"}
_GAP = " · "
_LINES = 12  # of a text in a diff


def receipt(out: Output, done: Receipt) -> None:
    """One line: action, id, version and reasons."""
    version = f"  version {done.version}" if done.version > 1 else ""
    out.line(
        (done.action, f"bold {_ACTION_STYLES.get(done.action, 'cyan')}"),
        "  ",
        done.id or "-",
        *_dim(version),
        *_reasons(done.reasons),
    )
    for id, probability in done.may_replace.items():
        out.line((f"    may replace: {id}  ({probability:.0%} sure)", "dim"))


def forgotten(out: Output, done: ForgetReceipt) -> None:
    """The number of erased records, the id of a single one, the reasons, and the places they were erased from."""
    which = f"  {done.ids[0]}" if len(done.ids) == 1 else ""
    out.line(("forgotten", "bold green"), f"  {plural(done.forgotten, 'record')}", which, *_reasons(done.reasons))
    places = [f"{place} {count}" for place, count in sorted(done.places.items()) if count]
    if places:
        out.line(("    erased from: " + ", ".join(places), "dim"))


def _reasons(reasons: Sequence[str]) -> list[Part]:
    return _dim("  " + "; ".join(reasons)) if reasons else []


def _dim(text: str) -> list[Part]:
    return [(text, "dim")] if text else []


def recall(out: Output, found: Recall) -> None:
    """The hits, best first, each with its reasons and its origin; with its scope where there are several."""
    several = len({hit.record.scope for hit in found}) > 1
    for rank, hit in enumerate(found, 1):
        lead = f"{rank:>2}  {hit.score:.2f}  "
        _content(out, hit.record, [(f"{rank:>2}", "bold"), "  ", (f"{hit.score:.2f}", "cyan"), "  "], len(lead))
        scope = hit.record.scope
        whose = f"{_GAP}agent {scope.agent}, user {scope.user or 'none'}" if several else ""
        for line in (", ".join(because(hit.signals)), about(hit.record) + whose):
            out.line((" " * len(lead) + line, "dim"), indent=len(lead))
    if found.hits:
        out.line((f"confidence {found.confidence:.2f} that one of them answers", "dim"))
    if found.left_out:
        out.line((f"{plural(found.left_out, 'more hit')} did not fit the token budget.", "dim"))


def no_hits(out: Output, found: Recall, place: str) -> None:
    """Say that a recall found nothing, and what to try."""
    if found.considered:
        count = plural(found.considered, "memory", "memories")
        out.line(f"Nothing found for {found.query!r:.80} among {count} (confidence {found.confidence:.2f}).")
        out.line(("Try other words, or --min-confidence 0 to see the nearest memories.", "dim"))
    else:
        out.line(f"Nothing found for {found.query!r:.80}: no memory matches the scope and the filters ({place}).")
        out.line(("Try 'keepstone list', fewer filters, or another --tenant, --agent, --user or --db.", "dim"))


def records(out: Output, found: Sequence[Record]) -> None:
    """Records with their details."""
    for record in found:
        _content(out, record, [], 0)
        out.line(("    " + about(record), "dim"))


def _content(out: Output, record: Record, lead: list[Part], indent: int) -> None:
    first, *rest = record.content.split("\n")
    named: list[Part] = [(record.key, "bold"), " = "] if record.key is not None else []
    indent = indent or 4
    out.line(*lead, *named, first, indent=indent)
    for line in rest:
        out.line(" " * indent + line, indent=indent)


def about(record: Record) -> str:
    """Id, kind, day and source of a record, on one line."""
    what = record.kind if record.tag == "general" else f"{record.kind}/{record.tag}"
    extra = [record.session] if record.session is not None else []
    ends = [f"until {record.expires_at:%Y-%m-%d}"] if record.expires_at is not None else []
    odd = [record.status] if record.status != "active" else []
    return _GAP.join([record.id, what, f"{record.occurred_at:%Y-%m-%d}", record.source, *extra, *ends, *odd])


def history(out: Output, versions: Sequence[Version]) -> None:
    """Every version with its validity."""
    for version in versions:
        text = version.content.replace("\n", "\n    ")
        out.line((f"version {version.version}", "bold"), "  ", (version.action, "cyan"), "  ", text)
        until = format_time(version.valid_to) if version.valid_to else "now"
        validity = f"valid from {format_time(version.valid_from)} until {until}"
        out.line((f"    {validity}{_GAP}stored {format_time(version.known_from)}", "dim"))


def diff(out: Output, found: Diff) -> None:
    """Added (+), changed (~, with old and new text) and removed (-) memories, and the number of each."""
    for mark, style, listed in (("+", "green", found.added), ("-", "red", found.removed)):
        for record in listed:
            _render_marked(out, mark, style, record)
            out.line(("    " + about(record), "dim"))
    for change in found.changed:
        out.line(("~ ", "bold cyan"), (about(change.after), "dim"))
        if change.before.content != change.after.content:
            _render_marked(out, "  -", "red", change.before)
            _render_marked(out, "  +", "green", change.after)
        for name in ("importance", "tag", "kind", "source", "trust", "expires_at", "metadata"):
            old, new = getattr(change.before, name), getattr(change.after, name)
            if old != new:
                out.line((f"    {name}: {old} → {new}", "cyan"))
    counts = f"{len(found.added)} added, {len(found.changed)} changed, {len(found.removed)} removed"
    gone = f"; {plural(found.forgotten, 'record')} forgotten (not shown)" if found.forgotten else ""
    out.line((counts, "bold"), (f"{gone}  {format_time(found.since)} to {format_time(found.until)}", "dim"))


def _render_marked(out: Output, mark: str, style: str, record: Record) -> None:
    named = f"{record.key} = " if record.key is not None else ""
    lines = f"{named}{record.content}".split("\n")
    for line in lines[:_LINES]:
        out.line((f"{mark} {line}", style))
    if len(lines) > _LINES:
        out.line((f"{mark} … and {plural(len(lines) - _LINES, 'more line')}", style))


def explanation(out: Output, why: Explanation) -> None:
    """Whether the record is recalled, and every reason."""
    verdict: Part = (f"recalled as number {why.rank}", "bold green") if why.recalled else ("not recalled", "bold yellow")
    out.line(verdict, f"  {why.id}  score {why.score:.2f}")
    for reason in why.reasons:
        out.line(("    " + reason, "dim"))


def audit(out: Output, rows: Sequence[AuditRow]) -> None:
    """Audit entries, newest first."""
    for row in rows:
        what = f"{row.verb}: {row.action}"
        version = f" version {row.version}" if row.id else ""
        out.line(
            (format_time(row.at), "dim"),
            f"  {what}",
            f"  {row.id or '-'}{version}",
            *_dim(f"  by {row.source}"),
            *_reasons(row.reasons),
        )


def chain_report(out: Output, report: ChainReport) -> None:
    """Whether the audit log is intact, and its head."""
    before = f", and {report.unchained} from before there was a chain" if report.unchained else ""
    verdict: Part = ("whole", "bold green") if report.whole else ("not whole", "bold red")
    out.line(verdict, f"  {plural(report.rows, 'row')}{before}")
    if report.problem:
        out.line((f"    {report.problem}", "red"))
    if report.head:
        out.line(("    head  ", "dim"), report.head)
    if report.whole and report.head:
        out.line(
            ("    Keep the head elsewhere: 'keepstone audit verify --head HASH' later proves that no entry was rewritten.", "dim")
        )


def diagnosis(out: Output, report: Diagnosis, ignored: Sequence[str] = (), hook_errors: Sequence[Mapping[str, Any]] = ()) -> None:
    """Whether the store is healthy, and the remedies; settings of the current folder that are ignored; errors of hooks."""
    for error in hook_errors:
        out.line(("hook ", "yellow"), f"{error.get('event')} at {error.get('at')}: {error.get('error')}")
    if ignored:
        out.line(f"ignored in this folder's keepstone.toml: {', '.join(ignored)}  (set KEEPSTONE_SETTINGS if the file is yours)")
    if report.healthy:
        out.line(
            ("healthy", "bold green"), f"  {plural(report.records, 'record')}", *_dim("  checked: " + ", ".join(report.checks))
        )
        return
    out.line((plural(len(report.findings), "problem"), "bold red"), f"  in {plural(report.records, 'record')}")
    for finding in report.findings:
        out.line(f"    {finding.check}: {finding.problem}")
        out.line((f"        remedy: {finding.remedy}", "dim"))


def imported(out: Output, report: ImportReport) -> None:
    """What an import did, or the lines that prevented it."""
    if not report.errors:
        skipped = f", {report.skipped} already stored" if report.skipped else ""
        out.line(("imported", "bold green"), f"  {plural(report.added, 'record')}{skipped}")
        return
    out.line(("nothing imported", "bold red"), f"  {plural(len(report.errors), 'bad line')}")
    for number, problem in report.errors:
        out.line(f"    line {number}: {problem}")


def format_time(at: datetime) -> str:
    """Format a time in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S}Z"


def plural(number: int, one: str, many: str | None = None) -> str:
    """Format a number with its noun.

    >>> plural(1, "record"), plural(2, "memory", "memories")
    ('1 record', '2 memories')
    """
    return f"{number} {one if number == 1 else many or one + 's'}"


def facts_noted(out: Output, facts: Sequence[Record]) -> None:
    """Learned facts, one per line."""
    for fact in facts:
        out.line(("noted", "green"), f"  {shorten(fact.content)}", *_dim(f"  {fact.id}"))


def jobs(out: Output, listed: Sequence[Job]) -> None:
    """Queued jobs with their age, attempts and problems."""
    styles = {"waiting": "bold", "running": "bold cyan", "failed": "bold red"}
    for job in listed:
        what = f"  {plural(len(job.ids), 'message')}" + (f" of {job.session}" if job.session is not None else "")
        tries = f"{_GAP}{plural(job.attempts, 'attempt')}" if job.attempts else ""
        due = f"{_GAP}due {format_time(job.due)}" if job.state == "waiting" else ""
        since = f"    created {format_time(job.created_at)}{tries}{due}"
        out.line((f"{job.number:>3}  {job.state}", styles[job.state]), what)
        out.line((since, "dim"))
        if job.problem:
            out.line((f"    {job.problem}", "yellow"))


def sessions(out: Output, sessions: Sequence[Session], current: str | None = None) -> None:
    """Sessions, the most recently used first; the current one is marked."""
    widest = max((len(shorten(session.name, 40)) for session in sessions), default=0)
    for session in sessions:
        mark = "" if current is None else "* " if session.name == current else "  "
        name, count = shorten(session.name, 40), plural(session.messages, "message")
        days = f"  {session.first:%Y-%m-%d} to {format_time(session.last)}"
        out.line(mark, (f"{name:<{widest}}", "bold"), f"  {count:>12}", *_dim(days))


def learned(out: Output, jobs: int, facts: Sequence[object], usage: Usage | None, head: Part) -> None:
    """What jobs have learned."""
    out.line(head, f"  {plural(len(facts), 'fact')} from {plural(jobs, 'job')}", *usage_suffix(usage))


def problems(out: Output, found: Sequence[str], failed: int = 0) -> None:
    """What went wrong, and how many jobs have failed."""
    if failed:
        out.line((f"{plural(failed, 'job')} failed; 'keepstone jobs' lists them:", "red"))
    for problem in found:
        out.line((f"    {problem}", "red"))


def usage_suffix(usage: Usage | None) -> list[Part]:
    """Tokens and cost of a model, dimmed, for the end of a line."""
    return _dim(f"  {format_usage(usage)}") if usage is not None and usage.calls else []


def format_usage(usage: Usage) -> str:
    """Format tokens and cost.

    >>> format_usage(Usage(1200, 40, cached_tokens=1000))
    '1,200 tokens in (1,000 cached), 40 out'
    """
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    cost = f", cost {usage.cost:.4f}" if usage.cost is not None else ""
    tokens = "token" if usage.input_tokens == 1 else "tokens"
    return f"{usage.input_tokens:,} {tokens} in{cached}, {usage.output_tokens:,} out{cost}"


def shorten(text: str, most: int = 200) -> str:
    """Text on one line, cut to a maximum length.

    >>> shorten("a\\n  b", 10)
    'a b'
    """
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def synchronised(out: Output, report: SyncReport) -> None:
    """What went to a target and what came from it."""
    out.line(("synchronised", "bold green"), f"  with {report.target}")
    out.line(f"    {report.sent} sent, {report.received} received, {report.forgotten} forgotten")
    if report.conflicts:
        what = plural(report.conflicts, "conflict")
        out.line((f"    {what}: both stores had changed a memory; 'keepstone review' lists them", "yellow"))
    if report.waiting:
        out.line((f"    {plural(report.waiting, 'file')} of the folder not whole yet: run it again later", "yellow"))
