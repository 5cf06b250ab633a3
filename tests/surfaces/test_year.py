"""The simulated year at a small scale: what `python -m bench year` promises, and that its measures can tell."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bench import year as bench
from bench.year_people import Question, Year
from bench.year_secrets import Secret, hide_secret
from keepstone import Memory

USERS, DAYS = 3, 45
KEYS = (
    "users days messages active aside bytes bytes_per_message current outranked secrets_on_disk seconds cpu_seconds broken"
).split()


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of some weeks."""
    return bench.live(tmp_path_factory.mktemp("year") / "memory.db", Year(1, USERS, DAYS))


def test_current_facts_are_recalled(lived: dict[str, Any]) -> None:
    assert lived["questions"] > 100
    assert lived["current_facts"] >= 0.95, lived["misses"]["facts"]  # so few weeks are 110 questions: two or three may fail


def test_no_superseded_fact_stands_before_the_current_one(lived: dict[str, Any]) -> None:
    assert lived["outranked"] == 0, [each for each in lived["misses"]["facts"] if each["outranked"]]


def test_no_secret_is_on_disk(lived: dict[str, Any]) -> None:
    assert lived["secrets"] >= 10
    assert lived["secrets_on_disk"] == 0, lived["secrets_by_kind"]


def test_neither_junk_nor_what_tools_say_is_learned(lived: dict[str, Any]) -> None:
    assert (lived["junk_learned"], lived["tools_learned"], lived["injected_kept"]) == (0, 0, 0)


def test_the_figures_are_those_of_the_year(lived: dict[str, Any]) -> None:
    messages = sum(len(session.messages) for session in Year(1, USERS, DAYS))
    assert lived["messages"] == messages
    assert lived["months"][-1]["messages"] == messages
    assert [each["day"] for each in lived["months"]] == ["2025-01-31", "2025-02-14"]
    assert lived["active"] + lived["aside"] > messages
    assert lived["active"] == sum(lived["kinds"].values())
    assert lived["healthy"]


def test_a_broken_promise_is_named() -> None:
    good = {"current": 1.0, "current_facts": 1.0, "outranked": 0, "secrets_on_disk": 0, "healthy": True}
    good |= {"bytes_per_message": bench.BYTES_PER_MESSAGE, "seconds": 1.0}
    assert bench.broken(good) == []
    for name, bad in (("current_facts", 0.9), ("outranked", 1), ("secrets_on_disk", 1), ("healthy", False)):
        assert len(bench.broken(good | {name: bad})) == 1
    assert bench.broken(good | {"bytes_per_message": bench.BYTES_PER_MESSAGE + 1, "seconds": 180.0}) == [
        f"at most {bench.BYTES_PER_MESSAGE} bytes a message",
        "under 180 seconds",
    ]


@pytest.mark.parametrize(
    ("contents", "found", "outranked"),
    [
        (["She lives in Oslo.", "She lives in Cork."], True, False),
        (["She lives in Cork.", "She lives in Oslo."], True, True),
        (["She moved from Cork to Oslo.", "She lives in Cork."], True, False),
        (["She lives in Cork."], False, True),
        (["She has an Osloer accent and a corkscrew."], False, False),
        ([], False, False),
    ],
)
def test_how_an_answer_is_judged(memory: Memory, contents: list[str], found: bool, outranked: bool) -> None:
    hits = []
    for at, content in enumerate(contents):
        scoped = memory.with_scope(user=str(at))
        scoped.remember(content)
        hits += scoped.recall(content, min_similarity=0).hits
    tally = bench.Tally()
    tally.judge("Dana", date(2025, 1, 31), Question("city", "Where?", "Oslo", frozenset(("Cork", "Lyon"))), hits)
    assert (tally.asked, tally.found, tally.outranked, tally.outranked_loose) == (1, found, 0, outranked)
    assert len(tally.misses) == (outranked or not found)


def create(kind: str) -> Secret:
    random = Random(kind)
    return next(secret for _, secret in iter(lambda: hide_secret(random), None) if secret.kind == kind)


@pytest.mark.parametrize("kind", ["card", "ssn", "iban", "key", "token", "pem", "password", "address"])
def test_a_secret_is_found_at_any_byte_of_a_file(tmp_path: Path, kind: str) -> None:
    secret = create(kind)
    file = tmp_path / "memory.db"
    noise = Random(1).randbytes(4099)
    for form in secret.forms():
        for before in range(9):
            file.write_bytes(noise[:before] + form.encode())
            assert bench.leaks([file], [secret]) == {kind: 1}
        file.write_bytes(noise + form.encode() + noise)
        assert bench.leaks([file], [create("card"), secret])[kind] == 1
    file.write_bytes(noise)
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    assert not bench.leaks([file, empty], [secret])
    assert not bench.leaks([file], [])


def test_what_only_begins_like_a_secret_is_none(tmp_path: Path) -> None:
    secret = create("token")
    file = tmp_path / "memory.db"
    for cut in (8, 20, len(secret.written) - 1):
        file.write_bytes(secret.written[:cut].encode() + b"\0" + secret.written[cut:].encode())
        assert not bench.leaks([file], [secret])


def test_a_secret_that_is_stored_is_found_in_the_store(path: Path) -> None:
    secret = Secret("word", "open-sesame-4711", "opensesame4711")
    with Memory.open(path) as memory:
        memory.remember(f"The cave opens to {secret.written}.")
        assert bench.leaks(bench.files(path), [secret]) == {"word": 1}
        memory.forget(everything=True)
    assert not bench.leaks(bench.files(path), [secret])


def test_the_command_prints_one_object_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "kept.db"
    code = bench.main(["--users", "1", "--days", "3", "--json", "--keep", str(kept)])
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(KEYS) <= set(result)
    assert (result["users"], result["days"], result["bytes"]) == (1, 3, kept.stat().st_size)
    assert code == (1 if result["broken"] else 0)
    with pytest.raises(SystemExit):
        bench.main(["--keep", str(kept)])
    assert "is there already" in capsys.readouterr().err
