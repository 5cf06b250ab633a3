"""What a killed process had been promised, and whether the store kept it."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from bench.verbs import SHELF, SIDE, TALK, everything
from keepstone import Memory, Record

LOOKS = 8  # of what is new, records that are asked for in every way; the doctor sees all of them
ASKED = 400  # characters of a text that it is looked for by


@dataclass(frozen=True, slots=True)
class Promise:
    """A record as it must be. What is None was not promised: the store words some texts itself, and learns facts anew."""

    user: str
    word: str | None
    content: str | None
    version: int | None
    status: str = "active"
    hidden: bool = False  # whether recall leaves it out, as it does with the steps of a task
    value: tuple[str, Any] | None = None  # a key, and what it means


class Ledger:
    """Acknowledged effects on one store. A verb that was begun and not acknowledged may be there whole, or not at all."""

    def __init__(self) -> None:
        self._promises: dict[str, Promise] = {}
        self._forgotten: dict[str, Promise] = {}
        self._tasks: dict[str, list[str] | None] = {}  # the steps of each task; None when it has ended
        self._saved: set[str | None] = {None}  # what may be in hand: one word (None: nothing), two after a save that was cut off
        self._new: set[str] = set()
        self._random = random.Random(1)
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
                self._acknowledged += self._keep(self._begun, line)
                self._begun = None
            case "error":
                self._problems.append(f"the child met an error in {self.in_doubt}: {line['error']}")
        self.in_doubt = None if self._begun is None else str(self._begun["verb"])

    def take_acknowledged(self) -> int:
        """Effects acknowledged since this was last asked."""
        count, self._acknowledged = self._acknowledged, 0
        return count

    def _keep(self, begun: dict[str, Any], done: dict[str, Any]) -> int:
        """Write down what a verb has come to; how many effects that are."""
        user, gone, moved, items = begun.get("user", ""), begun.get("gone", ()), begun.get("moved", ()), begun.get("items", ())
        for id in gone:
            self._forgotten[id] = self._promises.pop(id, None) or Promise(user, None, None, 0)
        for (word, content), (id, version, action) in zip(items, done["receipts"], strict=True):
            if action not in ("added", "updated", "superseded", "quarantined"):
                self._problems.append(f"a distinct text was not stored as it is but {action}: {content}")
            before = self._promises.get(id)
            word = before.word if word is None and before is not None else word
            value = (begun["key"], begun["value"]) if "value" in begun else None
            status = "active" if "review" in begun else begun.get("status", "active")
            self._promises[id] = Promise(user, word, content, version, status, begun.get("hidden", False), value)
        for id in moved:
            kept = self._promises.get(id) or Promise(user, None, None, None)
            self._promises[id] = replace(kept, status=begun["status"])
        for id in done.get("learned", ()):
            self._promises[id] = Promise(user, None, None, None)
        if "task" in done:
            self._tasks[done["task"][0]] = done["task"][1]
        if "ends" in begun:
            self._tasks[begun["ends"]] = None
        if "saved" in begun:
            self._saved = {begun["saved"]}
        changed = {*gone, *moved, *(id for id, *_ in done["receipts"]), *done.get("learned", ())}
        self._new |= changed
        return max(1, len(changed))

    # -- after a kill ---------------------------------------------------------------------------------------------
    def settle(self, memory: Memory, wordly: Memory) -> list[str]:
        """Compare a reopened store with the promises; what is wrong, in words. `wordly` sees the store without vectors."""
        problems, self._problems = self._problems, []
        self.in_doubt = None
        if self._begun is not None:
            problems += self._doubt(self._begun, memory)
            self._begun = None
        problems += self._problems
        self._problems = []
        held = self._held(memory)
        for id, promise in list(self._promises.items()):
            wrong = _differs(id, promise, held.get(id))
            if wrong:
                problems += wrong
                self._adopt(id, held.get(id))
        problems += [f"{id} was forgotten and is there again" for id in self._forgotten if id in held]
        for id in set(held) - set(self._promises):
            record = held[id]
            if record.kind == "episode" and "it was cut off" in record.content:  # the next task kept that of a killed process
                self._adopt(id, record)
            elif record.scope.user != TALK or any(
                parent not in held for parent in record.parents
            ):  # what was learned may come late
                problems.append(f"{id} was never written: {record.content[:80]}")
                self._adopt(id, record)
        for id in self._random.sample(sorted(self._new), min(LOOKS, len(self._new))):
            problems += self._found(memory, wordly, id, held.get(id))
        self._new.clear()
        return problems + self._in_hand(memory)

    def _adopt(self, id: str, record: Record | None) -> None:
        """Take a record as it is, once it was said what is wrong with it: nothing is counted twice."""
        self._new.discard(id)
        self._promises.pop(id, None)
        if record is not None:
            self._promises[id] = Promise(record.scope.user, None, None, None, record.status)

    def _held(self, memory: Memory) -> dict[str, Record]:
        """Every record of every scope, those that are aside or in quarantine as well."""
        views = [memory, *(memory.with_scope(user=user) for user in (SIDE, TALK, SHELF))]
        held = {record.id: record for view in views for record in everything(view)}
        for item in memory.review:
            if item.record is not None:
                held[item.id] = item.record
        hidden = {id: each.user for id, each in self._promises.items() if each.status != "active" and id not in held}
        for id, user in hidden.items():
            record = memory.with_scope(user=user).get(id)
            if record is not None:
                held[id] = record
        return held

    def _found(self, memory: Memory, wordly: Memory, id: str, record: Record | None) -> list[str]:
        """Whether get, recall by the text and recall by its one word agree with the promise."""
        promise = self._promises.get(id) or self._forgotten[id]
        memory, wordly = memory.with_scope(user=promise.user), wordly.with_scope(user=promise.user)
        kept = id in self._promises
        problems = []
        if (memory.get(id) is not None) != kept:
            problems.append(f"get({id}) gives {'nothing' if kept else 'a forgotten record'}")
        shown = kept and promise.status == "active"
        text = promise.content or (record.content if record is not None else None)
        if promise.word and text and not promise.hidden:
            for way, hits in (
                ("meaning", memory.recall(text[:ASKED], limit=3, min_similarity=0)),
                ("word", wordly.recall(promise.word, limit=3, min_similarity=0)),
            ):
                if any(hit.id == id for hit in hits) != shown:
                    problems.append(f"recall by {way} {'does not find' if shown else 'still finds'} {id}: {text[:60]}")
        if kept and promise.value is not None and memory.value(promise.value[0]) != promise.value[1]:
            problems.append(f"the value of {promise.value[0]} is not the one that was set last")
        return problems

    def _in_hand(self, memory: Memory) -> list[str]:
        """Whether tasks can be gone on with, and what was saved is there."""
        problems = []
        desk = memory.with_scope(user=SHELF).working
        there = desk.get("word") if desk.restore("desk") else None
        if there not in self._saved:
            problems.append("what was in hand is not what was saved")
        self._saved = {there}
        for task, steps in list(self._tasks.items()):
            working = memory.with_scope().working
            restored = working.restore(f"task:{task}")
            if restored is not (steps is not None):
                problems.append(f"task {task} {'cannot be gone on with' if steps is not None else 'goes on after its end'}")
            elif steps is not None and [word for word in steps if not any(word in each for each in working.steps)]:
                problems.append(f"task {task} has lost a step")
            del self._tasks[task]  # a child goes on with none but its own
        return problems

    # -- the verb that was cut off --------------------------------------------------------------------------------
    def _doubt(self, begun: dict[str, Any], memory: Memory) -> list[str]:
        """Settle the verb that was cut off: take it over if it is there whole, complain if it is there by half."""
        if "saved" in begun:
            self._saved.add(begun["saved"])
            return []
        receipts = self._again(begun, memory)
        if receipts is not None:
            self._keep(begun, {"receipts": receipts})
            return []
        held = self._held(memory)
        view = memory.with_scope(user=begun.get("user", ""))
        gone, moved, items = begun.get("gone", ()), begun.get("moved", ()), begun.get("items", ())
        there = [_matching(begun, item, held) for item in items]
        done = [record is not None for record in there] + [id not in held for id in gone]
        for id in moved:
            record = view.get(id)
            done.append(record is not None and record.status == begun["status"])
        if done and all(done):
            self._keep(begun, {"receipts": [[record.id, record.version, "added"] for record in there if record is not None]})
        elif any(done):
            return [f"{begun['verb']} was done by half: {sum(done)} of {len(done)}"]
        return []

    @staticmethod
    def _again(begun: dict[str, Any], memory: Memory) -> list[list[Any]] | None:
        """Do once more what is made to be done again after a failure; its receipts, or None where there is no such thing."""
        if "request" in begun:
            receipt = memory.remember(begun["items"][0][1], idempotency_key=begun["request"])
            return [[receipt.id, receipt.version, receipt.action]]
        if "review" in begun:
            number, decision = begun["review"]
            if any(item.number == number for item in memory.review):  # it stays open until the decision is carried out
                content = begun["items"][0][1] if "items" in begun else None
                receipt = memory.review.resolve(number, decision, content=content)
                return [[receipt.id, receipt.version, "updated"]] if content is not None else []
        return None


def _matching(begun: dict[str, Any], item: list[Any], held: dict[str, Record]) -> Record | None:
    """The record that an item has become."""
    word, content = item
    known = {text for _, text in begun["items"] if text is not None}
    for record in held.values():
        if "mark" in begun and record.metadata.get("mark") != begun["mark"]:
            continue
        if record.content == content if content is not None else word in record.content and record.content not in known:
            return record
    return None


def _differs(id: str, promise: Promise, record: Record | None) -> list[str]:
    """What is other than promised."""
    if record is None:
        return [f"{id} is gone: {(promise.content or promise.word or 'a fact that was learned')[:80]}"]
    if promise.status != record.status:
        return [f"{id} is {record.status}, promised was {promise.status}: {record.content[:60]}"]
    same = record.content == promise.content if promise.content is not None else (promise.word or "") in record.content
    if not same or promise.version not in (None, record.version):
        return [f"{id} is at version {record.version} ({record.content[:60]}), promised was {promise.version}"]
    return []
