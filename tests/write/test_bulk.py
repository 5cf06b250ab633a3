"""A bulk is screened, embedded and committed in parts, so that its size does not decide how much memory it takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keepstone import Memory
from keepstone.embedders.static import StaticEmbedder


class _CountingEmbedder(StaticEmbedder):
    """The built-in embedder, and how many texts each call had."""

    local = True

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def embed(self, texts: Sequence[str], **options: Any) -> Any:
        self.sizes.append(len(texts))
        return super().embed(texts, **options)


def test_a_bulk_of_messages_is_stored_in_parts_with_a_receipt_for_each(path: Path) -> None:
    embedder = _CountingEmbedder()
    said = [{"role": "user", "content": f"Crate {number} is in the shed."} for number in range(2001)]
    said[-1]["content"] = ""  # refused by its receipt, wherever the parts end
    with Memory.open(path, embedder=embedder) as memory:
        receipts = memory.ingest(said, session="inventory", extract=False)
        assert [each.action for each in receipts] == ["added"] * 2000 + ["refused"]
        assert max(embedder.sizes) <= 1000
        assert [memory.get(each.id).content for each in receipts[1998:2000]] == [each["content"] for each in said[1998:2000]]
