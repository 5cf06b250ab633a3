"""review: the list of flagged memories, and decisions about them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, cast

import typer

from keepstone.cli import options as o
from keepstone.cli import render
from keepstone.cli.arguments import text_or_pipe
from keepstone.cli.exit_codes import INTERRUPTED, OK, REFUSED
from keepstone.cli.invocation import Invocation
from keepstone.cli.keyboard import Keyboard
from keepstone.cli.memory_commands import show_receipt
from keepstone.cli.output import Output, coloured, out
from keepstone.errors import KeepstoneError, NotFound, ValidationError
from keepstone.ports.serialize import document
from keepstone.types import Record

if TYPE_CHECKING:
    from keepstone.maintenance.review import Decision
    from keepstone.memory import Memory
    from keepstone.ports.maintenance import ReviewItem, ReviewState
    from keepstone.types import Record

app = typer.Typer()
review = typer.Typer()
_DECISIONS: dict[str, Decision] = {"k": "keep", "c": "correct", "r": "retire"}
_DONE = {"keep": "kept", "correct": "corrected", "retire": "retired"}
_STEP_ITEMS = 500  # decided in one call of the library
_Numbers = Annotated[list[int] | None, typer.Argument(metavar="NUMBER", help="The numbers of review items.")]
_All = Annotated[bool, typer.Option("--all", help="Every open item.")]
_QUITS = ("q", "\x04", "")  # Ctrl-D, and a terminal that is gone


@o.alone(review)
def work_through(call: Invocation) -> int:
    """Decide about flagged memories.

    On a terminal each item is shown and a single key decides: keep, correct, retire, skip or quit. Elsewhere the list is
    printed.
    """
    asks = not call.json and sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    if not asks:
        list_(call)
        return OK
    with call.open(missing="empty") as memory:
        total = len(memory.review)
        if not total:
            call.answer(None, lambda out: render_empty(out, "open", call.place))
            return OK
        with Keyboard() as keyboard:
            return _ReviewSession(memory, keyboard, total).work()


@o.command(review, "list")
def list_(
    call: Invocation,
    state: Annotated[str, typer.Option(metavar="STATE", help="Which items: open, kept, corrected or retired.")] = "open",
    limit: o.Limit = 100,
    after: Annotated[int, typer.Option(metavar="NUMBER", help="Only items after this number, for the next page.")] = 0,
) -> None:
    """List flagged memories, oldest first."""
    with call.open(missing="empty") as memory:
        items = memory.review.list(state=cast("ReviewState", state), limit=limit, after=after)
        shown = [] if call.json else [(item, _evidence(memory, item)) for item in items]
    call.answer({"items": document(list(items))}, lambda out: render_list(out, shown, state, limit, call.place))


@o.command(review, "resolve")
def resolve(
    call: Invocation,
    number: o.Number,
    decision: Annotated[str, typer.Argument(metavar="DECISION", help="keep, correct or retire.")],
    content: Annotated[str | None, typer.Option(metavar="TEXT", help="The corrected text; - reads it from a pipe.")] = None,
    by: Annotated[str, typer.Option(metavar="NAME", help="Who decides, for the audit log.")] = "user",
) -> int:
    """Decide about one item: keep, correct or retire.

    Keep: the memory is right. Correct: its text is replaced, and the old text stays in its history. Retire: it is archived, and
    'keepstone upkeep restore ID' undoes that.
    """
    text = None if content is None else text_or_pipe(content, "the content")
    return show_receipt(
        call, lambda memory: memory.review.resolve(number, cast("Decision", decision), content=text, by=by), "empty"
    )


@o.command(review, "approve")
def approve(call: Invocation, numbers: _Numbers = None, all_: _All = False) -> int:
    """Keep several items at once. What was held or quarantined can be recalled from now on."""
    return _resolve_many(call, numbers, all_, "keep")


@o.command(review, "reject")
def reject(call: Invocation, numbers: _Numbers = None, all_: _All = False) -> int:
    """Retire several items at once. They are archived; 'keepstone upkeep restore ID' undoes that."""
    return _resolve_many(call, numbers, all_, "retire")


def _resolve_many(call: Invocation, numbers: Sequence[int] | None, all_: bool, decision: Decision) -> int:
    if bool(numbers) == all_:
        raise ValidationError("name the items: give their numbers, or --all.")
    with call.open(missing="empty") as memory:
        chosen = [item.number for item in memory.review] if all_ else list(numbers or ())
        steps = [chosen[at : at + _STEP_ITEMS] for at in range(0, len(chosen), _STEP_ITEMS)]
        receipts = [receipt for step in steps for receipt in memory.review.resolve_many(step, decision)]
        left = len(memory.review)
    refused = [receipt for receipt in receipts if receipt.action == "refused"]

    def show(out: Output) -> None:
        for receipt in refused:
            render.receipt(out, receipt)
        done = len(receipts) - len(refused)
        out.line((_DONE[decision], "bold green"), f"  {render.plural(done, 'item')}", (f"  {left} left open", "dim"))

    call.answer({"receipts": document(receipts), "open": left}, show)
    return REFUSED if refused else OK


def _evidence(memory: Memory, item: ReviewItem) -> Sequence[tuple[str, Record | None]]:
    return [(id, memory.get(id)) for id in item.evidence]


def _similar(memory: Memory, item: ReviewItem) -> Record | None:
    """The memory that a held one would stand next to: the value of its key, else the closest one."""
    record = item.record
    if record is None or record.status != "quarantined":
        return None
    if record.key is not None:
        return memory.get(key=record.key)
    return next((hit.record for hit in memory.recall(record.content[:2000], limit=2) if hit.id != record.id), None)


# -- by single keys -----------------------------------------------------------------------------------------------
class _ReviewSession:
    """The list, item by item. Each decision is carried out at once, so that quitting loses none."""

    def __init__(self, memory: Memory, keyboard: Keyboard, total: int) -> None:
        self._memory = memory
        self._keyboard = keyboard
        self._total = total
        self._out: Output = out()
        self._last = 0  # number of the last decided or skipped item
        self._counts = dict.fromkeys((*_DONE.values(), "skipped"), 0)

    def work(self) -> int:
        """Show items until none is left or the user quits."""
        code = OK
        try:
            while items := self._memory.review.list(limit=1, after=self._last):  # read again: a decision may have changed others
                if not self._decide_about(items[0]):
                    break
        except KeyboardInterrupt:
            print()
            code = INTERRUPTED
        render_summary(self._out, self._counts, len(self._memory.review))
        return code

    def _decide_about(self, item: ReviewItem) -> bool:
        """Show one item and carry out the decision; False to quit."""
        at = sum(self._counts.values()) + 1
        place = (at, max(self._total, at))
        cut = render_item(self._out, item, _evidence(self._memory, item), place)
        like = _similar(self._memory, item)
        if like is not None:
            self._out.line(("    similar   ", "dim"), _shorten_record(like, _MAX_EVIDENCE_CHARS), indent=8)
        while True:
            render_prompt(cut)
            pressed = self._keyboard.key().lower()
            if pressed in _QUITS:
                self._out.line("quit")
                return False
            if pressed == "s":
                self._out.line(("skipped", "dim"))
                self._advance_past(item, "skipped")
                return True
            if pressed in _DECISIONS:
                if self._carry_out(item, _DECISIONS[pressed]):
                    return True
            elif pressed == "v" and cut:
                self._out.line("view all")
                cut = render_item(self._out, item, _evidence(self._memory, item), place, whole=True)
            else:
                self._out.line("help" if pressed == "?" else "")
                for letter, meaning in _HELP:
                    self._out.line((f"  {letter}  ", "bold"), meaning, indent=5)

    def _carry_out(self, item: ReviewItem, decision: Decision) -> bool:
        """Carry out a decision; False if it was refused or left out, and the question stays."""
        self._out.line(decision)
        content = None
        if decision == "correct":
            content = self._keyboard.line("  new text: ", before=item.record.content if item.record else "")
            if not content:
                self._out.line(("  unchanged", "dim"))
                return False
        try:
            receipt = self._memory.review.resolve(item.number, decision, content=content)
        except NotFound as error:  # forgotten or decided elsewhere
            self._out.line(("  error: ", "bold red"), str(error))
            self._advance_past(item, "skipped")
            return True
        except KeepstoneError as error:  # its text may have changed: show it again
            self._out.line(("  error: ", "bold red"), str(error))
            return True
        if receipt.action == "refused":
            self._out.line(("  refused  ", "bold red"), "; ".join(receipt.reasons))
            return False
        self._out.line((f"  {_DONE[decision]}", "bold green"), (f"  {'; '.join(receipt.reasons)}", "dim"))
        self._advance_past(item, _DONE[decision])
        return True

    def _advance_past(self, item: ReviewItem, what: str) -> None:
        self._last = item.number
        self._counts[what] += 1


app.add_typer(review, name="review")


Evidence = Sequence[tuple[str, Record | None]]
MAX_SHOWN_CHARS = 1200  # v shows the whole text
_MAX_EVIDENCE_CHARS = 300
_MAX_SHOWN_LINES = 15
_PROMPT, _NARROW_PROMPT = "(k)eep (c)orrect (r)etire (s)kip (q)uit (?) ", "k c r s q ? "
_HELP = (
    ("k", "keep: the memory is right; quarantine ends, and it does not expire unconfirmed"),
    ("c", "correct: type the new text; the old text stays in its history"),
    ("r", "retire: archive the memory; 'keepstone upkeep restore ID' undoes that"),
    ("s", "skip: decide later"),
    ("v", "view the whole text"),
    ("q", "quit; decisions so far are kept"),
)


# -- printed ------------------------------------------------------------------------------------------------------
def render_list(out: Output, items: Sequence[tuple[ReviewItem, Evidence]], state: str, limit: int, place: str) -> None:
    """Items with the reason and the evidence."""
    if not items:
        render_empty(out, state, place)
        return
    for item, evidence in items:
        says = render.shorten(item.record.content) if item.record else "(forgotten)"
        out.line((f"{item.number:>3}  ", "bold"), (item.flag, "yellow"), f"  {says}", indent=5)
        out.line((f"     {item.reason} · {_describe(item)}", "dim"), indent=5)
        for id, record in evidence:
            out.line((f"     evidence  {_shorten_record(record, 120) if record else f'{id} (forgotten)'}", "dim"), indent=9)
    if len(items) == limit:
        out.line((f"There may be more: add --after {items[-1][0].number}", "dim"))
    if state == "open":
        out.line(
            (
                "Decide with 'keepstone review resolve NUMBER keep|correct|retire', several with 'keepstone review approve "
                "NUMBER...' or 'reject', or by single keys with 'keepstone review' on a terminal.",
                "dim",
            )
        )


def render_empty(out: Output, state: str, place: str) -> None:
    """Say that no item has this state."""
    out.line(f"{'No memory is flagged for review' if state == 'open' else f'No item is {state}'} ({place}).")


# -- worked through -----------------------------------------------------------------------------------------------
def render_item(out: Output, item: ReviewItem, evidence: Evidence, place: tuple[int, int], *, whole: bool = False) -> bool:
    """Show one item; returns whether its text was cut."""
    out.line()
    out.line((f"{place[0]} of {place[1]}  ", "bold"), (item.flag, "bold yellow"), f"  {item.reason}")
    out.line()
    if item.record is None:
        out.line(("    This memory was forgotten.", "dim"))
        return False
    text = item.record.content
    named = f"{item.record.key} = {text}" if item.record.key is not None else text
    rows = named if whole else "\n".join(named[:MAX_SHOWN_CHARS].split("\n")[:_MAX_SHOWN_LINES])
    for row in rows.split("\n"):
        out.line(f"    {row}")
    if rows != named:
        out.line((f"    … and {len(named) - len(rows):,} more characters: v shows them", "yellow"))
    out.line()
    out.line((f"    {_describe(item)}", "dim"))
    for id, record in evidence:
        out.line(
            ("    evidence  ", "dim"),
            _shorten_record(record, _MAX_EVIDENCE_CHARS) if record else f"{id} (forgotten)",
            indent=8,
        )
    out.line()
    return rows != named


def _describe(item: ReviewItem) -> str:
    """Tag, source, trust, date and id of a memory."""
    if item.record is None:
        return item.id
    record = item.record
    about = (
        f"tag {record.tag}",
        f"source {render.shorten(record.source, 60)}",
        f"trust {record.trust:.2f}",
        f"{record.occurred_at:%Y-%m-%d}",
    )
    return " · ".join((*about, record.id))


def _shorten_record(record: Record, most: int) -> str:
    kind = "said" if record.kind == "message" else record.kind
    return f"{render.shorten(record.content, most)}  ({kind} {record.occurred_at:%Y-%m-%d}, {render.shorten(record.source, 60)})"


def render_prompt(cut: bool) -> None:
    """Write the prompt with the keys."""
    try:
        narrow = os.get_terminal_size(sys.stdout.fileno()).columns < len(_PROMPT) + 10
    except (OSError, ValueError):
        narrow = False
    keys = _NARROW_PROMPT if narrow else _PROMPT
    keys = keys.replace("(q)uit", "(v)iew (q)uit").replace("s q", "s v q") if cut else keys
    sys.stdout.write(f"\x1b[1;36m{keys}\x1b[0m" if coloured(sys.stdout) else keys)
    sys.stdout.flush()


def render_summary(out: Output, counts: Mapping[str, int], left: int) -> None:
    """Count the decisions and the open items."""
    parts = [f"{count} {what}" for what, count in counts.items() if count]
    out.line()
    out.line(("reviewed  ", "bold green"), ", ".join(parts) or "nothing", (f"  {render.plural(left, 'item')} left open", "dim"))
