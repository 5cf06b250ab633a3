"""A buffer of recent messages in a Redis that processes share.

Everything of a scope is one hash under one key: its windows and a token. One DEL therefore clears the scope, even when Redis
evicts keys itself. A lookup returns the token, and `keep` stores a window only while that token is still there: a window that was
read before a clear is never stored after it. The hash expires as a whole, `ttl` seconds after it was created. Copies that Redis
makes itself (files, replicas) are out of reach.

A window that JSON cannot hold is not kept, and one of another version is not read: both only cost a read of the store.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError
from keepstone.ports.caches import Window
from keepstone.ports.forks import reset_after_fork
from keepstone.text.times import instant, micros
from keepstone.types import Record, Scope

SCHEMES = ("redis", "rediss", "unix")
_RETRY_SECONDS = 1.0  # between two attempts at a Redis that does not answer
_MAX_WINDOW_BYTES = 2**20  # a larger window is not kept
_MAX_SCOPE_BYTES = 16 * 2**20  # a scope that would hold more starts over
_MAX_PENDING_CLEARS = 10_000  # scopes that could not be cleared yet
_MAX_ERROR_CHARS = 200
_URL_FORMS = "write redis://localhost:6379/0, rediss://user:password@host:6380/0 or unix:///run/redis.sock"
_PROTOCOL_ERRORS = (ValueError, TypeError, AttributeError)  # raised by the client for a response that is not Redis
T = TypeVar("T")

_LOOKUP, _KEEP = (Path(__file__).with_name(name).read_text(encoding="ascii") for name in ("lookup.lua", "keep.lua"))


class _Connection:
    """One process's client and its state. While Redis does not answer, one caller per second tries again."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.closed = False
        self.outage: str | None = None
        self.retry_at = 0.0
        self.refusals: dict[str, str] = {}  # by verb
        self.pending_clears: set[str] = set()
        self.lookup = threading.local()  # .key and .token of this thread's last lookup

    def may_send(self) -> bool:
        """Whether the caller may send a request."""
        if self.closed or (self.outage is not None and time.monotonic() < self.retry_at):
            return False
        self.retry_at = time.monotonic() + _RETRY_SECONDS  # for other threads, while this one tries
        return True

    def send_pending_clears(self) -> None:
        if keys := tuple(self.pending_clears.copy()):
            self.client.delete(*keys)
            self.pending_clears.difference_update(keys)


