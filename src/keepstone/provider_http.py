"""Requests to hosted services: option checks, retries, and one table of what failures mean.

Used by the client and the adapters of embedders, chat models and vector indexes. Messages never repeat what was sent, a key, or a
server's own text, except its single words such as `invalid_request_error`.
"""

from __future__ import annotations

import atexit
import email.utils
import importlib.util
import math
import random
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import SplitResult, urlsplit

from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError
from keepstone.ports.forks import reset_after_fork

if TYPE_CHECKING:
    from httpx2 import Client, Response

CONNECT_SECONDS = 5.0  # until a server has accepted the connection
_FIRST_PAUSE_SECONDS = 0.5  # before the first retry; doubled for each further one
_MAX_PAUSE_SECONDS = 8.0
_MAX_WAIT_SECONDS = 60.0  # a server that asks to wait longer is not asked again
_MAX_ERROR_CHARS = 10_000  # of a server's error that are searched
_SINGLE_WORD = re.compile(r"[a-z_]{1,40}")
_TOO_LARGE = re.compile(r"exceed|too (long|large|many)|context (length|size|window)|maximum.{0,60}(length|tokens)", re.DOTALL)

# Status -> (problem, advice). A status without a row has the row of its hundred.
_STATUS: Mapping[int, tuple[str, str]] = {
    300: ("redirected the request", "use the address it redirects to"),
    400: ("refused the request", "see what it says"),
    401: ("does not accept the API key", "set {variable} to a valid key"),
    402: ("requires payment", "check the account"),
    403: ("does not allow this API key to do this", "check the permissions of the key in {variable}"),
    404: ("is not known to the server", "check the name and the address"),
    413: ("was sent more than it accepts at once", "send less at once"),
    429: ("has reached its rate limit", "wait, or raise the limit of the account"),
    500: ("failed on the server's side", "try again later"),
}
# Names of error classes, since each vendor's client brings an HTTP client of its own.
_TIMEOUT_ERRORS = {"TimeoutException", "TimeoutError", "APITimeoutError", "PineconeTimeoutError"}
_INTERRUPTED_ERRORS = {"ReadError", "WriteError", "CloseError", "ProtocolError", "ConnectionResetError", "BrokenPipeError"}
_UNREACHABLE_ERRORS = {"TransportError", "ConnectionError", "PineconeConnectionError", "APIConnectionError", "InvalidURL"}
TransportProblem = Literal["timeout", "interrupted", "unreachable"]


# -- options ------------------------------------------------------------------------------------------------------
def check_timeout(timeout: float) -> float:
    """The timeout; ConfigurationError if it is not a number of seconds above 0."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
        raise ConfigurationError(f"timeout must be a number of seconds above 0, got {timeout!r}.")
    return float(timeout)


def check_retries(retries: int) -> int:
    """The number of retries; ConfigurationError if it is not a whole number from 0 on."""
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise ConfigurationError(f"retries must be 0 or a larger whole number, got {retries!r}.")
    return retries


def check_model_name(name: str, provider: str) -> str:
    """The name without spaces around it; ConfigurationError if it is empty."""
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(f"{name!r} is not the name of a model: give the name that {provider} uses.")
    return name.strip()


def check_key(key: str | None, name: str) -> str | None:
    """The key as a header can carry it, None if there is none. `name` says which key it is; the key is in no message."""
    key = (key or "").strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigurationError(f"{name} has characters that no key has: copy it again.")
    return key or None


def check_package(package: str, user: str, extra: str) -> None:
    """ConfigurationError unless a package can be imported."""
    try:
        missing = importlib.util.find_spec(package) is None
    except (ImportError, ValueError):
        missing = True
    if missing:
        raise ConfigurationError(f"{user} needs the package {package}: {install_command(extra)}.")


def parse_url(url: str, name: str, example: str) -> SplitResult:
    """The parts of an HTTP address; ConfigurationError for anything else. No message repeats it: it may hold a password."""
    try:
        parts = urlsplit(str(url).strip())
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise ConfigurationError(f"{name} is not an HTTP address: use one such as {example}.")
    if parts.query or parts.fragment:
        raise ConfigurationError(f"{name} has a query or a fragment: leave it out, and pass a key as such.")
    return parts


def public_url(parts: SplitResult) -> str:
    """An address without user name, password, query and fragment."""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def client_timeouts(timeout: float) -> tuple[float, float, float, float]:
    """Seconds that an HTTP client may take to connect, read, write, and get a connection from its pool."""
    connect = min(CONNECT_SECONDS, timeout)
    return (connect, timeout, timeout, connect)


# -- failures -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Failure:
    """A failed request: what happened, what to do, whether a retry may help, and how long the server asks to wait."""

    problem: str
    advice: str
    retriable: bool = False
    wait_seconds: float | None = None
    too_large: bool = False


def status_failure(status: int, variable: str, advice: Mapping[int, str], detail: str = "") -> Failure:
    """What a status means. `advice` replaces rows of the table, `detail` is shown after the problem."""
    row = status if status in _STATUS else min(max(status // 100 * 100, 300), 500)
    problem, general_advice = _STATUS[row]
    retriable = status in (408, 429) or status >= 500
    return Failure(f"{problem}{detail}", advice.get(row, general_advice).format(variable=variable), retriable)


def transport_problem(error: BaseException) -> TransportProblem | None:
    """Which problem of the transport an error of any HTTP client is; None if it is another error."""
    if is_caused_by(error, _TIMEOUT_ERRORS):
        return "timeout"
    if is_caused_by(error, _INTERRUPTED_ERRORS):
        return "interrupted"
    return "unreachable" if is_caused_by(error, _UNREACHABLE_ERRORS) else None


def transport_failure(problem: TransportProblem, timeout: float | None = None, url: str = "") -> Failure:
    """The failure that a problem of the transport is."""
    if problem == "timeout":
        limit = "in time" if timeout is None else f"within {timeout:g} seconds"
        return Failure(f"did not answer {limit}", "try again, or allow a longer timeout", True)
    if problem == "interrupted":
        return Failure("broke off before its response was complete", "try again", True)
    where = f" at {url}" if url else ""
    return Failure(f"cannot be reached{where}", "check the network, the address and whether the server runs", True)


def is_caused_by(error: BaseException, names: set[str]) -> bool:
    """Whether an error, or one that caused it, is of a class with one of these names."""
    return any(kind.__name__ in names for cause in causes(error) for kind in type(cause).__mro__)


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error and those that caused it."""
    seen: set[int] = set()
    pending: list[Any] = [error]
    while pending:
        cause = pending.pop()
        if isinstance(cause, BaseException) and id(cause) not in seen:
            seen.add(id(cause))
            yield cause
            pending += [cause.__cause__, cause.__context__, getattr(cause, "source", None)]


