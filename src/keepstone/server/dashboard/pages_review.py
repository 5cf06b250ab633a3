"""The review list: what a person should look at, and deciding about it."""

from __future__ import annotations

from typing import cast

from starlette.responses import Response

from keepstone.errors import Conflict, NotFound, ValidationError
from keepstone.maintenance.review import DECISIONS, Decision
from keepstone.ports.maintenance import REVIEW_STATES, ReviewState
from keepstone.server.dashboard.places import Place
from keepstone.server.dashboard.visit import Visit
from keepstone.server.identity import WRITE

_PAGE = 25
_FLAGS = {
    "quarantined": "Held back until somebody has looked at it.",
    "contradicted": "Something newer says otherwise.",
    "stale": "It speaks of a time that is over, or nobody has confirmed it for long.",
    "unsupported": "What it was made from no longer says so.",
    "duplicate": "Another memory says the same.",
    "sensitive": "It holds something that may be too sensitive to keep.",
}
_DONE = {"keep": "Kept", "correct": "Corrected", "retire": "Retired"}


def listing(visit: Visit) -> Response:
    state = visit.asked.query.get("state", "open")
    state = state if state in REVIEW_STATES else "open"
    after = visit.asked.query.get("after", "")
    memory = visit.memory
    items = memory.review.list(
        state=cast("ReviewState", state), limit=_PAGE + 1, after=int(after) if after.isdecimal() and len(after) < 18 else 0
    )
    shown = [(item, [(id, memory.get(id)) for id in item.evidence[:5]]) for item in items[:_PAGE]]
    return visit.page(
        "review.html", items=shown, more=items[_PAGE - 1].number if len(items) > _PAGE else None, state=state,
        states=REVIEW_STATES, flags=_FLAGS, total=len(memory.review) if state == "open" else None,
    )  # fmt: skip


def decide(visit: Visit) -> Response:
    """Carry out a decision; the next item of the list comes up."""
    visit.caller.need(WRITE)
    form = visit.asked.form
    decision, number = form.get("decision", ""), form.get("number", "")
    if decision not in DECISIONS or not number.isdecimal() or len(number) > 18:
        raise ValidationError("the form does not say which item, or what to do with it: load the page again.")
    content = form.get("content") if decision == "correct" else None
    try:
        receipt = visit.memory.review.resolve(int(number), cast("Decision", decision), content=content, by=visit.identity.name)
    except (Conflict, NotFound, ValidationError) as error:
        return visit.to("/review", f"Not done: {error}", "bad")
    if receipt.action == "refused":
        return visit.to("/review", f"Not done: {'; '.join(receipt.reasons)}", "bad")
    return visit.to("/review", f"{_DONE[decision]}: {'; '.join(receipt.reasons) or 'done'}.")


PLACES = (Place("/review", get=listing, post=decide, person="the review list"),)
