"""Signing in and out, and choosing whose memory is looked at.

The form of the sign-in page carries a token that belongs to a cookie set with it, so that no other site can sign somebody in.
"""

from __future__ import annotations

import time

from starlette.responses import RedirectResponse, Response

from keepstone.errors import Unauthenticated
from keepstone.server.dashboard import security
from keepstone.server.dashboard import session as sessions
from keepstone.server.dashboard.places import Place
from keepstone.server.dashboard.session import HOURS, Session
from keepstone.server.dashboard.visit import BEFORE, Asked, Desk, Visit, nonce, rendered
from keepstone.server.problems import Refused

_BEFORE = "before"


def sign_in(desk: Desk, asked: Asked) -> Response:
    """The form, and what it sends."""
    if asked.method == "GET":
        return _form(desk, asked, 200, None)
    held = asked.cookies.get(BEFORE, "")
    if not held or not security.same(asked.form.get("token", ""), security.mark(desk.secret, _BEFORE, held)):
        return _form(desk, asked, 403, "The form was too old, or cookies are blocked for this address. Try again.")
    if not security.own(asked.headers, desk.service.address):
        raise Refused(403, "this request was made by a page of another site: open the dashboard and sign in there.")
    key = asked.form.get("key", "").strip()
    try:
        identity = desk.service.identify(key)
    except Unauthenticated:
        return _form(desk, asked, 401, "This key is not valid. It may have been revoked, or have expired.")
    if identity.via != "key":
        return _form(desk, asked, 401, "Sign in with a key: tokens are for the API.")
    session = Session(desk.service.keys.name_of(key), int(time.time()))
    response = RedirectResponse(_onwards(asked.form.get("next", "")), 303, dict(security.HEADERS))
    desk.keep(response, desk.cookie, sessions.packed(desk.secret, session), HOURS * 3600)
    desk.drop(response, BEFORE)
    return response


def _form(desk: Desk, asked: Asked, status: int, problem: str | None) -> Response:
    held = asked.cookies.get(BEFORE) or nonce()
    onwards = _onwards(asked.form.get("next") or asked.query.get("next", ""))
    token = security.mark(desk.secret, _BEFORE, held)
    response = rendered(desk, asked, "sign_in.html", status, token=token, problem=problem, onwards=onwards)
    desk.keep(response, BEFORE, held, 3600)
    return response


def _onwards(path: str) -> str:
    """A page of ours to go on to, and of nobody else's."""
    safe = path.startswith("/") and not path.startswith(("//", "/\\", "/sign-")) and path.isprintable() and "\\" not in path
    return path if safe else "/"


def sign_out(visit: Visit) -> Response:
    response = RedirectResponse("/sign-in", 303, dict(security.HEADERS))
    visit.desk.drop(response, visit.desk.cookie)
    return response


def choose(visit: Visit) -> Response:
    """Look at another user or agent; Forbidden where the key is bound."""
    form, identity = visit.asked.form, visit.identity
    user = form.get("user", "").strip() or None if identity.service else None
    agent = form.get("agent", "").strip() or None if identity.agent is None else None
    visit.desk.service.caller(identity, agent, user)  # what cannot be chosen is refused here
    response = visit.to("/")
    held = sessions.packed(visit.desk.secret, visit.session.looking_at(user, agent))
    left = max(int(visit.session.at + HOURS * 3600 - time.time()), 1)
    visit.desk.keep(response, visit.desk.cookie, held, left)
    return response


PLACES = (Place("/sign-out", post=sign_out, rights=()), Place("/scope", post=choose, rights=()))
