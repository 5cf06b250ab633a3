"""What can be typed in a chat besides messages: /help, /memories, /why, /forget, /session, /model.

Each takes the talk and the words after its name, and answers for people and as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from keepstone.cli import show
from keepstone.cli.output import Output
from keepstone.errors import NotFound, ValidationError
from keepstone.ports.serialize import document
from keepstone.types import MESSAGE, Explanation, Record

if TYPE_CHECKING:
    from keepstone.cli.chat import Talk
    from keepstone.ports.queue import Session

KINDS = ("fact", "value", "note", "episode", "summary")  # everything but what was said
ALWAYS = ("profile", "preference", "preferences")  # categories whose facts an agent is always given
_SHOWN = 20
_FOUND = 5


def help_(talk: Talk, words: str) -> None:
    """This list."""
    rows = {f"/{name} {of}".strip(): (command.__doc__ or "").strip() for name, (of, command) in COMMANDS.items()}
    rows["/quit"] = "Leave; so does Ctrl-D."
    talk.answer("help", {"commands": rows}, lambda out: _table(out, rows))


def _table(out: Output, rows: dict[str, str]) -> None:
    widest = max(map(len, rows))
    for name, text in rows.items():
        out.line((f"{name:<{widest}}", "bold"), f"  {text}", indent=widest + 2)
    out.line(("Ctrl-C stops an answer. A message that begins with a slash is written with two.", "dim"))


def memories(talk: Talk, words: str) -> None:
    """What is remembered, newest first; with words, what fits them."""
    if words:
        found = talk.memory.recall(words, limit=10)
        none = f"Nothing that is remembered fits {words!r:.80}."
        talk.answer("memories", document(found), lambda out: show.recall(out, found) if found else out.line(none))
        return
    pages = [talk.memory.list(kind=kind, limit=_SHOWN) for kind in KINDS]
    newest = sorted((record for page in pages for record in page), key=lambda record: record.updated_at, reverse=True)
    shown = newest[:_SHOWN]
    more = len(newest) > _SHOWN or any(page.cursor is not None for page in pages)
    talk.answer("memories", {"records": document(shown)}, lambda out: _memories(out, shown, more))


def _memories(out: Output, shown: list[Record], more: bool) -> None:
    for record in shown:
        out.line(show.one_line(record.content), (f"  {record.tag} · {record.updated_at:%Y-%m-%d} · {record.id}", "dim"))
    if not shown:
        out.line("No facts are remembered yet. Say something about yourself.")
    if more:
        out.line((f"These are the newest {len(shown)}; /memories WORDS looks for others.", "dim"))


def why(talk: Talk, words: str) -> None:
    """Which memories the last answer was given, and why."""
    if talk.question is None:
        raise ValidationError("nothing has been asked yet: /why is about the last message.")
    question = talk.question
    reasons: list[tuple[Record, Explanation]] = []
    for id in talk.given:
        record = talk.memory.get(id)
        if record is not None:
            reasons.append((record, talk.memory.why(question[:4000], id)))
    told = [
        {"id": record.id, "content": record.content, "always": record.tag in ALWAYS, "explanation": document(explained)}
        for record, explained in reasons
    ]
    talk.answer("why", {"question": question, "memories": told}, lambda out: _why(out, talk, question, reasons))


def _why(out: Output, talk: Talk, question: str, reasons: list[tuple[Record, Explanation]]) -> None:
    if not reasons:
        out.line(f"No memory was brought up for {show.one_line(question, 60)!r}.")
    for at, (record, explained) in enumerate(reasons, 1):
        out.line((f"{at:>2}  ", "bold"), show.one_line(record.content), (f"  {record.id}", "dim"))
        for reason in _because(record, explained):
            out.line((f"      {reason}", "dim"), indent=8)
    if talk.agent is not None:
        out.line(("The conversation itself is in the prompt as well.", "dim"))


def _because(record: Record, explained: Explanation) -> list[str]:
    """In words: that it is always given, or the parts of its score (its rank now would count the question itself)."""
    always = [f"always given: its category is {record.tag}"] if record.tag in ALWAYS else []
    parts = [reason for reason in explained.reasons if ": " in reason and " +" in reason]
    return [*always, *parts] if explained.recalled else always or ["looked up by the model, or next to what fits the question"]


def forget(talk: Talk, words: str) -> None:
    """Erase a memory, and the message it was learned from; it asks first."""
    if not words:
        raise ValidationError("/forget needs an id or some words: /forget m_…, /forget account number.")
    if not talk.lines.asks:
        raise ValidationError("there is no terminal to ask on: use 'keepstone forget ID'.")
    chosen = _chosen(talk, words)
    if not chosen:
        return
    every = {record.id: record for record in chosen} | {each.id: each for record in chosen for each in _sources(talk, record)}
    for record in every.values():
        talk.out.line(("will be erased", "bold red"), f"  {show.one_line(record.content)}", (f"  {_what(record)}", "dim"))
    if talk.lines.answer("Erase for good? [y/N]") not in ("y", "yes"):
        talk.out.line("Nothing was erased.")
        return
    done = sum(talk.memory.forget(id).forgotten for id in every)
    talk.out.line(("forgotten", "bold green"), f"  {show.counted(done, 'record')}")


def _chosen(talk: Talk, words: str) -> list[Record]:
    """The record with that id, or those that somebody chooses among the best for the words."""
    named = talk.memory.get(words) if words.startswith("m_") and " " not in words else None
    if named is not None:
        return [named]
    found = [hit.record for hit in talk.memory.recall(words, limit=_FOUND)]
    if not found:
        raise NotFound(f"nothing that is remembered fits {words!r:.80}: /memories shows what there is.")
    if len(found) == 1:
        return found
    for at, record in enumerate(found, 1):
        talk.out.line((f"{at:>2}  ", "bold"), show.one_line(record.content), (f"  {_what(record)}", "dim"))
    said = talk.lines.answer(f"Which? 1 to {len(found)}, all, or Enter for none:")
    if said == "all":
        return found
    numbers = {int(each) for each in said.replace(",", " ").split() if each.isdecimal()}
    chosen = [record for at, record in enumerate(found, 1) if at in numbers]
    if not chosen:
        talk.out.line("Nothing was erased.")
    return chosen


def _sources(talk: Talk, record: Record) -> list[Record]:
    """The messages a fact was learned from: they hold what it says."""
    found = (talk.memory.get(id) for id in record.parents)
    return [each for each in found if each is not None and each.kind == MESSAGE]


def _what(record: Record) -> str:
    return f"{record.kind} · {record.occurred_at:%Y-%m-%d} · {record.id}"


def session(talk: Talk, words: str) -> None:
    """The conversations there are; with a name, go on in that one."""
    if words:
        talk.enter(words)
    spoken = len(talk.memory.conversation(talk.session))
    here = {"session": talk.session, "messages": spoken}
    if words:
        so_far = show.counted(spoken, "message") if spoken else "new"
        talk.answer("session", here, lambda out: out.line("session ", (talk.session, "bold"), f" ({so_far})"))
        return
    found = talk.memory.conversation.list(limit=_SHOWN)
    talk.answer("session", {**here, "sessions": document(list(found))}, lambda out: _sessions(out, talk.session, found))


def _sessions(out: Output, current: str, found: Sequence[Session]) -> None:
    show.sessions(out, found, current)
    out.line((f"This is {current}; /session NAME goes on in another, or begins it.", "dim"))


def model(talk: Talk, words: str) -> None:
    """Who answers, and how memory reaches it."""
    if words:
        raise ValidationError("the model is chosen at the start: leave with Ctrl-D, then 'keepstone chat --resume --model SPEC'.")
    named = talk.model
    shown = f"{named}, strategy {talk.strategy}" if named else "No model is set; rules note facts and memory answers."
    talk.answer("model", {"model": named, "strategy": talk.strategy if named else None}, lambda out: out.line(shown))


COMMANDS: dict[str, tuple[str, Callable[[Talk, str], None]]] = {
    "help": ("", help_),
    "memories": ("[WORDS]", memories),
    "why": ("", why),
    "forget": ("ID or WORDS", forget),
    "session": ("[NAME]", session),
    "model": ("", model),
}
