"""A year of daily sessions with many users: does the store stay small, do current facts come first, is no secret on disk?

The clock is set to each simulated day. Whatever people say is ingested, an agent's writes follow, every seventh night upkeep
runs, and at the end of each month every user's facts are asked for. A question is answered if one of the first five hits holds
the current value. It is outranked if a hit above the first such one holds a superseded value without the current one, and is
kept under a key, so that the store was told; `outranked_loose` counts those that an agent has written beside each other
without a key. Both are counted twice: over facts and values, as an agent's context has them, where the promises are
made, and over everything, where messages tell as well what was said long ago and are dated.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import progress, table
from bench.year_people import START, Question, Session, Write, Year
from bench.year_secrets import Secret
from bench.year_words import INJECTED, JUNK
from keepstone import Memory, Scope
from keepstone.open import open_engine
from keepstone.types import Hit, Record

KNOWN = frozenset(("fact", "value"))
NIGHTS = 7  # from one upkeep to the next
LIMIT = 5  # hits that are looked at
BYTES_PER_MESSAGE = 2500  # the stated size, with vectors, words, history and audit trail
CURRENT = 0.98
SECONDS = 180.0
_HEAD = 8  # bytes of a secret that are looked for first


POLICY = {"fade_days": 30, "purge_days": 30}  # beside the defaults: lapsed records go aside, memories are verified


def upkeep(memory: Memory) -> None:
    """What is done at night to keep the store in order."""
    memory.upkeep.run(POLICY)


class Clock:
    """Shows what it was last set to."""

    def __init__(self) -> None:
        self.now = datetime.combine(START, clock_time(), UTC)

    def __call__(self) -> datetime:
        return self.now

    def set(self, day: date, hour: int) -> None:
        self.now = datetime.combine(day, clock_time(hour), UTC)


@dataclass(slots=True)
class Tally:
    """How questions were answered: over some kinds of memories, or over all."""

    asked: int = 0
    found: int = 0
    outranked: int = 0
    outranked_loose: int = 0
    misses: list[dict[str, Any]] = field(default_factory=list)

    def judge(self, user: str, day: date, question: Question, hits: Sequence[Hit]) -> None:
        """Count one question."""
        right = [holds(hit.content, question.current) for hit in hits]
        first = right.index(True) if True in right else len(hits)
        old = [hit for hit in hits[:first] if any(holds(hit.content, value) for value in question.superseded)]
        stale = bool(old)
        self.asked += 1
        self.found += any(right)
        self.outranked += any(hit.record.key is not None for hit in old)
        self.outranked_loose += stale and all(hit.record.key is None for hit in old)
        if stale or not any(right):
            shown = [f"{hit.record.kind}: {hit.content[:100]}" for hit in hits]
            told = {"user": user, "day": str(day), "attribute": question.attribute, "question": question.text}
            self.misses.append({**told, "current": question.current, "outranked": stale, "hits": shown})

    @property
    def share(self) -> float:
        """Of the questions, those whose answer was found."""
        return round(self.found / max(1, self.asked), 4)

    def wrong(self) -> dict[str, int]:
        """How many questions about each attribute were missed or outranked, the worst first."""
        return dict(Counter(miss["attribute"] for miss in self.misses).most_common())


@lru_cache(maxsize=4096)
def _pattern(value: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(value)}(?!\w)", re.IGNORECASE)


def holds(text: str, value: str) -> bool:
    """Whether a text says a value, as words of its own."""
    return _pattern(value).search(text) is not None


@dataclass(slots=True)
class Figures:
    """What a year came to, as it goes."""

    messages: int = 0
    writes: int = 0
    junk_learned: int = 0
    tools_learned: int = 0
    known: Tally = field(default_factory=Tally)
    all: Tally = field(default_factory=Tally)
    spent: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    months: list[dict[str, Any]] = field(default_factory=list)


def live(path: Path, year: Year, say: bool = False) -> dict[str, Any]:
    """Live through a year with a store at a path: what came of it."""
    clock, figures = Clock(), Figures()
    wall, cpu = time.perf_counter(), time.process_time()
    with Memory(open_engine(path, clock=clock), Scope()) as memory:
        views = {user: memory.with_scope(user=user) for user in year.people}
        for day, sessions in groupby(year, key=lambda session: session.day):
            _a_day(views, day, list(sessions), clock, figures)
            last = day == START + timedelta(days=year.days - 1)
            if last or (day + timedelta(days=1)).day == 1:
                _ask(views, year, day, last, figures)
                figures.months.append(_month(path, year, day, figures))
                if say:
                    progress(f"{day}: {figures.messages} messages, {time.perf_counter() - wall:.0f} s")
    spent = {"seconds": round(time.perf_counter() - wall, 1), "cpu_seconds": round(time.process_time() - cpu, 1)}
    found = leaks(files(path), year.secrets())
    with Memory(open_engine(path, clock=clock), Scope()) as memory:
        counts = _counts(memory, year)
    return _result(path, year, figures, counts, found) | spent


def _a_day(views: dict[str, Memory], day: date, sessions: Iterable[Session], clock: Clock, figures: Figures) -> None:
    clock.set(day, 20)
    for session in sessions:
        memory = views[session.user]
        begun = time.perf_counter()
        receipts = memory.ingest(session.messages, session=session.name)
        figures.messages += len(receipts)
        figures.junk_learned += sum(len(receipts[at].learned) for at in session.junk)
        figures.tools_learned += sum(len(receipts[at].learned) for at in session.tools)
        written = time.perf_counter()
        for write in session.writes:
            _keep(memory, write, session.name)
        figures.writes += len(session.writes)
        figures.spent["ingest"] += written - begun
        figures.spent["agent"] += time.perf_counter() - written
    if day.toordinal() % NIGHTS == 0:
        begun = time.perf_counter()
        clock.set(day, 23)
        upkeep(next(iter(views.values())))
        figures.spent["upkeep"] += time.perf_counter() - begun


def _keep(memory: Memory, write: Write, session: str) -> None:
    """Write as an agent would: under a key, as a value, over what it finds is outdated, or as one more memory."""
    if write.route == "value":
        memory.set(write.key or "", write.content, tag="devices")
        return
    if write.route == "update" and write.outdated:
        for hit in memory.recall(write.question, kinds=KNOWN, limit=LIMIT):
            if any(holds(hit.content, old) for old in write.outdated):
                memory.update(hit.id, write.content)
                return
    memory.remember(write.content, key=write.key, importance=write.importance, source="agent", session=session)


def _ask(views: dict[str, Memory], year: Year, day: date, every: bool, figures: Figures) -> None:
    begun = time.perf_counter()
    for user, memory in views.items():
        for question in year.questions(user, day, every):
            figures.known.judge(user, day, question, memory.recall(question.text, limit=LIMIT, kinds=KNOWN).hits)
            figures.all.judge(user, day, question, memory.recall(question.text, limit=LIMIT).hits)
    figures.spent["questions"] += time.perf_counter() - begun


def _month(path: Path, year: Year, day: date, figures: Figures) -> dict[str, Any]:
    size = sum(file.stat().st_size for file in files(path))
    return {
        "day": str(day),
        "messages": figures.messages,
        "mb": round(size / 1e6, 2),
        "mb_per_user": round(size / 1e6 / year.users, 3),
        "bytes_per_message": round(size / max(1, figures.messages)),
        "current": figures.all.share,
    }


def files(path: Path) -> list[Path]:
    """The store's file and those that lie beside it."""
    return [each for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm")) if each.exists()]


def leaks(paths: Iterable[Path], secrets: Iterable[Secret]) -> Counter[str]:
    """How many planted secrets of each kind are in some files, in any of their forms; each is looked for at every byte."""
    listed = list(secrets)
    forms = {form.encode(): at for at, secret in enumerate(listed) for form in secret.forms()}
    short = [form for form in forms if len(form) < _HEAD]
    if short:
        raise ValueError(f"a secret's form has {len(short[0])} bytes: {_HEAD} are needed to look for it.")
    heads = np.sort(np.array([int.from_bytes(form[:_HEAD], "little") for form in forms], dtype=np.uint64))
    by_head: dict[bytes, list[bytes]] = {}
    for form in forms:
        by_head.setdefault(form[:_HEAD], []).append(form)
    found: set[int] = set()
    for path in paths:
        data = path.read_bytes()
        for place in _places(data, heads):
            found.update(forms[form] for form in by_head.get(data[place : place + _HEAD], ()) if data.startswith(form, place))
    return Counter(listed[at].kind for at in found)


def _places(data: bytes, heads: np.ndarray[Any, np.dtype[np.uint64]]) -> Iterator[int]:
    """Where in the data one of the heads begins."""
    for shift in range(min(_HEAD, len(data) - _HEAD + 1) if heads.size else 0):
        words = np.frombuffer(data, dtype="<u8", offset=shift, count=(len(data) - shift) // _HEAD)
        at = np.minimum(np.searchsorted(heads, words), heads.size - 1)
        yield from (int(each) * _HEAD + shift for each in np.flatnonzero(heads[at] == words))


def _records(memory: Memory) -> Iterator[Record]:
    cursor: str | None = None
    while True:
        page = memory.list(limit=100, cursor=cursor)
        yield from page
        cursor = page.cursor
        if cursor is None:
            return


def _counts(memory: Memory, year: Year) -> dict[str, Any]:
    """What the store holds at the end."""
    kinds: Counter[str] = Counter()
    junk = injected = 0
    for user in year.people:
        for record in _records(memory.with_scope(user=user)):
            kinds[record.kind] += 1
            if record.kind in KNOWN:
                junk += record.content in JUNK
                injected += any(holds(record.content, value) for value in INJECTED)
    diagnosis = memory.upkeep.doctor()
    active = sum(kinds.values())
    return {
        "active": active,
        "aside": diagnosis.records - active,
        "kinds": dict(sorted(kinds.items())),
        "junk_kept": junk,
        "injected_kept": injected,
        "healthy": diagnosis.healthy,
    }


def _result(path: Path, year: Year, figures: Figures, counts: dict[str, Any], found: Counter[str]) -> dict[str, Any]:
    size = path.stat().st_size
    return {
        "users": year.users,
        "days": year.days,
        "seed": year.seed,
        "messages": figures.messages,
        "writes": figures.writes,
        **counts,
        "bytes": size,
        "bytes_per_message": round(size / max(1, figures.messages)),
        "questions": figures.known.asked,
        "current": figures.all.share,
        "current_facts": figures.known.share,
        "outranked": figures.known.outranked,
        "outranked_loose": figures.known.outranked_loose,
        "outranked_all": figures.all.outranked + figures.all.outranked_loose,
        "secrets": len(year.secrets()),
        "secrets_on_disk": sum(found.values()),
        "secrets_by_kind": dict(sorted(found.items())),
        "junk_learned": figures.junk_learned,
        "tools_learned": figures.tools_learned,
        "spent": {name: round(seconds, 1) for name, seconds in figures.spent.items()},
        "months": figures.months,
        "wrong_facts": figures.known.wrong(),
        "wrong_all": figures.all.wrong(),
        "misses": {"facts": figures.known.misses, "all": figures.all.misses},
    }


def broken(result: dict[str, Any]) -> list[str]:
    """The promises that a year did not keep."""
    promises = (
        (result["bytes_per_message"] <= BYTES_PER_MESSAGE, f"at most {BYTES_PER_MESSAGE} bytes a message"),
        (result["current_facts"] >= CURRENT, f"current facts recalled: at least {CURRENT:.0%}"),
        (result["outranked"] == 0, "no superseded fact above the current one"),
        (result["secrets_on_disk"] == 0, "no secret on disk"),
        (result["seconds"] < SECONDS, f"under {SECONDS:g} seconds"),
        (result["healthy"], "a healthy store"),
    )
    return [text for kept, text in promises if not kept]


def _print(result: dict[str, Any], misses: bool) -> None:
    months, left_out = result["months"], ("months", "misses")
    table("a simulated year", {name: value for name, value in result.items() if name not in left_out})
    print(f"\n{'until':<12}{'messages':>9}{'MB':>9}{'MB a user':>11}{'bytes a message':>17}{'current':>9}")
    for each in months:
        print(
            f"{each['day']:<12}{each['messages']:>9}{each['mb']:>9}{each['mb_per_user']:>11}{each['bytes_per_message']:>17}"
            f"{each['current']:>9}"
        )
    for miss in [*result["misses"]["facts"], *result["misses"]["all"]] if misses else ():
        print(f"  {json.dumps(miss, ensure_ascii=False)}")
    for text in broken(result):
        print(f"NOT KEPT: {text}")
    print()


def main(argv: list[str]) -> int:
    """Print the tables (or with --json only the object); the last line is always one JSON object. 1 if a promise is broken."""
    parser = argparse.ArgumentParser(prog="bench year", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--users", type=int, default=20, help="how many people there are")
    parser.add_argument("--days", type=int, default=365, help="how many days they live through")
    parser.add_argument("--seed", type=int, default=1, help="another seed: other people")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="leave the store here (there must be none yet)")
    parser.add_argument("--misses", action="store_true", help="print every question that was answered wrongly")
    options = parser.parse_args(argv)
    if options.keep is not None and options.keep.exists():
        parser.error(f"{options.keep} is there already: name a file that is not.")
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "memory.db"
        result = live(path, Year(options.seed, options.users, options.days), say=True)
    if not options.json:
        _print(result, options.misses)
    failed = broken(result)
    print(json.dumps({"bench": "year", **{name: value for name, value in result.items() if name != "misses"}, "broken": failed}))
    return 1 if failed else 0
