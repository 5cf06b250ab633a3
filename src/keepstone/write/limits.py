"""Which limits a write falls under: those of its scope and of its source. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from keepstone.ports.values import Limit

_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Writes a minute in a scope and by source (or class of sources), and the least time between two; 0: no limit."""

    per_minute: int = 0
    by_source: Mapping[str, int] = field(default_factory=dict)
    interval: float = 0.0

    def of(self, source: str) -> tuple[Limit, ...]:
        """The buckets that a write of this source takes from.

        >>> [limit.name for limit in RateLimits(60, {"web": 10, "user": 5}).of("web:https://example.org")]
        ['writes', 'writes from web']
        """
        found = []
        if self.per_minute or self.interval:
            burst = float(self.per_minute or 1)
            found.append(Limit("writes", burst, self.per_minute / _MINUTE, self.interval))
        kind, sign, detail = source.partition(":")
        for name in dict.fromkeys((f"{kind.strip().lower()}{sign}{detail}", kind.strip().lower())):
            most = self.by_source.get(name, 0)
            if most:
                found.append(Limit(f"writes from {name}", float(most), most / _MINUTE))
        return tuple(found)
