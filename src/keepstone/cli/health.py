"""health: a report on the quality of the stored memories, or of another system's export.

The text of a memory that contains a secret is never shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from keepstone.cli import options as o
from keepstone.cli import render
from keepstone.cli.exit_codes import OK, PROBLEMS
from keepstone.cli.invocation import Invocation
from keepstone.cli.jobs import get_records
from keepstone.cli.output import Output, progress
from keepstone.errors import ValidationError
from keepstone.ports.serialize import document

if TYPE_CHECKING:
    from keepstone.maintenance.checkup import FixReport
    from keepstone.maintenance.health import HealthFinding, HealthReport

app = typer.Typer()


@o.command(app, "health")
def health(
    call: Invocation,
    path: Annotated[str | None, typer.Argument(metavar="FILE", help="An export to check instead of the store.")] = None,
    format: Annotated[
        str, typer.Option(metavar="NAME", help="The system the export is from: auto, mem0, letta, langmem or keepstone.")
    ] = "auto",
    fix: Annotated[bool, typer.Option("--fix", help="Carry out the plan: archive, redact, flag for review.")] = False,
    checks: Annotated[
        list[str] | None,
        typer.Option("--check", metavar="NAME", help="Only this check: duplicates, near-duplicates, junk …; may be repeated."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what --fix would do, and change nothing.")] = False,
    fail_under: Annotated[
        int | None, typer.Option(metavar="0..100", help="Exit with 8 if the score is below this.", show_default=False)
    ] = None,
    most: Annotated[int, typer.Option(metavar="N", help="Maximum findings per check in the JSON output.")] = 100,
) -> int:
    """Find duplicate, stale, contradictory and sensitive memories.

    It also finds echoes, junk, orphans and memories never recalled. No model is used. Nothing changes without --fix. Everything
    that --fix does can be undone, except redaction. With FILE, an export of mem0, Letta, LangMem or keepstone is checked.
    """
    if fail_under is not None and not 0 <= fail_under <= 100:
        raise ValidationError(f"--fail-under is {fail_under}: use a number from 0 to 100.")
    if path is not None and (fix or dry_run):
        raise ValidationError(
            "--fix and --dry-run work on the store, not on a file: import it first, then run 'keepstone health'."
        )
    if path is not None:
        call = replace(call, db=":memory:", embedder="none", url=None)  # a file needs no store
    with call.open(missing="refuse") as memory:
        with progress(call, "checking") as bar:
            report = memory.upkeep.health(path, format=format, most=most, progress=bar)
        names = _parse_checks(checks, report)
        fixed = memory.upkeep.fix(checks=names, dry_run=dry_run) if fix or dry_run else None
        shown = _select_checks(report, names)
        examples = [] if call.json or path is not None else get_records(memory, example_ids(shown))
    answer = {**document(shown), "fix": document(fixed)}
    hidden = {id for step in report.plan if step.check == "secrets" for id in step.ids}
    contents = {record.id: HIDDEN if record.id in hidden else record.content for record in examples}
    call.answer(answer, lambda out: render_health(out, call, shown, contents, fixed, path))
    return PROBLEMS if fail_under is not None and report.score < fail_under else OK


def _parse_checks(checks: Sequence[str] | None, report: HealthReport) -> list[str] | None:
    """The names of the checks to show; a dash stands for a space."""
    if not checks:
        return None
    names = [name.strip().lower().replace("-", " ") for name in checks]
    for given, name in zip(checks, names, strict=True):
        if name not in report.counts:
            known = ", ".join(name.replace(" ", "-") for name in report.counts)
            raise ValidationError(f"--check is {given!r:.40}: use {known}.")
    return names


def _select_checks(report: HealthReport, names: Sequence[str] | None) -> HealthReport:
    """The report of these checks only; the score stays the total."""
    if names is None:
        return report
    return replace(
        report,
        counts={name: count for name, count in report.counts.items() if name in names},
        findings=tuple(finding for finding in report.findings if finding.check in names),
        plan=tuple(step for step in report.plan if step.check in names),
    )


_BAR_CHARS = 30
_MAX_EXAMPLES = 3  # per check
_MAX_IDS = 3  # per example
_ACTIONS = {"archive": "archive", "redact": "redact", "review": "flag for review", "nothing": "report only"}
_MAX_TEXT_CHARS = 100
HIDDEN = "(not shown: contains a secret)"


def example_ids(report: HealthReport) -> Sequence[str]:
    """The ids of the memories whose text is shown."""
    by_check = groupby(report.findings, lambda finding: finding.check)
    examples = [finding for _, group in by_check for finding in list(group)[:_MAX_EXAMPLES]]
    return list(dict.fromkeys(id for finding in examples for id in finding.ids[:_MAX_IDS]))


def _order_checks(report: HealthReport) -> list[str]:
    """The checks with findings; those that --fix does not act on come last."""
    done = {step.check for step in report.plan if step.action != "nothing"}
    return sorted((check for check, count in report.counts.items() if count), key=lambda check: check not in done)


def render_health(
    out: Output, call: Invocation, report: HealthReport, contents: Mapping[str, str], fixed: FixReport | None, path: str | None
) -> None:
    """Show the score, the checks, examples with their texts, and the plan or its result."""
    full = report.score * _BAR_CHARS // 100
    style = "green" if report.score >= 90 else "yellow" if report.score >= 60 else "red"
    what = render.plural(report.items, "memory", "memories")
    out.line(
        ("health", "bold"),
        (f"  {report.score} of 100", f"bold {style}"),
        f"  [{'#' * full}{'-' * (_BAR_CHARS - full)}]",
        f"  {what}",
    )
    _render_table(out, report)
    for check in _order_checks(report):
        _render_section(out, check, [finding for finding in report.findings if finding.check == check], contents)
    out.line()
    if fixed is None:
        _render_plan(out, report, path)
    else:
        _render_fix(out, call, fixed)


def _render_table(out: Output, report: HealthReport) -> None:
    out.line()
    checks = _order_checks(report)
    if checks:
        out.line((f"    {'check':<16}  found  what --fix does", "dim"))
    for check in checks:
        count = report.counts[check]
        actions = dict.fromkeys(_ACTIONS[step.action] for step in report.plan if step.check == check)
        out.line(f"    {check:<16}  {count:>5}  ", (", ".join(actions) or "covered by another check", "cyan"))
    clean = [check for check, count in report.counts.items() if not count]
    if clean:
        out.line(("    no findings: " + ", ".join(clean), "dim"))


def _render_section(out: Output, check: str, findings: Sequence[HealthFinding], contents: Mapping[str, str]) -> None:
    """A few findings of a check, grouped by reason."""
    out.line()
    out.line((check, "bold"))
    for reason, group in groupby(findings[:_MAX_EXAMPLES], lambda finding: finding.reason):
        out.line(f"    {reason}", indent=6)
        for finding in group:
            for id in finding.ids[:_MAX_IDS]:
                out.line(
                    (f"        {render.shorten(id, 60)}", "dim"),
                    f"  {render.shorten(contents.get(id, ''), _MAX_TEXT_CHARS)}",
                    indent=10,
                )
            if len(finding.ids) > _MAX_IDS:
                out.line((f"        … and {len(finding.ids) - _MAX_IDS} more of the same", "dim"))
    if len(findings) > _MAX_EXAMPLES:
        out.line((f"    … and {len(findings) - _MAX_EXAMPLES} more (--json lists them)", "dim"))


def _render_plan(out: Output, report: HealthReport, path: str | None) -> None:
    counts = {action: sum(len(step.ids) for step in report.plan if step.action == action) for action in _ACTIONS}
    steps = [f"{count} to {_ACTIONS[action]}" for action, count in counts.items() if count and action != "nothing"]
    if not steps:
        out.line(("Plan: nothing to do.", "dim"))
        return
    out.line(("Plan: ", "bold"), ", ".join(steps) + ".")
    if path is None:
        out.line(("'keepstone health --fix' carries it out. Everything except redaction can be undone.", "dim"))
    else:
        out.line(("Import the file first; then 'keepstone health --fix' carries this out.", "dim"))


def _render_fix(out: Output, call: Invocation, fixed: FixReport) -> None:
    done = [(fixed.archived, "archived"), (fixed.redacted, "redacted"), (fixed.flagged, "flagged for review")]
    summary = ", ".join(f"{count} {what}" for count, what in done if count) or "nothing"
    out.line(("would be fixed" if fixed.dry_run else "fixed", "bold green"), f"  {summary}")
    if fixed.tickets:
        out.line((call.undo_command(fixed.tickets), "cyan"))
    if fixed.flagged and not fixed.dry_run:
        out.line(("'keepstone review' shows the flagged memories.", "dim"))
