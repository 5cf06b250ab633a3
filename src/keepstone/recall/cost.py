"""What memory costs a model: tokens that were injected into its prompt and recalled by it, for each session and day.

A day is one state of the scope. Only numbers and the names of sessions are kept, and forgetting everything drops them.
"""

from __future__ import annotations

import json
from datetime import timedelta

from keepstone.ports.stores import Clock, Store
from keepstone.recall.query import check_int
from keepstone.types import Scope, SessionCost, clean_name

_STATE = "cost:"
_MAX_SESSIONS = 500  # of one day that are told apart
_OTHERS = "other sessions"
_TRIES = 20
MAX_TOKENS = 100_000_000
MAX_DAYS = 366


def add_cost(store: Store, clock: Clock, scope: Scope, session: str, injected: int, recalled: int) -> None:
    """Count tokens of a session for today."""
    session = clean_name(session, "session")
    check_int(injected, "injected", 0, MAX_TOKENS)
    check_int(recalled, "recalled", 0, MAX_TOKENS)
    name = f"{_STATE}{clock():%Y-%m-%d}"
    for _ in range(_TRIES):
        before = store.states.get(scope, name)
        counts: dict[str, list[int]] = {} if before is None else json.loads(before)
        own = session if session in counts or len(counts) < _MAX_SESSIONS else _OTHERS
        sums = counts.get(own, [0, 0, 0])
        counts[own] = [sums[0] + injected, sums[1] + recalled, sums[2] + 1]
        text = json.dumps(counts, ensure_ascii=False)
        if store.states.put(scope, name, text, expected=before, new=before is None):
            return


def read_costs(store: Store, clock: Clock, scope: Scope, days: int) -> list[SessionCost]:
    """The costs of the last days, the newest day first and the dearest session of a day first."""
    since = f"{_STATE}{clock() - timedelta(days=check_int(days, 'days', 1, MAX_DAYS) - 1):%Y-%m-%d}"
    found = [
        SessionCost(name.removeprefix(_STATE), session, *sums)
        for name, text in store.states.all(scope)
        if name.startswith(_STATE) and name >= since
        for session, sums in json.loads(text).items()
    ]
    found.sort(key=lambda cost: (cost.day, cost.injected + cost.recalled, cost.session), reverse=True)
    return found
