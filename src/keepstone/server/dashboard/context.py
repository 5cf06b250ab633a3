"""The dashboard's shared context, its requests, and what a page is.

A page is a function from a PageRequest to a response. It runs in a worker thread, so it may call the memory directly.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

from keepstone.backend import Backend
from keepstone.errors import KeepstoneError
from keepstone.memory import Memory
from keepstone.server.dashboard import formatting, sessions
from keepstone.server.dashboard.sessions import Session
from keepstone.server.identity import READ, Identity
from keepstone.server.service import Caller, Service

MESSAGE_COOKIE, THEME_COOKIE, SIGN_IN_COOKIE = "keepstone-said", "keepstone-theme", "keepstone-before"
_MESSAGE_SECONDS, _MAX_MESSAGE_CHARS = 60, 1000
_TEMPLATES = Path(__file__).parent / "templates"


class Dashboard:
    """What all requests share: the service, the templates, the secret that signs cookies. `asset` gives a static file's path,
    `openapi` the description of the API."""

    def __init__(self, service: Service, asset: Callable[[str], str], openapi: Callable[[], dict[str, Any]]) -> None:
        self.service = service
        self.openapi = openapi
        self.secure = service.address.startswith("https:")
        self.session_cookie = "__Host-keepstone" if self.secure else "keepstone"
        self.templates = Environment(
            loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self.templates.filters.update(formatting.FILTERS)
        self.templates.globals.update(asset=asset, memory_path=memory_path, session_path=session_path, **formatting.GLOBALS)
        self.templates.globals["ui"] = self.templates.get_template("macros.html").module

    @cached_property
    def secret(self) -> bytes:
        return self.service.keys.secret("dashboard")

    def set_cookie(self, response: Response, name: str, value: str, seconds: int) -> None:
        """Set a cookie that scripts cannot read and other sites do not send."""
        response.set_cookie(name, value, max_age=seconds, path="/", httponly=True, samesite="strict", secure=self.secure)

    def delete_cookie(self, response: Response, name: str) -> None:
        response.delete_cookie(name, path="/", httponly=True, samesite="strict", secure=self.secure)

    def render(self, http: HttpRequest, template: str, status: int = 200, **values: Any) -> Response:
        """A whole page."""
        theme = http.cookies.get(THEME_COOKIE)
        text = self.templates.get_template(template).render(
            theme=theme if theme in ("light", "dark") else None, path=http.path, part=False, **values
        )
        return HTMLResponse(text, status, dict(sessions.HEADERS))

    def find_caller(self, http: HttpRequest) -> Caller | None:
        """The signed-in caller, within whose share of the threads the page is made; None without a valid session."""
        session = sessions.decode_session(self.secret, http.cookies.get(self.session_cookie), time.time())
        try:
            identity = None if session is None else self.service.keys.current(session.key)
        except KeepstoneError:  # the page reports it
            return None
        return None if identity is None else Caller(self.service, identity, identity.scope())

    def sign_in(self, http: HttpRequest) -> PageRequest | None:
        """The request with its signed-in caller; None without a valid session. Looks the key up and counts the request:
        Unauthenticated for a revoked or expired key, RateLimited."""
        session = sessions.decode_session(self.secret, http.cookies.get(self.session_cookie), time.time())
        if session is None:
            return None
        identity = self.service.keys.current(session.key)
        self.service.count_request(identity)
        agent = session.agent if identity.agent is None else None
        user = session.user if identity.service else None
        caller = self.service.caller_for(identity, agent, user)
        return PageRequest(self, http, session, caller, caller.memory)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """The parts of an HTTP request that pages use."""

    method: str
    path: str
    query: Mapping[str, str]
    form: Mapping[str, str]
    path_params: Mapping[str, str]
    headers: Mapping[str, str]
    cookies: Mapping[str, str]

    @property
    def fragment(self) -> bool:
        """Whether the dashboard's script asks for a part of the page."""
        return "x-fragment" in self.headers

    def param(self, name: str) -> str | None:
        """A query parameter without surrounding spaces; None if empty or missing."""
        return self.query.get(name, "").strip() or None


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request of a signed-in caller. All of it uses one Memory."""

    dashboard: Dashboard
    http: HttpRequest
    session: Session
    caller: Caller
    memory: Memory

    @property
    def identity(self) -> Identity:
        return self.caller.identity

    @property
    def service(self) -> Service:
        return self.dashboard.service

    @property
    def backend(self) -> Backend:
        return self.caller.backend

    @property
    def token(self) -> str:
        """The CSRF token of this session's forms."""
        return sessions.form_token(self.dashboard.secret, self.http.cookies.get(self.dashboard.session_cookie, ""))

    def texts(self, ids: Iterable[str | None]) -> dict[str, str]:
        """The texts of memories by their ids; "" for one that was forgotten or is withheld from this caller."""
        found = {id: self.memory.get(id) for id in dict.fromkeys(ids) if id}
        return {id: "" if record is None else record.content for id, record in found.items()}

    def may(self, right: str) -> bool:
        return self.identity.may(right)

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page, or the part of it that the script asks for."""
        if self.http.fragment and "part" in self.dashboard.templates.get_template(template).blocks:
            return self.part(template, status, **values)
        message = sessions.decode_message(self.dashboard.secret, self.http.cookies.get(MESSAGE_COOKIE))
        response = self.dashboard.render(self.http, template, status, request=self, message=message, **values)
        if message is not None:
            self.dashboard.delete_cookie(response, MESSAGE_COOKIE)
        return response

    def part(self, template: str, status: int = 200, **values: Any) -> Response:
        """The block `part` of a page, for the dashboard's script."""
        page = self.dashboard.templates.get_template(template)
        context = page.new_context({"request": self, "part": True, "message": None, **values})
        return HTMLResponse("".join(page.blocks["part"](context)), status, dict(sessions.HEADERS))

    def redirect(self, path: str, message: str | None = None, tone: str = "good") -> Response:
        """Go to another page, which shows the message."""
        response = RedirectResponse(path, 303, dict(sessions.HEADERS))
        if message is not None:
            cookie = sessions.encode_message(self.dashboard.secret, message[:_MAX_MESSAGE_CHARS], tone)
            self.dashboard.set_cookie(response, MESSAGE_COOKIE, cookie, _MESSAGE_SECONDS)
        return response


@dataclass(frozen=True, slots=True)
class Page:
    """A path with its handlers. Both methods need `rights`; `person` names what is closed to agents' keys."""

    path: str
    get: Callable[[PageRequest], Response] | None = None
    post: Callable[[PageRequest], Response] | None = None
    rights: tuple[str, ...] = (READ,)
    person: str | None = None


def memory_path(id: str) -> str:
    """The path of a memory's page. Browsers remove dots from a path, so an id made of dots goes into the query."""
    return f"/memories/{quote(id, safe='')}" if id.strip(".") else f"/memories?id={quote(id, safe='')}"


def session_path(name: str) -> str:
    """The path of a conversation's page."""
    return f"/conversations/{quote(name, safe='')}" if name.strip(".") else f"/conversations?session={quote(name, safe='')}"
