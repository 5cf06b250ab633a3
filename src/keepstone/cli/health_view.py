"""What a health report looks like.

The text of a memory that holds a secret is not shown, under whichever check it stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from keepstone.cli import show
from keepstone.cli.invocation import Invocation
from keepstone.cli.output import Output
from keepstone.cli.upkeep_view import undoing

if TYPE_CHECKING:
    from keepstone.maintenance.checkup import FixReport
    from keepstone.maintenance.health import HealthFinding, HealthReport

_BAR = 30
_EXAMPLES = 3  # of a check
_GROUP = 3  # memories of an example
_ACTIONS = {"archive": "archive", "redact": "redact", "review": "flag for review", "nothing": "only said"}
_CUT = 100
HIDDEN = "(not shown: it holds a secret)"


def wanted(report: HealthReport) -> Sequence[str]:
    """The ids of the memories whose text would be shown."""
    return list(dict.fromkeys(id for each in _examples(report) for id in each.ids[:_GROUP]))


def _examples(report: HealthReport) -> list[HealthFinding]:
    return [each for _, group in groupby(report.findings, lambda each: each.check) for each in list(group)[:_EXAMPLES]]


def _ordered(report: HealthReport) -> list[str]:
    """The checks that found something, those that are only said last."""
    done = {step.check for step in report.plan if step.action != "nothing"}
    return sorted((check for check, count in report.counts.items() if count), key=lambda check: check not in done)


def secret(report: HealthReport) -> set[str]:
    """Memories that hold a secret: those that the whole plan would redact."""
    return {id for step in report.plan if step.check == "secrets" for id in step.ids}


def report(
    out: Output, call: Invocation, report: HealthReport, contents: Mapping[str, str], fixed: FixReport | None, path: str | None
) -> None:
    """The score, the checks, examples with their text where it is in `contents`, and the plan or what was done."""
    full = report.score * _BAR // 100
    style = "green" if report.score >= 90 else "yellow" if report.score >= 60 else "red"
    what = show.counted(report.items, "memory", "memories")
    out.line(
        ("health", "bold"), (f"  {report.score} of 100", f"bold {style}"), f"  [{'#' * full}{'-' * (_BAR - full)}]", f"  {what}"
    )
    _table(out, report)
    for check in _ordered(report):
        _section(out, check, [each for each in report.findings if each.check == check], contents)
    out.line()
    if fixed is None:
        _plan(out, report, path)
    else:
        _fixed(out, call, fixed)


def _table(out: Output, report: HealthReport) -> None:
    out.line()
    checks = _ordered(report)
    if checks:
        out.line((f"    {'check':<16}  found  what --fix does", "dim"))
    for check in checks:
        count = report.counts[check]
        actions = dict.fromkeys(_ACTIONS[step.action] for step in report.plan if step.check == check)
        out.line(f"    {check:<16}  {count:>5}  ", (", ".join(actions) or "done by another", "cyan"))
    clean = [check for check, count in report.counts.items() if not count]
    if clean:
        out.line(("    nothing found: " + ", ".join(clean), "dim"))


def _section(out: Output, check: str, findings: Sequence[HealthFinding], contents: Mapping[str, str]) -> None:
    """A few examples of what a check has found, those of one reason together."""
    out.line()
    out.line((check, "bold"))
    for reason, group in groupby(findings[:_EXAMPLES], lambda each: each.reason):
        out.line(f"    {reason}", indent=6)
        for finding in group:
            for id in finding.ids[:_GROUP]:
                out.line((f"        {show.one_line(id, 60)}", "dim"), f"  {show.one_line(contents.get(id, ''), _CUT)}", indent=10)
            if len(finding.ids) > _GROUP:
                out.line((f"        … and {len(finding.ids) - _GROUP} more of the same", "dim"))
    if len(findings) > _EXAMPLES:
        out.line((f"    … and {len(findings) - _EXAMPLES} more (--json lists them)", "dim"))


def _plan(out: Output, report: HealthReport, path: str | None) -> None:
    counts = {action: sum(len(step.ids) for step in report.plan if step.action == action) for action in _ACTIONS}
    steps = [f"{count} to {_ACTIONS[action]}" for action, count in counts.items() if count and action != "nothing"]
    if not steps:
        out.line(("The plan: nothing has to be done.", "dim"))
        return
    out.line(("The plan: ", "bold"), ", ".join(steps) + ".")
    if path is None:
        out.line(("'keepstone health --fix' carries it out; all of it can be undone, but for redaction.", "dim"))
    else:
        out.line(("The file is only read: import it, then 'keepstone health --fix' can carry this out.", "dim"))


def _fixed(out: Output, call: Invocation, fixed: FixReport) -> None:
    done = [(fixed.archived, "put aside"), (fixed.redacted, "redacted"), (fixed.flagged, "flagged for review")]
    told = ", ".join(f"{count} {what}" for count, what in done if count) or "nothing"
    out.line(("would be fixed" if fixed.dry_run else "fixed", "bold green"), f"  {told}")
    if fixed.tickets:
        out.line((undoing(call, fixed.tickets), "cyan"))
    if fixed.flagged and not fixed.dry_run:
        out.line(("'keepstone review' works through what was flagged.", "dim"))
