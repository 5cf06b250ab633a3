"""Every parser of text from outside, as a function of bytes. Only errors of keepstone may come out of it."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from keepstone import KeepstoneError, Memory
from keepstone.cli.arguments import duration, json_value, moment
from keepstone.guard.instructions import detect_instructions
from keepstone.guard.sensitive import find_sensitive
from keepstone.importing import import_from, recognise
from keepstone.memtest.parser import parse_file
from keepstone.ports import filters
from keepstone.prompts import answers, compaction, consolidation, extraction, summary, verification
from keepstone.recall.question import parse_question
from keepstone.scope_index.segment import read_segment
from keepstone.settings import Settings
from keepstone.stores.postgres.target import Target
from keepstone.text import parsed_memory, sentences, time_expressions, times, words
from keepstone.write.blocks import split_content

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
CORPUS = Path(__file__).parent / "corpus"
FORMATS = ("mem0", "letta", "zep", "langmem", "chatgpt", "claude", "markdown")


@cache
def _memory() -> Memory:
    return Memory.open(":memory:", embedder="none", settings={"worker": False})


def _with_file(read: Callable[[Path], Any], name: str) -> Callable[[bytes], Any]:
    def target(data: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_bytes(data)
            read(path)

    return target


def _with_text(read: Callable[[str], Any]) -> Callable[[bytes], Any]:
    return lambda data: read(data.decode("utf-8", "replace"))


def _with_json(read: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    def target(data: bytes) -> None:
        with contextlib.suppress(ValueError, RecursionError):
            found = json.loads(data)
            read(found)

    return target


def _import(format: str, name: str = "export.json") -> Callable[[bytes], Any]:
    return _with_file(lambda path: import_from(_memory(), path, format=format, dry_run=True), name)


def _open_store(path: Path) -> None:
    Memory.open(path, embedder="none").close()


def _passages(text: str) -> None:
    for start, stop in sentences.split_passages(text):
        assert 0 <= start <= stop <= len(text)


def _settings(text: str) -> None:
    for name in ("cache_mb", "min_trust", "durable", "sensitive", "source_writes_per_minute", "single_valued"):
        with contextlib.suppress(KeepstoneError):
            Settings.load({name: text})


TARGETS: dict[str, Callable[[bytes], Any]] = {
    "answers": _with_text(lambda text: answers.json_object(text, ("facts",))),
    "compaction": _with_text(lambda text: compaction.read(text, [])),
    "consolidation": _with_text(lambda text: consolidation.read(text, [])),
    "extraction": _with_text(lambda text: extraction.read(text, [])),
    "summary": _with_text(summary.read),
    "verification": _with_text(lambda text: verification.read(text, 3, 3)),
    "question": _with_text(lambda text: parse_question(text, {}, NOW)),
    "reading": _with_text(parsed_memory.read),
    "time": _with_text(lambda text: time_expressions.read_time(text, NOW)),
    "instant": _with_text(lambda text: times.parse_time(text, "since")),
    "words": _with_text(lambda text: words.record_terms(text, text[:40])),
    "passages": _with_text(_passages),
    "sentences": _with_text(lambda text: list(sentences.split_sentences(text))),
    "sensitive": _with_text(find_sensitive),
    "instructions": _with_text(detect_instructions),
    "duration": _with_text(lambda text: duration(text, "--ttl")),
    "moment": _with_text(lambda text: moment(text, "--since")),
    "json": _with_text(lambda text: json_value(text, "--metadata")),
    "url": _with_text(lambda text: Target.of(f"postgresql://{text}")),
    "settings": _with_text(_settings),
    "filters": _with_json(filters.parse),
    "blocks": _with_json(split_content),
    "memory test": _with_file(parse_file, "memory_test.yaml"),
    "export": _with_file(lambda path: _memory().import_(path), "export.jsonl"),
    "recognise": _with_file(recognise, "export.json"),
    "segment": _with_file(lambda path: read_segment(path, {}), "segment"),
    "store": _with_file(_open_store, "memory.db"),
    "zip": _import("chatgpt", "export.zip"),
    **{f"import {name}": _import(name, "notes.md" if name == "markdown" else "export.json") for name in FORMATS},
}


def run(name: str, data: bytes) -> None:
    """Give a parser some bytes; whatever is not an error of keepstone comes out."""
    with contextlib.suppress(KeepstoneError):
        TARGETS[name](data)


def corpus(name: str) -> list[bytes]:
    """The kept inputs of a parser: a JSON string a line, bytes that are not UTF-8 as surrogates."""
    path = CORPUS / f"{name.replace(' ', '_')}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line).encode("utf-8", "surrogateescape") for line in lines]


def keep(name: str, data: bytes) -> None:
    """Add an input to the corpus of a parser."""
    CORPUS.mkdir(exist_ok=True)
    with (CORPUS / f"{name.replace(' ', '_')}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(data.decode("utf-8", "surrogateescape")) + "\n")
