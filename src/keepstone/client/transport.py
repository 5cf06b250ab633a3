"""Transport: sends requests to a server, for a thread or for an event loop.

A request that failed before the server can have acted on it is sent again, and so is one that may be repeated without harm. The
waits between attempts grow, or are what the server asks for, and never exceed the timeout in total.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from os import PathLike
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from keepstone import errors
from keepstone.client.codec import encode_body, encode_query
from keepstone.client.plans import Plan
from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError, KeepstoneError, RateLimited, ServerError, StoreClosed, ValidationError
from keepstone.maintenance.files import async_chunks_of, chunks_of, open_for_reading, whole
from keepstone.provider_http import check_timeout, retry_after
from keepstone.types import clean_name

if TYPE_CHECKING:
    import httpx2

MAX_ATTEMPTS = 4
StatusAndHeaders = tuple[int, Mapping[str, str]]  # the status and the headers of an answer
_TRANSIENT_STATUSES = (502, 503, 504)  # what may be over in a moment
_FIRST_WAIT_SECONDS = 0.1  # seconds before the second try; each further one waits twice as long
NO_ROUTE = "this address does not exist"  # how a server's 404 begins if no route matches; any other means a missing memory
_KINDS: Mapping[str, type[KeepstoneError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, KeepstoneError)
}
LONG_TIMEOUT_SECONDS = 3600.0  # of a job over a whole scope or store
_KEEPALIVE_SECONDS = 2.0  # servers close idle connections after five
Headers = list[tuple[bytes, bytes]]


class Transport:
    """A server as one key sees it, in one scope. `seen_as` gives the same in another; they share their connections."""

    def __init__(self, url: str | None, key: str | None, timeout: float, transport: Any, *, asynchronous: bool) -> None:
        self.url = parse_url(url)
        if key is None:
            raise ConfigurationError("no key is given: pass what 'keepstone keys create' has printed, or set KEEPSTONE_KEY.")
        authorization = authorization_header(key)
        self._timeout = check_timeout(timeout)
        self._asynchronous = asynchronous
        self._sleep: Callable[[float], Any] = time.sleep
        if asynchronous:
            import asyncio  # a synchronous client does not pay for it

            self._sleep = asyncio.sleep
        self._names: Headers = []
        self._httpx = httpx_module()
        limits = self._httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=_KEEPALIVE_SECONDS)
        make_client = self._httpx.AsyncClient if asynchronous else self._httpx.Client
        self._http = make_client(
            headers=[authorization, (b"Accept", b"application/json, application/problem+json")],
            transport=transport,
            timeout=self._timeout,
            limits=limits,
            verify=ssl_context(),
        )

    def seen_as(self, agent: str | None, user: str | None) -> Transport:
        """The same server for an agent and a user; None: the key's own."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        named = (("X-Keepstone-Agent", agent), ("X-Keepstone-User", user))
        other._names = [header(name, value) for name, value in named if value is not None]
        return other

    @property
    def closed(self) -> bool:
        """Whether the connections were closed."""
        return bool(self._http.is_closed)

    def close(self) -> Plan[None]:
        """Close the connections."""
        yield self._http.aclose if self._asynchronous else self._http.close

    # -- JSON -----------------------------------------------------------------------------------------------------
    def request(
        self,
        method: str,
        path: str,
        fields: Mapping[str, Any] | None = None,
        *,
        repeatable: bool | None = None,
        long: bool = False,
    ) -> Plan[Any]:
        """Send fields and read the JSON of the response. They are in the query of a GET, else in the body."""
        reading = method == "GET"
        content = None if reading or not fields else encode_body(fields)
        headers: Headers = [] if content is None else [(b"Content-Type", b"application/json")]
        query = encode_query(**fields) if reading and fields else {}
        request = self._build(method, path, query, content, headers, long)
        _, document = yield from self._send(request, repeatable=reading if repeatable is None else repeatable)
        return document

    # -- files ----------------------------------------------------------------------------------------------------
    def fetch(self, path: str, target: str | PathLike[str], *, new: bool = False, **query: Any) -> Plan[tuple[int, int]]:
        """Write the body of a response into a file, whole or not at all: (lines, bytes)."""
        lines = size = 0
        with whole(target, new=new) as file:
            request = self._build("GET", path, encode_query(**query), None, [(b"Accept", b"*/*")], True)
            response, _ = yield from self._send(request, repeatable=True, streamed=True)
            chunks = response.aiter_bytes() if self._asynchronous else response.iter_bytes()
            try:
                while (chunk := (yield lambda: anext(chunks, None) if self._asynchronous else next(chunks, None))) is not None:
                    file.write(chunk)
                    lines, size = lines + chunk.count(b"\n"), size + len(chunk)
            except self._httpx.HTTPError as error:
                raise self._explain(error, request) from None
            finally:
                yield response.aclose if self._asynchronous else response.close
        return lines, size

    def push(self, path: str, file_path: str | PathLike[str], **query: Any) -> Plan[Any]:
        """Send a file as it is, once."""
        with open_for_reading(file_path) as (file, size):
            headers = [(b"Content-Type", b"application/jsonl"), (b"Content-Length", b"%d" % size)]
            content = async_chunks_of(file) if self._asynchronous else chunks_of(file)
            request = self._build("POST", path, encode_query(**query), content, headers, True)
            _, document = yield from self._send(request, repeatable=False, max_attempts=1)
        return document

    # -- sending --------------------------------------------------------------------------------------------------
    def _build(
        self, method: str, path: str, query: Mapping[str, Any], content: Any, headers: Headers, long: bool
    ) -> httpx2.Request:
        if self.closed:
            raise StoreClosed("this client was closed: make a new one.")
        read_timeout = max(self._timeout, LONG_TIMEOUT_SECONDS) if long else self._timeout
        request: httpx2.Request = self._http.build_request(
            method,
            f"{self.url}{path}",
            params=query or None,
            headers=[*self._names, *headers],
            content=content,
            timeout=self._httpx.Timeout(self._timeout, read=read_timeout),
        )
        return request

    def _send(
        self, request: httpx2.Request, *, repeatable: bool, max_attempts: int = MAX_ATTEMPTS, streamed: bool = False
    ) -> Plan[tuple[Any, Any]]:
        """The response and its JSON, or the response alone with its body unread where it is `streamed`."""
        attempts, seconds_left = 0, self._timeout
        while True:
            attempts += 1
            answer: StatusAndHeaders = (0, {})
            try:
                response = yield lambda: self._http.send(request, stream=True)
                answer = status, headers = response.status_code, response.headers
                if streamed and response.is_success:
                    return response, None
                body = yield response.aread if self._asynchronous else response.read
                return response, parse_response(status, headers.get("content-type", ""), body, headers, self.url)
            except self._httpx.HTTPError as error:
                failure: KeepstoneError = self._explain(error, request)
                wait = backoff(attempts) if repeatable or self._never_sent(error) else None
            except KeepstoneError as error:
                failure, wait = error, wait_before_retry(attempts, error, answer, repeatable, seconds_left)
            if wait is None or attempts >= max_attempts or wait > seconds_left:
                raise failure from None
            seconds_left -= wait
            yield partial(self._sleep, wait)

    def _never_sent(self, error: Exception) -> bool:
        """Whether the server cannot have received anything of a request."""
        kinds = self._httpx
        return isinstance(error, (kinds.ConnectError, kinds.ConnectTimeout, kinds.PoolTimeout))

    def _explain(self, error: Exception, request: httpx2.Request) -> ServerError:
        """A failure of the connection as an error of the library, without anything that was sent."""
        kinds = self._httpx
        if isinstance(error, kinds.TimeoutException) and not self._never_sent(error):
            timeout = request.extensions["timeout"]["read"]
            return ServerError(
                f"{self.url} did not answer within {timeout:g} seconds: it may still do what was asked. "
                "Look before asking again, or give the client a longer timeout."
            )
        detail = f": {error}" if isinstance(error, kinds.NetworkError) and str(error) else ""
        what = "cannot be reached" if self._never_sent(error) else "broke off"
        return ServerError(f"{self.url} {what} ({type(error).__name__}{detail}): is the server running at this address?")


