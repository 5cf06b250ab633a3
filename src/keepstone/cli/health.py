"""health: what is wrong with what is remembered, or with another system's export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from keepstone.cli import health_view as view
from keepstone.cli import options as o
from keepstone.cli.exits import OK, PROBLEMS
from keepstone.cli.invocation import Invocation
from keepstone.cli.jobs import found
from keepstone.errors import ValidationError
from keepstone.ports.serialize import document

if TYPE_CHECKING:
    from keepstone.maintenance.health import HealthReport

app = typer.Typer()


@o.command(app, "health")
def health(
    call: Invocation,
    path: Annotated[str | None, typer.Argument(metavar="[FILE]", help="An export to look at instead of the store.")] = None,
    format: Annotated[
        str, typer.Option(metavar="NAME", help="Whose export it is: auto, mem0, letta, langmem or keepstone.")
    ] = "auto",
    fix: Annotated[bool, typer.Option("--fix", help="Carry out the plan: put aside, redact, flag for review.")] = False,
    checks: Annotated[
        list[str] | None,
        typer.Option("--check", metavar="NAME", help="Only this check: duplicates, near-duplicates, junk …; may be repeated."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what --fix would do.")] = False,
    fail_under: Annotated[
        int | None, typer.Option(metavar="0..100", help="Exit with 8 if the score is below this.", show_default=False)
    ] = None,
    most: Annotated[int, typer.Option(metavar="N", help="How many findings of each check --json lists.")] = 100,
) -> int:
    """Look for what is wrong with what is remembered.

    Duplicates, echoes, junk, secrets, what is stale, contradicted, orphaned or never recalled; no model is asked. Nothing is
    changed without --fix; all that --fix does can be undone, but for redaction. With FILE an export of mem0, Letta, LangMem or
    keepstone is read.
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
        report = memory.upkeep.health(path, format=format, most=most)
        names = _named(checks, report)
        fixed = memory.upkeep.fix(checks=names, dry_run=dry_run) if fix or dry_run else None
        shown = _narrowed(report, names)
        examples = [] if call.json or path is not None else found(memory, view.wanted(shown))
    answer = {**document(shown), "fix": document(fixed)}
    hidden = view.secret(report)
    contents = {record.id: view.HIDDEN if record.id in hidden else record.content for record in examples}
    call.answer(answer, lambda out: view.report(out, call, shown, contents, fixed, path))
    return PROBLEMS if fail_under is not None and report.score < fail_under else OK


def _named(checks: Sequence[str] | None, report: HealthReport) -> list[str] | None:
    """The checks that were asked for; a dash may stand for a space."""
    if not checks:
        return None
    names = [name.strip().lower().replace("-", " ") for name in checks]
    for given, name in zip(checks, names, strict=True):
        if name not in report.counts:
            known = ", ".join(each.replace(" ", "-") for each in report.counts)
            raise ValidationError(f"--check is {given!r:.40}: use {known}.")
    return names


def _narrowed(report: HealthReport, names: Sequence[str] | None) -> HealthReport:
    """The report of these checks only; the score stays that of all."""
    if names is None:
        return report
    return replace(
        report,
        counts={name: count for name, count in report.counts.items() if name in names},
        findings=tuple(each for each in report.findings if each.check in names),
        plan=tuple(each for each in report.plan if each.check in names),
    )
