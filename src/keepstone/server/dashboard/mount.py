"""The dashboard's routes: pages, static files, access checks, and errors as pages.

A change is a POST with the session's CSRF token from a page of this server. A GET changes nothing.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, quote

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from keepstone.errors import KeepstoneError, NotFound, RateLimited, Unauthenticated, ValidationError
from keepstone.server.dashboard import (
    pages_admin,
    pages_health,
    pages_history,
    pages_map,
    pages_memories,
    pages_overview,
    pages_playground,
    pages_recall,
    pages_settings,
    sessions,
    sign_in,
)
from keepstone.server.dashboard.context import Dashboard, HttpRequest, Page, PageRequest
from keepstone.server.problems import TITLES, UNEXPECTED, RequestRefused, handle_error, public_message, status_of
from keepstone.server.service import Service

log = logging.getLogger("keepstone.server")
PAGES: Sequence[Page] = (
    *pages_overview.PAGES,
    *pages_memories.PAGES,
    *pages_recall.PAGES,
    *pages_playground.PAGES,
    *pages_history.PAGES,
    *pages_map.PAGES,
    *pages_health.PAGES,
    *pages_admin.PAGES,
    *pages_settings.PAGES,
    *sign_in.PAGES,
)
_MAX_FORM_FIELDS = 600  # a selection of several hundred memories
_STATIC = Path(__file__).parent / "static"
_MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_CACHE_FOREVER = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}
_Handler = Callable[[Dashboard, HttpRequest], Response]


def mount(app: FastAPI, service: Service) -> None:
    """Add the dashboard to an application. A static file's path holds the hash of its content, so browsers may keep it."""
    files, paths = {}, {}
    for file in sorted(_STATIC.iterdir()):
        if file.suffix in _MEDIA_TYPES:
            content = file.read_bytes()
            name = f"{file.stem}.{hashlib.sha256(content).hexdigest()[:12]}{file.suffix}"
            files[name] = (content, _MEDIA_TYPES[file.suffix])
            paths[file.name] = f"/static/{name}"
    dashboard = Dashboard(service, paths.__getitem__, app.openapi)

    async def static(request: Request) -> Response:
        if (file := files.get(request.path_params["name"])) is None:
            return _error_page(dashboard, _read_request(request), NotFound("this file does not exist: load the page again."))
        return Response(file[0], 200, _CACHE_FOREVER, file[1])

    for page in PAGES:
        methods = [name for name, handler in (("GET", page.get), ("POST", page.post)) if handler is not None]
        app.router.add_route(page.path, _endpoint(dashboard, _page_handler(page)), methods=methods, include_in_schema=False)
    for path, method, work in pages_settings.FILES:
        app.router.add_route(path, _file_endpoint(dashboard, work), methods=[method], include_in_schema=False)
    app.router.add_route("/sign-in", _endpoint(dashboard, sign_in.sign_in), methods=["GET", "POST"], include_in_schema=False)
    app.router.add_route("/static/{name}", static, methods=["GET"], include_in_schema=False)

    async def handle_http_error(request: Request, error: Exception) -> Response:
        """A page for a browser that asks for an address that does not exist; a problem for any other client."""
        missing = isinstance(error, HTTPException) and error.status_code == 404
        if missing and request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            return _error_page(
                dashboard, _read_request(request), NotFound("there is no page at this address: check it for a typo.")
            )
        return await handle_error(request, error)

    app.add_exception_handler(HTTPException, handle_http_error)


