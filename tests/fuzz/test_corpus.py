"""What fuzzing has kept is read without an error that is not ours; new inputs are looked for by `make fuzz`."""

from __future__ import annotations

import pytest

from tests.fuzz import targets
from tests.fuzz.__main__ import fuzz


@pytest.mark.parametrize("name", targets.TARGETS)
def test_the_corpus_of_a_parser(name: str) -> None:
    inputs = targets.corpus(name)
    assert len(inputs) >= 2
    for data in inputs:
        targets.run(name, data)


def test_a_parser_that_breaks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(data: bytes) -> None:
        if b"\x00" in data:
            raise IndexError("planted")

    monkeypatch.setitem(targets.TARGETS, "words", broken)
    found = fuzz("words", seconds=20.0, seed=1)
    assert found is not None
    assert b"\x00" in found[0]
    assert "planted" in found[1]
