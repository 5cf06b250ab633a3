"""What a killed process had been promised, and whether the store kept it. Imports: recollect's public API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recollect import Memory, Record


@dataclass(frozen=True, slots=True)
class Promise:
    """A record as it must be: its content, the word that finds it, its version."""

    word: str
    content: str
    version: int
    key: str | None = None


class Ledger:
    """Acknowledged effects on one file. A verb that was begun and not acknowledged may be there whole, or not at all."""

    def __init__(self) -> None:
        self._promises: dict[str, Promise] = {}
        self._forgotten: dict[str, Promise] = {}
        self._new: set[str] = set()
        self._begun: dict[str, Any] | None = None
        self._acknowledged = 0
        self.in_doubt: str | None = None
        self._problems: list[str] = []

    @property
    def promised(self) -> bool:
        """Whether anything was ever acknowledged."""
        return bool(self._promises or self._forgotten)

    def note(self, line: dict[str, Any]) -> None:
        """Take in one line of the child."""
        match line["event"]:
            case "open":
                self._begun = None
            case "begin":
                self._begun = line
            case "done":
                assert self._begun is not None
                self._keep(self._begun, line["receipts"])
                self._begun = None
            case "error":
                self._problems.append(f"the child met an error: {line['error']}")
        self.in_doubt = None if self._begun is None else str(self._begun["verb"])

    def take_acknowledged(self) -> int:
        """Effects acknowledged since this was last asked."""
        count, self._acknowledged = self._acknowledged, 0
        return count

    def _keep(self, begun: dict[str, Any], receipts: list[list[Any]]) -> None:
        if begun["verb"] == "forget":
            gone = self._promises.pop(begun["id"], None)
            self._forgotten[begun["id"]] = gone or Promise("", "", 0)
            self._new.add(begun["id"])
            self._acknowledged += 1
            return
        for (word, content), (id, version, action) in zip(begun["items"], receipts, strict=True):
            if action not in ("added", "updated", "superseded"):
                self._problems.append(f"a distinct text was not stored as it is but {action}: {content}")
            self._promises[id] = Promise(word, content, version, begun.get("key"))
            self._new.add(id)
            self._acknowledged += 1

    def settle(self, memory: Memory, wordly: Memory) -> list[str]:
        """Compare a reopened store with the promises; what is wrong, in words. `wordly` sees the store without vectors."""
        held = _everything(memory)
        problems, self._problems = self._problems, []
        self.in_doubt = None
        if self._begun is not None:
            problems += self._doubt(self._begun, held)
            self._begun = None
        for id, promise in self._promises.items():
            record = held.get(id)
            if record is None:
                problems.append(f"{id} is gone: {promise.content[:80]}")
            elif (record.content, record.version) != (promise.content, promise.version):
                problems.append(f"{id} is at version {record.version} ({record.content[:60]}), promised was {promise.version}")
        problems += [f"{id} was forgotten and is there again" for id in self._forgotten if id in held]
        unknown = set(held) - set(self._promises)
        problems += [f"{id} was never written: {held[id].content[:80]}" for id in unknown]
        for id in self._new:
            problems += self._found(memory, wordly, id)
        self._new.clear()
        return problems

    def _found(self, memory: Memory, wordly: Memory, id: str) -> list[str]:
        """Whether get, recall by the whole text and recall by its one word agree with the promise."""
        promise = self._promises.get(id) or self._forgotten[id]
        kept = id in self._promises
        problems = []
        if (memory.get(id) is not None) != kept:
            problems.append(f"get({id}) gives {'nothing' if kept else 'a forgotten record'}")
        if promise.word:
            for way, hits in (
                ("meaning", memory.recall(promise.content, limit=3, min_similarity=0)),
                ("word", wordly.recall(promise.word, limit=3, min_similarity=0)),
            ):
                if any(hit.id == id for hit in hits) != kept:
                    problems.append(f"recall by {way} {'does not find' if kept else 'still finds'} {id}: {promise.content[:60]}")
        return problems

    def _doubt(self, begun: dict[str, Any], held: dict[str, Record]) -> list[str]:
        """Settle the verb that was cut off: take it over if it is there whole, complain if it is there by half."""
        if begun["verb"] == "forget":
            if begun["id"] not in held:
                self._keep(begun, [])
                self._acknowledged -= 1
            return []
        contents = {record.content: record for record in held.values()}
        there = [contents[content] for _, content in begun["items"] if content in contents]
        if not there:
            return []
        if len(there) < len(begun["items"]):
            return [f"{begun['verb']} was done by half: {len(there)} of {len(begun['items'])}"]
        before = self._acknowledged
        actions = {"update": "updated", "supersede": "superseded"}
        action = actions.get(begun["verb"], "added")
        self._keep(begun, [[record.id, record.version, action] for record in there])
        self._acknowledged = before
        return []


def _everything(memory: Memory) -> dict[str, Record]:
    held: dict[str, Record] = {}
    cursor: str | None = None
    while True:
        page = memory.list(limit=100, cursor=cursor)
        held.update((record.id, record) for record in page)
        if page.cursor is None:
            return held
        cursor = page.cursor