def _endpoint(dashboard: Dashboard, handler: _Handler) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that reads the form, calls the handler in a worker thread, and shows errors as pages."""

    async def endpoint(request: Request) -> Response:
        try:
            form = await _read_form(request) if request.method == "POST" else {}
        except KeepstoneError as error:
            return _error_page(dashboard, _read_request(request), error)
        http = _read_request(request, form)
        caller = await dashboard.service.run(dashboard.find_caller, http)
        if caller is None:
            return await dashboard.service.run(_call, dashboard, handler, http)
        caller = replace(caller, is_gone=request.is_disconnected)
        # A page mostly computes; a form may wait for a model, and then must not hold up the recalls of others.
        run = caller.run if request.method == "POST" else caller.make_page
        return await run(_call, dashboard, handler, http)

    return endpoint


def _file_endpoint(
    dashboard: Dashboard, work: Callable[[PageRequest, Request], Awaitable[Response]]
) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that sends or takes a file. The script sends the token of the session in a header."""

    async def endpoint(request: Request) -> Response:
        http = _read_request(request, {"token": request.headers.get("x-token", "")})
        try:
            page = await dashboard.service.run(dashboard.sign_in, http)
            if page is None:
                return _redirect_to_sign_in(http)
            if request.method == "POST":
                _check_form(dashboard, http, page.token)
            return await work(page, request)
        except Unauthenticated:
            return _redirect_to_sign_in(http)
        except Exception as error:
            return _error_page(dashboard, http, error)

    return endpoint


def _call(dashboard: Dashboard, handler: _Handler, http: HttpRequest) -> Response:
    try:
        return handler(dashboard, http)
    except Exception as error:
        return _error_page(dashboard, http, error)


def _page_handler(page: Page) -> _Handler:
    def handle(dashboard: Dashboard, http: HttpRequest) -> Response:
        try:
            request = dashboard.sign_in(http)
            if request is None:
                return _redirect_to_sign_in(http)
            if http.method == "POST":
                _check_form(dashboard, http, request.token)
            handler = page.post if http.method == "POST" else page.get
            request.caller.require(*page.rights, person=page.person)
            assert handler is not None
            return handler(request)
        except Unauthenticated:
            response = _redirect_to_sign_in(http)
            dashboard.delete_cookie(response, dashboard.session_cookie)
            return response

    return handle


def _check_form(dashboard: Dashboard, http: HttpRequest, token: str) -> None:
    if not sessions.is_own_page(http.headers, dashboard.service.address):
        raise RequestRefused(403, "a page of another site sent this request: open the dashboard and do it there.")
    if not sessions.equal(http.form.get("token", ""), token):
        raise RequestRefused(403, "the form belongs to another session: load the page again and send the form again.")


def _redirect_to_sign_in(http: HttpRequest) -> Response:
    if http.fragment:
        return HTMLResponse("", 401, dict(sessions.HEADERS))
    query = "" if http.method == "POST" or http.path == "/" else f"?next={quote(http.path, safe='/')}"
    return RedirectResponse(f"/sign-in{query}", 303, dict(sessions.HEADERS))


def _error_page(dashboard: Dashboard, http: HttpRequest, error: Exception) -> Response:
    """An error as a page: what was wrong and what to do next."""
    if isinstance(error, RequestRefused):
        status = error.status
    elif isinstance(error, KeepstoneError):
        status = status_of(error)
        if status >= 500:
            log.warning("a page failed", exc_info=error)
    else:
        log.error("a page failed with an unexpected error", exc_info=error)
        status, error = 500, KeepstoneError(UNEXPECTED)
    template = "error_part.html" if http.fragment else "error.html"
    title = TITLES.get(status, "Error")
    response = dashboard.render(http, template, status, title=title, problem=public_message(error), code=status)
    if isinstance(error, RateLimited):
        response.headers["retry-after"] = str(math.ceil(error.retry_after))
    return response


async def _read_form(request: Request) -> dict[str, str]:
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise RequestRefused(415, f"content-type is {media_type!r:.60}: send forms as application/x-www-form-urlencoded.")
    try:
        text = (await request.body()).decode("utf-8")
        return dict(parse_qsl(text, True, errors="strict", max_num_fields=_MAX_FORM_FIELDS))
    except ValueError:
        raise ValidationError(f"the form cannot be read: send UTF-8 and at most {_MAX_FORM_FIELDS} fields.") from None


def _read_request(request: Request, form: dict[str, str] | None = None) -> HttpRequest:
    return HttpRequest(
        request.method, request.url.path, request.query_params, form or {}, request.path_params, request.headers, request.cookies
    )
