"""Commands of a chat: /help, /memories, /why, /forget, /session, /model.

Each takes the chat and the words after its name, and prints text or JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from keepstone.cli import render
from keepstone.cli.output import Output
from keepstone.errors import NotFound, ValidationError
from keepstone.ports.serialize import document
from keepstone.types import MESSAGE, Explanation, Record

if TYPE_CHECKING:
    from keepstone.cli.chat import ChatSession
    from keepstone.ports.queue import Session

KINDS = ("fact", "value", "note", "episode", "summary")  # all but messages
_MAX_SHOWN = 20
_MAX_CHOICES = 5


def help_(chat: ChatSession, words: str) -> None:
    """List these commands."""
    rows = {f"/{name} {of}".strip(): (command.__doc__ or "").strip() for name, (of, command) in COMMANDS.items()}
    rows["/quit"] = "Leave; Ctrl-D leaves too."
    chat.answer("help", {"commands": rows}, lambda out: _render_help(out, rows))


def _render_help(out: Output, rows: dict[str, str]) -> None:
    widest = max(map(len, rows))
    for name, text in rows.items():
        out.line((f"{name:<{widest}}", "bold"), f"  {text}", indent=widest + 2)
    out.line(("Ctrl-C stops an answer. Begin a message that starts with a slash with two.", "dim"))


def memories(chat: ChatSession, words: str) -> None:
    """List memories, newest first; with words, those that match."""
    if words:
        found = chat.memory.recall(words, limit=10)
        none = f"No memory matches {words!r:.80}."
        chat.answer("memories", document(found), lambda out: render.recall(out, found) if found else out.line(none))
        return
    pages = [chat.memory.list(kind=kind, limit=_MAX_SHOWN) for kind in KINDS]
    newest = sorted((record for page in pages for record in page), key=lambda record: record.updated_at, reverse=True)
    shown = newest[:_MAX_SHOWN]
    more = len(newest) > _MAX_SHOWN or any(page.cursor is not None for page in pages)
    chat.answer("memories", {"records": document(shown)}, lambda out: _memories(out, shown, more))


def _memories(out: Output, shown: list[Record], more: bool) -> None:
    for record in shown:
        out.line(render.shorten(record.content), (f"  {record.tag} · {record.updated_at:%Y-%m-%d} · {record.id}", "dim"))
    if not shown:
        out.line("There are no memories yet.")
    if more:
        out.line((f"These are the newest {len(shown)}; /memories WORDS searches all.", "dim"))


def why(chat: ChatSession, words: str) -> None:
    """Show the memories in the last prompt, and why they were there."""
    if chat.question is None:
        raise ValidationError("there is no message yet: /why explains the last one.")
    question = chat.question
    reasons: list[tuple[Record, Explanation]] = []
    for id in chat.recalled_ids:
        record = chat.memory.get(id)
        if record is not None:
            reasons.append((record, chat.memory.why(question[:4000], id)))
    explained_memories = [
        {
            "id": record.id,
            "content": record.content,
            "always": _always_known(record) is not None,
            "explanation": document(explained),
        }
        for record, explained in reasons
    ]
    chat.answer("why", {"question": question, "memories": explained_memories}, lambda out: _why(out, chat, question, reasons))


def _why(out: Output, chat: ChatSession, question: str, reasons: list[tuple[Record, Explanation]]) -> None:
    if not reasons:
        out.line(f"No memory was recalled for {render.shorten(question, 60)!r}.")
    for at, (record, explained) in enumerate(reasons, 1):
        out.line((f"{at:>2}  ", "bold"), render.shorten(record.content), (f"  {record.id}", "dim"))
        for reason in _reasons(record, explained):
            out.line((f"      {reason}", "dim"), indent=8)
    if chat.agent is not None:
        out.line(("The conversation itself is also in the prompt.", "dim"))


def _reasons(record: Record, explained: Explanation) -> list[str]:
    """The reasons: the memory is in every prompt, or the parts of its score. Its rank would count the question itself."""
    reason = _always_known(record)
    always = [f"in every prompt: {reason}"] if reason is not None else []
    parts = [reason for reason in explained.reasons if ": " in reason and " +" in reason]
    return [*always, *parts] if explained.recalled else always or ["searched by the model, or adjacent to a match"]


def _always_known(record: Record) -> str | None:
    """Why a memory is in every prompt; None if it is not."""
    from keepstone.agent.strategies import BOOT

    if record.tag in BOOT:
        return f"its tag is {record.tag}"
    return f"its key is {record.key}" if record.key in BOOT else None


def forget(chat: ChatSession, words: str) -> None:
    """Erase a memory and its source message, after a confirmation."""
    if not words:
        raise ValidationError("/forget needs an id or words: /forget m_…, /forget account number.")
    if not chat.lines.asks:
        raise ValidationError("there is no terminal for the confirmation: use 'keepstone forget ID'.")
    chosen = _choose_records(chat, words)
    if not chosen:
        return
    parents = [parent for record in chosen for id in record.parents if (parent := chat.memory.get(id)) is not None]
    every = {record.id: record for record in (*chosen, *(parent for parent in parents if parent.kind == MESSAGE))}
    for record in every.values():
        chat.out.line(("will be erased", "bold red"), f"  {render.shorten(record.content)}", (f"  {_describe(record)}", "dim"))
    if chat.lines.answer("Erase permanently? [y/N]") not in ("y", "yes"):
        chat.out.line("Nothing was erased.")
        return
    done = sum(chat.memory.forget(id).forgotten for id in every)
    chat.out.line(("forgotten", "bold green"), f"  {render.plural(done, 'record')}")


def _choose_records(chat: ChatSession, words: str) -> list[Record]:
    """The record with that id, or those that the user chooses among the best matches."""
    named = chat.memory.get(words) if words.startswith("m_") and " " not in words else None
    if named is not None:
        return [named]
    found = [hit.record for hit in chat.memory.recall(words, limit=_MAX_CHOICES)]
    if not found:
        raise NotFound(f"no memory matches {words!r:.80}: /memories lists them.")
    if len(found) == 1:
        return found
    for at, record in enumerate(found, 1):
        chat.out.line((f"{at:>2}  ", "bold"), render.shorten(record.content), (f"  {_describe(record)}", "dim"))
    answer = chat.lines.answer(f"Which? 1 to {len(found)}, all, or Enter for none:")
    if answer == "all":
        return found
    numbers = {int(word) for word in answer.replace(",", " ").split() if word.isdecimal()}
    chosen = [record for at, record in enumerate(found, 1) if at in numbers]
    if not chosen:
        chat.out.line("Nothing was erased.")
    return chosen


def _describe(record: Record) -> str:
    return f"{record.kind} · {record.occurred_at:%Y-%m-%d} · {record.id}"


def session(chat: ChatSession, words: str) -> None:
    """List sessions; with a name, switch to that one."""
    if words:
        chat.enter(words)
    spoken = len(chat.memory.conversation(chat.session))
    here = {"session": chat.session, "messages": spoken}
    if words:
        so_far = render.plural(spoken, "message") if spoken else "new"
        chat.answer("session", here, lambda out: out.line("session ", (chat.session, "bold"), f" ({so_far})"))
        return
    found = chat.memory.conversation.list(limit=_MAX_SHOWN)
    chat.answer("session", {**here, "sessions": document(list(found))}, lambda out: _sessions(out, chat.session, found))


def _sessions(out: Output, current: str, found: Sequence[Session]) -> None:
    render.sessions(out, found, current)
    out.line((f"The current session is {current}; /session NAME switches to another or starts it.", "dim"))


def model(chat: ChatSession, words: str) -> None:
    """Show the model and the strategy."""
    if words:
        raise ValidationError("the model is set at the start: leave, then run 'keepstone chat --resume --model SPEC'.")
    named = chat.model
    shown = f"{named}, strategy {chat.strategy}" if named else "No model is set; rules extract facts."
    chat.answer("model", {"model": named, "strategy": chat.strategy if named else None}, lambda out: out.line(shown))


COMMANDS: dict[str, tuple[str, Callable[[ChatSession, str], None]]] = {
    "help": ("", help_),
    "memories": ("[WORDS]", memories),
    "why": ("", why),
    "forget": ("ID or WORDS", forget),
    "session": ("[NAME]", session),
    "model": ("", model),
}
