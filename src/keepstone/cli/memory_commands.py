"""remember, update, forget, set, value."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from keepstone.cli import options as o
from keepstone.cli import render
from keepstone.cli.arguments import json_value, resolve_id, scope_parts, text_or_pipe
from keepstone.cli.exit_codes import OK, REFUSED
from keepstone.cli.invocation import Invocation, Missing
from keepstone.cli.output import Output, err
from keepstone.errors import NotFound, ValidationError
from keepstone.memory import Memory
from keepstone.ports.serialize import document
from keepstone.types import BURIED, PINNED, Receipt

app = typer.Typer()
_REDACTED = re.compile(r"\[redacted:(\w+)\]")


def show_receipt(call: Invocation, write: Callable[[Memory], Receipt], missing: Missing = "create") -> int:
    """Print the receipt of a write and return the exit code. What was redacted is named, with the setting that keeps it."""
    receipt = call.show(write, render.receipt, missing=missing)
    kinds = dict.fromkeys(_REDACTED.findall(" ".join(receipt.reasons)))
    if kinds:
        allow = ",".join(f"{kind}=allow" for kind in kinds)
        err().line((f"note: what was replaced is not kept; to keep such data, set KEEPSTONE_SENSITIVE={allow}", "dim"))
    return REFUSED if receipt.action == "refused" else OK


@o.verb(app, "remember", Memory.remember)
def remember(call: Invocation, **arguments: Any) -> int:
    """Store one memory.

    The result is the action: added, merged, superseded, duplicate … A refused write shows its reasons and exits with 10.
    """
    return show_receipt(call, lambda memory: memory.remember(**arguments))


@o.verb(app, "update", Memory.update, content=o.NewContent, importance=o.NewImportance, occurred_at=o.ChangedAt, tag=o.NewTag)
def update(call: Invocation, **arguments: Any) -> int:
    """Change a record; the old version stays in its history."""
    return show_receipt(call, lambda memory: memory.update(resolve_id(memory, arguments.pop("id")), **arguments), "empty")


def _weigh(call: Invocation, ids: Sequence[str], importance: float) -> int:
    """Set the importance of some records, and print a receipt for each."""
    with call.open(missing="empty") as memory:
        receipts = [memory.update(resolve_id(memory, id), importance=importance) for id in ids]

    def show(out: Output) -> None:
        for receipt in receipts:
            render.receipt(out, receipt)

    call.answer({"receipts": document(receipts)}, show)
    return REFUSED if any(receipt.action == "refused" for receipt in receipts) else OK


@o.command(app, "pin")
def pin(call: Invocation, ids: o.Ids) -> int:
    """Pin memories: they never age and come first in a context. Their importance becomes 1."""
    return _weigh(call, ids, PINNED)


@o.command(app, "bury")
def bury(call: Invocation, ids: o.Ids) -> int:
    """Bury memories: they are recalled after all others. Their importance becomes 0."""
    return _weigh(call, ids, BURIED)


@o.command(app, "unpin")
def unpin(call: Invocation, ids: o.Ids) -> int:
    """Undo pin and bury: the importance becomes 0.5."""
    return _weigh(call, ids, 0.5)


@o.command(app, "forget")
def forget(
    call: Invocation,
    id: Annotated[str | None, typer.Argument(metavar="ID", help="The id of a record.")] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="The record with this key.")] = None,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="All records from this source.")] = None,
    session: Annotated[str | None, typer.Option(metavar="NAME", help="All messages of this session.")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="All records of this scope.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Erase one record, or many; this cannot be undone.

    Records derived from it are erased too. The result counts the erased entries per place.
    """
    wide = {"from the source": source, "said in the session": session, "": "" if everything else None}
    asked = [f"everything {which} {name!r}" if which else "everything" for which, name in wide.items() if name is not None]
    if asked and not yes and (id, key) == (None, None):
        confirm(f"Forget {' and '.join(asked)} of {call.place} in {call.shown}? It cannot be undone.")
    call.show(
        lambda memory: memory.forget(
            id and resolve_id(memory, id), key=key, source=source, session=session, everything=everything
        ),
        render.forgotten,
    )


