"""set, value, category: the key-value tier."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from keepstone.cli import options as o
from keepstone.cli import show
from keepstone.cli.given import json_value, text_or_pipe
from keepstone.cli.invocation import Invocation
from keepstone.errors import NotFound
from keepstone.ports.serialize import document

app = typer.Typer()
_UNKNOWN = object()


@o.command(app, "set")
def set_(
    call: Invocation,
    key: o.Key,
    value: Annotated[str | None, typer.Argument(metavar="[VALUE]", help="The value; - or nothing reads it from a pipe.")] = None,
    category: o.Category = "general",
    parse: Annotated[bool, typer.Option("--parse", help="Read the value as JSON; without it a value is text.")] = False,
) -> None:
    """Save a value under a key; the old value stays in its history."""
    text = text_or_pipe(value, "the value")
    given = json_value(text, "the value") if parse else text
    with call.open() as memory:
        receipt = memory.set(key, given, tag=category)
    call.answer(document(receipt), lambda out: show.receipt(out, receipt))


@o.command(app, "value")
def value(
    call: Invocation,
    key: o.Key,
    default: Annotated[str | None, typer.Option(metavar="TEXT", help="What to answer where the key is unknown.")] = None,
) -> None:
    """The current value of a key.

    An unknown key is an error (exit code 3) unless --default is given.
    """
    with call.open(missing="empty") as memory:
        found: Any = memory.value(key, _UNKNOWN if default is None else default)
    if found is _UNKNOWN:
        raise NotFound(f"there is no key {key!r:.80} in this scope ({call.place}): 'keepstone set' saves one.")
    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    call.answer({"key": key, "value": found}, lambda out: out.block(text))


@o.command(app, "category")
def category(call: Invocation, name: Annotated[str, typer.Argument(metavar="NAME", help="The category (a tag).")]) -> None:
    """Every fact of a category, the last updated first."""
    with call.open(missing="empty") as memory:
        found = tuple(record for record in memory.list(tag=name, limit=100) if record.kind != "message")
    empty = f"The category {name!r:.80} is empty in this scope ({call.place})."
    call.answer(
        {"category": name, "records": document(list(found))},
        lambda out: show.records(out, found) if found else out.line(empty),
    )
