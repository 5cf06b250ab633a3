"""Freezes a store of the present schema for the tests of later versions: run once for each released schema.

    python -m tests.migrations.freeze

writes stores/schema_NNNN.db.xz and, beside it, stores/schema_NNNN.json: every record and version it holds.
"""

from __future__ import annotations

import json
import lzma
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from bench.torture.released_stores import FOLDER, contents, extract_store
from keepstone.engine import Engine
from keepstone.open import open_engine
from keepstone.ports.values import ListQuery, Matrix
from keepstone.recall.query import RecallQuery
from keepstone.stores.sqlite import migrate
from keepstone.types import Message, Scope
from keepstone.write.request import WriteRequest

__all__ = ["DANA", "ERIK", "Letters", "extract_store", "fill"]
DANA, ERIK = Scope(user="dana"), Scope("other", "agent", "erik")
START = datetime(2026, 1, 1, 9, tzinfo=UTC)


class Letters:
    """A tiny embedder, so that the frozen file stays small: how often each of eight letters stands in a text."""

    id = "letters-8"
    dimension = 8
    local = True

    def embed(self, texts: Sequence[str], *, purpose: str = "document") -> Matrix:
        raw = np.array([[1.0 + text.lower().count(letter) for letter in "aeiounst"] for text in texts], dtype=np.float32)
        unit: Matrix = raw / np.linalg.norm(raw, axis=1, keepdims=True)
        return unit


def fill(path: Path) -> None:
    """Something of everything that a store can hold."""
    now = START

    def clock() -> datetime:
        nonlocal now
        now += timedelta(minutes=1)
        return now

    engine = open_engine(path, embedder=Letters(), clock=clock)
    _write(engine)
    engine.recalling.recall(DANA, RecallQuery.parse("tea"))
    engine.close()
    engine = open_engine(path, embedder="none", clock=clock)
    for text in ("This one waits for its vector", "So does 这一个, with other letters"):
        engine.writing.remember(DANA, [WriteRequest(text, tag="pending")])
    engine.close()


def _write(engine: Engine) -> None:
    facts = [
        f"{who} {what}"
        for who in ("Dana", "Erik", "Maria", "Tomas")
        for what in ("drinks tea", "lives in Rome", "plays the violin")
    ]
    for number, text in enumerate(facts):
        about: dict[str, Any] = {"number": number, "nested": {"list": [number, None, True, 0.5]}}
        engine.writing.remember(
            DANA, [WriteRequest(text, importance=number / 20, metadata=about, idempotency_key=f"key {number}")]
        )
    for value in ("light", "dark", "auto"):
        engine.values.set(DANA, "ui_theme", value, "settings")
    engine.values.set(DANA, "limits", {"daily": 5, "text": "naïve 東京 😀"}, "settings")
    engine.writing.remember(DANA, [WriteRequest("User's preference is dark mode")])
    engine.writing.remember(DANA, [WriteRequest("prefers dark mode")])  # the same in other words: merged
    said = [
        Message("user" if n % 2 == 0 else "assistant", f"turn {n} of the talk", name="Dana" if n % 2 == 0 else None)
        for n in range(10)
    ]
    engine.learner.ingest(DANA, said, "session 1")
    first, second, third = engine.store.list(DANA, ListQuery(kind="fact", limit=100))[-3:]
    engine.writing.update(DANA, first[1].id, f"{first[1].content}, she said", None, None, 1)
    engine.writing.update(DANA, first[1].id, None, 0.9, {"checked": True}, 2)
    engine.writing.update(DANA, second[1].id, f"{second[1].content} no more", None, None, None)
    engine.eraser.forget(DANA, third[1].id, None, None, None, False)
    engine.writing.remember(
        DANA, [WriteRequest("Gone in an hour", ttl=3600), WriteRequest("Seen on the web", source="web:https://x")]
    )
    engine.writing.remember(ERIK, [WriteRequest("Erik's own secret"), WriteRequest("dark", key="ui_theme")])


def main() -> None:
    name = f"schema_{migrate.newest():04}"
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        fill(path)
        held = contents(path)
        (FOLDER / f"{name}.db.xz").write_bytes(lzma.compress(path.read_bytes(), preset=9))
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in held)
    (FOLDER / f"{name}.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{name}: {len({row['id'] for row in held})} records, {len(held)} versions")


if __name__ == "__main__":
    main()
