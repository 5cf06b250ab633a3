"""Visit: one request to the dashboard, with what every page needs to answer it.

A page is a function from a Visit to a response; it runs in a worker thread, so it calls the facade directly.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

from keepstone.memory import Memory
from keepstone.server.dashboard import security, wording
from keepstone.server.dashboard import session as sessions
from keepstone.server.dashboard.assets import Assets
from keepstone.server.dashboard.session import Session
from keepstone.server.identity import Identity
from keepstone.server.service import Caller, Service

SAID, THEME, BEFORE = "keepstone-said", "keepstone-theme", "keepstone-before"
_TEMPLATES = Path(__file__).parent / "templates"


class Desk:
    """What all visits share: templates, files, the secret that cookies are signed with."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.assets = Assets()
        self.secure = service.address.startswith("https:")
        self.cookie = "__Host-keepstone" if self.secure else "keepstone"
        self.templates = Environment(
            loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self.templates.filters.update(wording.FILTERS)
        self.templates.globals.update(
            asset=self.assets.address, memory_path=memory_path, session_path=session_path, **wording.NAMES
        )
        self.templates.globals["ui"] = self.templates.get_template("macros.html").module

    @cached_property
    def secret(self) -> bytes:
        return self.service.keys.secret("dashboard")

    def keep(self, response: Response, name: str, value: str, seconds: int) -> None:
        """Set a cookie that scripts cannot read and other sites do not send."""
        response.set_cookie(name, value, max_age=seconds, path="/", httponly=True, samesite="strict", secure=self.secure)

    def drop(self, response: Response, name: str) -> None:
        """Take a cookie away, as it was set."""
        response.delete_cookie(name, path="/", httponly=True, samesite="strict", secure=self.secure)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came in."""

    method: str
    path: str
    query: Mapping[str, str]
    form: Mapping[str, str]
    parts: Mapping[str, str]
    headers: Mapping[str, str]
    cookies: Mapping[str, str]

    @property
    def fragment(self) -> bool:
        """Whether a script of ours asks for a part of the page."""
        return "x-fragment" in self.headers

    def word(self, name: str) -> str | None:
        """What a field of the address says; None for nothing."""
        return self.query.get(name, "").strip() or None


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of somebody who is signed in."""

    desk: Desk
    asked: Asked
    session: Session
    caller: Caller
    memory: Memory  # one for the whole visit

    @property
    def identity(self) -> Identity:
        return self.caller.identity

    @property
    def token(self) -> str:
        return sessions.token(self.desk.secret, self.asked.cookies.get(self.desk.cookie, ""))

    def may(self, right: str) -> bool:
        return self.identity.may(right)

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page, or the part of it that was asked for."""
        if self.asked.fragment and "part" in self.desk.templates.get_template(template).blocks:
            return self.part(template, status, **values)
        said = sessions.heard(self.desk.secret, self.asked.cookies.get(SAID))
        response = rendered(self.desk, self.asked, template, status, visit=self, said=said, **values)
        if said is not None:
            self.desk.drop(response, SAID)
        return response

    def part(self, template: str, status: int = 200, **values: Any) -> Response:
        """A fragment for a script of ours: the block `part` of a page."""
        text = self.desk.templates.get_template(template)
        context = text.new_context({"visit": self, "part": True, "said": None, **values})
        return HTMLResponse("".join(text.blocks["part"](context)), status, dict(security.HEADERS))

    def to(self, path: str, said: str | None = None, tone: str = "good") -> Response:
        """Go on to another page, where a sentence is said."""
        response = RedirectResponse(path, 303, dict(security.HEADERS))
        if said is not None:
            self.desk.keep(response, SAID, sessions.said(self.desk.secret, said[:1000], tone), 60)
        return response


def rendered(desk: Desk, asked: Asked, template: str, status: int = 200, **values: Any) -> Response:
    """A whole page for whoever asks."""
    theme = asked.cookies.get(THEME)
    text = desk.templates.get_template(template).render(
        theme=theme if theme in ("light", "dark") else None, path=asked.path, part=False, **values
    )
    return HTMLResponse(text, status, dict(security.HEADERS))


def visited(desk: Desk, asked: Asked) -> Visit | None:
    """The visit of whoever is signed in; None for nobody. The key is looked up and the request counted.
    Unauthenticated for a key that was revoked or has expired, RateLimited."""
    session = sessions.unpacked(desk.secret, asked.cookies.get(desk.cookie), time.time())
    if session is None:
        return None
    identity = desk.service.keys.current(session.key)
    desk.service.count(identity)
    caller = desk.service.caller(
        identity, session.agent if identity.agent is None else None, session.user if identity.service else None
    )
    return Visit(desk, asked, session, caller, caller.memory)


def nonce() -> str:
    return secrets.token_urlsafe(24)


def memory_path(id: str) -> str:
    """Where a memory is shown; browsers take dots in a path away, so names made of dots go into the query."""
    return f"/memories/{quote(id, safe='')}" if id.strip(".") else f"/memories?id={quote(id, safe='')}"


def session_path(name: str) -> str:
    """Where a conversation is shown."""
    return f"/conversations/{quote(name, safe='')}" if name.strip(".") else f"/conversations?session={quote(name, safe='')}"
