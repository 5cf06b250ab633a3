"""Transport: sends requests to a server, for a thread or for an event loop.

A request that failed before the server can have acted on it is sent again, and so is one that may be repeated without harm. The
waits between attempts grow, or are what the server asks for, and never exceed the timeout in total.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from keepstone.client.codec import encode_body, encode_query
from keepstone.client.plans import Plan
from keepstone.client.responses import (
    MAX_ATTEMPTS,
    StatusAndHeaders,
    authorization_header,
    backoff,
    header,
    httpx_module,
    parse_response,
    parse_url,
    ssl_context,
    wait_before_retry,
)
from keepstone.errors import ConfigurationError, KeepstoneError, ServerError, StoreClosed
from keepstone.maintenance.files import async_chunks_of, chunks_of, open_for_reading, whole

if TYPE_CHECKING:
    import httpx2

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
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < 1e6:
            raise ConfigurationError(f"timeout is {timeout!r:.40}: use a number of seconds.")
        self._timeout = float(timeout)
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
