"""Signing in and out, the list of users, and selecting the user and agent to look at.

The sign-in form carries a token bound to a cookie that is set with the form, so no other site can sign a person in.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

from starlette.responses import RedirectResponse, Response

from keepstone.errors import Unauthenticated
from keepstone.server.dashboard import sessions
from keepstone.server.dashboard.context import SIGN_IN_COOKIE, Dashboard, HttpRequest, Page, PageRequest
from keepstone.server.dashboard.sessions import SESSION_SECONDS, Session
from keepstone.server.identity import OPERATOR
from keepstone.server.problems import RequestRefused
from keepstone.types import Scope

_PURPOSE = "before"
_FORM_SECONDS = 3600
_MAX_USERS = 500  # on the page of users


def sign_in(dashboard: Dashboard, http: HttpRequest) -> Response:
    """Show the form, or check the key that it sent."""
    if http.method == "GET":
        return _form(dashboard, http, 200, None)
    nonce = http.cookies.get(SIGN_IN_COOKIE, "")
    token = sessions.signature(dashboard.secret, _PURPOSE, nonce)
    if not nonce or not sessions.equal(http.form.get("token", ""), token):
        return _form(dashboard, http, 403, "The form has expired, or the browser blocks cookies of this address. Try again.")
    if not sessions.is_own_page(http.headers, dashboard.service.address):
        raise RequestRefused(403, "a page of another site sent this request: open the dashboard and sign in there.")
    key = http.form.get("key", "").strip()
    try:
        identity = dashboard.service.identify(key)
    except Unauthenticated:
        return _form(dashboard, http, 401, "This key is not valid. It may be revoked or expired.")
    if identity.via != "key":
        return _form(dashboard, http, 401, "Sign in with a key: tokens are for the API.")
    session = Session(dashboard.service.keys.name_of(key), int(time.time()))
    response = RedirectResponse(local_path(http.form.get("next", "")), 303, dict(sessions.HEADERS))
    cookie = sessions.encode_session(dashboard.secret, session)
    dashboard.set_cookie(response, dashboard.session_cookie, cookie, SESSION_SECONDS)
    dashboard.delete_cookie(response, SIGN_IN_COOKIE)
    return response


def _form(dashboard: Dashboard, http: HttpRequest, status: int, problem: str | None) -> Response:
    nonce = http.cookies.get(SIGN_IN_COOKIE) or secrets.token_urlsafe(24)
    token = sessions.signature(dashboard.secret, _PURPOSE, nonce)
    next_path = local_path(http.form.get("next") or http.query.get("next", ""))
    response = dashboard.render(http, "sign_in.html", status, token=token, problem=problem, next_path=next_path)
    dashboard.set_cookie(response, SIGN_IN_COOKIE, nonce, _FORM_SECONDS)
    return response


def local_path(path: str) -> str:
    """The path if it leads to a page of this server, else the overview: no redirect leaves the server."""
    safe = path.startswith("/") and not path.startswith(("//", "/\\", "/sign-")) and path.isprintable() and "\\" not in path
    return path if safe else "/"


def sign_out(request: PageRequest) -> Response:
    response = RedirectResponse("/sign-in", 303, dict(sessions.HEADERS))
    request.dashboard.delete_cookie(response, request.dashboard.session_cookie)
    return response


def select_scope(request: PageRequest) -> Response:
    """Look at another user or agent; Forbidden if the key is bound to one."""
    form, identity, dashboard = request.http.form, request.identity, request.dashboard
    user = form.get("user", "").strip() or None if identity.service else None
    agent = form.get("agent", "").strip() or None if identity.agent is None else None
    known = request.backend.scopes(identity.tenant) if request.may(OPERATOR) else ()  # before the use of the scope is audited
    caller = request.service.caller_for(identity, agent, user)
    response = request.redirect("/", _name_resembling(caller.scope, known), "bad")
    cookie = sessions.encode_session(dashboard.secret, request.session.with_scope(user, agent))
    seconds_left = max(int(request.session.at + SESSION_SECONDS - time.time()), 1)
    dashboard.set_cookie(response, dashboard.session_cookie, cookie, seconds_left)
    return response


# -- users ---------------------------------------------------------------------------------------------------------------
def list_users(request: PageRequest) -> Response:
    """The users and agents of the tenant: what each holds, and names that differ in case or spaces only."""
    words = (request.http.param("q") or "").casefold()
    found = request.memory.scopes()
    shown = [each for each in found if words in f"{each.scope.user} {each.scope.agent}".casefold()]
    shown.sort(key=lambda each: (-each.memories - each.messages, each.scope.user))
    return request.page("users.html", rows=shown[:_MAX_USERS], left_out=len(shown) - _MAX_USERS, total=len(found), words=words)


def list_user_names(request: PageRequest) -> Response:
    """The names for the fields that change the scope."""
    scopes = request.backend.scopes(request.identity.tenant)
    which = "agent" if request.http.query.get("of") == "agent" else "user"
    names = sorted({getattr(scope, which) for scope in scopes} - {""})
    return request.part("user_names.html", names=names[:_MAX_USERS])


def _name_resembling(scope: Scope, known: Sequence[Scope]) -> str | None:
    """Say that an unknown scope differs from a known one in case or spaces only."""
    alike = [each for each in known if _folded(each) == _folded(scope)]
    if scope in known or not alike:
        return None
    names = ", ".join(f"user {each.user!r} of agent {each.agent!r}" for each in alike[:3])
    return f"Nothing is stored under this name. It differs in case or spaces only from {names}."


def _folded(scope: Scope) -> tuple[str, ...]:
    return tuple("".join(name.casefold().split()) for name in (scope.agent, scope.user))


PAGES = (
    Page("/users", get=list_users, rights=(OPERATOR,)),
    Page("/users/names", get=list_user_names, rights=(OPERATOR,)),
    Page("/sign-out", post=sign_out, rights=()),
    Page("/scope", post=select_scope, rights=()),
)
