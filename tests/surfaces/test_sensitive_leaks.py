"""Names, imports, refusals, logs, errors and fingerprints hold nothing sensitive."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from keepstone import Memory, Record
from keepstone.agent import MemoryAgent
from keepstone.errors import KeepstoneError, ModelError
from keepstone.ports.maintenance import Flag
from keepstone.types import Message
from keepstone.write.request import WriteRequest
from tests.surfaces.test_sensitive_paths import VALUES, held

CARD = VALUES["card"]
SSN = VALUES["ssn"]
KEY = VALUES["key of a model"]
REFUSING = {"sensitive": {"card": "refuse"}}
SAID = {
    "card": CARD,
    "ssn": SSN,
    "iban": VALUES["iban"],
    "key of a model": KEY,
    "token": VALUES["token"],
    "password": "password: hunter2!Zebra",
}


def exported(folder: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """An export of a record with a past, changed on the way."""
    with Memory.open(folder / "other.db", embedder="none") as other:
        other.remember("Dana lives in Rome.", key="home")
        other.remember("Dana lives in Oslo.", key="home")
        other.export(folder / "export.jsonl")
    line = json.loads((folder / "export.jsonl").read_text())
    change(line)
    (folder / "export.jsonl").write_text(json.dumps(line) + "\n")
    return folder / "export.jsonl"


def stored(memory: Memory, id: str | None) -> Record:
    record = memory.get(id or "")
    assert record is not None
    return record


# -- names ----------------------------------------------------------------------------------------------------------------
def test_a_kind_is_looked_at_like_every_other_name(path: Path) -> None:
    with Memory.open(path, embedder="none") as memory:
        receipt = memory.remember("Dana has one.", kind=CARD)
        assert receipt.action == "redacted"
        assert stored(memory, receipt.id).kind.startswith("[redacted:card ")
    assert held(path, CARD) == []


def test_a_refused_kind_stores_nothing(path: Path) -> None:
    with Memory.open(path, embedder="none", settings=REFUSING) as memory:
        assert memory.remember("Dana has one.", kind=CARD).action == "refused"
        assert len(memory.list()) == 0
    assert held(path, CARD) == []


def test_the_trail_of_a_refusal_does_not_name_the_source_as_it_was_given(path: Path) -> None:
    with Memory.open(path, embedder="none", settings=REFUSING) as memory:
        assert memory.remember("Dana has one.", source=f"web:{CARD}").action == "refused"
        (row,) = memory.audit()
        assert (row.action, row.source.startswith("web:[redacted:card ")) == ("refused", True)
        assert memory.audit.verify().whole
    assert held(path, CARD) == []


def test_the_trail_of_a_refused_import_does_not_name_the_source_as_it_was_given(path: Path, tmp_path: Path) -> None:
    file = exported(tmp_path, lambda line: line.update(source=f"web:{CARD}"))
    with Memory.open(path, embedder="none", settings=REFUSING) as memory:
        assert memory.import_(file).skipped == 1
        assert [row.action for row in memory.audit() if row.verb == "import"].count("refused") == 1
        assert CARD not in repr(memory.audit())
    assert held(path, CARD) == []


@pytest.mark.parametrize("field", ["kind", "tag", "source", "session", "role", "name", "action"])
def test_the_past_of_an_import_keeps_no_name_as_it_was_given(path: Path, tmp_path: Path, field: str) -> None:
    file = exported(tmp_path, lambda line: line["versions"][0].update({field: CARD}))
    with Memory.open(path, embedder="none") as memory:
        assert memory.import_(file).added == 1
        assert len(memory.history(memory.list()[0].id)) == 2
    assert held(path, CARD) == []


@pytest.mark.parametrize("change", [{"id": CARD}, {"parents": [CARD]}, {"kind": CARD}], ids=["id", "parents", "kind"])
def test_an_import_keeps_no_id_or_kind_as_it_was_given(path: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    with Memory.open(path, embedder="none") as memory:
        assert memory.import_(exported(tmp_path, lambda line: line.update(change))).added == 1
    assert held(path, CARD) == []


def test_whoever_settles_a_review_is_looked_at(path: Path) -> None:
    with Memory.open(path, embedder="none") as memory:
        id = memory.remember("Dana lives in Rome.").id or ""
        memory._engine.store.reviews.add(memory.scope, [Flag(id, "stale", f"it may be old, says {SSN}")])
        (item,) = memory.review
        assert SSN not in item.reason
        memory.review.resolve(item.number, "keep", by=SSN)
        assert "[redacted:ssn " in repr(memory.audit())
    assert held(path, SSN) == []


# -- blocks and contexts --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"ref": 3, "query": "4111111111111111"}, "4111111111111111"),
        ({"order": 77, "q": "4111111111111111"}, "4111111111111111"),
        ({"ticket": 3, "customer_note": "x", "amount": SSN}, SSN),
        ({"version": SSN, "code": "x"}, SSN),
    ],
)
def test_blocks_and_their_text_lose_the_same(memory: Memory, given: dict[str, Any], value: str) -> None:
    use = {"type": "tool_use", "id": "t", "name": "find", "input": given}
    receipt = memory.conversation("s").add("assistant", [{"type": "text", "text": "ok"}, use])
    record = stored(memory, receipt.id)
    assert (value in json.dumps(record.blocks)) == (value in record.content)


@pytest.mark.parametrize("metadata", [{"v": SSN}, {"id": SSN}, {"ticket": {"customer": SSN}}])
def test_the_name_of_a_field_hides_nothing(path: Path, metadata: dict[str, Any]) -> None:
    with Memory.open(path, embedder="none") as memory:
        assert memory.remember("Dana has one.", metadata=metadata).action == "redacted"
    assert held(path, SSN) == []


@pytest.mark.parametrize("text", ["call({})", "Thought: pay\nAction: call({})\nResult: paid with {}"])
def test_the_word_call_hides_no_card(path: Path, text: str) -> None:
    with Memory.open(path, embedder="none") as memory:
        assert memory.remember(text.replace("{}", "5555555555554444")).action == "redacted"
    assert held(path, "5555555555554444") == []


# -- logs, reports and errors ---------------------------------------------------------------------------------------------
def test_what_a_provider_complains_of_is_in_no_log_and_no_report(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def model(_: Any) -> str:
        raise ModelError(f"401 Incorrect API key provided: {KEY}")

    caplog.set_level(logging.DEBUG, "keepstone")
    with Memory.open(path, model=model, settings={"worker": False}) as memory:
        memory.ingest([Message("user", "I live in Porto.")], session="s")
        report = memory.jobs.run()
        assert report.problems
        assert KEY not in repr(report)
        assert KEY not in repr(memory.jobs.list())
    assert "401" in caplog.text
    assert KEY not in caplog.text


def all_kinds(kind: type[KeepstoneError] = KeepstoneError) -> list[type[KeepstoneError]]:
    """A kind of error and every kind below it, of those that the library raises."""
    below = [each for each in kind.__subclasses__() if each.__module__ == KeepstoneError.__module__]
    return [kind, *(each for one in below for each in all_kinds(one))]


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("said", SAID)
def test_an_error_of_any_kind_says_nothing_sensitive(said: str) -> None:
    value = SAID[said].removeprefix("password: ")
    kinds = all_kinds()
    assert len(kinds) >= 15
    for kind in kinds:
        error = kind(f"it was {SAID[said]} and cannot be taken: use another.")
        told = f"{error} {error!r} {error.args}"
        assert value not in told, kind
        assert "cannot be taken" in told, kind


ERRORS: dict[str, Callable[[Memory, str], Any]] = {
    "forget by key": lambda memory, value: memory.forget(key=value),
    "forget by id": lambda memory, value: memory.forget(value),
    "history": lambda memory, value: memory.history(value),
    "update": lambda memory, value: memory.update(value, "x"),
    "why": lambda memory, value: memory.why("tea", value),
    "long key of metadata": lambda memory, value: memory.remember("x", metadata={f"{value} {'x' * 300}": 1}),
    "wrong type in metadata": lambda memory, value: memory.remember("x", metadata={value: object()}),
    "time": lambda memory, value: memory.remember("x", occurred_at=value),
    "value that is no JSON": lambda memory, value: memory.set(value, object()),
    "unknown argument": lambda memory, value: memory.remember_many([{"content": "x", value: 1}]),
    "unknown field": lambda memory, value: memory.ingest([{"role": "user", "content": "x", value: 1}], session="s"),
    "key used twice": lambda memory, value: [memory.remember(text, idempotency_key=value) for text in ("Dana.", "Omar.")],
    "decision": lambda memory, value: memory.review.resolve(1, value),  # type: ignore[arg-type]
    "policy of upkeep": lambda memory, value: memory.upkeep.run({value: 1}),
    "setting": lambda _, value: Memory.open(":memory:", settings={value: 1}),
    "embedder": lambda _, value: Memory.open(":memory:", embedder=value),
}


TAKEN_FOR_ANOTHER = [
    ("forget by id", "ssn"),
    ("wrong type in metadata", "ssn"),
    ("unknown argument", "ssn"),
]  # by the words beside
QUOTED = [(way, said) for way in ERRORS for said in SAID if (way, said) not in TAKEN_FOR_ANOTHER]


@pytest.mark.parametrize(("way", "said"), QUOTED, ids=map("-".join, QUOTED))
def test_an_error_does_not_quote_what_it_was_given(memory: Memory, way: str, said: str) -> None:
    with pytest.raises(KeepstoneError) as raised:
        ERRORS[way](memory, SAID[said])
    assert SAID[said].removeprefix("password: ") not in f"{raised.value} {raised.value!r}"


@pytest.mark.parametrize("tool", ["write_memory", "recall_memory", "update_memory"])
def test_the_answer_of_a_tool_does_not_quote_what_it_was_given(memory: Memory, tool: str) -> None:
    given = {"content": "Dana likes tea.", "tag": f"card {CARD}", "id": CARD}
    assert CARD not in repr(memory.call_tool(tool, given))


def test_an_agent_logs_and_notes_no_value(
    memory: Memory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise KeepstoneError(f"there is no room for {CARD}")

    caplog.set_level(logging.DEBUG, "keepstone")
    monkeypatch.setattr(memory._engine.store, "write", full)
    reply = MemoryAgent(memory, lambda _: "Hello.").chat("Hi.", session="s")
    assert "there is no room for" in reply.notes[0]
    assert CARD not in repr(reply)
    assert CARD not in caplog.text


# -- fingerprints ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "given",
    [{"content": f"My SSN is {SSN}"}, {"content": "Dana has one.", "metadata": {"ssn": SSN}}],
    ids=["content", "metadata"],
)
def test_a_fingerprint_is_of_what_is_stored(path: Path, given: dict[str, Any]) -> None:
    """A plain hash would reveal a value of nine digits to a search through all of them."""
    raw = WriteRequest(**given, idempotency_key="once")
    as_it_came = raw.fingerprint(raw.draft(datetime.now(UTC)))
    with Memory.open(path, embedder="none") as memory:
        first = memory.remember(**given, idempotency_key="once")
        assert memory.remember(**given, idempotency_key="once").id == first.id
        record = stored(memory, first.id)
    kept = WriteRequest(record.content, metadata=record.metadata).fingerprint()
    with apsw.Connection(str(path)) as db:
        rows = repr(db.execute("select * from idempotency").fetchall())
    assert kept in rows
    assert as_it_came == raw.fingerprint()
    assert as_it_came not in rows


# -- what was said just now -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("settings", [{}, REFUSING], ids=["redact", "refuse"])
@pytest.mark.parametrize("strategy", ["tools", "buffer", "summary", "vector"])
def test_a_message_reaches_the_model_as_it_was_said_in_its_own_turn_only(
    path: Path, strategy: str, settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    def model(prompt: Any) -> str:
        seen.append(repr(prompt))
        return "I see."

    caplog.set_level(logging.DEBUG, "keepstone")
    with Memory.open(path, settings={"worker": False, **settings}) as memory:
        agent = MemoryAgent(memory, model, strategy=strategy)
        agent.chat(f"Is {CARD} a valid card?", session="s")
        agent.chat("Which card did I ask about?", session="s")
        agent.chat("Which card did I ask about?", session="another")
        assert [CARD in each for each in seen] == [True, False, False]
        assert held(path, CARD) == []
    assert held(path, CARD) == []
    assert CARD not in caplog.text


def test_what_was_said_just_now_stands_in_its_own_place(memory: Memory) -> None:
    seen: list[Any] = []

    def model(prompt: Any) -> str:
        seen.append(prompt)
        return "I see."

    agent = MemoryAgent(memory, model, strategy="buffer")
    agent.chat(f"Is {CARD} valid?", session="s")
    agent.chat("Is 5555555555554444 valid?", session="s")
    said = [json.dumps(message["content"]) for message in seen[1].messages if message["role"] == "user"]
    assert len(said) == 2
    assert "Is [redacted:card] valid?" in said[0]
    assert "Is 5555555555554444 valid?" in said[1]
