"""recall, context, list, history, diff, why."""

from __future__ import annotations

from typing import Annotated

import typer

from keepstone.cli import options as o
from keepstone.cli import render
from keepstone.cli.arguments import json_object, text_or_pipe
from keepstone.cli.invocation import Invocation
from keepstone.cli.output import Output, err
from keepstone.ports.serialize import document
from keepstone.types import Page, Recall

app = typer.Typer()


@o.command(app, "recall")
def recall(
    call: Invocation,
    query: o.Query = None,
    limit: o.Limit = 5,
    kinds: o.Kinds = None,
    tag: o.OnlyTag = None,
    filter: o.Filter = None,
    min_similarity: o.MinSimilarity = None,
    min_importance: o.MinImportance = 0.0,
    max_tokens: o.MaxTokens = None,
    as_of: o.AsOf = None,
    known_at: o.KnownAt = None,
    min_trust: o.MinTrust = None,
    session: o.OnlySession = None,
    asked_at: o.AskedAt = None,
) -> None:
    """Find the memories that answer a question, best first."""
    text, conditions = text_or_pipe(query, "the query"), json_object(filter, "--filter")
    with call.open(missing="empty") as memory:
        found = memory.recall(
            text, limit=limit, kinds=kinds or None, tag=tag, filter=conditions, min_similarity=min_similarity,
            min_importance=min_importance, max_tokens=max_tokens, as_of=as_of, known_at=known_at, min_trust=min_trust,
            session=session, asked_at=asked_at,
        )  # fmt: skip
    call.answer(document(found), lambda out: _recalled(out, found, call.place))


def _recalled(out: Output, found: Recall, place: str) -> None:
    for note in found.notes:
        err().line((f"note: {note}", "yellow"))
    if found.hits or found.left_out:
        render.recall(out, found)
    else:
        render.no_hits(out, found.query, found.considered, place)


@o.command(app, "context")
def context(
    call: Invocation,
    query: o.Query = None,
    max_tokens: Annotated[int, typer.Option(metavar="N", help="Maximum tokens of the block.")] = 1500,
) -> None:
    """Print the memories about a question as a block for a prompt."""
    text = text_or_pipe(query, "the query")
    with call.open(missing="empty") as memory:
        block = memory.context(text, max_tokens=max_tokens)
    call.answer({"query": text, "context": block}, lambda out: _block(out, block))


def _block(out: Output, block: str) -> None:
    if block:
        out.block(block)
    else:
        err().line(("No memory matches: the block is empty.", "dim"))


@o.command(app, "list")
def list_(
    call: Invocation,
    tag: o.OnlyTag = None,
    kind: o.OnlyKind = None,
    filter: o.Filter = None,
    limit: o.Limit = 20,
    cursor: o.Cursor = None,
) -> None:
    """List records, newest first, in pages."""
    with call.open(missing="empty") as memory:
        page = memory.list(tag=tag, kind=kind, filter=json_object(filter, "--filter"), limit=limit, cursor=cursor)
    call.answer(document(page), lambda out: _page(out, page, call.place))


def _page(out: Output, page: Page, place: str) -> None:
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
        versions = memory.history(id)
    call.answer({"id": id, "versions": document(list(versions))}, lambda out: render.history(out, versions))


@o.command(app, "diff")
def diff(
    call: Invocation,
    since: Annotated[str, typer.Option(metavar="TIME", help="The start (ISO 8601).")],
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="The end (ISO 8601; default: now).", show_default=False)
    ] = None,
    kinds: o.Kinds = None,
) -> None:
    """Show what was added, changed and removed between two times."""
    with call.open(missing="empty") as memory:
        found = memory.audit.diff(since, until, kinds=kinds or None)
    call.answer(document(found), lambda out: render.diff(out, found))


@o.command(app, "why")
def why(
    call: Invocation,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The question.")],
    id: o.Id,
) -> None:
    """Explain why a question recalls a record, or does not."""
    with call.open(missing="empty") as memory:
        found = memory.why(query, id)
    call.answer(document(found), lambda out: render.explanation(out, found))
