"""Health, with a fix and an undo for every finding; maintenance: jobs with a preview, batches to undo, the schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, cast

from starlette.responses import Response

from keepstone.errors import KeepstoneError, NotFound, ValidationError
from keepstone.maintenance.health import CHECKS, HealthReport
from keepstone.maintenance.policy import UpkeepPolicy
from keepstone.server.dashboard.context import Page, PageRequest
from keepstone.server.dashboard.formatting import TEXTS, parse_number, plural
from keepstone.server.identity import ADMIN, FORGET, WRITE
from keepstone.types import Record

_SHOWN_FINDINGS, _SHOWN_RECORDS, _SHOWN_BATCHES, _MAX_ARCHIVED = 5, 8, 30, 10_000
LARGE_SCOPE = 5_000  # memories above which the report may take seconds


# -- health --------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Finding:
    """One check with its findings, and what its fix would do: a number of memories by action."""

    check: str
    text: str
    count: int
    plan: dict[str, int]
    examples: Sequence[tuple[str, Sequence[tuple[str, Record | None]]]]  # (reason, (id, record) of each memory)


def show_health(request: PageRequest) -> Response:
    """Every check with its findings. A large scope is checked when a person asks for it, because that reads every memory."""
    count = request.backend.count(request.caller.scope)
    if count > LARGE_SCOPE and request.http.query.get("check") != "now" and not request.http.query.get("undo"):
        return request.page("findings.html", report=None, count=count)
    report = request.memory.upkeep.health(most=_SHOWN_FINDINGS)
    findings = sorted((_finding(request, report, check) for check in CHECKS), key=lambda each: (not each.plan, not each.count))
    return request.page(
        "findings.html",
        report=report,
        findings=findings,
        fixable=sum(bool(finding.plan) for finding in findings),
        undo=[ticket for ticket in request.http.query.get("undo", "").split(",") if parse_number(ticket) is not None],
        may_fix=request.may(WRITE),
    )


def _finding(request: PageRequest, report: HealthReport, check: str) -> Finding:
    plan: dict[str, int] = {}
    for step in report.plan:
        if step.check == check and step.action != "nothing":
            plan[step.action] = plan.get(step.action, 0) + len(step.ids)
    examples = [
        (finding.reason, [(id, request.memory.get(id)) for id in finding.ids[:_SHOWN_RECORDS]])
        for finding in report.findings
        if finding.check == check
    ]
    return Finding(check, TEXTS["checks"][check], report.counts[check], plan, examples)


def fix_health(request: PageRequest) -> Response:
    """Carry out the plan of one check or of all, or undo what was archived."""
    form = request.http.form
    if form.get("do") == "undo":
        return _undo(request, form.get("tickets", ""), "/health")
    check = form.get("check", "")
    if form.get("do") != "fix" or check not in (*CHECKS, "all"):
        raise ValidationError("the form names no check: load the page again.")
    report = request.memory.upkeep.fix(checks=None if check == "all" else [check])
    done = [
        f"{count} {action}"
        for count, action in (
            (report.archived, "archived"),
            (report.redacted, "redacted"),
            (report.flagged, "put on the review list"),
        )
        if count
    ]
    path = f"/health?undo={','.join(map(str, report.tickets))}" if report.tickets else "/health"
    return request.redirect(path, f"Fixed: {', '.join(done)}." if done else "There was nothing left to fix.")


def _undo(request: PageRequest, tickets: str, path: str) -> Response:
    numbers = [number for ticket in tickets.split(",") if (number := parse_number(ticket)) is not None]
    if not numbers:
        raise ValidationError("the form names no batch: load the page again.")
    restored = sum(len(request.memory.upkeep.undo(number)) for number in numbers)
    if not restored:
        raise NotFound("nothing of this batch is archived any more: it was restored or erased meanwhile.")
    return request.redirect(path, f"Undone: {plural(restored, 'memory is', 'memories are')} active again.")


# -- maintenance ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Job:
    """A maintenance job of one scope: a verb of `memory.upkeep`."""

    label: str
    text: str
    rights: Sequence[str] = (WRITE,)


JOBS = {name: Job(**fields) for name, fields in TEXTS["jobs"].items()}


@dataclass(frozen=True, slots=True)
class Result:
    """What a job did or, with a dry run, would do."""

    label: str
    count: int
    dry_run: bool
    records: Sequence[Record] = ()
    tickets: Sequence[int] = ()
    problems: Sequence[str] = ()


def show_maintenance(request: PageRequest, result: Result | None = None) -> Response:
    return request.page(
        "maintenance.html",
        jobs={name: job for name, job in JOBS.items() if all(request.may(right) for right in job.rights)},
        result=result,
        batches=_batches(request),
        policy=[(field.name.replace("_", " "), getattr(UpkeepPolicy(), field.name)) for field in fields(UpkeepPolicy)],
        every=request.service.settings.upkeep_hours,
        may_run=request.may(ADMIN),
    )


def _batches(request: PageRequest) -> list[dict[str, Any]]:
    """The newest batches of archived memories."""
    by_ticket: dict[int, list[Any]] = {}
    for archived in request.memory.upkeep.archived(limit=_MAX_ARCHIVED):
        by_ticket.setdefault(archived.ticket, []).append(archived)
    newest = sorted(by_ticket.items(), key=lambda batch: batch[1][0].at, reverse=True)[:_SHOWN_BATCHES]
    reasons = TEXTS["archive_reasons"]
    return [
        {
            "ticket": ticket, "why": reasons.get(rows[0].why, rows[0].why), "at": rows[0].at, "count": len(rows),
            "records": [row.record for row in rows[:3]],
        }
        for ticket, rows in newest
    ]  # fmt: skip


def do_maintenance(request: PageRequest) -> Response:
    """Preview or run a job, run the policy in the tenant, or undo a batch."""
    form = request.http.form
    name, dry_run = form.get("job", ""), form.get("do") == "preview"
    if form.get("do") == "undo":
        return _undo(request, form.get("tickets", ""), "/maintenance")
    if form.get("do") not in ("preview", "run"):
        raise ValidationError("the form names no action: load the page again.")
    if name == "policy":
        return show_maintenance(request, _run_policy(request, dry_run))
    if name not in JOBS:
        raise ValidationError(f"there is no maintenance job {name!r:.40}: use {', '.join(JOBS)}.")
    request.caller.require(*JOBS[name].rights, person="maintenance")
    if name == "purge" and not dry_run and form.get("sure") != "yes":
        raise ValidationError("erasing needs a confirmation: tick the box, then send the form again.")
    report = getattr(request.memory.upkeep, name)(dry_run=dry_run)
    if name == "verify":
        flags = [request.memory.get(flag.id) for flag in islice(report.flags, _SHOWN_RECORDS)]
        found = [record for record in flags if record is not None]
        result = Result(JOBS[name].label, len(report.flags) if dry_run else report.flagged, dry_run, found)
    elif name == "compact":
        count = sum(len(group) for group in report.groups)
        result = Result(JOBS[name].label, count, dry_run, (), report.tickets, report.problems)
    else:
        tickets = [report.ticket] if getattr(report, "ticket", 0) else []
        records = getattr(report, "records", ())[:_SHOWN_RECORDS]
        result = Result(JOBS[name].label, len(report.ids), dry_run, records, tickets, getattr(report, "reasons", ()))
    return show_maintenance(request, result)


def _run_policy(request: PageRequest, dry_run: bool) -> Result:
    """Run the default policy in every scope of the tenant; without the right to forget, nothing is erased."""
    request.caller.require(ADMIN)
    policy = UpkeepPolicy() if request.may(FORGET) else replace(UpkeepPolicy(), purge_days=0.0)
    try:
        report = request.backend.run_upkeep(request.caller.scope.tenant, policy, dry_run)
    except KeepstoneError as error:
        return Result("Maintenance of the tenant", 0, dry_run, problems=[str(error)])
    parts = [f"{done.job}: {done.records} of user {done.scope.user or 'none'}" for done in report.jobs]
    count = sum(done.records for done in report.jobs)
    tickets = [ticket for done in report.jobs if done.scope == request.caller.scope for ticket in done.tickets]
    return Result("Maintenance of the tenant", count, dry_run, (), tickets, cast("list[str]", [*parts, *report.problems]))


PAGES = (
    Page("/health", get=show_health, post=fix_health, person="the health report"),
    Page("/maintenance", get=show_maintenance, post=do_maintenance, person="maintenance"),
)
