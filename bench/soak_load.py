"""The callers of a soak: threads that use a server as agents do, until they are told to end.

Each caller has users of its own and one that all share. What it remembers it forgets again, in turn, or gives a time to live;
when a user has had so many turns everything of theirs is erased, and they begin anew. Now and then a visitor comes who was never
there before, and leaves without a trace. So what the store holds stays about the same, however long it goes on.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from bench.texts import texts
from keepstone import Client, KeepstoneError, Receipt

KEPT = 30  # records that a caller keeps of each of its users
TURNS = 250  # verbs of a user until everything of theirs is erased
POOL = 400  # texts of a caller, again and again: what is cached by word or text is full after the warm-up, as far as it will be
TALK = 16  # messages of a session until it is erased
LIVES = 20.0  # seconds that what has a time to live has
MCP = {"accept": "application/json", "content-type": "application/json", "mcp-protocol-version": "2025-11-25"}
SLOW = ("export", "everything", "upkeep", "verify", "health", "consolidate", "visit")  # not in the latencies: they are large work


@dataclass(slots=True)
class Log:
    """What the callers came to: when each request was answered and how long it took, in seconds, by verb; and what went wrong."""

    began: float = field(default_factory=time.monotonic)
    took: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    problems: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def time_request(self, verb: str) -> Iterator[None]:
        """Note a request; an error that a caller would see is a problem, and nothing else ends with it."""
        begun = time.monotonic()
        try:
            yield
        except (KeepstoneError, httpx2.HTTPError, AssertionError) as error:
            with self.lock:
                self.problems[f"{verb}: {type(error).__name__}: {str(error)[:200]}"] += 1
        ended = time.monotonic()
        with self.lock:
            self.took.setdefault(verb, []).append((ended - self.began, ended - begun))

    @property
    def requests(self) -> int:
        return sum(map(len, self.took.values()))

    def quick(self, since: float = 0.0) -> list[tuple[float, float]]:
        """The requests that are of one kind with each other, in the order in which they were answered: without the large work."""
        with self.lock:
            return sorted(each for verb, times in self.took.items() if verb not in SLOW for each in newest(times, since))


def newest(times: list[tuple[float, float]], since: float) -> list[tuple[float, float]]:
    """Those at the end that came later."""
    at = len(times)
    while at and times[at - 1][0] >= since:
        at -= 1
    return times[at:]


@dataclass(slots=True)
class User:
    """A user as their caller knows them: what is remembered of them, and how much was done for them."""

    memory: Client
    name: str
    ids: deque[str] = field(default_factory=deque)
    says: dict[str, str] = field(default_factory=dict)  # of each of those its text
    session: str = ""
    said: int = 0
    turns: int = 0


@dataclass(frozen=True, slots=True)
class Where:
    """A server, the key of an operator there who acts for anybody, and a folder for what is fetched."""

    url: str
    key: str
    folder: Path
    rate: float = 0.0  # requests a second of all callers together; 0: as many as it answers
    callers: int = 4


class Caller(threading.Thread):
    """One thread with a few users of its own."""

    def __init__(self, number: int, where: Where, keys: dict[str, str], log: Log, stop: threading.Event) -> None:
        super().__init__(name=f"caller{number}", daemon=True)
        self._number, self._where, self._log, self._ended = number, where, log, stop
        self._random = random.Random(number)
        self._texts = texts(POOL, seed=number + 1)
        self._count = 0
        self._keyed = [Client(where.url, key, timeout=60) for key in keys.values()]
        self._service = Client(where.url, where.key, timeout=60)
        self._http = httpx2.Client(base_url=where.url, timeout=60, verify=False)  # no TLS here
        self.users = [User(client, whose) for whose, client in zip(keys, self._keyed, strict=True)]
        acted = f"acted{number}"
        self.users.append(User(self._service.with_scope(user=acted), acted))
        for user in self.users:
            user.turns = self._random.randrange(TURNS)  # else all would be erased at about the same time
        self._common = self._service.with_scope(user="common")
        self._verbs = self._weighted_verbs()

    def _weighted_verbs(self) -> list[Callable[[User], None]]:
        shares: list[tuple[int, Callable[[User], None]]] = [
            (16, self._remember), (24, self._recall), (6, self._context), (3, self._batch), (8, self._update),
            (8, self._say), (5, self._ingest), (4, self._window), (4, self._list), (4, self._get), (4, self._value),
            (3, self._lasting), (3, self._set_shared), (3, self._mcp), (2, self._task), (1, self._export), (1, self._verify),
            (1, self._visit), (1, self._consolidate),
        ]  # fmt: skip
        return [verb for share, verb in shares for _ in range(share)]

    def run(self) -> None:
        due = time.monotonic()
        while not self._ended.is_set():
            user = self._random.choice(self.users)
            self._random.choice(self._verbs)(user)
            self._limit_size(user)
            if self._where.rate:
                due = max(due + self._where.callers / self._where.rate, time.monotonic() - 1)
                self._ended.wait(max(0.0, due - time.monotonic()))
        for client in (*self._keyed, self._service):
            client.close()
        self._http.close()

    def _text(self) -> str:
        """The next memory, which none that is live is like: it was forgotten before its turn comes again."""
        self._count += 1
        return self._texts[self._count % len(self._texts)].content

    # -- so that as much goes as comes ----------------------------------------------------------------------------
    def _limit_size(self, user: User) -> None:
        """Forget the oldest where a user has more than is kept; a long session; and at times everything."""
        user.turns += 1
        if user.turns >= TURNS:
            user.turns = user.said = 0
            user.ids.clear()
            user.says.clear()
            with self._log.time_request("everything"):
                user.memory.forget(everything=True)
            return
        if len(user.ids) > KEPT:
            oldest = user.ids.popleft()
            user.says.pop(oldest, None)
            with self._log.time_request("forget"):
                user.memory.forget(oldest)
        if user.said > TALK:
            user.said = 0
            with self._log.time_request("forget session"):
                user.memory.forget(session=user.session)

    # -- verbs ----------------------------------------------------------------------------------------------------
    def _remember(self, user: User) -> None:
        text = self._text()
        with self._log.time_request("remember"):
            self._note_id(user, text, user.memory.remember(text, tag=self._random.choice(("work", "home", "general"))))

    def _batch(self, user: User) -> None:
        texts = [self._text() for _ in range(5)]
        with self._log.time_request("remember_many"):
            for text, receipt in zip(texts, user.memory.remember_many(texts), strict=True):
                self._note_id(user, text, receipt)

    def _note_id(self, user: User, text: str, receipt: Receipt) -> None:
        if receipt.id and receipt.action == "added":
            user.ids.append(receipt.id)
            user.says[receipt.id] = text

    def _lasting(self, user: User) -> None:
        with self._log.time_request("remember"):
            user.memory.remember(self._text(), kind="note", ttl=LIVES)

    def _set_shared(self, user: User) -> None:
        """A value that all callers set and read, of one user."""
        with self._log.time_request("set"):
            self._common.set(f"shared {self._random.randrange(5)}", self._text())
        with self._log.time_request("recall"):
            self._common.recall(self._random.choice(self._texts).question)

    def _recall(self, user: User) -> None:
        with self._log.time_request("recall"):
            user.memory.recall(self._random.choice(self._texts).question, limit=self._random.choice((3, 5, 10)))

    def _context(self, user: User) -> None:
        with self._log.time_request("context"):
            user.memory.context(self._random.choice(self._texts).question)

    def _update(self, user: User) -> None:
        if user.ids:
            id, text = self._random.choice(user.ids), self._text()
            while text in user.says.values():  # a user of few turns may still have it, and no two records say the same
                text = self._text()
            with self._log.time_request("update"):
                user.memory.update(id, text)
                user.says[id] = text

    def _get(self, user: User) -> None:
        if user.ids:
            with self._log.time_request("get"):
                assert user.memory.get(self._random.choice(user.ids)) is not None, "what was remembered is not there"

    def _list(self, user: User) -> None:
        with self._log.time_request("list"):
            page = user.memory.list(limit=20)
            if page.cursor is not None:
                user.memory.list(limit=20, cursor=page.cursor)

    def _value(self, user: User) -> None:
        key = f"key {self._random.randrange(4)}"
        with self._log.time_request("set"):
            user.memory.set(key, self._count)
        with self._log.time_request("value"):
            assert user.memory.value(key) == self._count, "a value that was set is another one"

    def _session(self, user: User) -> str:
        if not user.said:
            self._count += 1
            user.session = f"talk {self._number}-{self._count}"  # never one that was there before
        return user.session

    def _say(self, user: User) -> None:
        session = self._session(user)
        for role in ("user", "assistant"):
            with self._log.time_request("say"):
                user.memory.conversation(session).add(role, self._text())
            user.said += 1

    def _ingest(self, user: User) -> None:
        session, told = self._session(user), [{"role": "user", "content": self._text()} for _ in range(3)]
        with self._log.time_request("ingest"):
            user.memory.ingest(told, session=session)
        user.said += len(told)

    def _window(self, user: User) -> None:
        if user.said:
            with self._log.time_request("window"):
                user.memory.conversation(user.session, max_tokens=300).messages()

    def _consolidate(self, user: User) -> None:
        if user.said:
            with self._log.time_request("consolidate"):
                user.memory.conversation(user.session).consolidate()

    def _task(self, user: User) -> None:
        view = user.memory.with_scope(agent="worker")
        with self._log.time_request("task"):
            view.tasks.start(self._text())
            view.tasks.record("Looked it up.", "search", "found")
            view.tasks.end(True, "Done.")
        with self._log.time_request("forget"):
            view.forget(everything=True)

    def _export(self, user: User) -> None:
        with self._log.time_request("export"):
            user.memory.export(self._where.folder / f"export{self._number}.jsonl")

    def _verify(self, user: User) -> None:
        with self._log.time_request("verify"):
            user.memory.upkeep.verify(dry_run=True)
        with self._log.time_request("health"):
            user.memory.upkeep.health()

    def _mcp(self, user: User) -> None:
        headers = {**MCP, "authorization": f"Bearer {self._where.key}", "x-keepstone-user": "common"}
        asked = {"query": self._random.choice(self._texts).question}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "recall_memory", "arguments": asked}}
        with self._log.time_request("mcp"):
            answer = self._http.post("/mcp", content=json.dumps(body), headers=headers)
            assert answer.status_code == 200, f"/mcp answered {answer.status_code}"
            assert "result" in answer.json(), "/mcp answered with an error"

    def _visit(self, user: User) -> None:
        """A user who was never there before: a scope of their own, and nothing of it stays."""
        self._count += 1
        with self._log.time_request("visit"):
            visitor = self._service.with_scope(user=f"visitor {self._number}-{self._count}")
            content = self._text()
            visitor.remember(content)
            visitor.ingest([{"role": "user", "content": self._text()}], session="visit")
            assert visitor.recall(content, limit=3), "what was just remembered is not recalled"
            visitor.forget(everything=True)


class Upkeep(threading.Thread):
    """Asks for a run of upkeep over the whole tenant every so often, as an administrator would, and erases what is common."""

    def __init__(self, where: Where, every: float, policy: dict[str, Any], log: Log, stop: threading.Event) -> None:
        super().__init__(name="upkeep", daemon=True)
        self._where, self._every, self._policy, self._log, self._ended = where, every, policy, log, stop
        self.busy = 0  # runs that found another one under way

    def run(self) -> None:
        with Client(self._where.url, self._where.key, timeout=60) as client:
            common = client.with_scope(user="common")
            for turn in range(1, 1_000_000):
                if self._ended.wait(self._every):
                    return
                with self._log.time_request("upkeep"):
                    self.busy += not client.upkeep.run(self._policy).ran
                if turn % 5 == 0:
                    with self._log.time_request("everything"):
                        common.forget(everything=True)
