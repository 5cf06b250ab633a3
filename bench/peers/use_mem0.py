"""mem0's open-source Memory over its default vector store, Qdrant in a folder, with no language model."""

from __future__ import annotations

import hashlib
import logging
import os
import uuid
import warnings
from datetime import UTC, datetime
from typing import Any

from bench.peers.serving import Calls, Hits, Peer, Vectors, serve

os.environ["MEM0_TELEMETRY"] = "False"
given: Vectors | None = None


class Mem0(Peer):
    """A scope is a user_id."""

    ways = Calls(
        add="Memory.add(text, user_id=…, infer=False)",
        bulk="Memory.add(messages, user_id=…, infer=False), 500 a call: each message is stored for itself",
        recall="Memory.search(question, filters={user_id}, top_k=5)",
        preload="Memory.vector_store.insert(vectors, payloads, ids) with the payloads that add makes; no history",
    )

    def load(self) -> str:
        os.environ["MEM0_DIR"] = str(self.folder / "home")
        import mem0
        from mem0.utils.factory import EmbedderFactory

        # An embedder of one's own in this process; the documented way to it (langchain) would cost mem0 one package more.
        EmbedderFactory.provider_to_class["langchain"] = f"{__name__}.embedding"
        logging.disable(logging.WARNING)  # it misses fastembed and spaCy, which are no part of its install
        warnings.filterwarnings("ignore")  # Qdrant advises a server from 20,000 points on
        self.mem0 = mem0
        return mem0.__version__

    def open(self, embed: Vectors | None, dimension: int) -> None:
        global given
        given = embed
        self.memory = self.mem0.Memory.from_config(
            {
                "vector_store": {
                    "provider": "qdrant",
                    "config": {
                        "path": str(self.folder / "qdrant"),
                        "collection_name": "bench",
                        "embedding_model_dims": dimension,
                        "on_disk": True,
                    },
                },
                "embedder": {"provider": "langchain", "config": {"model": "given"}},
                "llm": {"provider": "openai", "config": {"api_key": "never called", "openai_base_url": "http://127.0.0.1:9/v1"}},
                "history_db_path": str(self.folder / "history.db"),
            }
        )

    def add(self, scope: str, text: str, key: str) -> None:
        self.memory.add(text, user_id=scope, metadata={"key": key}, infer=False)

    def fill(self, scope: str, texts: list[str], keys: list[str]) -> None:
        self.memory.add([{"role": "user", "content": text} for text in texts], user_id=scope, infer=False)

    def preload(self, scope: str, texts: list[str], keys: list[str], facts: bool) -> None:
        assert given is not None
        now = datetime.now(UTC).isoformat()
        payloads = [
            {"user_id": scope, "role": "user", "data": text, "hash": hashlib.md5(text.encode()).hexdigest(), "created_at": now,
             "updated_at": now, "text_lemmatized": text.lower(), "key": key}
            for text, key in zip(texts, keys, strict=True)
        ]  # fmt: skip
        rows = [row.tolist() for row in given(texts, "document")]
        self.memory.vector_store.insert(vectors=rows, payloads=payloads, ids=[str(uuid.uuid4()) for _ in texts])

    def recall(self, scope: str, question: str, limit: int) -> Hits:
        found = self.memory.search(question, filters={"user_id": scope}, top_k=limit, threshold=0.0)
        return [((hit.get("metadata") or {}).get("key", ""), hit["memory"]) for hit in found["results"]]

    def durable(self) -> str:
        databases = {"history": self.memory.db.connection}
        for name, collection in self.memory.vector_store.client._client.collections.items():
            databases[f"collection {name}"] = collection.storage.storage
        told = [
            f"{name}: journal_mode={db.execute('PRAGMA journal_mode').fetchone()[0]}, "
            f"synchronous={db.execute('PRAGMA synchronous').fetchone()[0]}"
            for name, db in databases.items()
        ]
        return f"yes: SQLite files, a transaction each ({'; '.join(told)}); 8 fdatasync an add (strace)"

    def close(self) -> None:
        self.memory.vector_store.client.close()
        self.memory.close()


def embedding(config: Any) -> Any:
    """Our embedder as mem0's hook: a subclass of its EmbeddingBase."""
    from mem0.embeddings.base import EmbeddingBase

    class Given(EmbeddingBase):
        def embed(self, text: str, memory_action: str | None = None) -> list[float]:
            assert given is not None
            return list(map(float, given([text], "query" if memory_action == "search" else "document")[0]))

    return Given(config)


if __name__ == "__main__":
    serve(Mem0())
