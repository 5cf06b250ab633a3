"""review: the list of what a person should look at, and deciding about it, on a terminal by single keys."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, cast

import typer

from keepstone.cli import options as o
from keepstone.cli import review_view as view
from keepstone.cli import show
from keepstone.cli.exits import INTERRUPTED, OK
from keepstone.cli.given import text_or_pipe
from keepstone.cli.invocation import Invocation
from keepstone.cli.keys import Keyboard
from keepstone.cli.output import Output, out
from keepstone.errors import KeepstoneError, NotFound
from keepstone.ports.serialize import document

if TYPE_CHECKING:
    from keepstone.maintenance.review import Decision
    from keepstone.memory import Memory
    from keepstone.ports.maintenance import ReviewItem, ReviewState
    from keepstone.types import Record

app = typer.Typer()
review = typer.Typer()
_DECISIONS: dict[str, Decision] = {"k": "keep", "c": "correct", "r": "retire"}
_DONE = {"keep": "kept", "correct": "corrected", "retire": "retired"}
_QUITS = ("q", "\x04", "")  # Ctrl-D, and a terminal that is gone


@o.alone(review)
def work_through(call: Invocation) -> int:
    """Decide about memories that a person should look at.

    On a terminal each item is shown and decided by a single key: keep, correct, retire, skip or quit. Elsewhere the list is
    printed.
    """
    asks = not call.json and sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    if not asks:
        list_(call)
        return OK
    with call.open(missing="empty") as memory:
        total = len(memory.review)
        if not total:
            call.answer(None, lambda out: view.empty(out, "open", call.place))
            return OK
        with Keyboard() as keyboard:
            return _Sitting(memory, keyboard, total).work()


@o.command(review, "list")
def list_(
    call: Invocation,
    state: Annotated[str, typer.Option(metavar="STATE", help="Those open, kept, corrected or retired.")] = "open",
    limit: o.Limit = 100,
    after: Annotated[int, typer.Option(metavar="NUMBER", help="Only those behind this number, for the next page.")] = 0,
) -> None:
    """What waits for a decision, or was decided, oldest first."""
    with call.open(missing="empty") as memory:
        items = memory.review.list(state=cast("ReviewState", state), limit=limit, after=after)
        shown = [] if call.json else [(item, _evidence(memory, item)) for item in items]
    call.answer({"items": document(list(items))}, lambda out: view.listed(out, shown, state, limit, call.place))


@o.command(review, "resolve")
def resolve(
    call: Invocation,
    number: o.Number,
    decision: Annotated[str, typer.Argument(metavar="DECISION", help="keep, correct or retire.")],
    content: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What it should say, to correct it; - reads it from a pipe.")
    ] = None,
    by: Annotated[str, typer.Option(metavar="NAME", help="Who decides, for the audit trail.")] = "user",
) -> None:
    """Decide about one item: keep, correct or retire.

    Keep: it is right. Correct: it says something else from now on, and the old wording stays in its history. Retire: it is put
    aside; 'keepstone upkeep bring-back ID' undoes that.
    """
    text = None if content is None else text_or_pipe(content, "the content")
    with call.open(missing="empty") as memory:
        receipt = memory.review.resolve(number, cast("Decision", decision), content=text, by=by)
    call.answer(document(receipt), lambda out: show.receipt(out, receipt))


def _evidence(memory: Memory, item: ReviewItem) -> Sequence[tuple[str, Record | None]]:
    return [(id, memory.get(id)) for id in item.evidence]


# -- by single keys -----------------------------------------------------------------------------------------------
class _Sitting:
    """Somebody working through the list. Every decision is carried out at once, so that leaving loses none."""

    def __init__(self, memory: Memory, keyboard: Keyboard, total: int) -> None:
        self._memory = memory
        self._keyboard = keyboard
        self._total = total
        self._out: Output = out()
        self._last = 0  # the number of the last item that was decided or skipped
        self._counts = dict.fromkeys((*_DONE.values(), "skipped"), 0)

    def work(self) -> int:
        """Until there is no more, or somebody leaves."""
        code = OK
        try:
            while items := self._memory.review.list(limit=1, after=self._last):  # read anew: a decision may have changed others
                if not self._decided(items[0]):
                    break
        except KeyboardInterrupt:
            print()
            code = INTERRUPTED
        view.closing(self._out, self._counts, len(self._memory.review))
        return code

    def _decided(self, item: ReviewItem) -> bool:
        """Show one item and do what is wanted; False to leave."""
        at = sum(self._counts.values()) + 1
        place = (at, max(self._total, at))
        cut = view.item(self._out, item, _evidence(self._memory, item), place)
        while True:
            view.ask(cut)
            pressed = self._keyboard.key().lower()
            if pressed in _QUITS:
                self._out.line("quit")
                return False
            if pressed == "s":
                self._out.line(("skipped", "dim"))
                self._past(item, "skipped")
                return True
            if pressed in _DECISIONS:
                if self._settled(item, _DECISIONS[pressed]):
                    return True
            elif pressed == "v" and cut:
                self._out.line("view all")
                cut = view.item(self._out, item, _evidence(self._memory, item), place, whole=True)
            else:
                self._out.line("help" if pressed == "?" else "")
                view.help(self._out)

    def _settled(self, item: ReviewItem, decision: Decision) -> bool:
        """Carry out a decision; False if there is none after all, and the question stays."""
        self._out.line(decision)
        content = None
        if decision == "correct":
            content = self._keyboard.line("  new text: ", before=item.record.content if item.record else "")
            if not content:
                self._out.line(("  left as it is", "dim"))
                return False
        try:
            receipt = self._memory.review.resolve(item.number, decision, content=content)
        except NotFound as error:  # forgotten, or decided by somebody else: there is nothing left to ask
            self._out.line(("  error: ", "bold red"), str(error))
            self._past(item, "skipped")
            return True
        except KeepstoneError as error:  # it may read differently by now: it is shown again
            self._out.line(("  error: ", "bold red"), str(error))
            return True
        if receipt.action == "refused":
            self._out.line(("  refused  ", "bold red"), "; ".join(receipt.reasons))
            return False
        self._out.line((f"  {_DONE[decision]}", "bold green"), (f"  {'; '.join(receipt.reasons)}", "dim"))
        self._past(item, _DONE[decision])
        return True

    def _past(self, item: ReviewItem, what: str) -> None:
        self._last = item.number
        self._counts[what] += 1


app.add_typer(review, name="review")
