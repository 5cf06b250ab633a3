"""Rate limits: token buckets in the file, so that all processes share them.

A bucket that a clock from the future has written is read as of now: a wrong clock may cost an interval, never lock anybody out.
"""

from __future__ import annotations

from collections.abc import Sequence

from keepstone.ports.values import Limit
from keepstone.stores.common.transaction import Transaction
from keepstone.stores.common.write_context import WriteContext

_MAX_CLOCK_SKEW_US = 60_000_000  # clocks of two machines may differ by this


def wait(db: Transaction, context: WriteContext, limits: Sequence[Limit]) -> tuple[float, Limit | None]:
    """(seconds until every bucket has a token, the limit that takes longest); (0, None) if all have one."""
    longest, which = 0.0, None
    for limit in limits:
        tokens, since = _bucket(db, context, limit)
        missing = (
            max(0.0, 1.0 - tokens) / limit.per_second if limit.per_second > 0 else 0.0
        )  # no refill: only the interval counts
        seconds = max(missing, limit.interval - since) if since is not None else missing
        if seconds > 1e-9 and seconds > longest:
            longest, which = seconds, limit
    return longest, which


def take(db: Transaction, context: WriteContext, limits: Sequence[Limit]) -> None:
    """Take a token out of every bucket."""
    for limit in limits:
        tokens, _ = _bucket(db, context, limit)
        db.run("bucket_put", (context.scope, limit.name, tokens - 1.0, context.now))


def _bucket(db: Transaction, context: WriteContext, limit: Limit) -> tuple[float, float | None]:
    """(tokens in a bucket, seconds since the last was taken, None if none ever was)."""
    row = db.one("bucket_get", (context.scope, limit.name))
    if row is None:
        return limit.burst, None
    if row[1] > context.now + _MAX_CLOCK_SKEW_US:  # written by a clock that ran ahead: ignore it
        return limit.burst, None
    since = max(0.0, (context.now - row[1]) / 1e6)
    return min(limit.burst, row[0] + since * limit.per_second), since
