"""learn, and the queue of learning jobs.

Commands that work on the queue open the memory without its worker thread, which would take some of the jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, cast

import typer

from keepstone.cli import options as o
from keepstone.cli import render
from keepstone.cli.arguments import json_object, text_or_pipe
from keepstone.cli.exit_codes import OK, PROVIDER, REFUSED
from keepstone.cli.invocation import Invocation
from keepstone.cli.output import Output, progress
from keepstone.errors import ConfigurationError
from keepstone.ports.serialize import document

if TYPE_CHECKING:
    from keepstone.learning.jobs import WorkReport
    from keepstone.memory import Memory
    from keepstone.ports.queue import Job, JobState
    from keepstone.types import Receipt, Record

app = typer.Typer()
jobs = typer.Typer()
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
    """Store a text and the facts in it.

    Rules extract the facts, or a model if one is named; it then runs the other waiting jobs of this scope too.
    """
    text, about = text_or_pipe(content, "the content"), json_object(metadata, "--metadata")
    with call.open(model=call.model(model), settings=WITHOUT_WORKER) as memory, progress(call, "learning") as bar:
        receipt = memory.learn(text, metadata=about, source=source, session=session, occurred_at=occurred_at)
        report = memory.jobs.run(progress=bar) if call.url is None else None  # a server has its own worker
        if report is not None and report.done:  # what rules learned is in the receipt already
            receipt = replace(receipt, learned=(*receipt.learned, *report.learned), usage=report.usage)
        facts = get_records(memory, receipt.learned)
    answer = {**document(receipt), "facts": document(facts), "problems": list(report.problems) if report else []}
    call.answer(answer, lambda out: _render_learned(out, receipt, facts, report))
    if receipt.action == "refused":
        return REFUSED
    return PROVIDER if report and report.failed else OK


def get_records(memory: Memory, ids: Sequence[str]) -> list[Record]:
    """The records with these ids that still exist."""
    return [record for record in map(memory.get, ids) if record is not None]


def _render_learned(out: Output, receipt: Receipt, facts: Sequence[Record], report: WorkReport | None) -> None:
    render.receipt(out, receipt)
    render.facts_noted(out, facts)
    if not facts and not (report and report.failed):
        out.line(("No facts were found; the text itself can be recalled.", "dim"))
    if report is not None:
        render.problems(out, report.problems, report.failed)


@o.alone(jobs)
def list_(
    call: Invocation,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Only jobs in this state: waiting, running or failed.")
    ] = None,
    limit: o.Limit = 100,
) -> None:
    """List learning jobs, oldest first.

    A job holds messages that a model has not learned from yet. A job that failed five times stays until it is retried or
    dropped.
    """
    call.show(
        lambda memory: memory.jobs.list(state=cast("JobState | None", state), limit=limit),
        lambda out, listed: _render_jobs(out, listed, state, call.place),
        field="jobs",
    )


def _render_jobs(out: Output, listed: Sequence[Job], state: str | None, place: str) -> None:
    if not listed:
        out.line(f"{'There are no jobs' if state is None else f'No job is {state}'} ({place}).")
        return
    render.jobs(out, listed)
    given_up = sum(job.state == "failed" for job in listed)
    hints = [f"'keepstone jobs retry' retries the failed {'job' if given_up == 1 else 'jobs'}"] if given_up else []
    if len(listed) > given_up:
        hints.append("'keepstone jobs run --model SPEC' runs the waiting jobs")
    out.line(("; ".join(hints) + ".", "dim"))


@o.command(jobs, "run")
def run(call: Invocation, model: o.Model = None) -> int:
    """Run all waiting learning jobs of this scope now."""
    with (
        call.open(missing="refuse", model=require_model(call, model), settings=WITHOUT_WORKER) as memory,
        progress(call, "learning") as bar,
    ):
        report = memory.jobs.run(progress=bar)
        facts = get_records(memory, report.learned)
    call.answer({**document(report), "facts": document(facts)}, lambda out: render_report(out, report, facts))
    return PROVIDER if report.failed else OK


@o.command(jobs, "retry")
def retry(
    call: Invocation,
    number: Annotated[int | None, typer.Argument(metavar="NUMBER", help="The number of a job; default: all failed jobs.")] = None,
) -> None:
    """Queue a failed job again, or all of them."""
    with call.open(missing="refuse") as memory:
        count = memory.jobs.retry(number)
    call.answer(
        {"retried": count},
        lambda out: (
            out.line(("queued again", "bold green"), f"  {render.plural(count, 'job')}")
            if count
            else out.line(f"No job has failed ({call.place}).")
        ),
    )


@o.command(jobs, "drop")
def drop(call: Invocation, number: o.JobNumber) -> None:
    """Delete a job from the queue; its messages stay."""
    with call.open(missing="refuse") as memory:
        memory.jobs.drop(number)
    call.answer({"dropped": number}, lambda out: out.line(("dropped", "bold green"), f"  job {number}; its messages stay"))


# -- shared with `upkeep run` -------------------------------------------------------------------------------------
def require_model(call: Invocation, model: str | None) -> str | None:
    """The named model. Raises ConfigurationError without one, except over HTTP."""
    named = call.model(model)
    if named is None and call.url is None:
        raise ConfigurationError(
            "running jobs needs a model: name one with --model (anthropic:NAME, openai:NAME, ollama:NAME) or KEEPSTONE_MODEL."
        )
    return named


def render_report(out: Output, report: WorkReport, facts: Sequence[Record] = ()) -> None:
    """The result of running jobs."""
    if not report.done and not report.failed:
        out.line("There are no jobs to run.")
        return
    if report.done:
        render.learned(out, report.done, report.learned, report.usage, ("learned", "bold green"))
    render.facts_noted(out, facts)
    if report.refused:
        refused = render.plural(len(report.refused), "proposal")
        out.line((f"{refused} of the model {'was' if len(report.refused) == 1 else 'were'} rejected:", "dim"))
    for sentence in report.refused:
        out.line((f"    {sentence}", "dim"))
    render.problems(out, report.problems, report.failed)


app.add_typer(jobs, name="jobs")