# -- addresses and headers ----------------------------------------------------------------------------------------
def parse_url(given: str | None) -> str:
    """The address of a server without a trailing slash; ConfigurationError if it is not an HTTP address."""
    if given is None:
        raise ConfigurationError("no server is named: pass its address, such as http://127.0.0.1:8700, or set KEEPSTONE_URL.")
    text = given.strip() if isinstance(given, str) else ""
    try:
        parts = urlsplit(text)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole:
        raise ConfigurationError(
            f"{public_url(str(given))!r:.100} is not the address of a server: use one such as http://127.0.0.1:8700."
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigurationError("the server's address has a user, a query or a fragment: leave it out, and pass key=….")
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def public_url(url: str) -> str:
    """An address without user, password and query, for output."""
    head, sign, rest = url.partition("://")
    return f"{head}{sign}{rest.partition('/')[0].rpartition('@')[2]}{''.join(rest.partition('/')[1:])}".partition("?")[0]


def header(name: str, value: str) -> tuple[bytes, bytes]:
    """A name as a header in UTF-8; ValidationError for a name that a header cannot hold."""
    what = name.rpartition("-")[2].lower()
    cleaned = clean_name(value, what)
    if cleaned != cleaned.strip(" \t"):
        raise ValidationError(f"{what} {value!r:.60} begins or ends with a space, which does not travel: take it off.")
    return name.encode("ascii"), cleaned.encode("utf-8")


def authorization_header(key: str) -> tuple[bytes, bytes]:
    """The header that says who is asking. The key is in no message."""
    text = key.strip() if isinstance(key, str) else ""
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigurationError("the key is not one: pass what 'keepstone keys create' has printed, or set KEEPSTONE_KEY to it.")
    return b"Authorization", f"Bearer {text}".encode("ascii")


class Document(dict[str, Any]):
    """The JSON object of a response. A missing field raises ServerError."""

    def __missing__(self, name: str) -> Any:
        raise ServerError(f"the server's answer has no {name!r:.40}: is it of the same version as this client?")


def parse_response(status: int, media: str, body: bytes, headers: Mapping[str, str], url: str) -> Any:
    """The JSON of a response, or the receipt of a refused write. Raises the error that the problem stands for."""
    found: Any = None
    if media.partition(";")[0].strip().lower().endswith("json"):
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
    if 200 <= status < 300 and isinstance(found, dict):
        return Document(found)
    if 300 <= status < 400:
        raise ServerError(f"{url} answers with a redirect ({status}): use the address that it points to.")
    if not isinstance(found, dict) or "error" not in found:
        raise _invalid_response(status, media, url)
    if isinstance(found.get("receipt"), dict):
        return found["receipt"]
    raise problem(status, found, headers, url)


def _invalid_response(status: int, media: str, url: str) -> KeepstoneError:
    if status in _TRANSIENT_STATUSES:
        return ServerError(f"{url} answers with {status}: the proxy in front of the server cannot reach it. Try again later.")
    kind = f"{media or 'nothing'!r:.60}"
    return ServerError(f"{url} answers with {status} and {kind}, not as a keepstone server does: check the address.")


def problem(status: int, found: Mapping[str, Any], headers: Mapping[str, str], url: str) -> KeepstoneError:
    """A problem as the error that the library would raise."""
    detail, name = str(found.get("detail") or found.get("title") or status), str(found["error"])
    if status == 404 and detail.startswith(NO_ROUTE):
        return ServerError(f"{url} answers, but has no such address ({detail}) Is the server older, or its address another?")
    kind = _KINDS.get(name)
    if kind is RateLimited:
        return RateLimited(detail, retry_after(headers) or 1.0)
    if kind is None or kind is KeepstoneError:
        return ServerError(f"{url} failed ({status}): {detail}")
    return kind(detail)


# -- trying again -------------------------------------------------------------------------------------------------
def wait_before_retry(tries: int, error: KeepstoneError, answer: StatusAndHeaders, again: bool, patience: float) -> float | None:
    """The seconds to wait before another try after a problem; None: it is raised. A key that asks too often was refused before
    anything was done, so whatever it asked for may be sent again; a store that was busy may have done half of it."""
    status, headers = answer
    wait = retry_after(headers)
    worth = wait is not None if isinstance(error, RateLimited) else again and status in _TRANSIENT_STATUSES
    if not worth or tries >= MAX_ATTEMPTS:
        return None
    chosen = backoff(tries) if wait is None else wait + backoff(1) * random.random()
    return chosen if chosen <= patience else None


def backoff(tries: int) -> float:
    """How long to wait after so many attempts that did not reach the server."""
    return float(_FIRST_WAIT_SECONDS * 2 ** (tries - 1) * (1 + random.random() / 2))


def httpx_module() -> Any:
    """The HTTP client, which comes with an extra."""
    try:
        import httpx2
    except ImportError:
        raise ConfigurationError(f"a client needs httpx2: {install_command('client')}.") from None
    return httpx2


@lru_cache(maxsize=1)
def ssl_context() -> Any:
    """The trusted certificates. Reading them takes longer than a request, so all clients of a process share them."""
    return httpx_module().create_ssl_context()