class RedisBuffer:
    """A buffer in a Redis. No method raises for a Redis that fails, or takes much longer than `timeout` seconds."""

    def __init__(
        self, url: str, *, bound: int = 200, ttl: float = 3600.0, space: str = "keepstone", timeout: float = 0.25
    ) -> None:
        self.bound, self.ttl = bound, ttl
        self._options = _connection_options(url, timeout)
        self._space = space
        self._connection = self._connect()
        reset_after_fork(self._reset)

    def _connect(self) -> _Connection:
        import redis

        pool = redis.ConnectionPool(**self._options)
        return _Connection(redis.Redis(connection_pool=pool))

    def _reset(self) -> None:
        closed, self._connection = self._connection.closed, self._connect()
        self._connection.closed = closed

    @property
    def name(self) -> str:
        path, host, port = (self._options.get(part) for part in ("path", "host", "port"))
        if path is not None:
            return f"redis at {path}"
        host = host or "localhost"
        return f"redis at {f'[{host}]' if ':' in host else host}:{port or 6379}"

    @property
    def problem(self) -> str | None:
        connection = self._connection
        if connection.closed:
            return f"{self.name} is not used any more: this buffer was closed"
        return connection.outage or next(iter(connection.refusals.copy().values()), None)

    def window(self, scope: Scope, session: str | None) -> Window | None:
        connection = self._connection
        arguments = (self._ttl_ms, _field_name(session), secrets.token_hex(8))
        response = self._request("read", lambda client: client.eval(_LOOKUP, 1, self._key(scope), *arguments), None)
        token, data = response if isinstance(response, list) and len(response) == 2 else (None, None)
        connection.lookup.key, connection.lookup.token = (scope, session), token
        return unpack_window(scope, data) if isinstance(data, bytes) else None

    def put(self, scope: Scope, session: str | None, window: Window) -> None:
        lookup, token = self._connection.lookup, b""
        if getattr(lookup, "key", None) == (scope, session):
            if lookup.token is None:
                return  # the lookup failed, so a clear since then cannot be noticed
            token = lookup.token
        try:
            data = pack_window(scope, window) if len(window.messages) <= self.bound else b""
        except _NOT_JSON:
            data = b""
        if len(data) > _MAX_WINDOW_BYTES:
            data = b""
        arguments = (self._ttl_ms, _field_name(session), secrets.token_hex(8), token, data, _MAX_SCOPE_BYTES)
        self._request("keep", lambda client: client.eval(_KEEP, 1, self._key(scope), *arguments), None)

    def clear(self, scope: Scope) -> bool:
        connection, key = self._connection, self._key(scope)
        connection.lookup.key = None
        done = self._request("clear", lambda client: client.delete(key) is not None, False)
        if not done and not connection.closed and len(connection.pending_clears) < _MAX_PENDING_CLEARS:
            connection.pending_clears.add(key)
        return done

    def close(self) -> None:
        connection = self._connection
        if connection.pending_clears:
            self._request("clear", lambda client: None, None)  # sends them
        connection.closed = True
        connection.client.connection_pool.disconnect()

    def _request(self, verb: str, send: Callable[[Any], T], default: T) -> T:
        """The response of Redis, or `default` if it fails or refuses."""
        from redis.exceptions import RedisError, ResponseError

        connection = self._connection
        if not connection.may_send():
            return default
        try:
            connection.send_pending_clears()
            response = send(connection.client)
            connection.outage = None
            connection.refusals.pop(verb, None)
            return response
        except ResponseError as error:  # it runs and refuses
            connection.outage, connection.refusals[verb] = None, self._describe_refusal(error)
        except (RedisError, OSError, *_PROTOCOL_ERRORS) as error:
            connection.retry_at = time.monotonic() + _RETRY_SECONDS
            problem = f"{self.name} does not answer ({self._error_text(error)})"
            connection.outage = f"{problem}; the next attempt is in {_RETRY_SECONDS:g} s"
            connection.client.connection_pool.disconnect(inuse_connections=False)
        return default

    def _describe_refusal(self, error: Exception) -> str:
        text = self._error_text(error)
        if "OOM" in text or type(error).__name__ == "OutOfMemoryError":
            return f"{self.name} is full ({text}): raise its maxmemory, or set its maxmemory-policy to allkeys-lru"
        return f"{self.name} refuses the request ({text})"

    def _error_text(self, error: Exception) -> str:
        """The error on one line, without the password."""
        text = " ".join(str(error).split()) or type(error).__name__
        password = str(self._options.get("password") or "")
        for secret in filter(None, (password, quote(password, safe=""))):
            text = text.replace(secret, "***")
        return text[:_MAX_ERROR_CHARS]

    @property
    def _ttl_ms(self) -> int:
        return max(1, int(self.ttl * 1000))

    def _key(self, scope: Scope) -> str:
        return f"{self._space}:{_hash_name([scope.tenant, scope.agent, scope.user])}"


def _hash_name(value: object) -> str:
    """A key that does not reveal the name it stands for."""
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=16).hexdigest()


def _field_name(session: str | None) -> str:
    return "w" if session is None else f"w:{_hash_name(session)}"


def _connection_options(url: str, timeout: float) -> dict[str, Any]:
    """The options of the connection pool; ConfigurationError for a URL that cannot work. The URL's own settings win."""
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.connection import parse_url
        from redis.retry import Retry
    except ImportError:
        raise ConfigurationError(f"a buffer in Redis needs the package redis: {install_command('redis')}.") from None
    problem = _url_problem(url)
    if problem is not None:
        raise ConfigurationError(f"{_redact_url(url)} {problem}: {_URL_FORMS}.")
    parse: Callable[[str], dict[str, Any]] = parse_url
    try:
        from_url = parse(url)
        for name in ("retry_on_timeout", "retry_on_error", "health_check_interval"):
            from_url.pop(name, None)
        defaults = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "protocol": 2, "max_connections": 10_000}
        options = defaults | from_url | {"retry": Retry(NoBackoff(), 0), "decode_responses": False}
        redis.ConnectionPool(**options).make_connection()  # does not connect yet, but checks the names of all settings
    except (TypeError, ValueError, redis.RedisError):
        names = ", ".join(sorted(parse_qs(urlsplit(url).query))) or "none in the query"
        raise ConfigurationError(f"{_redact_url(url)} has a setting that cannot be used (of: {names}): {_URL_FORMS}.") from None
    return options


