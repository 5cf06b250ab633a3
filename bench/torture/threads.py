"""The same from fifty threads at one moment: one fact is one record, one key one record with every value in its past, one
idempotency key one write."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from bench.torture.targets import Files, Place, databases
from bench.torture.verdict import Options, Verdict
from bench.verbs import everything
from keepstone import Memory, Receipt

THREADS = 50
PATIENCE = 120.0  # seconds until every thread must have its answer


def together(count: int, work: Callable[[int], Any]) -> None:
    """Run `work` in so many threads that start at one moment; the first error of any is raised."""
    barrier = threading.Barrier(count)
    errors: list[BaseException] = []

    def body(number: int) -> None:
        barrier.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        if thread.is_alive():
            raise TimeoutError(f"a thread has had no answer for {PATIENCE:g} s.")
    if errors:
        raise errors[0]


def rounds(target: str, verdict: Verdict, times: int, until: float | None = None) -> None:
    """Say the same from all threads, so many times, and look at what became of it."""
    facts: list[str] = []
    with Memory.open(target) as memory:
        for number in range(times):
            if until is not None and time.monotonic() > until:
                break
            facts.append(f"Dana's parcel zq{number}q waits at gate {number * 7 % 50}.")
            _said(memory, verdict, facts[-1])
            _set(memory, verdict, f"theme {number}")
            _once(memory, verdict, f"request {number}", f"Rosa ordered kettle zr{number}q for room {number}.")
        there = Counter(record.content for record in everything(memory))
        verdict.lost += sum(not there[fact] for fact in facts)
        verdict.duplicates += sum(count - 1 for count in there.values())
        diagnosis = memory.upkeep.doctor()
        verdict.drift += len(diagnosis.findings)
        verdict.problems += [f"doctor, {each.check}: {each.problem}" for each in diagnosis.findings]


def _at_once(verdict: Verdict, what: str, work: Callable[[int], Receipt], expected: dict[str, int]) -> list[Receipt]:
    receipts: list[Receipt] = []
    verdict.tries += 1
    try:
        together(THREADS, lambda number: receipts.append(work(number)))
    except Exception as error:
        verdict.errors += 1
        verdict.problems.append(f"{what}: {type(error).__name__}: {error}")
    verdict.acknowledged += len(receipts)
    actions, ids = Counter(receipt.action for receipt in receipts), {receipt.id for receipt in receipts}
    if len(ids) != 1 or actions != expected:
        verdict.duplicates += max(0, len(ids) - 1)
        verdict.problems.append(f"{what}: {dict(actions)} in {len(ids)} records")
    return receipts


def _said(memory: Memory, verdict: Verdict, fact: str) -> None:
    _at_once(verdict, "one fact", lambda number: memory.remember(fact), {"added": 1, "duplicate": THREADS - 1})


def _set(memory: Memory, verdict: Verdict, key: str) -> None:
    values = [f"{key} is in colour {number}" for number in range(THREADS)]
    work = lambda number: memory.remember(values[number], key=key)  # noqa: E731
    receipts = _at_once(verdict, "one key", work, {"added": 1, "superseded": THREADS - 1})
    past = memory.history(receipts[0].id or "") if receipts else []
    if [each.version for each in past] != list(range(1, THREADS + 1)) or {each.content for each in past} != set(values):
        verdict.lost += 1
        verdict.problems.append(f"one key: {len(past)} versions of {THREADS}")


def _once(memory: Memory, verdict: Verdict, request: str, fact: str) -> None:
    work = lambda number: memory.remember(fact, idempotency_key=request)  # noqa: E731
    receipts = _at_once(verdict, "one idempotency key", work, {"added": THREADS})
    if len(set(receipts)) > 1:
        verdict.problems.append("one idempotency key: the receipts differ")


def _verdict(row: str, place: Place, options: Options) -> Verdict:
    begun = time.monotonic()
    verdict = Verdict(row, place.kind, figures={"threads": THREADS})
    until = None if options.seconds is None else begun + options.seconds
    rounds(place.fresh("threads"), verdict, max(1, options.rounds // 2), until)
    verdict.seconds = time.monotonic() - begun
    return verdict


def run(options: Options) -> Verdict:
    """Fifty threads on one file."""
    return _verdict("threads", Files(options.folder), options)


def postgres(options: Options) -> Verdict:
    """Fifty threads on one server."""
    with databases(options) as place:
        return _verdict("threads-postgres", place, options)
