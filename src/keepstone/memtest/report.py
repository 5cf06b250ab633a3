"""What came out, in words, as JSON and as JUnit XML. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from keepstone.memtest.cases import Suite
from keepstone.memtest.explaining import shown
from keepstone.memtest.running import Outcome

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


def explained(outcome: Outcome) -> Iterator[str]:
    """Why a test failed, a line each: what is not as it must be with its reasons, then what was recalled."""
    if outcome.error is not None:
        yield f"cannot be run: {outcome.error}"
        return
    for problem in outcome.problems:
        yield f"{problem.check}: {problem.what}"
        yield from (f"    {reason}" for reason in problem.why)
    if outcome.recalled:
        yield "recalled:"
        yield from (f"    {each.rank}  {shown(each.content)}  ({each.id}, score {each.score:.2f})" for each in outcome.recalled)
    if outcome.block:
        yield f"the block ({outcome.tokens} tokens):"
        yield from (f"    {line}" for line in outcome.block.splitlines())


def summed(results: Sequence[Result]) -> str:
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
            {"rank": each.rank, "id": each.id, "content": each.content, "score": each.score} for each in outcome.recalled
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
    text = _xml("\n".join(explained(outcome)))
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