def _url_problem(url: Any) -> str | None:
    if not isinstance(url, str):
        return f"is a {type(url).__name__}, not a URL"
    try:
        parts = urlsplit(url)
    except ValueError:
        return "is not a URL"
    if parts.scheme not in SCHEMES or not url.startswith(f"{parts.scheme}://"):
        return "is not the URL of a Redis"
    if parts.scheme == "unix":
        return None if parts.path.strip("/") else "names no socket"
    try:
        if parts.port == 0:
            return "has the port 0"
    except ValueError:
        return "has a port that is not a number from 1 to 65535 (write / : @ ? # in a password as %2F %3A %40 %3F %23)"
    path = parts.path.strip("/")
    return None if not path or path.isdecimal() else "has a database that is not a number"


def _redact_url(url: Any) -> str:
    """The URL without anything that may be a password."""
    if not isinstance(url, str) or "://" not in url:
        return "the address of the buffer"
    scheme, _, rest = url.partition("://")
    if "@" in rest:
        return f"{scheme:.20}://…@{rest.rpartition('@')[2].partition('?')[0]:.80}"
    return f"{scheme:.20}://…" if rest.startswith(":") else f"{scheme:.20}://{rest.partition('?')[0]:.80}"


# -- windows as bytes -------------------------------------------------------------------------------------------------
VERSION = 1  # raise it with every change of the format
FIELDS = (  # of a Record, in its order, without the scope
    "id", "kind", "tag", "key", "content", "metadata", "importance", "source", "trust", "session", "role", "name", "occurred_at",
    "created_at", "updated_at", "valid_from", "valid_to", "expires_at", "last_accessed_at", "access_count", "version", "status",
    "parents", "embedded", "blocks", "sensitive",
)  # fmt: skip
_TIME_COLUMNS = range(FIELDS.index("occurred_at"), FIELDS.index("last_accessed_at") + 1)
_field_values = attrgetter(*FIELDS)
_NOT_JSON = (ValueError, TypeError, RecursionError)  # raised for a window that JSON cannot hold


def pack_window(scope: Scope, window: Window) -> bytes:
    """A window of a scope as compact JSON."""
    turns = [[sequence, *_encode_record(record)] for sequence, record in window.messages]
    document = [VERSION, _scope_names(scope), window.number, window.complete, turns]
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False).encode()


def unpack_window(scope: Scope, data: bytes) -> Window | None:
    """The window in these bytes; None if they are of another version or scope."""
    try:
        document = json.loads(data)
        if not isinstance(document, list) or document[:2] != [VERSION, _scope_names(scope)]:
            return None
        _, _, number, whole, turns = document
        times: dict[int, datetime] = {}
        return Window(number, tuple(_decode_turn(scope, row, times) for row in turns), whole)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None


def _scope_names(scope: Scope) -> list[str]:
    return [scope.tenant, scope.agent, scope.user]


def _encode_record(record: Record) -> list[Any]:
    row = list(_field_values(record))
    for column in _TIME_COLUMNS:
        if row[column] is not None:
            row[column] = micros(row[column])
    return row


def _decode_turn(scope: Scope, row: Sequence[Any], times: dict[int, datetime]) -> tuple[int, Record]:
    sequence, *values = row
    if len(values) != len(FIELDS):
        raise ValueError("a row is too short or too long")
    for column in _TIME_COLUMNS:
        if values[column] is not None:
            values[column] = times.get(values[column]) or _decode_time(values[column], times)
    parents, embedded, blocks, sensitive = values[-4:]
    values[-4:] = tuple(parents), embedded, None if blocks is None else tuple(blocks), tuple(sensitive)
    return sequence, Record(values[0], scope, *values[1:])


def _decode_time(value: int, times: dict[int, datetime]) -> datetime:
    """A time, cached: most times of a window are equal, and decoding them is most of the work."""
    times[value] = instant(value)
    return times[value]
