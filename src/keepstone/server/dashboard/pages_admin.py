"""Pages for administration: review list, audit log, job queue, keys."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

from starlette.responses import Response

from keepstone.errors import Conflict, KeepstoneError, NotFound, ValidationError
from keepstone.maintenance.review import DECISIONS, Decision
from keepstone.ports.maintenance import REVIEW_STATES, ReviewState
from keepstone.ports.queue import JobState
from keepstone.server.dashboard.context import Page, PageRequest
from keepstone.server.dashboard.formatting import TEXTS, parse_number
from keepstone.server.identity import ADMIN, DEFAULT_RIGHTS, RIGHTS, WRITE, Identity
from keepstone.server.keys import KeyDraft
from keepstone.server.problems import status_of

_UNKNOWN_ACTION = "the form names no action: load the page again."
_REVIEW_PAGE_ITEMS, _MAX_EVIDENCE = 25, 5
_AUDIT_SCAN_ROWS, _AUDIT_PAGE_ROWS = 10_000, 50
_JOB_SCAN_ROWS, _JOB_PAGE_ROWS = 10_000, 100
_JOB_STATES = ("waiting", "running", "failed")
_DECIDED = {"keep": "Kept", "correct": "Corrected", "retire": "Retired"}
_EXPIRY_DAYS = {"": "never", "1": "in a day", "7": "in a week", "30": "in 30 days", "90": "in 90 days", "365": "in a year"}


# -- review ------------------------------------------------------------------------------------------------------------
def review(request: PageRequest) -> Response:
    state = request.http.query.get("state", "open")
    state = state if state in REVIEW_STATES else "open"
    after = parse_number(request.http.query.get("after", "")) or 0
    memory = request.memory
    items = memory.review.list(state=cast("ReviewState", state), limit=_REVIEW_PAGE_ITEMS + 1, after=after)
    shown = items[:_REVIEW_PAGE_ITEMS]
    scope, held = request.caller.scope, [item.record for item in shown if item.record and item.record.status == "quarantined"]
    return request.page(
        "review.html",
        items=[(item, [(id, memory.get(id)) for id in item.evidence[:_MAX_EVIDENCE]]) for item in shown],
        similar={record.id: request.backend.similar(scope, record) for record in held},
        more=shown[-1].number if len(items) > len(shown) else None,
        state=state,
        states=REVIEW_STATES,
        flags=TEXTS["flags"],
        total=len(memory.review) if state == "open" else None,
    )


def resolve_review(request: PageRequest) -> Response:
    """Carry out a decision and return to the list."""
    request.caller.require(WRITE)
    form = request.http.form
    if form.get("do") == "several":
        return _resolve_several(request)
    decision, number = form.get("decision", ""), parse_number(form.get("number", ""))
    if decision not in DECISIONS or number is None:
        raise ValidationError("the form names no item or no decision: load the page again.")
    content = form.get("content") if decision == "correct" else None
    try:
        receipt = request.memory.review.resolve(number, cast("Decision", decision), content=content, by=request.identity.name)
    except (Conflict, NotFound, ValidationError) as error:
        return request.redirect("/review", f"Not done: {error}", "bad")
    reasons = "; ".join(receipt.reasons)
    if receipt.action == "refused":
        return request.redirect("/review", f"Not done: {reasons}", "bad")
    if form.get("replaces"):
        request.memory.upkeep.archive([form["replaces"]])
        reasons = f"{reasons}; the similar memory is archived"
    return request.redirect("/review", f"{_DECIDED[decision]}: {reasons}." if reasons else f"{_DECIDED[decision]}.")


def _resolve_several(request: PageRequest) -> Response:
    """Carry out one decision about the ticked items."""
    form = request.http.form
    numbers = [number for name in form if name.startswith("pick-") and (number := parse_number(name[5:])) is not None]
    if not numbers:
        return request.redirect("/review", "Not done: no item is selected. Tick some, or press x.", "bad")
    decision = "keep" if form.get("decision") == "keep" else "retire"
    receipts = request.memory.review.resolve_many(numbers, cast("Decision", decision), by=request.identity.name)
    problems = [" ".join(receipt.reasons) for receipt in receipts if receipt.action == "refused"]
    done = f"{_DECIDED[decision]}: {len(receipts) - len(problems)} of {len(receipts)} items."
    return request.redirect("/review", " ".join([done, *problems[:3]]), "bad" if problems else "good")


# -- audit log ---------------------------------------------------------------------------------------------------------
def audit(request: PageRequest) -> Response:
    http = request.http
    fields = {name: http.param(name) for name in ("since", "verb", "action", "id", "before")}
    chain = None
    if http.query.get("chain") == "check":
        request.caller.require(ADMIN)
        chain = request.memory.audit.verify(head=http.param("head"))
    rows = request.memory.audit(since=fields["since"], limit=_AUDIT_SCAN_ROWS)
    before = parse_number(fields["before"] or "")
    matching = [
        row
        for row in rows
        if (before is None or row.number < before)
        and fields["verb"] in (None, row.verb)
        and fields["action"] in (None, row.action)
        and fields["id"] in (None, row.id)
    ]
    shown = matching[:_AUDIT_PAGE_ROWS]
    return request.page(
        "audit.html",
        rows=shown,
        texts=request.texts(row.id for row in shown),
        fields=fields,
        verbs=sorted({row.verb for row in rows}),
        actions=sorted({row.action for row in rows}),
        chain=chain,
        more=shown[-1].number if len(matching) > len(shown) else None,
    )


# -- jobs --------------------------------------------------------------------------------------------------------------
def jobs(request: PageRequest) -> Response:
    state = request.http.query.get("state")
    chosen = cast("JobState", state) if state in _JOB_STATES else None
    queued = request.memory.jobs.list(limit=_JOB_SCAN_ROWS)
    return request.page(
        "jobs.html",
        jobs=[job for job in queued if chosen in (None, job.state)][:_JOB_PAGE_ROWS],
        counts={name: sum(job.state == name for job in queued) for name in _JOB_STATES},
        state=chosen,
        states=_JOB_STATES,
        model=request.backend.model is not None,
    )


def change_job(request: PageRequest) -> Response:
    """Retry a failed job or all of them, or drop one."""
    request.caller.require(WRITE, person="the job queue")
    form, queue = request.http.form, request.memory.jobs
    text = form.get("number", "")
    number = parse_number(text)
    if text and number is None:
        raise ValidationError(f"the job number is {text!r:.40}: use a number from the list of jobs.")
    if form.get("do") == "retry":
        count = queue.retry(number)
        return request.redirect("/jobs", f"{count} {'job is' if count == 1 else 'jobs are'} queued again.")
    if form.get("do") == "drop" and number is not None:
        queue.drop(number)
        return request.redirect("/jobs", f"Job {number} is dropped. Its messages are kept.")
    raise ValidationError(_UNKNOWN_ACTION)


# -- keys --------------------------------------------------------------------------------------------------------------
def keys(
    request: PageRequest, status: int = 200, problem: str | None = None, created: tuple[str, Identity] | None = None
) -> Response:
    return request.page(
        "keys.html",
        status,
        keys=request.caller.keys.list(request.identity.tenant)[::-1],
        rights=[right for right in RIGHTS if request.may(right)],
        default_rights=DEFAULT_RIGHTS,
        days=_EXPIRY_DAYS,
        problem=problem,
        created=created,
        form=request.http.form,
        now=request.backend.now(),
    )


def change_key(request: PageRequest) -> Response:
    """Create a key, which is shown once, or revoke one."""
    form, caller = request.http.form, request.caller
    if form.get("do") == "revoke":
        with caller.audit_denials():
            revoked = caller.keys.revoke(form.get("id", ""), caller.identity.tenant, caller.identity)
        return request.redirect("/keys", f"Key {revoked.id} ({revoked.name}) is revoked and no longer accepted.")
    if form.get("do") != "create":
        raise ValidationError(_UNKNOWN_ACTION)
    try:
        with caller.audit_denials():
            created = caller.keys.create(_key_draft(request), caller.identity)
    except KeepstoneError as error:
        return keys(request, status_of(error), str(error))
    return keys(request, 201, None, created)


def _key_draft(request: PageRequest) -> KeyDraft:
    form = request.http.form
    days, rate = form.get("days", ""), form.get("rate", "").strip()
    if days not in _EXPIRY_DAYS or (rate and not rate.isdecimal()):
        raise ValidationError("the expiry or the rate is not valid: choose an expiry of the list and a whole number as the rate.")
    return KeyDraft(
        name=form.get("name", "").strip(),
        tenant=request.identity.tenant,
        agent=form.get("agent", "").strip() or None,
        user=form.get("user", "").strip() or None,
        service=form.get("service") == "yes",
        expires_at=request.backend.now() + timedelta(days=int(days)) if days else None,
        rights=[right for right in RIGHTS if form.get(f"right-{right}") == "yes"],
        rate=int(rate[:9]) if rate else None,
    )


PAGES = (
    Page("/review", get=review, post=resolve_review, person="the review list"),
    Page("/audit", get=audit),
    Page("/jobs", get=jobs, post=change_job),
    Page("/keys", get=keys, post=change_key, rights=(ADMIN,)),
)
