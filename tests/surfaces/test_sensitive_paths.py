"""Every way into the store with something sensitive on it: no byte of it is in the files, open or closed, in the log, in a
receipt or in an error."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.errors import KeepstoneError
from keepstone.types import Message

PEM = "MIIEpAIBAAKCAQEAx7Vn3Q9wYc2Lk8RzTq4uHs6dPjVbN1mXoEaFgWiCyKtZr5Ul"
VALUES = {
    "card": "4111 1111 1111 1111",
    "card in one piece": "5555555555554444",
    "ssn": "536-22-1234",
    "iban": "DE89 3704 0044 0532 0130 00",
    "key of a model": "sk-ant-api03-" + "Ab3dEf6hIj9kLm2nOp5q" * 4,
    "key of a cloud": "AKIAQ3EGRZ7TX5MWLKP4",
    "token": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "password": "hunter2!Zebra",
    "private key": PEM,
}
GIVEN = {  # as people write it; the rest is the value alone
    "password": "password: hunter2!Zebra",
    "private key": f"-----BEGIN RSA PRIVATE KEY-----\n{PEM}\n",
}
ONE_LINE = [name for name in VALUES if name != "private key"]  # what an identifier can hold
Way = Callable[[Memory, str, Path], Any]


def _imported(memory: Memory, folder: Path, change: Callable[[dict[str, Any]], Any]) -> Any:
    """Import a record with a past that was changed on the way."""
    with Memory.open(":memory:") as other:
        other.remember("Dana lives in Rome.", key="home", session="s")
        other.remember("Dana lives in Oslo.", key="home", session="s")
        other.export(folder / "export.jsonl")
    line = json.loads((folder / "export.jsonl").read_text())
    change(line)
    (folder / "export.jsonl").write_text(json.dumps(line) + "\n")
    report = memory.import_(folder / "export.jsonl")
    assert report.added + report.skipped == 1, report
    return report


def _reworded(line: dict[str, Any], content: str) -> None:
    line["content"] = line["versions"][-1]["content"] = content


def _task(memory: Memory, value: str, _: Path) -> Any:
    memory.tasks.start(f"file it with {value}", goal=f"be done with {value}")
    memory.working.result("found", {"it": value})
    memory.working.think(f"maybe {value}")
    memory.working.set("number", value)
    memory.working.save()
    step = memory.tasks.record(f"think of {value}", f"pay({value})", f"it said {value}")
    return step, memory.tasks.end(True, f"it went well with {value}")


def _chat(memory: Memory, value: str, _: Path) -> Any:
    talk = memory.conversation("talk", max_messages=2)
    receipts = [talk.add("user", f"It is {value}, I decided that number {number} matters.") for number in range(5)]
    kept = [receipt for receipt in receipts if receipt.action != "refused"]
    summary = talk.summary()
    assert bool(summary) is bool(kept)
    return receipts, summary, talk.consolidate()


def _many(memory: Memory, value: str, _: Path) -> Any:
    return memory.remember_many([f"It is {value}.", {"content": "Dana has it.", "metadata": {"note": {"deep": [value]}}}])


def _tools(memory: Memory, value: str, _: Path) -> Any:
    id = memory.remember("Dana keeps a note.").id
    written = memory.call_tool("write_memory", {"content": f"Dana's detail: it is {value}"})
    return written, memory.call_tool("update_memory", {"id": id, "content": f"Dana keeps {value}"})


TEXTS: dict[str, Way] = {
    "content": lambda memory, value, _: memory.remember(f"Dana says: it is {value}"),
    "value of metadata": lambda memory, value, _: memory.remember("Dana has one.", metadata={"note": {"deep": [value]}}),
    "key of metadata": lambda memory, value, _: memory.remember("Dana has one.", metadata={value[:200]: 1}),
    "message": lambda memory, value, _: memory.ingest([{"role": "user", "content": value}], session="s"),
    "metadata of a message": lambda memory, value, _: memory.conversation("s").add("user", "hello", note=value),
    "blocks": lambda memory, value, _: memory.conversation("s").add(
        "assistant",
        [{"type": "text", "text": "I pay."}, {"type": "tool_use", "id": "t1", "name": "pay", "input": {"a": [{"b": value}]}}],
    ),
    "result of a tool": lambda memory, value, _: memory.conversation("s").add(
        "user", [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": value}]}]
    ),
    "block of a type of tomorrow": lambda memory, value, _: memory.conversation("s").add(
        "user", [{"type": "hologram", "light": value, "sound": [value]}]
    ),
    "conversation and its summaries": _chat,
    "imported conversation": lambda memory, value, _: memory.conversation("s").import_(
        {
            "keepstone": 1,
            "messages": [{"role": "user", "content": value, "metadata": {"note": value}}],
            "summary": {"text": f"It was {value}", "messages": 1, "by": "extractive"},
        }
    ),
    "text of a value": lambda memory, value, _: memory.set("detail", value),
    "value of JSON": lambda memory, value, _: memory.set("detail", {"a": [value]}),
    "batch": _many,
    "note to learn from": lambda memory, value, _: memory.learn(f"My name is Dana and I live in Oslo. It is {value}"),
    "fact found by rules": lambda memory, value, _: memory.ingest([Message("user", f"My name is {value}")], session="s"),
    "update of content": lambda memory, value, _: memory.update(memory.remember("Dana has one.").id or "", f"It is {value}"),
    "update of metadata": lambda memory, value, _: memory.update(
        memory.remember("Dana has one.").id or "", metadata={"note": value}
    ),
    "task": _task,
    "tools": _tools,
    "import": lambda memory, value, folder: _imported(memory, folder, lambda line: _reworded(line, f"It is {value}")),
    "import of a past version": lambda memory, value, folder: _imported(
        memory, folder, lambda line: line["versions"][0].update(content=f"It is {value}", metadata={"note": value})
    ),
    "import of blocks": lambda memory, value, folder: _imported(
        memory, folder, lambda line: line.update(blocks=[{"type": "text", "text": "hi"}, {"type": "x", "y": value}])
    ),
}
NAMES: dict[str, Way] = {
    "key": lambda memory, value, _: memory.remember("Dana has one.", key=value),
    "key of a value": lambda memory, value, _: memory.set(value, 1),
    "tag": lambda memory, value, _: memory.remember("Dana has one.", tag=value),
    "category": lambda memory, value, _: memory.set("detail", 1, tag=value),
    "session": lambda memory, value, _: memory.remember("Dana has one.", session=value),
    "session of messages": lambda memory, value, _: memory.conversation(value).add("user", "hello"),
    "source": lambda memory, value, _: memory.remember("Dana has one.", source=f"web:{value}"),
    "idempotency key": lambda memory, value, _: memory.remember("Dana has one.", idempotency_key=value),
    "idempotency key used twice": lambda memory, value, _: [
        memory.remember(content, idempotency_key=value) for content in ("Dana has one.", "Omar has none.")
    ],
    "speaker": lambda memory, value, _: memory.ingest([Message("user", "hello", name=value)], session="s"),
    "role": lambda memory, value, _: memory.ingest([Message(value, "hello")], session="s"),
    "imported names": lambda memory, value, folder: _imported(
        memory, folder, lambda line: line.update(dict.fromkeys(("tag", "key", "source", "session", "role", "name"), value))
    ),
}
POLICIES = ("redact", "refuse")
CASES = [(way, kind, policy) for way in TEXTS for kind in VALUES for policy in POLICIES]
CASES += [(way, kind, "redact") for way in NAMES for kind in ONE_LINE]
CASES += [(way, kind, "refuse") for way in NAMES if way not in ("source", "imported names") for kind in ONE_LINE]


def held(path: Path, value: str) -> list[str]:
    """The files of a store that hold a value."""
    files = [path.with_name(path.name + ending) for ending in ("", "-wal", "-shm")]
    return [file.name for file in files if file.exists() and value.encode() in file.read_bytes()]


@pytest.mark.parametrize(("way", "kind", "policy"), CASES, ids=map("-".join, CASES))
def test_no_byte_of_it_is_kept(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, way: str, kind: str, policy: str
) -> None:
    value = VALUES[kind]
    caplog.set_level(logging.DEBUG, "keepstone")
    treated = dict.fromkeys(("card", "ssn", "iban", "secret"), policy)
    with Memory.open(path, embedder="none", settings={"sensitive": treated}) as memory:
        try:
            told = str({**TEXTS, **NAMES}[way](memory, GIVEN.get(kind, value), tmp_path))
        except KeepstoneError as error:
            told = f"{error!r} {error}"
        assert held(path, value) == []
        assert value not in repr(memory.audit())
    assert held(path, value) == []
    assert value not in told
    assert value not in caplog.text


@pytest.mark.parametrize("number", [4111111111111111, 4111111111111111.0, -4111111111111111])
def test_a_number_of_metadata_is_looked_at_like_a_text(path: Path, number: float) -> None:
    with Memory.open(path, embedder="none") as memory:
        receipt = memory.remember("Dana has one.", metadata={"number": number, "years": 1987, "ratio": 0.25, "sure": True})
        record = memory.get(receipt.id or "")
        assert record is not None
        assert receipt.action == "redacted"
        assert record.metadata == {"number": "[redacted:card]", "years": 1987, "ratio": 0.25, "sure": True}
    assert held(path, "4111111111111111") == []


def test_metadata_that_is_not_sensitive_keeps_its_types(memory: Memory) -> None:
    given = {
        "whole": 12345678901, "float": 1.0, "large": 9007199254740993, "below": -5, "no": False, "none": None, "list": [1, [2.5]],
        "uuid": "123e4567-e89b-12d3-a456-426614174000",
    }  # fmt: skip
    record = memory.get(memory.remember("Dana has one.", metadata=given).id or "")
    assert record is not None
    assert record.metadata == given
    assert [type(value) for value in record.metadata.values()] == [type(value) for value in given.values()]


def test_blocks_keep_their_shape(memory: Memory) -> None:
    signature = "ErUBCkYIBRgCIkBz" + "Q29tcGxldGVseU9yZGluYXJ5U2lnbmF0dXJl" * 4
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "hm", "signature": signature},
        {
            "type": "tool_use",
            "id": "toolu_01A09q90qw90lq917835lq9",
            "name": "pay",
            "input": {"card": "4111 1111 1111 1111", "n": 2},
        },
    ]
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_01A09q90qw90lq917835lq9",
        "content": '{"paid": true}',
        "is_error": False,
    }
    talk = memory.conversation("s")
    talk.add("user", "Please pay.")
    assert talk.add("assistant", blocks).action == "redacted"
    assert talk.add("user", [result]).action == "added"
    sent = talk.messages()
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert sent[1]["content"] == [blocks[0], {**blocks[1], "input": {"card": "[redacted:card]", "n": 2}}]
    assert sent[2]["content"] == [result]


def test_what_is_split_between_two_blocks_is_found(path: Path) -> None:
    with Memory.open(path, embedder="none") as memory:
        halves = [{"type": "text", "text": "my card is 4111 1111"}, {"type": "text", "text": "1111 1111 and that is it"}]
        assert memory.conversation("s").add("user", halves).action == "redacted"
        assert memory.conversation("s").last()[0].content == [
            {"type": "text", "text": "my card is [redacted:card] and that is it"}
        ]


def test_a_problem_of_a_job_is_told_without_the_value(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    value = VALUES["key of a model"]

    def broken(_: Any) -> str:
        raise RuntimeError(f"401: the key {value} is not valid")

    caplog.set_level(logging.DEBUG, "keepstone")
    with Memory.open(path, model=broken, settings={"worker": False}) as memory:
        memory.ingest([Message("user", "I live in Porto.")], session="s")
        memory.jobs.run()
        (job,) = memory.jobs.list()
        assert job.problem
        assert value not in job.problem
        assert held(path, value) == []
    assert held(path, value) == []
    assert value not in caplog.text


def test_what_a_model_learns_is_looked_at_too(path: Path) -> None:
    fact = {"turns": [1], "content": "The user pays with 4111 1111 1111 1111.", "type": "profile", "confidence": 0.9}
    with Memory.open(path, model=lambda _: json.dumps({"facts": [fact]}), settings={"worker": False}) as memory:
        memory.ingest([Message("user", "I pay with the card that I have told you about.")], session="s")
        memory.jobs.run()
        assert all("4111" not in record.content for record in memory.list())
        assert held(path, "4111 1111 1111 1111") == []


def test_a_summary_by_a_model_is_looked_at_too(path: Path) -> None:
    def model(_: Any) -> str:
        return "Dana pays with 4111 1111 1111 1111."

    with Memory.open(path, model=model, settings={"worker": False}) as memory:
        talk = memory.conversation("s", max_messages=2)
        for number in range(6):
            talk.add("user", f"I tell you story number {number}.")
        talk.build()
        assert held(path, "4111 1111 1111 1111") == []
        assert "4111" not in memory.conversation("s").summary()
