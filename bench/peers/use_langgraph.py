"""LangGraph's SqliteStore with its index of vectors (sqlite-vec), a namespace a scope."""

from __future__ import annotations

import os
from importlib.metadata import version

from bench.peers.serving import Calls, Hits, Peer, Vectors, serve

os.environ["LANGSMITH_TRACING"] = "false"
BATCH = 1000


class LangGraph(Peer):
    """One file; a scope is a namespace."""

    ways = Calls(
        add="store.put(namespace, key, value)",
        bulk="store.batch(PutOp …), 500 a call",
        recall="store.search(namespace, query=…, limit=5)",
    )

    def load(self) -> str:
        from langgraph.store.base import PutOp
        from langgraph.store.sqlite import SqliteStore

        self.PutOp, self.SqliteStore = PutOp, SqliteStore
        return version("langgraph-checkpoint-sqlite")

    def open(self, embed: Vectors | None, dimension: int) -> None:
        assert embed is not None

        def vectors(texts: list[str]) -> list[list[float]]:  # for questions too: the store does not tell them apart
            return [row.tolist() for row in embed(texts, "document")]

        # As documented; this version embeds the value's JSON all the same (it reads another key), and finds more that way.
        index = {"dims": dimension, "embed": vectors, "fields": ["text"]}
        self.opened = self.SqliteStore.from_conn_string(str(self.folder / "store.db"), index=index)
        self.store = self.opened.__enter__()
        self.store.setup()

    def add(self, scope: str, text: str, key: str) -> None:
        self.store.put((scope,), key, {"text": text})

    def fill(self, scope: str, texts: list[str], keys: list[str]) -> None:
        puts = [self.PutOp((scope,), key, {"text": text}) for text, key in zip(texts, keys, strict=True)]
        for at in range(0, len(puts), BATCH):
            self.store.batch(puts[at : at + BATCH])

    def recall(self, scope: str, question: str, limit: int) -> Hits:
        return [(item.key, item.value["text"]) for item in self.store.search((scope,), query=question, limit=limit)]

    def durable(self) -> str:
        mode = self.store.conn.execute("PRAGMA journal_mode").fetchone()[0]
        level = self.store.conn.execute("PRAGMA synchronous").fetchone()[0]
        return f"yes: SQLite with journal_mode={mode}, synchronous={level}; 4 fdatasync an add (strace)"

    def close(self) -> None:
        self.opened.__exit__(None, None, None)


if __name__ == "__main__":
    serve(LangGraph())
