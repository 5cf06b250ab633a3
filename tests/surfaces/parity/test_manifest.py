"""Behaviours and tests hold each other: nothing is claimed that no test proves, and no surface leaves anything out in silence."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.surfaces.parity.manifest import BEHAVIOURS, NOT_OFFERED, SURFACES, offering

HERE = Path(__file__).parent
OFFERED = {  # how many behaviours each surface shows; a new one, or one that is left out, changes a figure here
    "library": 32, "client": 32, "async-client": 32, "mcp-stdio": 24, "mcp-http": 24, "cli": 32, "cli-http": 32,
}  # fmt: skip


def _proved() -> dict[str, str]:
    """Test -> the behaviour it names, as the files have it."""
    found = {}
    for file in sorted(HERE.glob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        if file != Path(__file__):
            named = re.findall(r'^@proves\("([^"]+)"\)\n(?:@.*\n)*def (test_\w+)\(', text, re.MULTILINE)
            tests = re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)
            assert [test for _, test in named] == tests, f"{file.name} has a test that names no behaviour"
            found.update({test: behaviour for behaviour, test in named})
    return found


@pytest.fixture
def collected(request: pytest.FixtureRequest) -> dict[str, set[str]]:
    """Surface -> the tests that pytest runs on it, as pytest itself gathers them."""
    found = defaultdict(set)
    for file in HERE.glob("test_*.py"):
        module = pytest.Module.from_parent(request.session, path=file)
        for item in request.session.genitems(module):
            if isinstance(item, pytest.Function) and "connect" in item.fixturenames:
                found[item.callspec.params["connect"]].add(item.originalname)
    return found


def test_every_behaviour_has_a_test_and_every_test_a_behaviour() -> None:
    named = Counter(_proved().values())
    assert set(named) == set(BEHAVIOURS)


def test_every_surface_runs_or_explains_every_behaviour(collected: dict[str, set[str]]) -> None:
    proved = _proved()
    assert set(collected) == set(SURFACES)
    for surface, tests in collected.items():
        shown, explained = {proved[test] for test in tests}, NOT_OFFERED.get(surface, {})
        assert shown | set(explained) == set(BEHAVIOURS)
        assert not shown & set(explained), "what is explained away is not run"
        assert all(len(reason.split()) > 5 for reason in explained.values())
        assert len(shown) == OFFERED[surface]


def test_nothing_is_explained_that_is_not_there() -> None:
    assert set(NOT_OFFERED) <= set(SURFACES)
    assert {name for table in NOT_OFFERED.values() for name in table} <= set(BEHAVIOURS)
    assert all(offering(behaviour) for behaviour in BEHAVIOURS), "each is shown somewhere"
    assert all(sentence.endswith(".") for sentence in BEHAVIOURS.values())
