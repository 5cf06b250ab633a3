"""Transport: the one place that sends.

Whatever failed before the server could have acted on it is sent again, and so is what may be repeated without harm; the waits in
between grow, or are what the server asks for, and are never longer altogether than the timeout.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from keepstone.client.codec import asked, packed
from keepstone.client.files import pieces, readable, whole
from keepstone.client.responses import (
    MOST_TRIES,
    Answered,
    backoff,
    checked_url,
    credential,
    document_of,
    header,
    httpx_module,
    pause,
    trusted,
)
from keepstone.errors import ConfigurationError, KeepstoneError, ServerError, StoreClosed

if TYPE_CHECKING:
    import httpx2

LONG = 3600.0  # seconds that a job over a whole scope or store may take
_KEPT = 2.0  # seconds that a connection is kept for the next request: servers close theirs after five
_NOTHING = object()
Query = Mapping[str, Any]


class Transport:
    """A server as one key sees it, in one scope. `seen_as` gives the same in another; they share their connections."""

    def __init__(self, url: str | None, key: str | None, timeout: float, transport: httpx2.BaseTransport | None) -> None:
        self.url = checked_url(url)
        if key is None:
            raise ConfigurationError("no key is given: pass what 'keepstone keys create' has printed, or set KEEPSTONE_KEY.")
        who = credential(key)
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < 1e6:
            raise ConfigurationError(f"timeout is {timeout!r:.40}: use a number of seconds.")
        self._timeout = float(timeout)
        self._names: list[tuple[bytes, bytes]] = []
        self._httpx = httpx_module()
        headers = [who, (b"Accept", b"application/json, application/problem+json")]
        limits = self._httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=_KEPT)
        self._http = self._httpx.Client(
            headers=headers, transport=transport, timeout=self._timeout, limits=limits, verify=trusted()
        )

    def seen_as(self, agent: str | None, user: str | None) -> Transport:
        """The same server for an agent and a user; None: the key's own."""
        other = object.__new__(type(self))
        other.url, other._timeout, other._httpx, other._http = self.url, self._timeout, self._httpx, self._http
        named = (("X-Keepstone-Agent", agent), ("X-Keepstone-User", user))
        other._names = [header(name, value) for name, value in named if value is not None]
        return other

    @property
    def closed(self) -> bool:
        return bool(self._http.is_closed)

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    # -- JSON -----------------------------------------------------------------------------------------------------
    def get(self, path: str, *, long: bool = False, **query: Any) -> Any:
        """Read something; it may be asked again."""
        return self._ask("GET", path, query=asked(**query), again=True, long=long)

    def post(self, path: str, body: Any = _NOTHING, *, again: bool = False, long: bool = False) -> Any:
        """Do something; `again`: it may be repeated without harm."""
        return self._ask("POST", path, body, again=again, long=long)

    def put(self, path: str, body: Any, *, again: bool = False) -> Any:
        """Put something in its place."""
        return self._ask("PUT", path, body, again=again)

    def patch(self, path: str, body: Any) -> Any:
        """Change something."""
        return self._ask("PATCH", path, body)

    def delete(self, path: str) -> Any:
        """Take something away."""
        return self._ask("DELETE", path)

    def _ask(
        self, method: str, path: str, body: Any = _NOTHING, *, query: Query | None = None, again: bool = False, long: bool = False
    ) -> Any:
        content = None if body is _NOTHING else packed(body)
        headers = [] if content is None else [(b"Content-Type", b"application/json")]
        _, found = self._send(self._request(method, path, query or {}, content, headers, long), again=again)
        return found

    # -- files ----------------------------------------------------------------------------------------------------
    def fetch(self, path: str, target: str | PathLike[str], *, new: bool = False, **query: Any) -> tuple[int, int]:
        """Write what the server has into a file, whole or not at all: (lines, bytes)."""
        lines = size = 0
        with whole(target, new=new) as file:
            request = self._request("GET", path, asked(**query), None, [(b"Accept", b"*/*")], True)
            response, _ = self._send(request, again=True, opened=True)
            try:
                for piece in response.iter_bytes():
                    file.write(piece)
                    lines, size = lines + piece.count(b"\n"), size + len(piece)
            except self._httpx.HTTPError as error:
                raise self._broken(error, request) from None
            finally:
                response.close()
        return lines, size

    def push(self, path: str, held: str | PathLike[str], **query: Any) -> Any:
        """Send a file as it is, once."""
        with readable(held) as (file, size):
            headers = [(b"Content-Type", b"application/jsonl"), (b"Content-Length", b"%d" % size)]
            request = self._request("POST", path, asked(**query), pieces(file), headers, True)
            _, found = self._send(request, again=False, most=1)
        return found

    # -- sending --------------------------------------------------------------------------------------------------
    def _request(
        self, method: str, path: str, query: Query, content: Any, headers: list[tuple[bytes, bytes]], long: bool
    ) -> httpx2.Request:
        if self.closed:
            raise StoreClosed("this client was closed: make a new one.")
        timeout = self._httpx.Timeout(self._timeout, read=max(self._timeout, LONG) if long else self._timeout)
        made: httpx2.Request = self._http.build_request(
            method, f"{self.url}{path}", params=query or None, headers=[*self._names, *headers], content=content, timeout=timeout
        )
        return made

    def _send(
        self, request: httpx2.Request, *, again: bool, most: int = MOST_TRIES, opened: bool = False
    ) -> tuple[httpx2.Response, Any]:
        """The answer to a request and its JSON, or the answer with its body yet to be read where it is wanted `opened`."""
        tries, patience = 0, self._timeout
        while True:
            tries += 1
            answer: Answered = (0, {})
            try:
                response = self._http.send(request, stream=True)
                answer = status, headers = response.status_code, response.headers
                if opened and response.is_success:
                    return response, None
                body = response.read()
                return response, document_of(status, headers.get("content-type", ""), body, headers, self.url)
            except self._httpx.HTTPError as error:
                failure: KeepstoneError = self._broken(error, request)
                wait = backoff(tries) if again or self._never_there(error) else None
            except KeepstoneError as error:
                failure, wait = error, pause(tries, error, answer, again, patience)
            if wait is None or tries >= most or wait > patience:
                raise failure from None
            patience -= wait
            time.sleep(wait)

    def _never_there(self, error: Exception) -> bool:
        """Whether the server cannot have got anything of a request."""
        kinds = self._httpx
        return isinstance(error, (kinds.ConnectError, kinds.ConnectTimeout, kinds.PoolTimeout))

    def _broken(self, error: Exception, request: httpx2.Request) -> ServerError:
        """What went wrong on the way, without anything that was sent."""
        kinds = self._httpx
        if isinstance(error, kinds.TimeoutException) and not self._never_there(error):
            waited = request.extensions["timeout"]["read"]
            return ServerError(
                f"{self.url} did not answer within {waited:g} seconds: it may still do what was asked. "
                "Look before asking again, or give the client a longer timeout."
            )
        said = f": {error}" if isinstance(error, kinds.NetworkError) and str(error) else ""
        what = "cannot be reached" if self._never_there(error) else "broke off"
        return ServerError(f"{self.url} {what} ({type(error).__name__}{said}): is the server running at this address?")
