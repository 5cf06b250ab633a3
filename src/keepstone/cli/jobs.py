"""learn, and the queue of what waits to be learned from.

A command that works on the queue opens the memory without its worker thread: two would share the jobs, and the report would
miss some.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, cast

import typer

from keepstone.cli import options as o
from keepstone.cli import show
from keepstone.cli.exits import OK, PROVIDER
from keepstone.cli.given import json_object, text_or_pipe
from keepstone.cli.invocation import Invocation
from keepstone.cli.output import Output
from keepstone.cli.progress import progress
from keepstone.errors import ConfigurationError, ValidationError
from keepstone.ports.serialize import document

if TYPE_CHECKING:
    from keepstone.learning.jobs import WorkReport
    from keepstone.memory import Memory
    from keepstone.ports.queue import Job, JobState
    from keepstone.types import Receipt, Record

app = typer.Typer()
jobs = typer.Typer()
STATES = ("waiting", "running", "failed")
WITHOUT_WORKER = {"worker": False}


@o.command(app, "learn")
def learn(
    call: Invocation,
    content: o.Content = None,
    metadata: o.Metadata = None,
    source: o.Source = "user",
    session: o.InSession = None,
    occurred_at: o.OccurredAt = None,
    model: o.Model = None,
) -> int:
    """Keep a text as it is, and the facts found in it.

    A model finds them, where one is named (it then learns from whatever else waits in this scope, too); else rules do.
    """
    text, about = text_or_pipe(content, "the content"), json_object(metadata, "--metadata")
    with call.open(model=call.model(model), settings=WITHOUT_WORKER) as memory, progress(call, "learning") as bar:
        receipt = memory.learn(text, metadata=about, source=source, session=session, occurred_at=occurred_at)
        report = memory.jobs.run(progress=bar) if call.url is None else None  # a server has its own worker
        receipt = _with(receipt, report)
        facts = found(memory, receipt.learned)
    answer = {**document(receipt), "facts": document(facts), "problems": list(report.problems) if report else []}
    call.answer(answer, lambda out: _learned(out, receipt, facts, report))
    return PROVIDER if report and report.failed else OK


def _with(receipt: Receipt, report: WorkReport | None) -> Receipt:
    """The receipt with what a model has learned; rules have said so in it already."""
    if report is None or not report.done:
        return receipt
    return replace(receipt, learned=(*receipt.learned, *report.learned), usage=report.usage)


def found(memory: Memory, ids: Sequence[str]) -> list[Record]:
    """The records of some ids, as far as they are still there."""
    return [record for record in map(memory.get, ids) if record is not None]


def _learned(out: Output, receipt: Receipt, facts: Sequence[Record], report: WorkReport | None) -> None:
    show.receipt(out, receipt)
    show.noted(out, facts)
    if not facts and not (report and report.failed):
        out.line(("No facts were found in it; the text itself can be recalled.", "dim"))
    if report is not None:
        _problems(out, report)


@o.alone(jobs)
def list_(
    call: Invocation,
    state: Annotated[str | None, typer.Option(metavar="STATE", help="Only those waiting, running or failed.")] = None,
    limit: o.Limit = 100,
) -> None:
    """Messages that wait until a model has learned from them.

    Oldest first. A job that failed five times is given up and stays until it is retried or dropped.
    """
    if state not in (None, *STATES):
        raise ValidationError(f"--state is {state!r:.40}: use {', '.join(STATES[:-1])} or {STATES[-1]}.")
    with call.open(missing="empty") as memory:
        listed = memory.jobs.list(state=cast("JobState | None", state), limit=limit)
    call.answer({"jobs": document(list(listed))}, lambda out: _listed(out, listed, state, call.place))


def _listed(out: Output, listed: Sequence[Job], state: str | None, place: str) -> None:
    if not listed:
        out.line(f"{'Nothing waits to be learned from' if state is None else f'No job is {state}'} ({place}).")
        return
    show.jobs(out, listed)
    given_up = sum(job.state == "failed" for job in listed)
    hints = [f"'keepstone jobs retry' lets {'it' if given_up == 1 else 'them'} wait again"] if given_up else []
    if len(listed) > given_up:
        hints.append("'keepstone jobs run --model SPEC' works on what waits")
    out.line(("; ".join(hints) + ".", "dim"))


@o.command(jobs, "run")
def run(call: Invocation, model: o.Model = None) -> int:
    """Learn from every message that waits in this scope, now."""
    with (
        call.open(missing="refuse", model=needed(call, model), settings=WITHOUT_WORKER) as memory,
        progress(call, "learning") as bar,
    ):
        report = memory.jobs.run(progress=bar)
        facts = found(memory, report.learned)
    call.answer({**document(report), "facts": document(facts)}, lambda out: worked(out, report, facts))
    return PROVIDER if report.failed else OK


@o.command(jobs, "retry")
def retry(
    call: Invocation,
    number: Annotated[int | None, typer.Argument(metavar="[NUMBER]", help="The number of a job; all, if none is given.")] = None,
) -> None:
    """Let a job that was given up, or all of them, wait again."""
    with call.open(missing="refuse") as memory:
        count = memory.jobs.retry(number)
    call.answer(
        {"retried": count},
        lambda out: (
            out.line(("waiting again", "bold green"), f"  {show.counted(count, 'job')}")
            if count
            else out.line(f"No job has failed ({call.place}).")
        ),
    )


@o.command(jobs, "drop")
def drop(call: Invocation, number: o.JobNumber) -> None:
    """Take a job out of the queue; its messages stay."""
    with call.open(missing="refuse") as memory:
        memory.jobs.drop(number)
    call.answer({"dropped": number}, lambda out: out.line(("dropped", "bold green"), f"  job {number}; its messages stay"))


# -- shared with `upkeep run` -------------------------------------------------------------------------------------
def needed(call: Invocation, model: str | None) -> str | None:
    """The model that is named; there must be one, unless the server has it."""
    named = call.model(model)
    if named is None and call.url is None:
        raise ConfigurationError(
            "working on the queue takes a model: name one with --model (anthropic:NAME, openai:NAME, ollama:NAME) "
            "or KEEPSTONE_MODEL."
        )
    return named


def worked(out: Output, report: WorkReport, facts: Sequence[Record] = ()) -> None:
    """What a run through the queue came to."""
    if not report.done and not report.failed:
        out.line("Nothing waits to be learned from.")
        return
    if report.done:
        learned = show.counted(len(report.learned), "fact")
        out.line(("learned", "bold green"), f"  {learned} from {show.counted(report.done, 'job')}", *show.took(report.usage))
    show.noted(out, facts)
    if report.refused:
        refused = show.counted(len(report.refused), "proposal")
        out.line((f"{refused} of the model {'was' if len(report.refused) == 1 else 'were'} not taken:", "dim"))
    for sentence in report.refused:
        out.line((f"    {sentence}", "dim"))
    _problems(out, report)


def _problems(out: Output, report: WorkReport) -> None:
    if report.failed:
        out.line((f"{show.counted(report.failed, 'job')} failed; 'keepstone jobs' shows what waits:", "red"))
    for problem in report.problems:
        out.line((f"    {problem}", "red"))


app.add_typer(jobs, name="jobs")
