"""test: what a memory must recall, and must not, as memtest files say."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from keepstone.cli import options as o
from keepstone.cli.exits import OK, PROBLEMS
from keepstone.cli.invocation import Invocation
from keepstone.cli.output import Output
from keepstone.errors import ConfigurationError, KeepstoneError, ValidationError

if TYPE_CHECKING:
    from keepstone.memtest.cases import Case, Opening, Suite
    from keepstone.memtest.report import Result

app = typer.Typer()


@o.command(app, "test")
def check(
    call: Invocation,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILES", help="memtest files, or folders with such; default: those below this folder."),
    ] = None,
    junit: Annotated[
        str | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML there, for CI.", show_default=False)
    ] = None,
    name: Annotated[
        str | None, typer.Option("-k", metavar="TEXT", help="Only tests with this in their names.", show_default=False)
    ] = None,
) -> int:
    """Test what a memory recalls.

    A memtest file (memtest.yaml, memtest_theme.yaml, memtest.json) says what is remembered, then what must be recalled, and what
    must not. A test that fails says why. With --db the tests are asked of a copy of that store: the store itself is never
    changed. Exits with 8 if a test fails.
    """
    from keepstone.memtest import reading, report

    call.here("keepstone test")
    suites = [reading.read(path) for path in reading.found(files or ())]
    chosen = [(suite, _chosen(suite, name)) for suite in suites]
    if not any(cases for _, cases in chosen):
        raise ValidationError(f"-k is {name!r:.60}, and no test has that in its name: use a part of a test's name.")
    results = [_tested(call, suite, cases) for suite, cases in chosen if cases]
    if junit is not None:
        _written(junit, report.junit(results))
    call = call if "db" in call.named else replace(call, db=":memory:")  # no store is needed, so none is missing
    call.answer(report.document(results), lambda out: _shown(out, results))
    return OK if all(each.passed for each in results) else PROBLEMS


def _chosen(suite: Suite, name: str | None) -> list[Case]:
    return [case for case in suite.cases if name is None or name.casefold() in case.name.casefold()]


def _tested(call: Invocation, suite: Suite, cases: Sequence[Case]) -> Result:
    from keepstone.memtest.report import Result
    from keepstone.memtest.running import run
    from keepstone.memtest.staging import Stage

    opening = _opening(call, suite.opening)
    try:
        with Stage(suite, opening) as stage:
            return Result(suite, stage.described, tuple(run(stage, case) for case in cases))
    except KeepstoneError as error:  # the other files are run all the same
        return Result(suite, "", error=f"{type(error).__name__}: {error}")


def _opening(call: Invocation, opening: Opening) -> Opening:
    """As the file says, but for what was named on the command line or by KEEPSTONE_*."""
    scope = opening.scope.narrowed(**{part: getattr(call, part) for part in ("tenant", "agent", "user") if part in call.named})
    store = opening.store
    if "db" in call.named:
        store = call.db if "://" in call.db else None if call.db == ":memory:" else os.path.abspath(call.db)
    return replace(opening, store=store, scope=scope, embedder=call.embedder or opening.embedder)


def _written(path: str, text: bytes) -> None:
    try:
        Path(path).write_bytes(text)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"--junit {path!s:.200} cannot be written ({error}): name a file in a folder that exists."
        ) from None


def _shown(out: Output, results: Sequence[Result]) -> None:
    from keepstone.memtest.report import explained, summed

    for result in results:
        out.line((str(result.suite.path), "bold"), (f"  {result.memory}", "dim"))
        if result.error is not None:
            out.line("  ", ("cannot be run  ", "bold red"), result.error)
        for outcome in result.outcomes:
            passed = outcome.passed
            out.line("  ", ("passed  ", "green") if passed else ("FAILED  ", "bold red"), outcome.case.name)
            for line in () if passed else explained(outcome):
                out.line(f"      {line}", indent=14)
    out.line((summed(results), "bold" if all(each.passed for each in results) else "bold red"))
