"""Tokens that memory took in prompts: counted by session and day, and shown."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from keepstone import Memory
from keepstone.errors import ValidationError
from keepstone.recall.cost import add_cost
from keepstone.text.times import now


def test_tokens_are_added_up_by_session_and_day(memory: Memory) -> None:
    memory.add_cost("one", injected=80)
    memory.add_cost("one", injected=20, recalled=5)
    memory.add_cost("two", recalled=500)
    today = f"{now():%Y-%m-%d}"
    found = [(cost.day, cost.session, cost.injected, cost.recalled, cost.times) for cost in memory.costs()]
    assert found == [(today, "two", 0, 500, 1), (today, "one", 100, 5, 2)]
    assert memory.with_scope(user="another").costs() == []
    for wrong in ({"injected": -1}, {"recalled": "5"}):
        with pytest.raises(ValidationError, match="use a whole number"):
            memory.add_cost("one", **wrong)
    memory.remember("The user drinks tea.")
    memory.forget(everything=True)
    assert memory.costs() == [], "forgetting everything drops the names of sessions too"


def test_only_the_last_days_are_shown(memory: Memory) -> None:
    for days in (0, 3, 40):
        day = now() - timedelta(days=days)
        add_cost(memory._engine.store, partial(day.replace, microsecond=0), memory.scope, f"{days} days ago", 1, 0)
    assert [row.session for row in memory.costs(days=4)] == ["0 days ago", "3 days ago"]
    assert [row.session for row in memory.costs(days=3)] == ["0 days ago"]
    assert len(memory.costs(days=100)) == 3
