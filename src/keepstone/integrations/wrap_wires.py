"""The three wire formats that `wrap` reads and adds to: chat completions, responses, messages. Pure.

A request's body is read as the vendor's client is about to send it; a context goes into a copy. Answers and the events of streams
are the client's own objects, or plain data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

USER, ASSISTANT = "user", "assistant"
_TEXTS = frozenset({"text", "input_text", "output_text"})
_BREAK = "\n"  # between texts that something else stood between


@dataclass(frozen=True, slots=True)
class Said:
    """One turn of a request: the user's or the assistant's. `text` is "" if it says nothing, such as a tool call."""

    role: str
    text: str


class Wire:
    """One format."""

    turns_field = "messages"  # of a body
    text_type = "text"  # of a block

    def copy_body(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of a body whose turns can be read more than once."""
        copied = dict(body)
        for name in (self.turns_field, "system"):
            if isinstance(body.get(name), Iterable) and not isinstance(body[name], str):
                copied[name] = list(body[name])
        return copied

    def turns(self, body: Mapping[str, Any]) -> list[Said]:
        """What was said, oldest first, without instructions and tool results."""
        given = body.get(self.turns_field)
        if isinstance(given, str):
            return [Said(USER, given.strip())]
        return _turns(given if isinstance(given, list) else [])

    def with_context(self, body: Mapping[str, Any], context: str, place: str) -> dict[str, Any]:
        """The body with a context in its place, "system" or "user"."""
        given = body.get(self.turns_field)
        if place == USER and isinstance(given, str):
            return {**body, self.turns_field: f"{context}\n\n{given}"}
        items = given if isinstance(given, list) else []
        at = _last_user_index(items)
        if place == USER and at is None:  # the server holds the user's words, and with them their context
            return dict(body)
        if place == USER and at is not None and isinstance(items[at], Mapping):
            return {**body, self.turns_field: [*items[:at], _with_context(items[at], context, self.text_type), *items[at + 1 :]]}
        return {**body, **self._instruct(body, context, items, at)}

    def _instruct(self, body: Mapping[str, Any], context: str, items: list[Any], at: int | None) -> dict[str, Any]:
        """The fields of a body with a context in the instructions; `at` is the position of the user's last words."""
        raise NotImplementedError

    def answer(self, result: Any) -> str:
        """The text of a whole answer."""
        raise NotImplementedError

    def piece(self, event: Any) -> str:
        """The text that one event of a stream adds."""
        raise NotImplementedError


def wire_of(path: str) -> Wire | None:
    """The format of what is posted to a path; None for what is no conversation.

    >>> wire_of("/v1/messages?beta=true") is wire_of("/v1/messages"), wire_of("/v1/messages/count_tokens")
    (True, None)
    """
    bare = path.partition("?")[0]
    return next((wire for end, wire in _WIRES.items() if bare.endswith(end)), None)


class Completions(Wire):
    """OpenAI's chat completions, which other servers speak too."""

    def _instruct(self, body: Mapping[str, Any], context: str, items: list[Any], at: int | None) -> dict[str, Any]:
        if at is None:
            return {}
        role = "developer" if any(field_of(each, "role") == "developer" for each in items) else "system"
        # Right before the question: all that comes before it stays the same, and cached.
        return {"messages": [*items[:at], {"role": role, "content": context}, *items[at:]]}

    def answer(self, result: Any) -> str:
        choices = field_of(result, "choices") or ()
        return text_of(field_of(field_of(choices[0], "message"), "content"), ASSISTANT) if choices else ""

    def piece(self, event: Any) -> str:
        first = [each for each in field_of(event, "choices") or () if not field_of(each, "index")]
        return "".join(text for each in first if isinstance(text := field_of(field_of(each, "delta"), "content"), str))


