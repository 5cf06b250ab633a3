"""MemPalace over its default back end: drawers in wings, filed by its tool and found by its searcher."""

from __future__ import annotations

import logging
import os
import sqlite3
from datetime import datetime
from typing import Any

from bench.peers.serving import ONLY_SCOPE, Calls, Hits, Peer, Vectors, serve

os.environ["ANONYMIZED_TELEMETRY"] = "False"
ROOM = "notes"
BATCH = 1000


class MemPalace(Peer):
    """A scope is a wing; the palace is searched whole where there is only one."""

    ways = Calls(
        add="mcp_server.tool_add_drawer(wing, room, content)",
        bulk="palace.get_collection(path).upsert(documents, ids, metadatas), 500 a call, as its miner files",
        recall="searcher.search_memories(question, palace_path, wing=…, n_results=5)",
    )

    def load(self) -> str:
        os.environ |= {"MEMPALACE_PALACE_PATH": str(self.folder), "MEMPALACE_CONFIG_DIR": str(self.folder / "config")}
        os.environ["HOME"] = str(self.folder / "home")
        (self.folder / "home").mkdir(exist_ok=True)
        import mempalace
        from mempalace import mcp_server, palace, searcher

        logging.disable(logging.WARNING)
        self.tools, self.palace, self.searcher = mcp_server, palace, searcher
        return mempalace.__version__

    def open(self, embed: Vectors | None, dimension: int) -> None:
        assert embed is not None
        from mempalace import embedding

        made = function(embed)
        # Its choices are three models and an HTTP endpoint: in this process, this is the only way to another embedder.
        embedding.get_embedding_function = lambda device=None, model=None: made
        self.path = str(self.folder)
        self.collection = self.palace.get_collection(self.path, create=True)

    def add(self, scope: str, text: str, key: str) -> None:
        filed = self.tools.tool_add_drawer(scope, ROOM, text)
        if not filed.get("success"):
            raise RuntimeError(f"tool_add_drawer answers {filed}")

    def fill(self, scope: str, texts: list[str], keys: list[str]) -> None:
        now = datetime.now().isoformat()
        about = [
            {"wing": scope, "room": ROOM, "source_file": f"{key}.txt", "chunk_index": 0, "added_by": "bench", "filed_at": now}
            for key in keys
        ]
        for at in range(0, len(texts), BATCH):
            end = at + BATCH
            self.collection.upsert(documents=texts[at:end], ids=keys[at:end], metadatas=about[at:end])

    def recall(self, scope: str, question: str, limit: int) -> Hits:
        wing = None if scope == ONLY_SCOPE else scope
        found = self.searcher.search_memories(question, self.path, wing=wing, n_results=limit)
        if "results" not in found:
            raise RuntimeError(f"search_memories answers {str(found)[:300]}")
        return [(str(hit.get("source_file", "")).removesuffix(".txt"), hit["text"]) for hit in found["results"]]

    def durable(self) -> str:
        with sqlite3.connect(f"file:{self.folder / 'chroma.sqlite3'}?mode=ro", uri=True) as db:
            mode = db.execute("PRAGMA journal_mode").fetchone()[0]
        return f"yes: Chroma's SQLite log, journal_mode={mode}, and a log of its own; 12 fsync an add (strace)"

    def close(self) -> None:
        close = getattr(self.collection, "close", None)
        if callable(close):
            close()


def function(embed: Vectors) -> Any:
    """Our embedder as Chroma's EmbeddingFunction, under the name that MemPalace gives to its own."""
    from chromadb.api.types import Documents, EmbeddingFunction, Embeddings

    class Given(EmbeddingFunction[Documents]):
        def __init__(self) -> None:
            pass

        def __call__(self, input: Documents) -> Embeddings:
            return list(embed(input, "document"))

        def embed_query(self, input: Documents) -> Embeddings:
            return list(embed(input, "query"))

        @staticmethod
        def name() -> str:
            return "default"

        def get_config(self) -> dict[str, Any]:
            return {}

        @staticmethod
        def build_from_config(config: dict[str, Any]) -> Given:
            return Given()

    return Given()


if __name__ == "__main__":
    serve(MemPalace())