def single_words(values: Iterable[object]) -> list[str]:
    """Of what a server wrote, the values that may be repeated: they cannot hold a key or a text."""
    return [value for value in values if isinstance(value, str) and _SINGLE_WORD.fullmatch(value)]


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a server asks to wait; None if it does not say."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            seconds = float(value) * unit
        except ValueError:
            try:
                seconds = (email.utils.parsedate_to_datetime(value).astimezone(UTC) - datetime.now(UTC)).total_seconds()
            except (ValueError, OverflowError):
                continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


# -- requests -----------------------------------------------------------------------------------------------------
class RequestFailed(Exception):
    """A request that failed for good. `too_large`: the server would accept a shorter one."""

    def __init__(self, message: str, too_large: bool) -> None:
        super().__init__(message)
        self.too_large = too_large


@dataclass(frozen=True, slots=True)
class Service:
    """A hosted service: the name that messages begin with, its address, the variable of its key, and its limits."""

    name: str
    url: str
    variable: str
    timeout: float
    retries: int
    headers: Mapping[str, str]
    advice: Mapping[int, str] = field(default_factory=dict)

    def post(self, path: str, content: bytes) -> Response:
        """The successful response to a request. Failures that may pass are retried; RequestFailed for all others."""
        import httpx2

        retries = 0
        while True:
            try:
                response = _shared.client().post(
                    f"{self.url}{path}", content=content, headers=dict(self.headers), timeout=self.timeout
                )
            except (httpx2.RequestError, httpx2.InvalidURL) as error:
                failure = transport_failure(transport_problem(error) or "interrupted", self.timeout, self.url)
            else:
                if response.status_code == 200:
                    return response
                failure = self._response_failure(response)
            pause = failure.wait_seconds
            if pause is None:
                pause = min(_FIRST_PAUSE_SECONDS * 2**retries, _MAX_PAUSE_SECONDS) * random.uniform(0.75, 1.0)
            if not failure.retriable or retries >= self.retries or pause > _MAX_WAIT_SECONDS:
                after = f" (after {retries} retries)" if retries else ""
                raise RequestFailed(f"{self.name} {failure.problem}{after}: {failure.advice}.", failure.too_large)
            _sleep(pause)
            retries += 1

    def _response_failure(self, response: Response) -> Failure:
        status, text = response.status_code, response.text[:_MAX_ERROR_CHARS].lower()
        words = single_words(_error_fields(response))
        too_large = status == 413 or (status in (400, 422, 500) and _TOO_LARGE.search(text) is not None)
        detail = f" ({', '.join(dict.fromkeys([str(status), *words]))})"
        failure = status_failure(413 if too_large else status, self.variable, self.advice, detail)
        retriable = failure.retriable and not too_large and "insufficient_quota" not in words
        wait = retry_after(response.headers)
        problem, advice = failure.problem, failure.advice
        if wait is not None and wait > _MAX_WAIT_SECONDS:
            problem, advice = f"asks to wait for {wait:.0f} seconds{detail}", "try again after that"
        return Failure(problem, advice, retriable, wait, too_large)


def _error_fields(response: Response) -> list[object]:
    """The type and the code of a server's error."""
    try:
        body = response.json()
    except (ValueError, RecursionError):
        return []
    error = body.get("error", body) if isinstance(body, dict) else {}
    return [error.get("type"), error.get("code")] if isinstance(error, dict) else []


class _SharedClient:
    """The process's HTTP client. A forked child keeps its parent's open, unused, and makes its own."""

    def __init__(self) -> None:
        self._client: Client | None = None
        self._reset()
        reset_after_fork(self._reset)
        atexit.register(self.close)

    def _reset(self) -> None:
        self._inherited, self._client = self._client, None
        self._lock = threading.Lock()

    def client(self) -> Client:
        with self._lock:
            if self._client is None:
                import httpx2

                self._client = httpx2.Client()
            return self._client

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


_sleep = time.sleep
_shared = _SharedClient()