def confirm(question: str) -> None:
    """Ask on the terminal; typer.Abort unless the answer is yes."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise ValidationError("this changes more than one record and there is no terminal for the confirmation: add --yes.")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)  # typer.confirm would write to standard output
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise typer.Abort


To = Annotated[str, typer.Option("--to", metavar="SCOPE", help="Where to: user=NAME, agent=NAME or both, with a comma.")]


@o.command(app, "promote")
def promote(call: Invocation, id: o.Id, to: To) -> int:
    """Move a memory with its history to a wider scope. From a project to the user, or from a user to a team.

    A memory of the personal scope has the agent "default", one of a project the agent "project:NAME".
    """
    where = scope_parts(to, "--to")
    return show_receipt(call, lambda memory: memory.promote(resolve_id(memory, id), to=where), "empty")


@o.command(app, "demote")
def demote(call: Invocation, id: o.Id, to: To) -> int:
    """Move a memory with its history to a narrower scope."""
    where = scope_parts(to, "--to")
    return show_receipt(call, lambda memory: memory.demote(resolve_id(memory, id), to=where), "empty")


@o.command(app, "feedback")
def feedback(
    call: Invocation,
    id: o.Id,
    helped: Annotated[bool, typer.Option("--helped/--did-not-help", help="Whether the memory helped.")],
) -> int:
    """Say whether a recalled memory helped.

    A memory that helped ranks a little higher and is kept longer; 'keepstone why' shows it.
    """
    return show_receipt(call, lambda memory: memory.feedback(resolve_id(memory, id), helped=helped), "empty")


_UNKNOWN = object()


@o.command(app, "set")
def set_(
    call: Invocation,
    key: o.Key,
    value: Annotated[str | None, typer.Argument(metavar="VALUE", help="The value; by default standard input.")] = None,
    tag: o.Tag = "general",
    parse: Annotated[bool, typer.Option("--parse", help="Parse the value as JSON; otherwise it is text.")] = False,
) -> int:
    """Store a value under a key; the old value stays in its history."""
    text = text_or_pipe(value, "the value")
    parsed = json_value(text, "the value") if parse else text
    return show_receipt(call, lambda memory: memory.set(key, parsed, tag=tag))


@o.command(app, "value")
def value(
    call: Invocation,
    key: Annotated[str | None, typer.Argument(metavar="KEY", help="The key.")] = None,
    default: Annotated[str | None, typer.Option(metavar="TEXT", help="The result for an unknown key.")] = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="All values with this tag, instead of one key.")] = None,
) -> None:
    """Print the current value of a key, or all values with a tag.

    An unknown key is an error (exit code 3) unless --default is given.
    """
    if (key is None) == (tag is None):
        raise ValidationError("value needs either a KEY or --tag: give one of them.")
    if tag is not None:
        with call.open(missing="empty") as memory:
            values: dict[str, Any] = memory.value(tag=tag)
        lines = [f"{key} = {_as_text(stored)}" for key, stored in values.items()]
        empty = f"There are no values with the tag {tag!r:.80} ({call.place})."
        call.answer({"tag": tag, "values": values}, lambda out: out.block("\n".join(lines)) if lines else out.line(empty))
        return
    with call.open(missing="empty") as memory:
        stored: Any = memory.value(key, _UNKNOWN if default is None else default)
    if stored is _UNKNOWN:
        raise NotFound(f"there is no key {key!r:.80} in this scope ({call.place}): 'keepstone set' stores one.")
    call.answer({"key": key, "value": stored}, lambda out: out.block(_as_text(stored)))


def _as_text(stored: Any) -> str:
    return stored if isinstance(stored, str) else json.dumps(stored, ensure_ascii=False)
