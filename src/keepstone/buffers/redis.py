"""RedisBuffer: short-term messages in a Redis that all processes share.

All that is held of a scope is one hash under one key: its windows, who has to wait, and a token. So letting go of it is one DEL,
which nothing escapes, not even when Redis evicts keys of its own accord. Whoever looks for a window is given the token, and may
keep what he then reads from the store only while that token stands there: a window that was read before a clear never comes after
it. The hash expires as a whole, `ttl` seconds after it was begun. What Redis itself copies elsewhere (its files, its replicas) is
its operator's.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

from keepstone.buffers.codec import Unpackable, packed, unpacked
from keepstone.buffers.memory import LONGEST, checked
from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError
from keepstone.ports.caches import Window
from keepstone.types import Scope

SCHEMES = ("redis", "rediss", "unix")
_PAUSE = 1.0  # seconds between two attempts at a Redis that does not answer
_WINDOW_BYTES = 2**20  # a larger window is not kept
_SCOPE_BYTES = 16 * 2**20  # a scope that would hold more begins anew
_FIELDS = 10_000  # sessions and limits of a scope, likewise
_OWED = 10_000  # scopes that are cleared later, at most
_FORMS = "write redis://localhost:6379/0, rediss://user:password@host:6380/0 or unix:///run/redis.sock"
_NONSENSE = (ValueError, TypeError, AttributeError)  # what the client makes of an answer that no Redis gives
T = TypeVar("T")

_BEGUN = "if redis.call('PTTL', KEYS[1]) < 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end "
# ttl, field, a new token -> the scope's token, the window
_LOOK = (
    """
local token = redis.call('HGET', KEYS[1], 'token')
if not token then
    token = ARGV[3]
    redis.call('HSET', KEYS[1], 'token', token)
    """
    + _BEGUN
    + "end return {token, redis.call('HGET', KEYS[1], ARGV[2])}"
)
# ttl, field, a new token, the token that must stand there or '', the window or '', most bytes
_KEEP = (
    """
local token = redis.call('HGET', KEYS[1], 'token')
if ARGV[4] ~= '' and token ~= ARGV[4] then return 0 end
local size = tonumber(redis.call('HGET', KEYS[1], 'bytes') or 0) - redis.call('HSTRLEN', KEYS[1], ARGV[2]) + #ARGV[5]
if size > tonumber(ARGV[6]) then
    redis.call('DEL', KEYS[1])
    token, size = false, #ARGV[5]
end
if ARGV[5] == '' then redis.call('HDEL', KEYS[1], ARGV[2]) end
redis.call('HSET', KEYS[1], 'token', token or ARGV[3], 'bytes', size)
if ARGV[5] ~= '' then redis.call('HSET', KEYS[1], ARGV[2], ARGV[5]) end
"""
    + _BEGUN
    + "return 1"
)
# ttl, field, milliseconds, most fields
_WAIT = (
    """