class Messages(Wire):
    """Anthropic's Messages API."""

    def _instruct(self, body: Mapping[str, Any], context: str, items: list[Any], at: int | None) -> dict[str, Any]:
        given = body.get("system")
        own = (
            list(given)
            if isinstance(given, (list, tuple))
            else [{"type": "text", "text": given}]
            if isinstance(given, str) and given
            else []
        )
        return {"system": [*own, {"type": "text", "text": context}]}

    def answer(self, result: Any) -> str:
        return text_of(field_of(result, "content"), ASSISTANT)

    def piece(self, event: Any) -> str:
        match field_of(event, "type"):
            case "content_block_delta" if field_of(field_of(event, "delta"), "type") == "text_delta":
                return str(field_of(field_of(event, "delta"), "text") or "")
            case "content_block_start" if field_of(field_of(event, "content_block"), "type") != "text":
                return _BREAK
        return ""


class Responses(Wire):
    """OpenAI's responses."""

    turns_field = "input"
    text_type = "input_text"

    def _instruct(self, body: Mapping[str, Any], context: str, items: list[Any], at: int | None) -> dict[str, Any]:
        own = body.get("instructions")
        return {"instructions": f"{own}\n\n{context}" if isinstance(own, str) and own else context}

    def answer(self, result: Any) -> str:
        said = [each for each in field_of(result, "output") or () if field_of(each, "type") == "message"]
        return _BREAK.join(filter(None, (text_of(field_of(each, "content"), ASSISTANT) for each in said)))

    def piece(self, event: Any) -> str:
        match field_of(event, "type"):
            case "response.output_text.delta":
                return str(field_of(event, "delta") or "")
            case "response.output_item.added":
                return _BREAK
        return ""


_WIRES: dict[str, Wire] = {"/chat/completions": Completions(), "/v1/messages": Messages(), "/responses": Responses()}


def field_of(item: Any, name: str) -> Any:
    """A field of plain data or of a client's object; None where there is none."""
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def text_of(content: Any, role: str) -> str:
    """The words in a message's content; images, tools and thoughts are left out.

    >>> text_of([{"type": "text", "text": "See "}, {"type": "text", "text": "Porto."}, {"type": "image"}], "assistant")
    'See Porto.'
    """
    if isinstance(content, str):
        return content.strip()
    parts = content if isinstance(content, (list, tuple)) else ()
    said = [field_of(part, "text") if field_of(part, "type") in _TEXTS else None for part in parts]
    if role == USER:
        return _BREAK.join(text for text in said if isinstance(text, str)).strip()
    return "".join(text if isinstance(text, str) else _BREAK for text in said).strip()  # a sentence that cites comes in parts


def _turns(messages: Sequence[Any]) -> list[Said]:
    turns: list[Said] = []
    for each in messages:
        role = field_of(each, "role")
        if role in (USER, ASSISTANT):
            turns.append(Said(role, text_of(field_of(each, "content"), role)))
        elif role is None and field_of(each, "type") not in (None, "item_reference"):  # a call of a tool, a thought
            turns.append(Said(ASSISTANT, ""))
    return turns[:-1] if turns and _is_prefill(messages[-1]) else turns


def _is_prefill(message: Any) -> bool:
    """Whether a request's last message is the beginning of the answer, put into the assistant's mouth: words alone."""
    content = field_of(message, "content")
    only_text = isinstance(content, str) or (
        isinstance(content, list) and all(field_of(part, "type") == "text" for part in content)
    )
    return field_of(message, "role") == ASSISTANT and only_text and not field_of(message, "tool_calls")


def _last_user_index(messages: Sequence[Any]) -> int | None:
    """Where the user's last words stand."""
    said = (at for at in range(len(messages) - 1, -1, -1) if field_of(messages[at], "role") == USER)
    return next((at for at in said if text_of(field_of(messages[at], "content"), USER)), None)


def _with_context(message: Mapping[str, Any], context: str, kind: str) -> dict[str, Any]:
    """A user's message with a context before its first words; results of tools have to stay in front."""
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": f"{context}\n\n{content}"}
    at = next(at for at, part in enumerate(content) if field_of(part, "type") in _TEXTS)
    return {**message, "content": [*content[:at], {"type": kind, "text": context}, *content[at:]]}
