"""What the review list looks like, printed and worked through."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from keepstone.cli import show
from keepstone.cli.output import Output, coloured
from keepstone.types import Record

if TYPE_CHECKING:
    from keepstone.ports.maintenance import ReviewItem

Evidence = Sequence[tuple[str, Record | None]]
MOST = 1200  # characters of a memory that are shown before somebody wants to see all of it
_SAID = 300  # of what speaks for it
_ROWS = 15
_WHOLE, _LETTERS = "(k)eep (c)orrect (r)etire (s)kip (q)uit (?) ", "k c r s q ? "
_HELP = (
    ("k", "keep: it is right; quarantine ends, and it does not expire unconfirmed"),
    ("c", "correct: type what it should say; the old wording stays in its history"),
    ("r", "retire: put it aside; 'keepstone upkeep bring-back ID' undoes that"),
    ("s", "skip: decide later"),
    ("v", "view all of a text that was cut"),
    ("q", "quit; what was decided stays decided"),
)


# -- printed ------------------------------------------------------------------------------------------------------
def listed(out: Output, found: Sequence[tuple[ReviewItem, Evidence]], state: str, limit: int, place: str) -> None:
    """Some items, each with what is wrong and what speaks for it."""
    if not found:
        empty(out, state, place)
        return
    for item, evidence in found:
        says = show.one_line(item.record.content) if item.record else "the memory is gone"
        out.line((f"{item.number:>3}  ", "bold"), (item.flag, "yellow"), f"  {says}", indent=5)
        out.line((f"     {item.reason} · {_where(item)}", "dim"), indent=5)
        for id, record in evidence:
            out.line((f"     because of  {_cut(record, 120) if record else f'{id}, which is gone'}", "dim"), indent=9)
    if len(found) == limit:
        out.line((f"There may be more: add --after {found[-1][0].number}", "dim"))
    if state == "open":
        out.line(("'keepstone review resolve NUMBER keep|correct|retire' decides; on a terminal 'keepstone review' asks.", "dim"))


def empty(out: Output, state: str, place: str) -> None:
    """That there is nothing of a state."""
    out.line(f"{'Nothing waits for a review' if state == 'open' else f'Nothing was {state}'} ({place}).")


# -- worked through -----------------------------------------------------------------------------------------------
def item(out: Output, item: ReviewItem, evidence: Evidence, place: tuple[int, int], *, whole: bool = False) -> bool:
    """One item on the screen; whether its text had to be cut."""
    out.line()
    out.line((f"{place[0]} of {place[1]}  ", "bold"), (item.flag, "bold yellow"), f"  {item.reason}")
    out.line()
    if item.record is None:
        out.line(("    The memory is gone: it was forgotten since.", "dim"))
        return False
    text = item.record.content
    named = f"{item.record.key} = {text}" if item.record.key is not None else text
    rows = named if whole else "\n".join(named[:MOST].split("\n")[:_ROWS])
    for row in rows.split("\n"):
        out.line(f"    {row}")
    if rows != named:
        out.line((f"    … and {len(named) - len(rows):,} more characters: v shows them", "yellow"))
    out.line()
    out.line((f"    {_where(item)}", "dim"))
    for id, record in evidence:
        out.line(("    because of  ", "dim"), _cut(record, _SAID) if record else f"{id}, which is gone", indent=8)
    out.line()
    return rows != named


def _where(item: ReviewItem) -> str:
    """What is to be known about a memory before one decides."""
    if item.record is None:
        return item.id
    record = item.record
    about = (
        f"tag {record.tag}",
        f"source {show.one_line(record.source, 60)}",
        f"trust {record.trust:.2f}",
        f"{record.occurred_at:%Y-%m-%d}",
    )
    return " · ".join((*about, record.id))


def _cut(record: Record, most: int) -> str:
    said = "said" if record.kind == "message" else record.kind
    return f"{show.one_line(record.content, most)}  ({said} {record.occurred_at:%Y-%m-%d}, {show.one_line(record.source, 60)})"


def ask(cut: bool) -> None:
    """The question, with the keys that answer it."""
    try:
        narrow = os.get_terminal_size(sys.stdout.fileno()).columns < len(_WHOLE) + 10
    except (OSError, ValueError):
        narrow = False
    keys = _LETTERS if narrow else _WHOLE
    keys = keys.replace("(q)uit", "(v)iew (q)uit").replace("s q", "s v q") if cut else keys
    sys.stdout.write(f"\x1b[1;36m{keys}\x1b[0m" if coloured(sys.stdout) else keys)
    sys.stdout.flush()


def help(out: Output) -> None:
    """What the keys do."""
    for letter, meaning in _HELP:
        out.line((f"  {letter}  ", "bold"), meaning, indent=5)


def closing(out: Output, counts: Mapping[str, int], left: int) -> None:
    """What was decided, and what is left."""
    told = [f"{count} {what}" for what, count in counts.items() if count]
    out.line()
    out.line(("reviewed  ", "bold green"), ", ".join(told) or "nothing", (f"  {show.counted(left, 'item')} left open", "dim"))
