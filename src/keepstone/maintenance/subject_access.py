"""Everything a store holds about one user, for a subject access request: memories with their history, states, jobs, reviews and
the audit log.

One JSON object a line, each with `what` it is and the agent it belongs to. Memories are as `export` writes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from keepstone.maintenance.transfer import line_of, out
from keepstone.ports.stores import Store
from keepstone.types import Scope

_MAX_ROWS = 1_000_000


def everything(store: Store, scope: Scope) -> Iterator[str]:
    """One line per item that is stored about a user, for every agent of the tenant."""
    scopes = [other for other in store.retention.scopes(scope.tenant) if other.user == scope.user]
    yield _line("request", scope, {"tenant": scope.tenant, "user": scope.user, "agents": [other.agent for other in scopes]})
    for each in scopes:
        for archive in store.export_records(each):
            yield _line("memory", each, json.loads(line_of(archive)))
        for name, value in store.states.all(each):
            yield _line("state", each, {"name": name, "value": value})
        for job in store.jobs.list(each, limit=_MAX_ROWS):
            yield _line("job", each, _fields(job))
        for state in ("open", "kept", "corrected", "retired"):
            for item in store.reviews.list(each, state=state, limit=_MAX_ROWS):
                yield _line("review", each, {name: value for name, value in _fields(item).items() if name != "record"})
        for row in store.audit(each, limit=_MAX_ROWS):
            yield _line("audit", each, _fields(row))


def _fields(value: Any) -> dict[str, Any]:
    return {each.name: out(getattr(value, each.name)) for each in fields(value) if each.name != "scope"}


def _line(what: str, scope: Scope, held: dict[str, Any]) -> str:
    return json.dumps({"what": what, "agent": scope.agent, **held}, ensure_ascii=False, allow_nan=False)
