"""`keepstone review` on a terminal: items one by one, single keys, corrections, and leaving."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keepstone import Memory
from keepstone.ports.maintenance import Flag
from tests.cli.support import STYLES, Terminal

WIDE, NARROW = "(k)eep (c)orrect (r)etire (s)kip (q)uit (?) ", "k c r s q ? "


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    made: list[Terminal] = []

    def open_(columns: int = 80, **environment: str) -> Terminal:
        made.append(Terminal(tmp_path, "review", columns=columns, **environment))
        return made[-1]

    yield open_
    for each in made:
        each.close()


@pytest.fixture
def ids(tmp_path: Path) -> list[str]:
    """A store with three memories to look at; the last is long."""
    long = "Minutes:\n" + "\n".join(f"- item {n} of the meeting" for n in range(60))
    with Memory.open(tmp_path / "keepstone.db") as memory:
        made = [str(memory.remember(text).id) for text in ("Dana lives in Rome. \x1b[31m", "Dana drinks tea.", long)]
        said = str(memory.remember("Dana lives in Porto.", source="web:https://a.example").id)
        reasons = ("a newer memory says the opposite", "it was not touched for long", "nothing speaks for it")
        flags = [
            Flag(id, "stale", reason, (said, "m_gone")[:at]) for at, id, reason in zip((2, 0, 0), made, reasons, strict=True)
        ]
        assert memory._engine.store.reviews.add(memory.scope, flags) == 3
    return made


def states(folder: Path) -> dict[str, list[str]]:
    with Memory.open(folder / "keepstone.db") as memory:
        return {
            state: [item.id for item in memory.review.list(state=state)] for state in ("open", "kept", "corrected", "retired")
        }


def test_the_list_is_worked_through_by_single_keys(tmp_path: Path, ids: list[str], opened: Callable[..., Terminal]) -> None:
    terminal = opened()
    first = terminal.until(WIDE)
    assert "1 of 3  stale  a newer memory says the opposite" in first
    assert "    Dana lives in Rome. \\x1b[31m\r\n" in first
    assert "tag general · source user · trust 0.90 · 20" in first
    assert "evidence  Dana lives in Porto.  (fact 20" in first
    assert "evidence  m_gone (forgotten)" in first
    terminal.type("?")
    assert "retire: archive the memory" in terminal.until(WIDE)
    terminal.type("c")
    terminal.until("new text: ")
    terminal.say("Dana lives in Porto now.")
    assert "corrected  what it was is kept as version 1" in terminal.until("2 of 3")
    terminal.until(WIDE)
    terminal.type("R")
    assert "retired  it is archived" in terminal.until("3 of 3")
    cut = terminal.until("(v)iew")
    assert "more characters: v shows them" in cut
    assert "item 59" not in cut
    terminal.until("(?) ")
    terminal.type("v")
    assert "item 59" in terminal.until(WIDE)
    terminal.type("k")
    assert "reviewed  1 kept, 1 corrected, 1 retired  0 items left open" in terminal.until("left open")
    assert terminal.wait() == 0
    assert states(tmp_path) == {"open": [], "kept": [ids[2]], "corrected": [ids[0]], "retired": [ids[1]]}
    with Memory.open(tmp_path / "keepstone.db") as memory:
        record = memory.get(ids[0])
        assert record is not None
        assert record.content == "Dana lives in Porto now."


def test_skipping_and_quitting_leave_things_open(tmp_path: Path, ids: list[str], opened: Callable[..., Terminal]) -> None:
    terminal = opened()
    terminal.until(WIDE)
    terminal.type("s")
    terminal.until("2 of 3")
    terminal.until(WIDE)
    terminal.type("q")
    assert "reviewed  1 skipped  3 items left open" in terminal.until("left open")
    assert terminal.wait() == 0
    assert states(tmp_path)["open"] == ids


@pytest.mark.parametrize("keys", ["x", "\x1b[A", "é", "\t", "\r"])
def test_another_key_decides_nothing_and_shows_the_help(
    tmp_path: Path, ids: list[str], opened: Callable[..., Terminal], keys: str
) -> None:
    terminal = opened()
    terminal.until(WIDE)
    terminal.type(keys)
    assert "skip: decide later" in terminal.until(WIDE)
    terminal.type("\x04")
    terminal.until("left open")
    assert terminal.wait() == 0
    assert states(tmp_path)["open"] == ids


def test_keys_typed_ahead_are_taken_one_by_one(tmp_path: Path, ids: list[str], opened: Callable[..., Terminal]) -> None:
    terminal = opened()
    terminal.until(WIDE)
    terminal.type("ksq")
    assert "1 kept, 1 skipped  2 items left open" in terminal.until("left open")
    assert terminal.wait() == 0
    assert states(tmp_path)["kept"] == ids[:1]


@pytest.mark.parametrize("line", ["\r", "   \r", "\x04"])
def test_an_empty_correction_changes_nothing(tmp_path: Path, ids: list[str], opened: Callable[..., Terminal], line: str) -> None:
    terminal = opened()
    terminal.until(WIDE)
    terminal.type("c")
    terminal.until("new text: ")
    terminal.type(line)
    assert "unchanged" in terminal.until(WIDE)
    terminal.type("q")
    terminal.until("left open")
    assert terminal.wait() == 0
    assert states(tmp_path)["open"] == ids


def test_a_correction_that_is_refused_is_asked_for_again(tmp_path: Path, ids: list[str], opened: Callable[..., Terminal]) -> None:
    terminal = opened(KEEPSTONE_SENSITIVE="card=refuse")
    terminal.until(WIDE)
    terminal.type("c")
    terminal.until("new text: ")
    terminal.say("Dana's card is 4111 1111 1111 1111.")
    assert "refused  " in terminal.until(WIDE)
    terminal.type("q")
    terminal.until("left open")
    assert terminal.wait() == 0
    assert states(tmp_path)["open"] == ids


def test_what_somebody_else_has_decided_is_passed_over(tmp_path: Path, ids: list[str], opened: Callable[..., Terminal]) -> None:
    terminal = opened()
    terminal.until(WIDE)
    with Memory.open(tmp_path / "keepstone.db") as memory:
        memory.review.resolve(memory.review.list(limit=1)[0].number, "keep")
    terminal.type("r")
    assert "error: there is no open review" in terminal.until("2 of 3")
    terminal.until(WIDE)
    terminal.type("q")
    terminal.until("left open")
    assert terminal.wait() == 0
    assert states(tmp_path)["retired"] == []


def test_what_was_reworded_meanwhile_is_shown_again(tmp_path: Path, ids: list[str], opened: Callable[..., Terminal]) -> None:
    terminal = opened()
    terminal.until(WIDE)
    with Memory.open(tmp_path / "keepstone.db") as memory:
        memory.update(ids[0], "Dana lives in Oslo.")
    terminal.type("r")
    shown = terminal.until(WIDE)
    assert "was reworded since it was flagged" in shown
    assert "1 of 3" in shown
    assert "    Dana lives in Oslo.\r\n" in shown
    terminal.type("kq")
    assert "1 kept  2 items left open" in terminal.until("left open")
    assert terminal.wait() == 0


def test_ctrl_c_keeps_what_was_decided(tmp_path: Path, ids: list[str], opened: Callable[..., Terminal]) -> None:
    terminal = opened()
    terminal.until(WIDE)
    terminal.type("k")
    terminal.until("2 of 3")
    terminal.until(WIDE)
    assert "1 kept  2 items left open" in terminal.until("left open", interrupt=True)
    assert terminal.wait() == 130
    assert states(tmp_path)["kept"] == ids[:1]


def test_a_narrow_terminal_and_one_without_colours(ids: list[str], opened: Callable[..., Terminal]) -> None:
    narrow = opened(40)
    shown = narrow.until(NARROW)
    assert max(len(line) for line in STYLES.sub("", shown).split("\r\n")) <= 40
    narrow.type("q")
    narrow.until("left open")
    assert narrow.wait() == 0
    plain = opened(NO_COLOR="1")
    plain.until(WIDE)
    plain.type("q")
    plain.until("left open")
    assert plain.wait() == 0
    assert "\x1b[1" not in plain.raw


def test_nothing_to_do_makes_no_question(tmp_path: Path, opened: Callable[..., Terminal]) -> None:
    terminal = opened()
    terminal.until("No memory is flagged for review")
    assert terminal.wait() == 0
    assert list(tmp_path.iterdir()) == []
