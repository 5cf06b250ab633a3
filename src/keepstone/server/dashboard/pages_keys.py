"""Keys: which there are, making one (it is shown once), taking one away."""

from __future__ import annotations

from datetime import timedelta

from starlette.responses import Response

from keepstone.errors import KeepstoneError, ValidationError
from keepstone.server.dashboard.places import Place
from keepstone.server.dashboard.visit import Visit
from keepstone.server.identity import ADMIN, RIGHTS, USUAL, Identity
from keepstone.server.keys import KeyDraft
from keepstone.server.problems import status_of

_DAYS = {"": "never", "1": "in a day", "7": "in a week", "30": "in 30 days", "90": "in 90 days", "365": "in a year"}


def listing(visit: Visit, status: int = 200, problem: str | None = None, made: tuple[str, Identity] | None = None) -> Response:
    keys = visit.desk.service.keys.list(visit.identity.tenant)
    return visit.page(
        "keys.html", status, keys=keys[::-1], rights=[right for right in RIGHTS if visit.may(right)], usual=USUAL, days=_DAYS,
        problem=problem, made=made, given=visit.asked.form, clock=visit.desk.service.engine.clock(),
    )  # fmt: skip


def change(visit: Visit) -> Response:
    form = visit.asked.form
    if form.get("do") == "revoke":
        with visit.caller.noted():
            gone = visit.desk.service.keys.revoke(form.get("id", ""), visit.identity.tenant, visit.identity)
        return visit.to("/keys", f"Key {gone.id} ({gone.name}) is revoked: it is refused from now on.")
    if form.get("do") != "create":
        raise ValidationError("the form does not say what to do: load the page again.")
    try:
        with visit.caller.noted():
            made = visit.desk.service.keys.create(_draft(visit), visit.identity)
    except KeepstoneError as error:
        return listing(visit, status_of(error), str(error))
    return listing(visit, 201, None, made)


def _draft(visit: Visit) -> KeyDraft:
    """What the form asks for, within the tenant and the rights of whoever asks."""
    form = visit.asked.form
    days, rate = form.get("days", ""), form.get("rate", "").strip()
    rights = [right for right in RIGHTS if form.get(f"right-{right}") == "yes"]
    if days not in _DAYS or (rate and not rate.isdecimal()):
        raise ValidationError("the form says what there is not: choose from the lists, and a whole number for the rate.")
    expires = visit.desk.service.engine.clock() + timedelta(days=int(days)) if days else None
    return KeyDraft(
        form.get("name", "").strip(), visit.identity.tenant, form.get("agent", "").strip() or None,
        form.get("user", "").strip() or None, form.get("service") == "yes", expires, rights, int(rate[:9]) if rate else None,
    )  # fmt: skip


PLACES = (Place("/keys", get=listing, post=change, rights=(ADMIN,)),)
