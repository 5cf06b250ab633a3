"""Base classes of wrappers: each hands every verb of a port to another implementation.

A wrapper overrides the verbs that it changes. `tests/ports/test_forwarding.py` fails until each wrapper says what it does with a
verb that is new in a port.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from keepstone.ports.maintenance import AuditLog, RetentionStore, Reviews
from keepstone.ports.queue import JobQueue, MessageLog, StateStore
from keepstone.ports.stores import Store

C = TypeVar("C")


def _forward(verb: Callable[..., Any], attribute: str) -> Callable[..., Any]:
    """A method that calls a verb of a port on the implementation in an attribute."""
    name = verb.__name__

    @wraps(verb)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        return getattr(getattr(self, attribute), name)(*args, **kwargs)

    return call


def _forwarding(port: type, attribute: str) -> Callable[[type[C]], type[C]]:
    """Give a class every verb of a port."""

    def add_verbs(base: type[C]) -> type[C]:
        for name, verb in vars(port).items():
            if callable(verb) and not name.startswith("_"):
                setattr(base, name, _forward(verb, attribute))
            elif isinstance(verb, property) and name not in vars(base):
                setattr(base, name, None)  # an attribute of each instance
        return base

    return add_verbs


@_forwarding(Store, "_store")
class ForwardingStore(Store):
    """A store that hands every verb to another store. The parts are attributes, which a wrapper may replace."""

    message_log: MessageLog
    states: StateStore
    jobs: JobQueue
    retention: RetentionStore
    reviews: Reviews
    leases: Any
    audit_log: AuditLog

    def __init__(self, store: Store) -> None:
        self._store = store
        for part in ("is_embedded", "message_log", "states", "jobs", "retention", "reviews", "leases", "audit_log"):
            setattr(self, part, getattr(store, part))

    @property
    def id(self) -> str:
        return self._store.id


@_forwarding(MessageLog, "_message_log")
class ForwardingMessageLog(MessageLog):
    """A message log that hands every verb to another."""

    def __init__(self, message_log: MessageLog) -> None:
        self._message_log = message_log


@_forwarding(StateStore, "_states")
class ForwardingStateStore(StateStore):
    """A state store that hands every verb to another."""

    def __init__(self, states: StateStore) -> None:
        self._states = states


@_forwarding(JobQueue, "_jobs")
class ForwardingJobQueue(JobQueue):
    """A job queue that hands every verb to another."""

    def __init__(self, jobs: JobQueue) -> None:
        self._jobs = jobs


@_forwarding(RetentionStore, "_retention")
class ForwardingRetentionStore(RetentionStore):
    """A retention store that hands every verb to another."""

    def __init__(self, retention: RetentionStore) -> None:
        self._retention = retention


@_forwarding(Reviews, "_reviews")
class ForwardingReviews(Reviews):
    """A review list that hands every verb to another."""

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews


@_forwarding(AuditLog, "_audit_log")
class ForwardingAuditLog(AuditLog):
    """An audit log that hands every verb to another."""

    def __init__(self, audit_log: AuditLog) -> None:
        self._audit_log = audit_log
