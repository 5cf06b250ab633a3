"""keepstone as its users call it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.peers.serving import Calls, Hits, Peer, Vectors, serve

FACTS = 100  # memories in one remember_many
SAID = 1000  # messages in one ingest


class Keepstone(Peer):
    """One file; a scope is a user."""

    ways = Calls(
        add="Memory.remember(text)",
        bulk="Memory.ingest(messages), 500 a call",
        recall="Memory.recall(question, limit=5)",
    )

    embeds_itself = True  # its default is the embedder that the others are given

    def load(self) -> str:
        from keepstone import Memory, __version__

        self.Memory = Memory
        return __version__

    def open(self, embed: Vectors | None, dimension: int) -> None:
        self.memory = self.Memory.open(self.folder / "memory.db")
        self.users: dict[str, Any] = {}
        self.keys: dict[str, str] = {}  # of an id: the key, for what this process has stored
        self.sessions = 0

    def add(self, scope: str, text: str, key: str) -> None:
        self.keys[self._user(scope).remember(text).id or ""] = key

    def fill(self, scope: str, texts: list[str], keys: list[str]) -> None:
        said = [{"role": "user", "content": text} for text in texts]
        for at in range(0, len(said), SAID):
            self.sessions += 1
            self._keep(self._user(scope).ingest(said[at : at + SAID], session=f"session{self.sessions}"), keys[at : at + SAID])

    def preload(self, scope: str, texts: list[str], keys: list[str], facts: bool) -> None:
        if not facts:
            return self.fill(scope, texts, keys)
        for at in range(0, len(texts), FACTS):
            self._keep(self._user(scope).remember_many(texts[at : at + FACTS]), keys[at : at + FACTS])
        return None

    def recall(self, scope: str, question: str, limit: int) -> Hits:
        return [(self.keys.get(hit.id, ""), hit.content) for hit in self._user(scope).recall(question, limit=limit)]

    def durable(self) -> str:
        return "yes: SQLite in WAL mode with synchronous=FULL; 1 fdatasync an add (strace)"

    def close(self) -> None:
        self.memory.close()

    def _keep(self, receipts: Sequence[Any], keys: list[str]) -> None:
        self.keys.update((receipt.id, key) for receipt, key in zip(receipts, keys, strict=True))

    def _user(self, scope: str) -> Any:
        if scope not in self.users:
            self.users[scope] = self.memory.with_scope(user=scope)
        return self.users[scope]


if __name__ == "__main__":
    serve(Keepstone())
