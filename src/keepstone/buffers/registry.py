"""Finds the buffer that a setting names."""

from __future__ import annotations

from typing import Any, cast

from keepstone.buffers.memory import MemoryBuffer
from keepstone.errors import ConfigurationError
from keepstone.ports.caches import Buffer

_METHODS = ("window", "put", "clear", "close")
_PROPERTIES = ("name", "bound", "problem")
_FORMS = (
    'give None or "memory" for one in this process, the URL of a Redis ("redis://localhost:6379/0", "rediss://…", "unix://…"), '
    f"or an object with {', '.join((*_PROPERTIES, *_METHODS))} (see keepstone.ports.caches.Buffer)"
)


def make_buffer(spec: Any, *, bound: int, ttl: float) -> Buffer:
    """The buffer that a setting names, or the buffer object itself, which has a bound of its own."""
    if spec is None or spec == "memory":
        return MemoryBuffer(bound, ttl)
    if isinstance(spec, str):
        if not spec.startswith(("redis://", "rediss://", "unix://")):
            name = f" {spec!r:.40}" if "@" not in spec and "//" not in spec else ""  # it may hold a password
            raise ConfigurationError(f"there is no buffer of this name{name}: {_FORMS}.")
        from keepstone.buffers.redis import RedisBuffer  # only loaded where it is used

        return RedisBuffer(spec, bound=bound, ttl=ttl)
    if isinstance(spec, type):
        raise ConfigurationError(f"the buffer is the class {spec.__name__}, not an object of it: {_FORMS}.")
    missing = [name for name in _METHODS if not callable(getattr(spec, name, None))]
    missing += [name for name in _PROPERTIES if not hasattr(spec, name)]
    if missing:
        raise ConfigurationError(f"a {type(spec).__name__} is not a buffer, it lacks {', '.join(missing)}: {_FORMS}.")
    return cast(Buffer, spec)
