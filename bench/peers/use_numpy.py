"""The same embedder's vectors in one matrix a scope, multiplied whole."""

from __future__ import annotations

import json
from typing import Any

from bench.peers.serving import Calls, Hits, Peer, Vectors, serve

EMBEDDED = 1000  # texts in one call of the embedder


class Matrix(Peer):
    """Texts and vectors in memory; on disk only when it is closed."""

    ways = Calls(
        add="none",
        bulk="rows of a matrix",
        recall="matrix @ vector, argpartition",
    )

    def load(self) -> str:
        import numpy as np

        self.np = np
        return str(np.__version__)

    def open(self, embed: Vectors | None, dimension: int) -> None:
        assert embed is not None
        self.embed = embed
        self.texts: dict[str, Hits] = {}
        self.rows: dict[str, Any] = {}
        if (self.folder / "texts.json").exists():
            self.texts = json.loads((self.folder / "texts.json").read_text("utf-8"))
            whole, at = self.np.load(self.folder / "vectors.npy"), 0
            for scope, texts in self.texts.items():
                self.rows[scope] = whole[at : at + len(texts)]
                at += len(texts)

    def add(self, scope: str, text: str, key: str) -> None:
        raise NotImplementedError("a matrix keeps nothing on disk")

    def fill(self, scope: str, texts: list[str], keys: list[str]) -> None:
        parts = [self.embed(texts[at : at + EMBEDDED], "document") for at in range(0, len(texts), EMBEDDED)]
        if scope in self.rows:
            parts.insert(0, self.rows[scope])
        self.rows[scope] = self.np.concatenate(parts)
        self.texts.setdefault(scope, []).extend(zip(keys, texts, strict=True))

    def recall(self, scope: str, question: str, limit: int) -> Hits:
        texts = self.texts[scope]
        scores = self.rows[scope] @ self.embed([question], "query")[0]
        best = self.np.argpartition(scores, -min(limit, len(texts)))[-limit:]
        return [texts[slot] for slot in best[self.np.argsort(-scores[best])]]

    def close(self) -> None:
        if self.texts:
            (self.folder / "texts.json").write_text(json.dumps(self.texts), "utf-8")
            self.np.save(self.folder / "vectors.npy", self.np.concatenate([self.rows[scope] for scope in self.texts]))


if __name__ == "__main__":
    serve(Matrix())
