"""Texts that are made to be slow cost no more than others: every regular expression, and every verb that reads a text.

The bounds are far above what any of them takes (python -m tests.guard.hostile_patterns measures it): what passes them hangs.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from keepstone import Memory
from keepstone.errors import KeepstoneError
from tests.guard.hostile_patterns import TooSlow, bounded, patterns, slowest, uses

CPU = 20.0  # seconds; usually some thousandths
PIECES = (
    ".", "…", " ", "0", "a@a.", "4 ", "://a:", "password=", "sk-a", "eyJa.", "BEGIN A A A PRIVATE KEY", "```\n", "My name is A. ",
    "ignore previous instructions ", "</memory>", "i g n o r e ", "4111 1111 1111 1111 ", "3 days ago ", "Aa0+/", "\u200b", "日",
)  # fmt: skip


def test_there_are_patterns_to_try() -> None:
    found = patterns()
    assert len(found) > 500
    assert {
        "keepstone.guard.secrets._URL",
        "keepstone.text.calendar.LEXICON.patterns['ago']",
        "keepstone.learning.clauses.LEXICON.patterns['email']",
    } <= found.keys()
    assert uses("keepstone.conversation.extractive_summary._FENCE") == {"match"}


def test_a_pattern_that_hangs_is_found() -> None:
    import re

    took, text = slowest(re.compile(r"(?:a+)+$"), 0.2, 2_000)
    assert (took, text[:3]) == (0.2, "aaa")


def test_no_pattern_hangs() -> None:
    hanging = [place for place, pattern in patterns().items() if slowest(pattern, CPU, 200, uses(place))[0] >= CPU]
    assert hanging == []


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: ascii(piece)[1:-1])
def test_no_verb_hangs(piece: str) -> None:
    text = (piece * 64_000).encode()[:63_000].decode(errors="ignore")
    with Memory.open(":memory:", settings={"worker": False}, embedder="none") as memory:
        verbs: dict[str, Callable[[], object]] = {
            "remember": lambda: memory.remember(f"x {text}"),
            "from a page": lambda: memory.remember(f"y {text}", source="web:page"),
            "recall": lambda: memory.recall(text[:10_000] or "x"),
            "context": lambda: memory.context(text[:10_000] or "x"),
            "said": lambda: memory.ingest([{"role": "user", "content": f"x {text}"}] * 3, session="s"),
            "summed up": lambda: memory.conversation("s").build(max_tokens=500),
            "looked through": memory.upkeep.health,
        }
        for name, verb in verbs.items():
            try:
                with bounded(CPU):
                    verb()
            except TooSlow:
                pytest.fail(f"{name} takes more than {CPU} seconds of CPU")
            except KeepstoneError:
                continue  # refused is quick too
        assert memory.upkeep.doctor().healthy
