"""Audit: `memory.audit`, the audit log of one scope."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from keepstone.maintenance.diff import Diff, compared
from keepstone.ports.maintenance import ChainReport
from keepstone.ports.stores import Clock, Store
from keepstone.recall.lookups import Lookups
from keepstone.types import AuditRow, Scope

Time = datetime | str


class Audit:
    """The audit log of one scope. Calling it lists the entries."""

    def __init__(self, store: Store, lookups: Lookups, scope: Scope, clock: Clock) -> None:
        self._store = store
        self._lookups = lookups
        self._scope = scope
        self._clock = clock

    def __call__(self, *, since: Time | None = None, limit: int = 100) -> Sequence[AuditRow]:
        """List what was done in this scope, newest first. The log holds no content."""
        return self._lookups.audit(self._scope, since, limit)

    def verify(self, *, head: str | None = None) -> ChainReport:
        """Check that the tenant's audit log is what was written: every entry holds a hash of the one before. Keep the report's
        `head` in another place and pass it to a later check: a log that was rewritten as a whole is then noticed."""
        return self._store.audit_log.verify(self._scope.tenant, head)

    def diff(self, since: Time, until: Time | None = None, *, kinds: Sequence[str] | None = None) -> Diff:
        """Compare what was known at two times: what was added, changed and removed. `until` None means now."""
        return compared(self._store, self._scope, since, until, kinds, self._clock)
