"""One case against the memory under test: what was recalled, and for everything that is not as it must be the reason."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from keepstone.errors import KeepstoneError
from keepstone.memtest.cases import Ask, Case, Context, Isolation, Suite, Value, Wanted
from keepstone.memtest.checks import contains_text, explain_miss, find_leaks, matches_record, quote
from keepstone.memtest.stage import Stage
from keepstone.text.token_count import estimate_tokens
from keepstone.types import Hit

if TYPE_CHECKING:
    from keepstone.memory import Memory


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
    recalled: tuple[Hit, ...] = ()
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
        outcome = _run_case(stage, case)
    except KeepstoneError as error:
        outcome = {"error": f"{type(error).__name__}: {error}"}
    return Outcome(case, **outcome, seconds=time.perf_counter() - begun)


def _run_case(stage: Stage, case: Case) -> dict[str, Any]:
    memory = stage.memory(case.who)
    if isinstance(case, Ask):
        return _run_ask(stage, memory, case)
    if isinstance(case, Context):
        return _run_context(stage, memory, case)
    if isinstance(case, Isolation):
        return {"problems": tuple(Problem("isolation", what) for what in find_leaks(stage, case))}
    assert isinstance(case, Value)
    held = memory.value(case.key)
    wrong = Problem("must_be", f"the value of {case.key} is {held!r:.200}, and must be {case.must_be!r:.200}")
    return {"problems": () if _to_text(held) == _to_text(case.must_be) else (wrong,)}


def _to_text(value: Any) -> str:
    """A value as JSON, in which 1 is neither 1.0 nor true."""
    return json.dumps(value, sort_keys=True)


# -- recall ---------------------------------------------------------------------------------------------------------
def _run_ask(stage: Stage, memory: Memory, case: Ask) -> dict[str, Any]:
    found = memory.recall(case.query, **case.options, asked_at=case.asked_at)
    problems = [*_find_missing(stage, memory, case, found.hits), *_find_unwanted(case, found.hits, stage.labels)]
    if case.nothing and found.hits:
        problems.append(Problem("must_recall_nothing", f"{len(found.hits)} recalled"))
    return {"problems": tuple(problems), "recalled": found.hits}


def find_ranks(wanted: Wanted, hits: Sequence[Hit], labels: Mapping[str, str]) -> list[int]:
    """The ranks of the hits that are as wanted, whatever rank is wanted."""
    return [rank for rank, hit in enumerate(hits, 1) if matches_record(wanted, hit.record, labels)]


def _find_missing(stage: Stage, memory: Memory, case: Ask, hits: Sequence[Hit]) -> Iterator[Problem]:
    for wanted in case.must:
        met = find_ranks(wanted, hits, stage.labels)
        if met and met[0] <= (wanted.rank or len(hits)):
            continue
        if met:
            yield Problem("must_recall", f"{wanted}: recalled as number {met[0]} only")
        else:
            what = f"{wanted}: not among the {len(hits)} recalled" if hits else f"{wanted}: nothing was recalled"
            yield Problem("must_recall", what, tuple(explain_miss(stage, memory, case, wanted)))


def _find_unwanted(case: Ask, hits: Sequence[Hit], labels: Mapping[str, str]) -> Iterator[Problem]:
    for wanted in case.must_not:
        met = [rank for rank in find_ranks(wanted, hits, labels) if wanted.rank is None or rank <= wanted.rank]
        if met:
            hit = hits[met[0] - 1]
            yield Problem("must_not_recall", f"{wanted}: recalled as number {met[0]} ({hit.id}: {quote(hit.content)})")


# -- a block for a prompt -------------------------------------------------------------------------------------------
def _run_context(stage: Stage, memory: Memory, case: Context) -> dict[str, Any]:
    block = memory.context(case.query, max_tokens=case.max_tokens)
    tokens = estimate_tokens(block)
    problems = []
    if tokens > case.max_tokens:
        problems.append(Problem("max_tokens", f"the block has {tokens} tokens, and may have {case.max_tokens}"))
    for text in case.must:
        if not contains_text(text, block):
            size = f"not in the block of {tokens} tokens" if block else "the block is empty"
            why = explain_miss(stage, memory, case, Wanted(text))
            problems.append(Problem("must_contain", f"{text!r}: {size}", tuple(why)))
    problems += [Problem("must_not_contain", f"{text!r}: in the block") for text in case.must_not if contains_text(text, block)]
    return {"problems": tuple(problems), "block": block, "tokens": tokens}


_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Result:
    """What a file's tests came to. `memory` says in a few words what they were run against; `error` is what kept the file from
    being run at all."""

    suite: Suite
    memory: str
    outcomes: tuple[Outcome, ...] = ()
    error: str | None = None

    @property
    def passed(self) -> bool:
        """Whether every test passed."""
        return self.error is None and all(each.passed for each in self.outcomes)


def explain_outcome(outcome: Outcome) -> Iterator[str]:
    """Why a test failed, a line each: what is not as it must be with its reasons, then what was recalled."""
    if outcome.error is not None:
        yield f"cannot be run: {outcome.error}"
        return
    for problem in outcome.problems:
        yield f"{problem.check}: {problem.what}"
        yield from (f"    {reason}" for reason in problem.why)
    if outcome.recalled:
        yield "recalled:"
        for rank, hit in enumerate(outcome.recalled, 1):
            yield f"    {rank}  {quote(hit.content)}  ({hit.id}, score {hit.score:.2f})"
    if outcome.block:
        yield f"the block ({outcome.tokens} tokens):"
        yield from (f"    {line}" for line in outcome.block.splitlines())


def summarize(results: Sequence[Result]) -> str:
    """How it went, in a line."""
    outcomes = [each for result in results for each in result.outcomes]
    failed = sum(not each.passed for each in outcomes)
    broken = sum(result.error is not None for result in results)
    parts = [f"{len(outcomes) - failed} passed", *([f"{failed} failed"] if failed else [])]
    parts += [f"{broken} {'file' if broken == 1 else 'files'} could not be run"] if broken else []
    return ", ".join(parts)


def document(results: Sequence[Result]) -> dict[str, Any]:
    """Everything as JSON."""
    outcomes = [each for result in results for each in result.outcomes]
    return {
        "passed": sum(each.passed for each in outcomes),
        "failed": sum(not each.passed for each in outcomes),
        "files": [
            {
                "file": str(result.suite.path),
                "memory": result.memory,
                "error": result.error,
                "tests": [_test(each) for each in result.outcomes],
            }
            for result in results
        ],
    }


def _test(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.case.name,
        "line": outcome.case.line,
        "passed": outcome.passed,
        "seconds": round(outcome.seconds, 4),
        "error": outcome.error,
        "problems": [{"check": each.check, "what": each.what, "why": list(each.why)} for each in outcome.problems],
        "recalled": [
            {"rank": rank, "id": hit.id, "content": hit.content, "score": hit.score}
            for rank, hit in enumerate(outcome.recalled, 1)
        ],
        "context": outcome.block,
        "tokens": outcome.tokens,
    }


def junit(results: Sequence[Result]) -> bytes:
    """Everything as the XML that CI systems read; a file that could not be run is an error of its own."""
    root = ElementTree.Element("testsuites", name="keepstone")
    for result in results:
        outcomes, file = result.outcomes, str(result.suite.path)
        failures = sum(bool(each.problems) for each in outcomes)
        errors = sum(each.error is not None for each in outcomes) + (result.error is not None)
        whole = sum(each.seconds for each in outcomes)
        suite = _element(
            root, "testsuite", name=file, tests=len(outcomes) + (result.error is not None), failures=failures, errors=errors,
            skipped=0, time=f"{whole:.4f}",
        )  # fmt: skip
        if result.error is not None:
            broken = _element(suite, "testcase", classname=file, name="memory", file=file, time="0")
            _element(broken, "error", message=result.error).text = _xml(result.error)
        for outcome in outcomes:
            _outcome(suite, file, outcome)
    ElementTree.indent(root)
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _outcome(suite: ElementTree.Element, file: str, outcome: Outcome) -> None:
    line = {} if outcome.case.line is None else {"line": outcome.case.line}
    case = _element(suite, "testcase", classname=file, name=outcome.case.name, file=file, **line, time=f"{outcome.seconds:.4f}")
    text = _xml("\n".join(explain_outcome(outcome)))
    if outcome.error is not None:
        _element(case, "error", message=outcome.error).text = text
    elif outcome.problems:
        first = outcome.problems[0]
        _element(case, "failure", message=f"{first.check}: {first.what}").text = text


def _element(parent: ElementTree.Element, tag: str, **attributes: Any) -> ElementTree.Element:
    return ElementTree.SubElement(parent, tag, {name: _xml(str(value)) for name, value in attributes.items()})


def _xml(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)
