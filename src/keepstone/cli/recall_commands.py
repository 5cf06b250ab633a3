"""recall, context, list, history, diff, why."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Annotated, Any, TypeVar

import typer

from keepstone.cli import options as o
from keepstone.cli import render
from keepstone.cli.arguments import moment, resolve_id
from keepstone.cli.invocation import Invocation
from keepstone.cli.output import Output, err
from keepstone.errors import ValidationError
from keepstone.memory import Memory
from keepstone.ports.serialize import document
from keepstone.types import MESSAGE, Page, Recall

app = typer.Typer()
Found = TypeVar("Found", bound=Sized)
KINDS = frozenset(("fact", "note", "value", MESSAGE, "episode", "summary"))


_TEXTS = {"contains": o.Contains, "not_contains": o.NotContains}


@o.verb(app, "recall", Memory.recall, tag=o.OnlyTag, session=o.OnlySession, **_TEXTS)
def recall(call: Invocation, **given: Any) -> None:
    """Find the memories that answer a question, best first."""
    arguments = _with_texts(**given)
    kinds = arguments["kinds"]
    call.show(
        lambda memory: known_kinds(memory, memory.recall(**arguments), kinds),
        lambda out, recall: _render_recall(out, recall, call.place),
    )


def known_kinds(memory: Memory, found: Found, kinds: Sequence[str] | None) -> Found:
    """What was found; ValidationError if that is nothing and a kind that was named is neither a usual one nor in use."""
    if not len(found):
        for kind in set(kinds or ()) - KINDS:
            if not memory.list(kind=kind, limit=1):
                usual = ", ".join(sorted(KINDS))
                raise ValidationError(f"--kind {kind!r:.60}: no memory of this scope is of that kind. Usual ones are {usual}.")
    return found


def _with_texts(contains: list[str] | None, not_contains: list[str] | None, **arguments: Any) -> dict[str, Any]:
    """The arguments of a verb, with the texts that records have to contain or not in the filter."""
    texts = [{"contains": text} for text in contains or ()] + [{"not_contains": text} for text in not_contains or ()]
    if texts:
        arguments["filter"] = {"and": [*([arguments["filter"]] if arguments["filter"] else []), *texts]}
    return arguments


def _render_recall(out: Output, recall: Recall, place: str) -> None:
    for note in recall.notes:
        err().line((f"note: {note}", "yellow"))
    if recall.hits or recall.left_out:
        render.recall(out, recall)
    else:
        render.no_hits(out, recall, place)


@o.verb(
    app,
    "context",
    Memory.context,
    max_tokens=Annotated[int, typer.Option(metavar="N", help="Maximum tokens of the block.")],
    limit=Annotated[int | None, typer.Option(metavar="N", help="Maximum number of memories in it.")],
    tag=o.OnlyTag,
)
def context(call: Invocation, query: str, **arguments: Any) -> None:
    """Print the memories about a question as a block for a prompt."""
    with call.open(missing="empty") as memory:
        block = memory.context(query, **arguments)
    call.answer({"query": query, "context": block}, lambda out: _render_block(out, block))


def _render_block(out: Output, block: str) -> None:
    if block:
        out.block(block)
    else:
        err().line(("No memory matches: the block is empty.", "dim"))


@o.verb(app, "list", Memory.list, tag=o.OnlyTag, kind=o.OnlyKind, **_TEXTS)
def list_(call: Invocation, **given: Any) -> None:
    """List records, newest first, in pages."""
    arguments = _with_texts(**given)
    kinds = [arguments["kind"]] if arguments["kind"] else None
    call.show(
        lambda memory: known_kinds(memory, memory.list(**arguments), kinds), lambda out, page: _render_page(out, page, call.place)
    )


def _render_page(out: Output, page: Page, place: str) -> None:
    if not page.records:
        out.line(f"No records found ({place}).")
        out.line(("Try fewer filters, or another --tenant, --agent, --user or --db.", "dim"))
    render.records(out, page.records)
    if page.cursor is not None:
        out.line((f"Next page: add --cursor {page.cursor}", "dim"))


@o.command(app, "history")
def history(call: Invocation, id: o.Id) -> None:
    """Show every version of a record, oldest first."""
    with call.open(missing="empty") as memory:
        id = resolve_id(memory, id)
        versions = memory.history(id)
    call.answer({"id": id, "versions": document(list(versions))}, lambda out: render.history(out, versions))


@o.command(app, "diff")
def diff(
    call: Invocation,
    since: Annotated[str, typer.Option(metavar="TIME", help="The start: 2026-03-01, yesterday, '3 days ago'.")],
    until: Annotated[str | None, typer.Option(metavar="TIME", help="The end (default: now).", show_default=False)] = None,
    kinds: o.Kinds = None,
) -> None:
    """Show what was added, changed and removed between two times."""
    start, end = moment(since, "--since") or since, moment(until, "--until")
    call.show(lambda memory: memory.audit.diff(start, end, kinds=kinds or None), render.diff)


@o.command(app, "why")
def why(
    call: Invocation,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The question.")],
    id: o.Id,
) -> None:
    """Explain why a question recalls a record, or does not."""
    call.show(lambda memory: memory.why(query, resolve_id(memory, id)), render.explanation)
