"""Stores with a large scope, which is a small one where `approximate_from` is low. No test lives here."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keepstone import Memory
from keepstone.scope_index import segment
from keepstone.scope_index.mapped_index import MappedView
from keepstone.scope_index.segment import Segment
from keepstone.text.words import record_terms, term_hashes
from keepstone.write.request import WriteRequest
from tests.faults.support import start

LEAST = 100
PEOPLE = ("Dana", "Erik", "Maria", "Tomas", "Aiko", "Lena", "Omar", "Ines")
VERBS = ("repaired", "painted", "sold", "photographed", "borrowed", "measured", "described", "collected")
THINGS = ("bicycle", "violin", "greenhouse", "telescope", "lighthouse", "kettle", "carpet", "sailboat", "microscope", "accordion")
PLACES = ("Rome", "Oslo", "Lisbon", "Kyoto", "Quito", "Nairobi", "Tallinn", "Dublin")
EVERY = tuple(f"{who} {did} a {what} in {where}" for who in PEOPLE for did in VERBS for what in THINGS for where in PLACES)


def facts(count: int, seed: int = 11) -> list[str]:
    return random.Random(seed).sample(EVERY, count)


def opened(path: Path | str, least: int = LEAST, **options: Any) -> Memory:
    """A memory whose scope is large from `least` records on."""
    settings = {"durable": False, "approximate_from": least, **options.pop("settings", {})}
    return Memory.open(path, settings=settings, **options)


def filled(memory: Memory, texts: Sequence[str], **rest: Any) -> list[str]:
    """Remember texts; the ids that they got."""
    requests = [WriteRequest(text, **rest) for text in texts]
    return [receipt.id or "" for receipt in memory._engine.writing.remember(memory.scope, requests, bulk=True)]


def top(memory: Memory, text: str, **options: Any) -> list[str]:
    return [hit.content for hit in memory.recall(text, **options)]


def large(memory: Memory) -> MappedView:
    """The scope as it is ranked; it must not be held whole."""
    view = memory._engine.cache.view(memory.scope)
    assert isinstance(view, MappedView)
    return view


def files(path: Path) -> list[Path]:
    """What lies in the folder beside a store."""
    folder = path.with_name(f"{path.name}-index")
    return sorted(folder.iterdir()) if folder.is_dir() else []


def held(path: Path) -> Segment:
    """What the only file there says."""
    (file,) = files(path)
    found = segment.read_segment(file, {})
    assert found is not None
    return found


def rewritten(path: Path, name: str, change: Any) -> None:
    """Change an array of the only file, behind everybody's back."""
    (file,) = files(path)
    found = segment.read_segment(file, {}, writable=True)
    assert found is not None
    change(found.arrays[name])


def words_left(path: Path, text: str) -> list[int]:
    """The terms of a text whose hashes stand in the file."""
    there = held(path).arrays["terms"]
    return [int(term) for term in np.unique(term_hashes(record_terms(text, None))) if (there == term).any()]


def raw(path: Path) -> bytes:
    """Every byte beside the store."""
    return b"".join(file.read_bytes() for file in files(path))


def vectors_of(dimension: int) -> Any:
    """An embedder for texts: those that share words are alike."""

    def embed(texts: Sequence[str]) -> list[list[float]]:
        made = []
        for text in texts:
            parts = [np.random.default_rng(zlib.crc32(word.encode())).normal(size=dimension) for word in text.lower().split()]
            vector = np.sum(parts or [np.ones(dimension)], axis=0)
            made.append((vector / np.linalg.norm(vector)).tolist())
        return made

    return embed


ASKER = """
import json, sys
from tests.scope_index.large import large, opened, top
with opened(sys.argv[1]) as memory:
    for line in sys.stdin:
        verb, text = json.loads(line)
        if verb == "ask":
            print(json.dumps([top(memory, text, limit=3, min_similarity=0), large(memory)._segment.size]), flush=True)
        else:
            getattr(memory, verb)(text)
            print("null", flush=True)
"""


class Asker:
    """A large scope in another process."""

    def __init__(self, path: Path) -> None:
        self.process = start("-c", ASKER, str(path))

    def __call__(self, verb: str, text: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([verb, text]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.communicate(timeout=60)


@pytest.fixture(name="growing")
def growing_scope(path: Path) -> Iterator[Memory]:
    """A large scope that may be changed."""
    with opened(path) as memory:
        filled(memory, facts(300))
        large(memory)
        yield memory


@pytest.fixture(name="memory")
def asked_scope(growing: Memory) -> Memory:
    """The same, asked once."""
    assert top(growing, "violin in Oslo")
    return growing
