"""The audit trail and the queue of jobs."""

from __future__ import annotations

from typing import cast

from starlette.responses import Response

from keepstone.errors import ValidationError
from keepstone.ports.queue import JobState
from keepstone.server.dashboard.places import Place
from keepstone.server.dashboard.visit import Visit
from keepstone.server.identity import ADMIN, WRITE

_LOOKED = 10_000  # rows of the trail that are looked through
_PAGE = 50
_STATES = ("waiting", "running", "failed")


def audit(visit: Visit) -> Response:
    asked = visit.asked
    fields = {name: asked.word(name) for name in ("since", "verb", "action", "id", "before")}
    chain = None
    if asked.query.get("chain") == "check":
        visit.caller.need(ADMIN)
        chain = visit.memory.audit.verify(head=asked.word("head"))
    rows = visit.memory.audit(since=fields["since"], limit=_LOOKED)
    verbs, actions = sorted({row.verb for row in rows}), sorted({row.action for row in rows})
    before = fields["before"] or ""
    last = int(before) if before.isdecimal() and len(before) < 18 else None
    shown = [
        row for row in rows
        if (last is None or row.number < last) and fields["verb"] in (None, row.verb)
        and fields["action"] in (None, row.action) and fields["id"] in (None, row.id)
    ]  # fmt: skip
    return visit.page(
        "audit.html", rows=shown[:_PAGE], fields=fields, verbs=verbs, actions=actions, chain=chain,
        more=shown[_PAGE - 1].number if len(shown) > _PAGE else None, later=last is not None,
    )  # fmt: skip


def jobs(visit: Visit) -> Response:
    state = visit.asked.query.get("state")
    chosen = cast("JobState", state) if state in _STATES else None
    every = visit.memory.jobs.list(limit=10_000)
    counts = {name: sum(job.state == name for job in every) for name in _STATES}
    shown = [job for job in every if chosen in (None, job.state)][:100]
    model = visit.desk.service.engine.model
    return visit.page("jobs.html", jobs=shown, counts=counts, state=chosen, states=_STATES, model=model is not None)


def change_jobs(visit: Visit) -> Response:
    visit.caller.need(WRITE, person="the queue")
    form, queue = visit.asked.form, visit.memory.jobs
    number = form.get("number", "")
    if number and (not number.isdecimal() or len(number) > 18):
        raise ValidationError(f"a job's number is {number!r:.40}: use one of the list of jobs.")
    match form.get("do"):
        case "retry":
            count = queue.retry(int(number) if number else None)
            return visit.to("/jobs", f"{count} {'waits' if count == 1 else 'wait'} again.")
        case "drop" if number:
            queue.drop(int(number))
            return visit.to("/jobs", f"Job {number} is dropped; its messages stay.")
    raise ValidationError("the form does not say what to do: load the page again.")


PLACES = (Place("/audit", get=audit), Place("/jobs", get=jobs, post=change_jobs))
