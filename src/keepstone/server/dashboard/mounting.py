"""The dashboard on the application: every page at its address, who may ask for it, and errors as pages.

What changes a memory is a POST with the token of the session, from one of our own pages; a GET changes none.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import parse_qsl, quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from keepstone.errors import KeepstoneError, NotFound, RateLimited, Unauthenticated, ValidationError
from keepstone.server.dashboard import (
    pages_conversations,
    pages_keys,
    pages_memories,
    pages_memory,
    pages_overview,
    pages_recall,
    pages_review,
    pages_timeline,
    pages_work,
    security,
    signing,
)
from keepstone.server.dashboard.places import Place
from keepstone.server.dashboard.visit import Asked, Desk, rendered, visited
from keepstone.server.failures import worded
from keepstone.server.problems import TITLES, Refused, status_of
from keepstone.server.service import Service

log = logging.getLogger("keepstone.server")
Endpoint = Callable[[Request], Awaitable[Response]]
PLACES: Sequence[Place] = (
    *pages_overview.PLACES,
    *pages_memories.PLACES,
    *pages_memory.PLACES,
    *pages_recall.PLACES,
    *pages_conversations.PLACES,
    *pages_timeline.PLACES,
    *pages_review.PLACES,
    *pages_work.PLACES,
    *pages_keys.PLACES,
    *signing.PLACES,
)
_FIELDS = 100  # of a form
_FOREVER = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}


def mount(app: Starlette, service: Service) -> None:
    """Put the dashboard on an application."""
    desk = Desk(service)
    for place in PLACES:
        methods = [name for name, page in (("GET", place.get), ("POST", place.post)) if page is not None]
        app.router.add_route(place.path, _endpoint(desk, place), methods=methods, include_in_schema=False)
    app.router.add_route("/sign-in", _sign_in(desk), methods=["GET", "POST"], include_in_schema=False)
    app.router.add_route("/static/{name}", _static(desk), methods=["GET"], include_in_schema=False)


def _endpoint(desk: Desk, place: Place) -> Endpoint:
    async def answer(request: Request) -> Response:
        try:
            asked = await _asked(request)
        except KeepstoneError as error:
            return _wrong(desk, _bare(request), error)
        return await desk.service.run(_answered, desk, place, asked)

    return answer


def _answered(desk: Desk, place: Place, asked: Asked) -> Response:
    try:
        visit = visited(desk, asked)
        if visit is None:
            return _to_sign_in(asked)
        if asked.method == "POST":
            if not security.own(asked.headers, desk.service.address):
                raise Refused(403, "this request was made by a page of another site: go to the dashboard and do it there.")
            if not security.same(asked.form.get("token", ""), visit.token):
                raise Refused(403, "the form is from another sign-in, or has none of ours: load the page again and send it anew.")
        page = place.post if asked.method == "POST" else place.get
        visit.caller.need(*place.rights, person=place.person)
        assert page is not None
        return page(visit)
    except Unauthenticated:
        response = _to_sign_in(asked)
        desk.drop(response, desk.cookie)
        return response
    except Exception as error:
        return _wrong(desk, asked, error)


def _to_sign_in(asked: Asked) -> Response:
    if asked.fragment:
        return HTMLResponse("", 401, dict(security.HEADERS))
    onwards = "" if asked.method == "POST" or asked.path == "/" else f"?next={quote(asked.path, safe='/')}"
    return RedirectResponse(f"/sign-in{onwards}", 303, dict(security.HEADERS))


def _sign_in(desk: Desk) -> Endpoint:
    async def answer(request: Request) -> Response:
        try:
            asked = await _asked(request)
        except KeepstoneError as error:
            return _wrong(desk, _bare(request), error)
        return await desk.service.run(_signed_in, desk, asked)

    return answer


def _signed_in(desk: Desk, asked: Asked) -> Response:
    try:
        return signing.sign_in(desk, asked)
    except Exception as error:
        return _wrong(desk, asked, error)


def _static(desk: Desk) -> Endpoint:
    async def answer(request: Request) -> Response:
        asset = desk.assets.get(request.path_params["name"])
        if asset is None:
            return _wrong(desk, _bare(request), NotFound("there is no such file: load the page again."))
        return Response(asset.content, 200, _FOREVER, asset.type)

    return answer


def _wrong(desk: Desk, asked: Asked, error: Exception) -> Response:
    """An error as a page: what was wrong and what to do next."""
    if isinstance(error, Refused):
        status = error.status
    elif isinstance(error, KeepstoneError):
        status = status_of(error)
        if status >= 500:
            log.warning("a page failed", exc_info=error)
    else:
        log.error("a page failed in a way nobody foresaw", exc_info=error)
        status, error = 500, KeepstoneError("something went wrong that nobody foresaw; the server's log says what.")
    template = "wrong_part.html" if asked.fragment else "wrong.html"
    response = rendered(
        desk, asked, template, status, title=TITLES.get(status, "Something went wrong"), problem=worded(error), code=status
    )
    if isinstance(error, RateLimited):
        response.headers["retry-after"] = str(math.ceil(error.retry_after))
    return response


async def _asked(request: Request) -> Asked:
    form: dict[str, str] = {}
    if request.method == "POST":
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise Refused(415, f"content-type is {kind!r:.60}: forms are sent as application/x-www-form-urlencoded.")
        try:
            fields = parse_qsl((await request.body()).decode("utf-8"), True, errors="strict", max_num_fields=_FIELDS)
        except ValueError:
            raise ValidationError(f"the form cannot be read: send UTF-8 and at most {_FIELDS} fields.") from None
        form = dict(fields)
    return _bare(request, form)


def _bare(request: Request, form: dict[str, str] | None = None) -> Asked:
    return Asked(
        request.method, request.url.path, request.query_params, form or {}, request.path_params, request.headers, request.cookies
    )
