"""One case against the memory under test: what was recalled, and for everything that is not as it must be the reason."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from keepstone.errors import KeepstoneError
from keepstone.memtest.apart import leaks
from keepstone.memtest.cases import Ask, Case, Context, Isolation, Value, Wanted
from keepstone.memtest.explaining import contained, holds, missed, shown
from keepstone.memtest.staging import Stage
from keepstone.text.token_count import estimate_tokens
from keepstone.types import Hit

if TYPE_CHECKING:
    from keepstone.memory import Memory


@dataclass(frozen=True, slots=True)
class Seen:
    """One memory that was recalled."""

    rank: int
    id: str
    content: str
    score: float


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it must be: the check, what happened, and why."""

    check: str
    what: str
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case. `error` is what kept it from being run at all; `block` and `tokens` are a context's."""

    case: Case
    problems: tuple[Problem, ...] = ()
    recalled: tuple[Seen, ...] = ()
    block: str | None = None
    tokens: int | None = None
    seconds: float = 0.0
    error: str | None = None

    @property
    def passed(self) -> bool:
        """Whether everything is as it must be."""
        return not self.problems and self.error is None


def run(stage: Stage, case: Case) -> Outcome:
    """Run a case; whatever keepstone refuses is its outcome too."""
    begun = time.perf_counter()
    stage.ask_at(case.asked_at)
    try:
        outcome = _ran(stage, case)
    except KeepstoneError as error:
        outcome = {"error": f"{type(error).__name__}: {error}"}
    return Outcome(case, **outcome, seconds=time.perf_counter() - begun)


def _ran(stage: Stage, case: Case) -> dict[str, Any]:
    memory = stage.memory(case.who)
    if isinstance(case, Ask):
        return _asked(stage, memory, case)
    if isinstance(case, Context):
        return _context(stage, memory, case)
    if isinstance(case, Isolation):
        return {"problems": tuple(Problem("isolation", what) for what in leaks(stage, case))}
    assert isinstance(case, Value)
    held = memory.value(case.key)
    wrong = Problem("must_be", f"the value of {case.key} is {held!r:.200}, and must be {case.must_be!r:.200}")
    return {"problems": () if _written(held) == _written(case.must_be) else (wrong,)}


def _written(value: Any) -> str:
    """A value as JSON, in which 1 is neither 1.0 nor true."""
    return json.dumps(value, sort_keys=True)


# -- recall ---------------------------------------------------------------------------------------------------------
def _asked(stage: Stage, memory: Memory, case: Ask) -> dict[str, Any]:
    found = memory.recall(case.query, **case.options, asked_at=case.asked_at)
    problems = [*_missing(stage, memory, case, found.hits), *_unwanted(case, found.hits, stage.labels)]
    if case.nothing and found.hits:
        problems.append(Problem("must_recall_nothing", f"{len(found.hits)} recalled"))
    recalled = (Seen(rank, hit.id, hit.content, hit.score) for rank, hit in enumerate(found.hits, 1))
    return {"problems": tuple(problems), "recalled": tuple(recalled)}


def ranks(wanted: Wanted, hits: Sequence[Hit], labels: Mapping[str, str]) -> list[int]:
    """The ranks of the hits that are as wanted, whatever rank is wanted."""
    return [rank for rank, hit in enumerate(hits, 1) if holds(wanted, hit.record, labels)]


def _missing(stage: Stage, memory: Memory, case: Ask, hits: Sequence[Hit]) -> Iterator[Problem]:
    for wanted in case.must:
        met = ranks(wanted, hits, stage.labels)
        if met and met[0] <= (wanted.rank or len(hits)):
            continue
        if met:
            yield Problem("must_recall", f"{wanted}: recalled as number {met[0]} only")
        else:
            what = f"{wanted}: not among the {len(hits)} recalled" if hits else f"{wanted}: nothing was recalled"
            yield Problem("must_recall", what, tuple(missed(stage, memory, case, wanted)))


def _unwanted(case: Ask, hits: Sequence[Hit], labels: Mapping[str, str]) -> Iterator[Problem]:
    for wanted in case.must_not:
        met = [rank for rank in ranks(wanted, hits, labels) if wanted.rank is None or rank <= wanted.rank]
        if met:
            hit = hits[met[0] - 1]
            yield Problem("must_not_recall", f"{wanted}: recalled as number {met[0]} ({hit.id}: {shown(hit.content)})")


# -- a block for a prompt -------------------------------------------------------------------------------------------
def _context(stage: Stage, memory: Memory, case: Context) -> dict[str, Any]:
    block = memory.context(case.query, max_tokens=case.max_tokens)
    tokens = estimate_tokens(block)
    problems = []
    if tokens > case.max_tokens:
        problems.append(Problem("max_tokens", f"the block has {tokens} tokens, and may have {case.max_tokens}"))
    for text in case.must:
        if not contained(text, block):
            size = f"not in the block of {tokens} tokens" if block else "the block is empty"
            why = missed(stage, memory, case, Wanted(text))
            problems.append(Problem("must_contain", f"{text!r}: {size}", tuple(why)))
    problems += [Problem("must_not_contain", f"{text!r}: in the block") for text in case.must_not if contained(text, block)]
    return {"problems": tuple(problems), "block": block, "tokens": tokens}
