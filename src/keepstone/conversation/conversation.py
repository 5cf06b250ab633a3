"""Conversation: what is said in one session, and what a model is given of it.

Every message is on disk when `add` returns. Limits decide only what a model is shown; nothing that was said is lost to them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keepstone.conversation.flow import Built, Limits, Summary, WindowBuilder, message_of_record
from keepstone.distribution import export_format
from keepstone.errors import ConfigurationError, ValidationError
from keepstone.ports.chat import ChatModel
from keepstone.ports.queue import Session
from keepstone.ports.stores import Store
from keepstone.ports.values import Selector
from keepstone.recall.query import check_int
from keepstone.text.token_count import estimate_tokens
from keepstone.text.words import every_term
from keepstone.types import MESSAGE, ForgetReceipt, Message, ModelMessage, Receipt, Record, Scope, clean_name
from keepstone.write.request import check_text

if TYPE_CHECKING:
    from keepstone.learning.consolidation import ConversationConsolidator
    from keepstone.learning.flow import Learner

FORMAT = 1
_PAGE_MESSAGES = 500
_MIN_TOKENS = 100
_MAX_LIMIT = 10_000_000
_MAX_SUMMARY_CHARS = 64 * 1024
MAX_SESSIONS = 10_000
MAX_MESSAGES = 100_000


@dataclass(frozen=True, slots=True)
class Sessions:
    """The parts of `Conversations`, wired by the engine."""

    store: Store
    window_builder: WindowBuilder
    learner: Learner
    consolidator: ConversationConsolidator
    make_model: Callable[[Any], ChatModel | None]
    export_chats: Callable[[Scope, Path, bool, str, bool], int]

    def open(self, scope: Scope, session: str, limits: Mapping[str, Any]) -> Conversation:
        """One session of a scope."""
        return Conversation(scope, session, self.limits(limits), self)

    def limits(self, given: Mapping[str, Any]) -> Limits:
        """Limits of a conversation from keyword arguments; a model may be named."""
        if given.get("model") is not None:
            given = {**given, "model": self.make_model(given["model"])}
        return check_limits(Limits(), given)


class Conversation:
    """One session. `len` counts its messages, iterating gives them oldest first."""

    def __init__(self, scope: Scope, session: str, limits: Limits, sessions: Sessions) -> None:
        self._scope = scope
        self._session = clean_name(session, "session")
        self._limits = limits
        self._store = sessions.store
        self._window_builder = sessions.window_builder
        self._learner = sessions.learner
        self._consolidator = sessions.consolidator

    @property
    def session(self) -> str:
        """The name of the session."""
        return self._session

    def add(self, /, role: str, content: str | Sequence[Mapping[str, Any]], **metadata: Any) -> Receipt:
        """Store a message: text, or content blocks of Anthropic's Messages API (images by reference). `name=` is the speaker,
        `at=` the time (default: now). All other named arguments are stored as metadata. Raises ValidationError, TooLarge.

        >>> conversation.add("user", "I live in Lyon.", name="Dana").action
        'added'"""
        name, at = metadata.pop("name", None), metadata.pop("at", None)
        message = Message(role, content, name=name, at=at, metadata=metadata)
        return self._learner.ingest(self._scope, [message], self._session)[0]

    def messages(self, *, max_tokens: int | None = None, max_messages: int | None = None) -> list[ModelMessage]:
        """The messages to send to a model: the summary of the older part, if there is one, then the recent messages unchanged.
        The result keeps to the limits and never begins with a tool result whose tool use is missing.

        >>> conversation.messages(max_tokens=2000)
        [{'role': 'user', 'content': 'Hello.'}, {'role': 'assistant', 'content': 'Good morning, Dana.'}]"""
        return [ModelMessage(each) for each in self.build(max_tokens=max_tokens, max_messages=max_messages).messages]

    def build(self, *, max_tokens: int | None = None, max_messages: int | None = None) -> Built:
        """The messages as `messages()` returns them, with their ids, their tokens, and what a model used for the summary.

        >>> len(conversation.build(max_messages=10).ids)
        2"""
        given = {"max_tokens": max_tokens, "max_messages": max_messages}
        view = check_limits(self._limits, {name: value for name, value in given.items() if value is not None})
        return self._window_builder.build(self._scope, self._session, self._limits, view=view)

    def tokens(self) -> int:
        """The approximate number of tokens of `messages()`.

        >>> conversation.tokens() < 50
        True"""
        return self.build().tokens

    def summary(self) -> str:
        """The summary of the older part; "" while all messages fit.

        >>> conversation.summary()
        ''"""
        return self.build().summary.text

    def last(self, n: int = 10) -> list[Message]:
        """The last n messages, oldest first.

        >>> [message.content for message in conversation.last(1)]
        ['Good morning, Dana.']"""
        count = check_int(n, "n", 0, MAX_MESSAGES)
        found = self._store.message_log.page(self._scope, self._session, limit=count) if count else []
        return [message_of_record(record) for _, record in found]

    def search(self, words: str, *, limit: int = 20) -> list[Message]:
        """The newest messages that contain all these words, oldest first, whatever their case and endings. A part of a word or
        of a number does not match.

        >>> [message.role for message in conversation.search("morning")]
        ['assistant']"""
        wanted = [(word.casefold(), every_term(word)) for word in words.split()] if isinstance(words, str) else []
        if not wanted:
            raise ValidationError(f"words is {words!r:.60}: give at least one word to look for.")
        limit = check_int(limit, "limit", 1, 1000)
        found: list[Message] = []
        for record in self._backwards():
            if _has_words(record.content, wanted):
                found.append(message_of_record(record))
                if len(found) == limit:
                    break
        return found[::-1]

    def consolidate(self) -> Receipt | None:
        """Store the outcome of the session (facts about the user, decisions, open tasks) as one memory of kind "summary" that
        names its messages. Returns None if there are too few messages.

        >>> conversation.consolidate() is None
        True"""
        return self._consolidator.consolidate(self._scope, self._session, self._limits.model)

    def export(self) -> dict[str, Any]:
        """The whole conversation as plain data that JSON can hold.

        >>> len(conversation.export()["messages"])
        2"""
        messages = [_to_export(message) for message in self]
        summary = self._window_builder.summary(self._scope, self._session)
        shown = {"text": summary.text, "messages": summary.messages, "by": summary.by} if summary.text else None
        return {"keepstone": FORMAT, "session": self._session, "messages": messages, "summary": shown}

    def import_(self, data: Mapping[str, Any] | str) -> int:
        """Append an exported conversation: all of it, or nothing if a message is invalid. Returns the number of messages; those
        that the policy for sensitive data refuses are left out.

        >>> memory.conversation("copy").import_(conversation.export())
        2"""
        given = parse_export(data)
        messages = [_from_export(each, at) for at, each in enumerate(given["messages"])]
        summary = _parse_summary(given.get("summary"), len(messages))
        empty = not len(self)
        receipts = self._learner.ingest(self._scope, messages, self._session, extract=False, whole=True)
        stored = sum(receipt.action != "refused" for receipt in receipts)
        if empty and summary is not None and stored == len(receipts):
            upto = self._store.sequence_of(self._scope, receipts[summary.messages - 1].id or "") or 0
            self._window_builder.keep(self._scope, self._session, replace(summary, upto=upto))
        return stored

    def clear(self) -> ForgetReceipt:
        """Erase the session's messages and every summary made of them. Facts that were learned from them stay;
        `memory.forget(session=…)` erases those too.

        >>> conversation.clear().forgotten
        2"""
        return self._store.forget(self._scope, Selector(session=self._session, kind=MESSAGE, keep_facts=True))

    def __len__(self) -> int:
        return self._store.message_log.count(self._scope, self._session)

    def __bool__(self) -> bool:
        return True  # a conversation without messages is still one

    def __iter__(self) -> Iterator[Message]:
        after = 0
        while page := self._store.message_log.page(self._scope, self._session, after=after, limit=_PAGE_MESSAGES, oldest=True):
            after = page[-1][0]
            yield from (message_of_record(record) for _, record in page)

    def _backwards(self) -> Iterator[Record]:
        before: int | None = None
        while page := self._store.message_log.page(self._scope, self._session, before=before, limit=_PAGE_MESSAGES):
            before = page[0][0]
            yield from (record for _, record in reversed(page))

    def __repr__(self) -> str:
        return f"Conversation({self._session!r})"


class Conversations:
    """The conversations of one scope. Calling it with the name of a session gives one of them."""

    def __init__(self, scope: Scope, sessions: Sessions) -> None:
        self._scope = scope
        self._sessions = sessions

    def __call__(self, session: str, **limits: Any) -> Conversation:
        """One session's messages, and what a model is given of them.

        `max_messages` and `max_tokens` limit what a model is given. `counter` is a function that counts the tokens of a text.
        `model` writes summaries (None: the memory's model, else sentences are selected). `summarise=False` makes no summary.

        >>> conversation = memory.conversation("monday", max_tokens=4000)
        >>> conversation.session
        'monday'"""
        return self._sessions.open(self._scope, session, limits)

    def recent(self, n: int = 20) -> list[Message]:
        """The last n messages across all sessions, oldest first.

        >>> [message.content for message in memory.conversation.recent(1)]
        ['Good morning, Dana.']"""
        count = check_int(n, "n", 0, MAX_MESSAGES)
        rows = self._sessions.store.message_log.page(self._scope, None, limit=count) if count else []
        return [message_of_record(record) for _, record in rows]

    def list(self, *, limit: int = 100) -> Sequence[Session]:
        """List the sessions, the one with the newest message first.

        >>> [(each.name, each.messages) for each in memory.conversation.list()]
        [('monday', 2)]"""
        return self._sessions.store.message_log.sessions(self._scope, check_int(limit, "limit", 1, MAX_SESSIONS))

    def export_chats(
        self, path: str | PathLike[str], *, format: str = "openai", only_successes: bool = False, plaintext: bool = False
    ) -> int:
        """Write every conversation and task as a line of chat messages for fine-tuning (JSONL). Returns the number of lines.

        `format` is "openai" or "anthropic"; `only_successes` leaves out tasks that failed. The file is not encrypted: of an
        encrypted store it is written only with `plaintext`.

        >>> memory.conversation.export_chats("chats.jsonl", format="openai")
        1"""
        return self._sessions.export_chats(self._scope, Path(path), plaintext, format, only_successes)


def _has_words(text: str, wanted: Sequence[tuple[str, Sequence[str]]]) -> bool:
    """Whether all words stand in a text. A word of several terms ("4471-902", "look_up") must stand in it as it is written."""
    found, folded = set(every_term(text)), text.casefold()
    return all(found.issuperset(terms) and (len(terms) == 1 or word in folded) for word, terms in wanted)


def _is_count(least: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= _MAX_LIMIT


_LIMITS: dict[str, tuple[Callable[[Any], bool], str]] = {  # whether a value can be used, and what to use instead
    "max_messages": (_is_count(1), "a whole number of at least 1"),
    "max_tokens": (_is_count(_MIN_TOKENS), f"a whole number of at least {_MIN_TOKENS}"),
    "counter": (callable, "a function from text to a number"),
    "model": (lambda value: value is None or isinstance(value, ChatModel), "a chat model"),
    "summarise": (lambda value: isinstance(value, bool), "True or False"),
}


def check_limits(limits: Limits, given: Mapping[str, Any]) -> Limits:
    """Limits with some of them replaced; ConfigurationError names what cannot be used."""
    for name, value in given.items():
        if name not in _LIMITS:
            raise ConfigurationError(f"a conversation has no limit {name!r:.60}: use {', '.join(_LIMITS)}.")
        is_valid, use = _LIMITS[name]
        if not is_valid(value):
            kind = ValidationError if name.startswith("max_") else ConfigurationError
            raise kind(f"{name} is {value!r:.60}: use {use}.")
    if "counter" in given:
        given = {**given, "counter": safe_counter(given["counter"])}
    return replace(limits, **given)


def safe_counter(counter: Callable[[str], int]) -> Callable[[str], int]:
    """A caller's counter, kept from breaking a conversation: what fails or makes no sense is estimated."""
    try:
        return _wrap_counter(counter)
    except TypeError:  # it cannot be told apart from others
        return _wrap_counter.__wrapped__(counter)


@lru_cache(maxsize=64)
def _wrap_counter(counter: Callable[[str], int]) -> Callable[[str], int]:
    @lru_cache(maxsize=10_000)
    def count(text: str) -> int:
        try:
            number = int(counter(text))
        except Exception:
            return estimate_tokens(text)
        return number if number >= 0 else estimate_tokens(text)

    return count


def _to_export(message: Message) -> dict[str, Any]:
    content = message.content if isinstance(message.content, str) else [dict(block) for block in message.content]
    at = None if message.at is None else message.at.isoformat()
    return {"role": message.role, "content": content, "name": message.name, "at": at, "metadata": dict(message.metadata)}


def parse_export(data: Mapping[str, Any] | str) -> Mapping[str, Any]:
    """An exported conversation; ValidationError for anything else."""
    try:
        given = json.loads(data) if isinstance(data, str) else data
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"this is not an exported conversation ({error}): pass what export() gave.") from None
    if not isinstance(given, Mapping) or export_format(given) != FORMAT or not isinstance(given.get("messages"), list):
        raise ValidationError("this is not an exported conversation (format 1): pass what export() gave.")
    return given


def _parse_summary(given: Any, messages: int) -> Summary | None:
    """The summary of an export, if it has one."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        match given.get("text"), given.get("messages"), given.get("by", ""):
            case str(text), int(covered), str(by) if 0 < covered <= messages and len(text) <= _MAX_SUMMARY_CHARS:
                return Summary(check_text(text, "the summary"), 0, covered, by)
    raise ValidationError("the summary of the export needs a text, and the number of messages that are in it.")


def _from_export(each: Any, at: int) -> Message:
    if not isinstance(each, Mapping) or not {"role", "content"} <= set(each) <= {"role", "content", "name", "at", "metadata"}:
        raise ValidationError(f"message {at} of the export needs role and content, and may have name, at, metadata.")
    return Message(**{**each, "metadata": each.get("metadata") or {}})
