"""Conversations: which there are, one as it was said, and what a model would be given of it."""

from __future__ import annotations

from starlette.responses import Response

from keepstone.conversation.flow import Built
from keepstone.errors import NotFound, ValidationError
from keepstone.server.dashboard.places import Place
from keepstone.server.dashboard.visit import Visit, session_path
from keepstone.types import Message
from keepstone.write.blocks import ORIGINAL

_PAGE = 100
_LISTED = 200
_VIEWS = ("said", "window")


def listing(visit: Visit) -> Response:
    if visit.asked.word("session") is not None:
        return one(visit)
    return visit.page(
        "conversations.html",
        sessions=visit.memory.conversation.list(limit=_LISTED),
        address=visit.desk.service.address,
        path_of=session_path,
    )


def one(visit: Visit) -> Response:
    name = visit.asked.parts.get("session") or visit.asked.word("session") or ""
    conversation = visit.memory.conversation(name)
    count = len(conversation)
    if not count:
        raise NotFound(f"nothing was said in a conversation {name!r:.80} here: the list shows those there are.")
    words, view = visit.asked.word("words"), visit.asked.query.get("view")
    view = view if view in _VIEWS else "said"
    last = _number(visit.asked.word("last"), "last", _PAGE, 100_000)
    tokens = _number(visit.asked.word("max_tokens"), "max_tokens", 8000, 10_000_000)
    messages: list[Message] = []
    built: Built | None = None
    if view == "window":
        built = conversation.build(max_tokens=tokens)
    else:
        messages = conversation.search(words, limit=200) if words else conversation.last(last)
    return visit.page(
        "conversation.html", name=name, count=count, messages=messages, built=built, words=words, view=view, tokens=tokens,
        earlier=min(last + _PAGE, count) if not words and last < count else None, home=session_path(name),
        text_of=_text, path_of=session_path,
    )  # fmt: skip


def _text(content: object) -> str:
    """What a message says; of blocks their text, and what else there is by its type."""
    if isinstance(content, str):
        return content
    blocks = [block for block in content if isinstance(block, dict) and block.get("type") != ORIGINAL]  # type: ignore[attr-defined]
    parts = [block.get("text") or block.get("action") or f"[{block.get('type', 'block')}]" for block in blocks]
    return "\n".join(str(part) for part in parts)


def _number(text: str | None, what: str, usual: int, most: int) -> int:
    if text is None:
        return usual
    if not text.isdecimal() or not 1 <= int(text[:12]) <= most:
        raise ValidationError(f"{what} is {text!r:.40}: use a whole number from 1 to {most}.")
    return int(text)


PLACES = (Place("/conversations", get=listing), Place("/conversations/{session:path}", get=one))
