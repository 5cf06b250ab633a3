"""Chroma, embedded: a PersistentClient, a collection a scope."""

from __future__ import annotations

import os
import sqlite3
from typing import Any

from bench.peers.serving import Calls, Hits, Peer, Vectors, serve

os.environ["ANONYMIZED_TELEMETRY"] = "False"


def function(embed: Vectors) -> Any:
    """Our embedder as Chroma's hook: an EmbeddingFunction."""
    from chromadb.api.types import Documents, EmbeddingFunction, Embeddings
    from chromadb.utils.embedding_functions import register_embedding_function

    @register_embedding_function
    class Given(EmbeddingFunction[Documents]):
        def __init__(self) -> None:
            pass

        def __call__(self, input: Documents) -> Embeddings:
            return list(embed(input, "document"))

        def embed_query(self, input: Documents) -> Embeddings:
            return list(embed(input, "query"))

        @staticmethod
        def name() -> str:
            return "bench_given"

        def get_config(self) -> dict[str, Any]:
            return {}

        @staticmethod
        def build_from_config(config: dict[str, Any]) -> Given:
            return Given()

    return Given()


class Chroma(Peer):
    """A collection a scope."""

    ways = Calls(
        add="collection.add(ids, documents), one a call",
        bulk="collection.add(ids, documents), 500 a call",
        recall="collection.query(query_texts, n_results=5)",
    )

    def load(self) -> str:
        import chromadb

        self.chromadb = chromadb
        return chromadb.__version__

    def open(self, embed: Vectors | None, dimension: int) -> None:
        assert embed is not None
        settings = self.chromadb.Settings(anonymized_telemetry=False)
        self.client = self.chromadb.PersistentClient(str(self.folder), settings=settings)
        self.most = self.client.get_max_batch_size()
        self.function = function(embed)
        self.collections: dict[str, Any] = {}

    def add(self, scope: str, text: str, key: str) -> None:
        self._collection(scope).add(ids=[key], documents=[text])

    def fill(self, scope: str, texts: list[str], keys: list[str]) -> None:
        for at in range(0, len(texts), self.most):
            self._collection(scope).add(ids=keys[at : at + self.most], documents=texts[at : at + self.most])

    def recall(self, scope: str, question: str, limit: int) -> Hits:
        found = self._collection(scope).query(query_texts=[question], n_results=limit)
        return list(zip(found["ids"][0], found["documents"][0], strict=True))

    def durable(self) -> str:
        with sqlite3.connect(f"file:{self.folder / 'chroma.sqlite3'}?mode=ro", uri=True) as db:
            mode = db.execute("PRAGMA journal_mode").fetchone()[0]
        return (
            f"yes: an SQLite log, journal_mode={mode}, 8 fsync an add (strace); the index of vectors is written every 1000 "
            "additions and made good from the log"
        )

    def close(self) -> None:
        if hasattr(self.client, "close"):
            self.client.close()

    def _collection(self, scope: str) -> Any:
        if scope not in self.collections:
            self.collections[scope] = self.client.get_or_create_collection(f"scope-{scope}", embedding_function=self.function)
        return self.collections[scope]


if __name__ == "__main__":
    serve(Chroma())
