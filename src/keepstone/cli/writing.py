"""remember, update, forget."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from keepstone.cli import options as o
from keepstone.cli import show
from keepstone.cli.given import duration, json_object, text_or_pipe
from keepstone.cli.invocation import Invocation
from keepstone.errors import ValidationError
from keepstone.ports.serialize import document

app = typer.Typer()


@o.command(app, "remember")
def remember(
    call: Invocation,
    content: o.Content = None,
    kind: o.Kind = "fact",
    tag: o.Tag = "general",
    key: o.KeyOption = None,
    importance: o.Importance = 0.5,
    metadata: o.Metadata = None,
    ttl: o.Ttl = None,
    source: o.Source = "user",
    session: o.InSession = None,
    occurred_at: o.OccurredAt = None,
    idempotency_key: o.IdempotencyKey = None,
) -> None:
    """Store one memory and say what became of it.

    A write that is refused is an answer too (exit code 0): its reasons say why, and when to try again.
    """
    text, about, lasts = text_or_pipe(content, "the content"), json_object(metadata, "--metadata"), duration(ttl, "--ttl")
    with call.open() as memory:
        receipt = memory.remember(
            text, kind=kind, tag=tag, key=key, importance=importance, metadata=about, ttl=lasts, source=source,
            session=session, occurred_at=occurred_at, idempotency_key=idempotency_key,
        )  # fmt: skip
    call.answer(document(receipt), lambda out: show.receipt(out, receipt))


@o.command(app, "update")
def update(
    call: Invocation,
    id: o.Id,
    content: Annotated[str | None, typer.Argument(metavar="[CONTENT]", help="The new text; - reads it from a pipe.")] = None,
    importance: o.NewImportance = None,
    metadata: o.Metadata = None,
    expected_version: o.ExpectedVersion = None,
    occurred_at: o.ChangedAt = None,
) -> None:
    """Change a record; what it was stays in its history."""
    text = None if content is None else text_or_pipe(content, "the content")
    about = json_object(metadata, "--metadata")
    with call.open(missing="empty") as memory:
        receipt = memory.update(
            id, text, importance=importance, metadata=about, expected_version=expected_version, occurred_at=occurred_at
        )
    call.answer(document(receipt), lambda out: show.receipt(out, receipt))


@o.command(app, "forget")
def forget(
    call: Invocation,
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="The id of a record.")] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="The record with this key.")] = None,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="All that came from this source.")] = None,
    session: Annotated[str | None, typer.Option(metavar="NAME", help="All that was said in this conversation.")] = None,
    everything: Annotated[bool, typer.Option("--everything", help="All there is in this scope.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Erase one record, or many; it cannot be undone.

    What was derived from it goes too. The answer counts what went where.
    """
    wide = {"from the source": source, "said in the session": session, "": "" if everything else None}
    asked = [f"everything {which} {name!r}" if which else "everything" for which, name in wide.items() if name is not None]
    if asked and not yes and (id, key) == (None, None):
        _confirm(f"Forget {' and '.join(asked)} of {call.place} in {call.shown}? It cannot be undone.")
    with call.open(missing="empty") as memory:
        receipt = memory.forget(id, key=key, source=source, session=session, everything=everything)
    call.answer(document(receipt), lambda out: show.forgotten(out, receipt))


def _confirm(question: str) -> None:
    if sys.stdin is None or not sys.stdin.isatty():
        raise ValidationError("this forgets more than one record and there is no terminal to ask on: add --yes to go ahead.")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)  # typer.confirm would write to standard output
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise typer.Abort