if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[4]) then redis.call('DEL', KEYS[1]) end
local now = redis.call('TIME')
local till = now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[3]
redis.call('HSET', KEYS[1], ARGV[2], string.format('%.0f', till))
"""
    + _BEGUN
    + "return 1"
)


class _Link:
    """What one process has: a client, whether Redis answers it, and what it owes. While Redis does not answer, one caller a
    second is let through."""

    def __init__(self, client: Any) -> None:
        self.pid = os.getpid()
        self.client = client
        self.lock = threading.Lock()
        self.closed = False
        self.down: str | None = None
        self.refused: dict[str, str] = {}  # by verb
        self.owed: set[str] = set()
        self.asked = threading.local()  # .place, .token: what this thread looked for last
        self._again = 0.0
        self._trying = False

    def enter(self) -> bool:
        with self.lock:
            if self.down is None or self.closed:
                return not self.closed
            if self._trying or time.monotonic() < self._again:
                return False
            self._trying = True
            return True

    def leave(self, down: str | None) -> None:
        with self.lock:
            self.down, self._trying = down, False
            self._again = time.monotonic() + _PAUSE

    def pay(self) -> None:
        """Clear the scopes that could not be cleared when they should have been."""
        with self.lock:
            owed = tuple(self.owed)
        if owed:
            self.client.delete(*owed)
            with self.lock:
                self.owed.difference_update(owed)


class RedisBuffer:
    """A buffer in a Redis. Whatever happens to that, no verb raises or takes much longer than `timeout` seconds."""

    def __init__(
        self, url: str, *, bound: int = 200, ttl: float = 3600.0, space: str = "keepstone", timeout: float = 0.25
    ) -> None:
        checked(bound, ttl)
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout <= 60:
            raise ConfigurationError(f"timeout {timeout!r:.40} is not usable: give more than 0 and at most 60 seconds.")
        if not isinstance(space, str) or not space.strip():
            raise ConfigurationError(
                f"space {space!r:.40} is not usable: give the text that every key of this buffer begins with."
            )
        self._options = _options(url, float(timeout))
        self._bound = bound
        self._ttl = float(ttl)
        self._space = space
        self._state = self._connected()

    def _connected(self) -> _Link:
        import redis

        pool = redis.ConnectionPool(**self._options)
        return _Link(redis.Redis(connection_pool=pool))

    # -- what it is -----------------------------------------------------------------------------------------------
    @property
    def name(self) -> str:
        path, host, port = (self._options.get(part) for part in ("path", "host", "port"))
        if path is not None:
            return f"redis at {path}"
        host = host or "localhost"
        return f"redis at {f'[{host}]' if ':' in host else host}:{port or 6379}"

    @property
    def bound(self) -> int:
        return self._bound

    @property
    def ttl(self) -> float:
        """Seconds that anything is kept at most."""
        return self._ttl

    @property
    def problem(self) -> str | None:
        link = self._link()
        if link.closed:
            return f"{self.name} is not used any more: this buffer was closed"
        return link.down or next(iter(link.refused.copy().values()), None)

    # -- windows --------------------------------------------------------------------------------------------------
    def window(self, scope: Scope, session: str | None) -> Window | None:
        link = self._link()
        values = (self._milliseconds, _field("w", session), secrets.token_hex(8))
        found = self._ask("read", lambda client: client.eval(_LOOK, 1, self._key(scope), *values), None)
        token, data = found if isinstance(found, list) and len(found) == 2 else (None, None)
        link.asked.place, link.asked.token = (scope, session), token
        return unpacked(scope, data) if isinstance(data, bytes) else None

    def keep(self, scope: Scope, session: str | None, window: Window) -> None:
        asked, token = self._link().asked, b""
        if getattr(asked, "place", None) == (scope, session):
            if asked.token is None:
                return  # it could not be looked for, so nobody knows what was cleared since
            token = asked.token
        try:
            data = packed(scope, window) if len(window.turns) <= self._bound else b""
        except Unpackable:
            data = b""
        if len(data) > _WINDOW_BYTES:
            data = b""
        values = (self._milliseconds, _field("w", session), secrets.token_hex(8), token, data, _SCOPE_BYTES)
        self._ask("keep", lambda client: client.eval(_KEEP, 1, self._key(scope), *values), None)

    def clear(self, scope: Scope) -> bool:
        link, key = self._link(), self._key(scope)
        link.asked.place = None
        done = self._ask("clear", lambda client: client.delete(key) is not None, False)
        if not done and not link.closed:
            with link.lock:
                if len(link.owed) < _OWED:
                    link.owed.add(key)
        return done

    # -- who has to wait ------------------------------------------------------------------------------------------
    def wait(self, scope: Scope, name: str, seconds: float) -> None:
        # Rounded down: nobody waits for longer than he must.
        milliseconds = int(min(seconds, LONGEST) * 1000) if seconds > 0 else 0
        if milliseconds:
            values = (self._milliseconds, _field("l", name), milliseconds, _FIELDS)
            self._ask("wait", lambda client: client.eval(_WAIT, 1, self._key(scope), *values), None)

    def waiting(self, scope: Scope, names: Sequence[str]) -> tuple[float, str | None]:
        if not names:
            return 0.0, None

        def work(client: Any) -> Any:
            with client.pipeline(transaction=False) as pipe:
                return pipe.time().hmget(self._key(scope), [_field("l", name) for name in names]).execute()

        found = self._ask("waits", work, None)
        longest: tuple[float, str | None] = (0.0, None)
        if found is not None:
            (seconds, micros), until = found
            now = seconds * 1000 + micros / 1000
            for name, each in zip(names, until, strict=True):
                left = (int(each) - now) / 1000 if each is not None and each.isdigit() else 0.0
                if left > longest[0]:
                    longest = (left, name)
        return longest

    # -- asking ---------------------------------------------------------------------------------------------------
    def close(self) -> None:
        link = self._link()
        if link.owed:
            self._ask("clear", lambda client: None, None)  # pays
        link.closed = True
        link.client.connection_pool.disconnect()

    def _link(self) -> _Link:
        if self._state.pid != os.getpid():  # a forked child: connections and locks are its parent's
            closed, self._state = self._state.closed, self._connected()
            self._state.closed = closed
        return self._state

    def _ask(self, verb: str, work: Callable[[Any], T], otherwise: T) -> T:
        """What Redis answers; `otherwise` if it does not, or would not."""
        from redis.exceptions import RedisError, ResponseError

        link = self._link()
        if not link.enter():
            return otherwise
        down = link.down
        try:
            link.pay()
            found = work(link.client)
            down = None
            link.refused.pop(verb, None)
            return found
        except ResponseError as error:  # it is there and says no
            down, link.refused[verb] = None, self._refusal(error)
        except (RedisError, OSError, *_NONSENSE) as error:
            down = f"{self.name} does not answer ({self._said(error)}); it is asked again every {_PAUSE:g} s"
            link.client.connection_pool.disconnect(inuse_connections=False)
        finally:
            link.leave(down)
        return otherwise

    def _refusal(self, error: Exception) -> str:
        said = self._said(error)
        if "OOM" in said or type(error).__name__ == "OutOfMemoryError":
            return f"{self.name} is full ({said}): raise its maxmemory, or set its maxmemory-policy to allkeys-lru"
        return f"{self.name} refuses what it is asked ({said})"

    def _said(self, error: Exception) -> str:
        """An error in a line of words, without a password."""
        said = " ".join(str(error).split()) or type(error).__name__
        password = str(self._options.get("password") or "")
        for secret in filter(None, (password, quote(password, safe=""))):
            said = said.replace(secret, "***")
        return said[:200]

    # -- names ----------------------------------------------------------------------------------------------------
    @property
    def _milliseconds(self) -> int:
        return max(1, int(self._ttl * 1000))

    def _key(self, scope: Scope) -> str:
        return f"{self._space}:{_hash([scope.tenant, scope.agent, scope.user])}"


def _hash(value: object) -> str:
    """A name that says nothing about what it stands for."""
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=16).hexdigest()


def _field(kind: str, name: str | None) -> str:
    return kind if name is None else f"{kind}:{_hash(name)}"


def _options(url: str, timeout: float) -> dict[str, Any]:
    """What a pool of connections is told; ConfigurationError for a URL that cannot work. The URL's own settings win."""
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.connection import parse_url
        from redis.retry import Retry
    except ImportError:
        raise ConfigurationError(f"a buffer in Redis needs the package redis: {install_command('redis')}.") from None
    wrong = _wrong(url)
    if wrong is not None:
        raise ConfigurationError(f"{_shown(url)} {wrong}: {_FORMS}.")
    parse: Callable[[str], dict[str, Any]] = parse_url
    try:
        given = parse(url)
        for name in ("retry_on_timeout", "retry_on_error", "health_check_interval"):
            given.pop(name, None)
        options = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "protocol": 2, "max_connections": 10_000} | given
        options |= {"retry": Retry(NoBackoff(), 0), "decode_responses": False}
        redis.ConnectionPool(**options).make_connection()  # which connects nowhere yet, and knows the names of all settings
    except (TypeError, ValueError, redis.RedisError):
        names = ", ".join(sorted(parse_qs(urlsplit(url).query))) or "none that is written there"
        raise ConfigurationError(f"{_shown(url)} has a setting that cannot be used (of: {names}): {_FORMS}.") from None
    return options


def _wrong(url: Any) -> str | None:
    """What is wrong with a URL, in words."""
    if not isinstance(url, str):
        return f"is a {type(url).__name__} and no URL"
    try:
        parts = urlsplit(url)
    except ValueError:
        return "is no URL"
    if parts.scheme not in SCHEMES or not url.startswith(f"{parts.scheme}://"):
        return "is no URL of a Redis"
    if parts.scheme == "unix":
        return None if parts.path.strip("/") else "names no socket"
    try:
        if parts.port == 0:
            return "has the port 0"
    except ValueError:
        return "has a port that is no number from 1 to 65535 (write / : @ ? # in a password as %2F %3A %40 %3F %23)"
    path = parts.path.strip("/")
    return None if not path or path.isdecimal() else "has a database that is no number"


def _shown(url: Any) -> str:
    """Of a URL what is certainly no password."""
    if not isinstance(url, str) or "://" not in url:
        return "the address of the buffer"
    scheme, _, rest = url.partition("://")
    if "@" in rest:
        return f"{scheme:.20}://…@{rest.rpartition('@')[2].partition('?')[0]:.80}"
    return f"{scheme:.20}://…" if rest.startswith(":") else f"{scheme:.20}://{rest.partition('?')[0]:.80}"
