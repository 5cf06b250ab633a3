"""test: run memtest files, which say what a memory must recall and must not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from keepstone.cli import options as o
from keepstone.cli.exit_codes import OK, PROBLEMS
from keepstone.cli.invocation import Invocation
from keepstone.cli.output import Output
from keepstone.errors import ConfigurationError, KeepstoneError, ValidationError

if TYPE_CHECKING:
    from keepstone.memtest.cases import Case, Opening, Suite
    from keepstone.memtest.runner import Result

app = typer.Typer()


@o.command(app, "test")
def check(
    call: Invocation,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILES", help="memtest files, or folders that contain them; default: the current folder."),
    ] = None,
    junit: Annotated[
        str | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit XML report for CI.", show_default=False)
    ] = None,
    name: Annotated[
        str | None, typer.Option("-k", metavar="TEXT", help="Only tests whose names contain this text.", show_default=False)
    ] = None,
) -> int:
    """Test what a memory recalls.

    A memtest file (memtest.yaml, memtest_theme.yaml, memtest.json) lists what is stored, what must be recalled and what must not.
    A failed test prints the reason. With --db the tests run on a copy of that store, which itself never changes. Exits with 8
    if a test fails.
    """
    from keepstone.memtest import parser, runner

    call.require_store("keepstone test")
    suites = [parser.parse_file(path) for path in parser.find_files(files or ())]
    chosen = [
        (suite, [case for case in suite.cases if name is None or name.casefold() in case.name.casefold()]) for suite in suites
    ]
    if not any(cases for _, cases in chosen):
        raise ValidationError(f"-k is {name!r:.60}, and no test name contains it: use a part of a test's name.")
    results = [_run_suite(call, suite, cases) for suite, cases in chosen if cases]
    if junit is not None:
        _write_report(junit, runner.junit(results))
    call = call if "db" in call.named else replace(call, db=":memory:")  # no note about a missing store
    call.answer(runner.document(results), lambda out: _render_results(out, results))
    return OK if all(result.passed for result in results) else PROBLEMS


def _run_suite(call: Invocation, suite: Suite, cases: Sequence[Case]) -> Result:
    from keepstone.memtest.runner import Result, run
    from keepstone.memtest.stage import Stage

    opening = _opening(call, suite.opening)
    try:
        with Stage(suite, opening) as stage:
            return Result(suite, stage.described, tuple(run(stage, case) for case in cases))
    except KeepstoneError as error:  # the other files still run
        return Result(suite, "", error=f"{type(error).__name__}: {error}")


def _opening(call: Invocation, opening: Opening) -> Opening:
    """The file's settings, overridden by those on the command line or in KEEPSTONE_*."""
    scope = opening.scope.narrowed(**{part: getattr(call, part) for part in ("tenant", "agent", "user") if part in call.named})
    store = opening.store
    if "db" in call.named:
        store = call.db if "://" in call.db else None if call.db == ":memory:" else os.path.abspath(call.db)
    return replace(opening, store=store, scope=scope, embedder=call.embedder or opening.embedder)


def _write_report(path: str, text: bytes) -> None:
    try:
        Path(path).write_bytes(text)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"--junit {path!s:.200} cannot be written ({error}): name a file in a folder that exists."
        ) from None


def _render_results(out: Output, results: Sequence[Result]) -> None:
    from keepstone.memtest.runner import explain_outcome, summarize

    for result in results:
        out.line((str(result.suite.path), "bold"), (f"  {result.memory}", "dim"))
        if result.error is not None:
            out.line("  ", ("cannot be run  ", "bold red"), result.error)
        for outcome in result.outcomes:
            passed = outcome.passed
            out.line("  ", ("passed  ", "green") if passed else ("FAILED  ", "bold red"), outcome.case.name)
            for line in () if passed else explain_outcome(outcome):
                out.line(f"      {line}", indent=14)
    out.line((summarize(results), "bold" if all(result.passed for result in results) else "bold red"))
