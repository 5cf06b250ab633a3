"""What users said, held so that a memory finds the messages that may speak against it. Pure.

A message that contradicts a memory shares a word with it or states something under the same key, so words and keys find all that
is worth comparing; of a common word only the newest messages are looked at.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from keepstone.learning.facts import slug
from keepstone.maintenance.contradictions import EXCLUDING, Claim, in_message, keyed, other_value, speaks_against
from keepstone.maintenance.statements import SELF, Statement, statements
from keepstone.text.times import EPOCH

_NAME = re.compile(r"(?!(?:The|User|I|My)\b)([A-ZÀ-Þ][\w.-]*)(?:['’]s)? ")
_GROUPS = {word: number for number, group in enumerate(EXCLUDING) for word in group}
_RAREST = 4  # of a memory's words are looked up
_NEWEST = 200  # messages of each
_COMPARED = 24  # messages with a memory, those that share most of its rare words


@dataclass(frozen=True, slots=True)
class Contradiction:
    """The message that speaks against a memory, and why."""

    id: str
    reason: str


class MessageIndex:
    """Messages of users, newest first, each read once."""

    def __init__(self, messages: Iterable[Claim]) -> None:
        self._said: list[tuple[Claim, list[Statement]]] = []
        self._words: dict[str, list[int]] = defaultdict(list)
        self._keys: dict[tuple[str, str], Claim] = {}
        self._first: dict[str, str] = {}  # the first word of a speaker's name
        for message in messages:
            self._take(message)
        subjects = {claim.subject for claim, _ in self._said} | {subject for subject, _ in self._keys}
        self._lone = next(iter(subjects)) if len(subjects) == 1 else "user"

    def _take(self, message: Claim) -> None:
        for claim in [message] if message.key is not None else in_message(message):
            held = self._keys.get((claim.subject, claim.key or ""))
            if held is None or held.said_at < claim.said_at:
                self._keys[claim.subject, claim.key or ""] = claim
        if message.subject != "user":
            self._first[message.subject.split()[0].casefold()] = message.subject
        found = statements(message.content, message.subject)
        if found:
            place = len(self._said)
            self._said.append((replace(message, content=""), found))
            for word in _handles(found):
                self._words[word].append(place)

    def against(self, memory: Claim, rests_on: Iterable[str] = ()) -> Contradiction | None:
        """What speaks against a memory, if anything does; never a message that it was made from."""
        memory = replace(memory, subject=self._subject(memory))
        memory = replace(memory, key=_plain_key(memory))
        left_out = frozenset(rests_on)
        named = keyed(memory)
        later = None if named.key is None else self._keys.get((memory.subject, named.key))
        own = statements(memory.content, memory.subject)
        if later is not None and later.said_at > memory.said_at and later.id not in left_out:  # the last word under its key
            reason = other_value(named, later) or speaks_against(own, statements(later.content, later.subject))
            return None if reason is None else Contradiction(later.id, reason)
        for place in self._alike(own, memory):
            claim, said = self._said[place]
            if claim.id not in left_out:
                reason = speaks_against(own, said, claim.subject == memory.subject)
                if reason is not None:
                    return Contradiction(claim.id, reason)
        return None

    def _alike(self, own: list[Statement], memory: Claim) -> list[int]:
        """The places of later messages that share words with a memory."""
        words = _handles(own) & self._words.keys()
        shared: defaultdict[int, float] = defaultdict(float)
        for word in sorted(words, key=lambda each: (len(self._words[each]), each))[:_RAREST]:
            places = self._words[word]
            for place in places[:_NEWEST]:
                shared[place] += 1 / len(places)
        later = [place for place in shared if self._said[place][0].said_at > memory.said_at]
        return sorted(later, key=lambda place: (-shared[place], place))[:_COMPARED]

    def _subject(self, memory: Claim) -> str:
        """Whom a memory speaks of: a speaker whose name it begins with or whose key it has, else the user."""
        first = memory.content[:80].split()[:1]
        name = self._first.get(first[0].casefold().removesuffix("'s").removesuffix("’s")) if first else None
        if name is not None:
            return name
        owner = (memory.key or "").partition(".")[0]
        return next((each for each in self._first.values() if slug(each) == owner), self._lone)


def find_contradicting(memories: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Pairs of memories (newer id, older id) that contradict each other. Memories are (id, content), the oldest first."""
    claims = [
        keyed(Claim(id, content, EPOCH + timedelta(seconds=number), _named_subject(content)))
        for number, (id, content) in enumerate(memories)
    ]
    index = MessageIndex(reversed(claims))
    for claim in claims:
        contradiction = index.against(claim)
        if contradiction is not None:
            yield contradiction.id, claim.id


def _named_subject(content: str) -> str:
    """The name that a memory begins with, else the user."""
    name = _NAME.match(content)
    return name[1] if name is not None else "user"


def _handles(found: list[Statement]) -> set[str]:
    """What statements are found by: their words, those that exclude them, and the values beside one that may differ."""
    words = {word for each in found for word in each.words | (each.about - {SELF})}
    values = {f"{sort} {value}" for each in found for sort, value in each.values}
    return words | values | {f"one of {_GROUPS[word]}" for word in words & _GROUPS.keys()}


def _plain_key(memory: Claim) -> str | None:
    """A key as the rules write it; None for those that only the caller understands."""
    owner, dot, rest = (memory.key or "").partition(".")
    return f"user.{rest}" if dot and owner in ("user", slug(memory.subject)) else None
