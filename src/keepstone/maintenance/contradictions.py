"""Whether what was said later speaks against a memory. Pure.

A flag is work for a person, so only what is plain counts: another value under one key, the same sentence with another number, day
or name in its place, or its denial. What may hold as well, is about another person or another time, or is not asserted at all,
is no contradiction. Values under one key are compared in every language with rules for facts; sentences are read in English only.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from keepstone.learning.facts import find_user_facts, slug
from keepstone.learning.other_languages import wording_terms
from keepstone.maintenance.statements import (
    CHANGES,
    EXCLUDING_GROUPS,
    PATTERNS,
    SELF,
    TRIMMINGS,
    WORDS,
    Statement,
    classes,
    statements,
)
from keepstone.text.languages.detection import detect_language
from keepstone.text.languages.lexicon import CODES
from keepstone.text.times import EPOCH
from keepstone.text.words import terms

_LIGHT, _MANY, _TOPMOST, _HAVING, _VERBS_ALONE, _NOT_USING, _THINGS, _COUNTED, _SPANS = (
    classes(WORDS[name])
    for name in ("light", "many", "topmost", "having", "verbs_alone", "not_using", "things", "counted", "spans")
)
_ENDINGS = _SPANS | classes(WORDS["endings"])
VALUE = "a newer message gives another value for the same thing"
OPPOSITE = "a newer message says the opposite"
NUMBER = "a newer message gives another number"


@dataclass(frozen=True, slots=True)
class Claim:
    """A memory, or what a newer message says: of whom, and under which key where the rules know one."""

    id: str
    content: str
    said_at: datetime
    subject: str = "user"
    key: str | None = None


def in_message(message: Claim, said: str) -> list[Claim]:
    """The claims under keys that the rules find in what a user said."""
    name = None if message.subject == "user" else message.subject
    return [replace(message, content=fact.content, key=fact.key) for fact in find_user_facts(said, name) if fact.key]


_USER = re.compile("(?:the )?user", re.IGNORECASE)
_TOLD = re.compile(r"(?P<of>'s|’s)? (?P<verb>[\w']+)(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_OWN = re.compile(r"(?:I|My)\b")


def keyed(memory: Claim) -> Claim:
    """A memory with the key that the rules would give it, had the user said it; as it is where they know none."""
    if memory.key is not None or len(memory.content) > 300:
        return memory
    said, own = memory.content, len(memory.subject)
    if memory.subject == "user":
        user = _USER.match(said)
        own = user.end() if user is not None else 0
    elif said[:own].casefold() != memory.subject.casefold():
        own = 0
    told = _TOLD.match(said, own) if own else None
    if told is not None:
        said = f"My {told['verb']}{told['rest']}" if told["of"] else f"I {_first(told['verb'])}{told['rest']}"
    elif not _OWN.match(said):
        return memory
    found = in_message(memory, said)
    return found[0] if len(found) == 1 else memory


def _first(verb: str) -> str:
    """A verb as the first person has it."""
    plain = {"is": "am", "has": "have", "does": "do", "doesn't": "don't", "goes": "go", "was": "was"}.get(verb.lower())
    if plain is not None:
        return plain
    if verb.endswith("ies"):
        return verb[:-3] + "y"
    return verb[:-2] if verb.endswith(("ches", "shes")) else verb[:-1] if verb.endswith("s") and len(verb) > 3 else verb


# -- values under one key -------------------------------------------------------------------------------------------------
_WHEN = re.compile(
    r"\b(?:since|last|this|in|from|for) (?:the )?(?:\d{4}|week|month|year|summer|spring|autumn|fall|winter"
    r"|\w+ \d{4}|\w+ years?)\b|\b\d+ years? ago\b"
)
_EXACT = re.compile(r"[\w.+-]+@[\w.-]+\w|\+?\d[\d ()/.-]{5,}\d")


def other_value(old: Claim, new: Claim) -> str | None:
    """Two claims under one key."""
    if old.subject != new.subject:
        return None
    before, after = _value_words(old), _value_words(new)
    was_over, is_over = (PATTERNS["over"].search(claim.content.lower()) is not None for claim in (old, new))
    same = bool(before & after) and not _numbers_apart(before, after)
    if was_over != is_over:
        return OPPOSITE if same else None
    one, other = _EXACT.search(old.content), _EXACT.search(new.content)
    if one and other and not was_over:
        return VALUE if re.sub(r"[^\w@]", "", one[0]).lower() != re.sub(r"[^\w@]", "", other[0]).lower() else None
    if was_over or not before or not after or before <= after or after <= before:
        return None
    if all(PATTERNS["part_time"].search(claim.content.lower()) for claim in (old, new)):
        return None
    return None if same else VALUE


def _value_words(claim: Claim) -> frozenset[str]:
    own = frozenset(terms(claim.subject))
    language = detect_language(claim.content)
    frame = wording_terms(language) if language in CODES else WORDS["frame"]
    return frozenset(terms(_WHEN.sub(" ", PATTERNS["over"].sub(" ", claim.content.lower())))) - frame - own


def _numbers_apart(before: frozenset[str], after: frozenset[str]) -> bool:
    one = {word for word in before if word[0].isdigit()}
    other = {word for word in after if word[0].isdigit()}
    return bool(one and other and one.isdisjoint(other))


# -- sentences ------------------------------------------------------------------------------------------------------------
_WHEN_IT_ENDED = frozenset(("date", "month", "year"))
_READ = 8  # statements of a memory
_WHEN_SORTS = frozenset(("day", "date", "clock", "month", "year", "nth"))


def _speaks_against(lasting: Sequence[Statement], new: Sequence[Statement], same_speaker: bool = True) -> str | None:
    """Why some statement of a newer message speaks against one of a memory."""
    for before in lasting:
        for after in new:
            if not same_speaker and (before.of_self or after.of_self):
                continue
            if before.handles.isdisjoint(after.handles):
                continue
            reason = _against(before, after)
            if reason is not None:
                return reason
    return None


def _lasting(old: Sequence[Statement]) -> list[Statement]:
    """The statements of a memory that something newer may speak against: what happened stays true."""
    return [statement for statement in old[:_READ] if not statement.past or statement.copula]


def _against(old: Statement, new: Statement) -> str | None:
    left = _given_up(old, new)
    if left is not None:
        return left
    if not _same_subject(old, new):
        return None
    if old.negative != new.negative:
        return _denied(old, new)
    if old.negative or (new.past and not new.changed):
        return None
    return _revalued(old, new) or _renamed(old, new)


def _same_subject(old: Statement, new: Statement) -> bool:
    before, after = old.about - {SELF}, new.about - {SELF}
    if not before and after:
        return after <= old.words and bool(new.words - after - CHANGES <= old.words)
    if before and not after:
        return before <= new.words
    return before == after if before and after else True


# -- denial ---------------------------------------------------------------------------------------------------------------
def _denied(old: Statement, new: Statement) -> str | None:
    """One says yes where the other says no."""
    if new.passing or old.passing or (new.past and not new.ended and not new.changed):
        return None
    since = _WHEN_IT_ENDED if new.ended else frozenset()
    if not {each for each in new.values if each[0] not in since} <= set(old.values):
        return None
    core = new.words - (_ENDINGS if new.ended else _ENDINGS - {"have"})
    if new.negative:
        return OPPOSITE if _is_over(old, new, core) else None
    core -= CHANGES
    if core != old.words - CHANGES or not core:
        return None
    return OPPOSITE if core - _VERBS_ALONE or len(core) > 1 else None


def _is_over(old: Statement, new: Statement, denied: frozenset[str]) -> bool:
    """Whether the words that a newer statement denies are what a memory says, and enough of it."""
    core = denied
    if new.ended and len(core) > 1 and old.words & _HAVING:
        core -= {"have"}
    if new.ended and "work" in old.words:
        core -= {"job", "position"}
    if not core or not core <= old.words:
        return False
    if PATTERNS["sold"].search(new.text) and not old.words & _HAVING:
        return False
    if PATTERNS["left"].search(new.text):
        return "live" not in old.words
    telling = core - _VERBS_ALONE
    return core == old.words or (bool(telling) and (len(denied) >= 2 or 2 * len(core) >= len(old.words)))


def _given_up(old: Statement, new: Statement) -> str | None:
    """ "Switched from X to Y", "Y instead of X", "replaced X with Y" where the memory still has X."""
    if new.given_up is None and new.chosen is None:
        return None
    if old.negative or new.passing or (not old.of_self and not old.about <= new.words and not old.about & _THINGS):
        return None
    if new.given_up is not None:
        then = _bare(new.given_up["then"])
        using = not old.words & _NOT_USING and (len(old.words - then) <= 4)
        about = new.of_self or new.about <= old.words
        moved = new.given_up.re is PATTERNS["from_to"] and new.given_up["verb"] in ("mov", "relocat")
        if then and moved and old.of_self and not old.words & {"live", "home", "house", "apartment", "office", "use"}:
            return None
        if then:
            return VALUE if using and about and then <= old.words else None
    if new.chosen is None or new.about != old.about or new.past:
        return None
    then, now = _bare(new.chosen["then"]), _bare(new.chosen["now"])
    verb = now & old.words & (_VERBS_ALONE | {"prefer", "drive", "commut"})
    return (
        VALUE
        if then and verb and then <= old.words and len(old.words - then - verb) <= 2 and not (now - verb) & old.words
        else None
    )


def _bare(text: str) -> frozenset[str]:
    return classes(terms(text)) - TRIMMINGS - _SPANS


# -- another value in the same place --------------------------------------------------------------------------------------
def _revalued(old: Statement, new: Statement) -> str | None:
    """The same sentence with another number, day or time."""
    before, after = dict(old.values), dict(new.values)
    if not before or not after or len(before) != len(old.values) or (len(after) != len(new.values) and not new.changed):
        return None
    if PATTERNS["from_to"].search(new.text):
        after = dict(new.values[-1:])
    sorts = before.keys() & after.keys()
    apart = [sort for sort in sorts if before[sort] != after[sort]]
    if not apart or (len(apart) > 1 and not set(apart) <= _WHEN_SORTS) or after.keys() - before.keys():
        return None
    lost = before.keys() - after.keys()
    if lost and not (lost <= _WHEN_SORTS and set(apart) <= _WHEN_SORTS):
        return None
    if not _frame_holds(old, new):
        return None
    timed = set(apart) <= _WHEN_SORTS
    fixed = bool(old.about - {SELF}) or (bool(old.words & _COUNTED) and not timed)
    if new.passing or (not fixed and not new.changed):
        return None
    return VALUE if timed else NUMBER


def _frame_holds(old: Statement, new: Statement) -> bool:
    """Whether both say the same but for what may differ."""
    extra = new.words - old.words - CHANGES - _LIGHT
    missing = old.words - new.words - _LIGHT - CHANGES
    shared = (old.words & new.words) - _LIGHT - {"have"}
    return bool(shared) and not extra and (not missing or (new.changed and len(missing) <= 2 and len(shared) >= len(missing)))


def _renamed(old: Statement, new: Statement) -> str | None:
    """The same sentence with another name, or with one of two words that exclude each other."""
    if new.passing or old.passing:
        return None
    only_old, only_new = old.words - new.words - _LIGHT, new.words - old.words - (CHANGES - new.things) - _LIGHT
    if not only_old or not only_new or set(old.values) != set(new.values):
        return None
    if len(only_old) == len(only_new) == 1 and any(only_old | only_new <= group for group in EXCLUDING_GROUPS):
        return VALUE
    if old.about == new.about and old.about - {SELF} and old.copula and new.copula:
        if old.about & _TOPMOST and len(only_old) <= 3 and len(only_new) <= 3 and old.words - only_old == old.about:
            return VALUE
        if only_old <= old.things and only_new <= new.things and old.words - only_old <= old.about and not old.about & _MANY:
            return VALUE
    if not (only_old <= old.things and only_new <= new.things):
        return None
    frames = [PATTERNS["one_at_a_time"], *([PATTERNS["if_changed"]] if new.changed else [])]
    shared = (old.words & new.words) - _LIGHT
    return VALUE if shared and any(_frames(frame, old, new) for frame in frames) else None


def _frames(frame: re.Pattern[str], old: Statement, new: Statement) -> bool:
    one, other = frame.search(old.text), frame.search(new.text)
    return one is not None and other is not None and one[0].split()[1:] == other[0].split()[1:]


# -- the messages that may contradict a memory -----------------------------------------------------------------------------
# Such a message shares a word with the memory or states something under the same key. Of a common word only the newest messages
# are compared.
_NAME = re.compile(r"(?!(?:The|User|I|My)\b)([A-ZÀ-Þ][\w.-]*)(?:['’]s)? ")
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
        self._times: list[datetime] = []
        self._words: dict[str, list[int]] = defaultdict(list)
        self._read: dict[tuple[str, str], list[Statement]] = {}  # of a message and its speaker
        self._keys: dict[tuple[str, str], Claim] = {}
        self._first: dict[str, str] = {}  # the first word of a speaker's name
        for message in messages:
            self._take(message)
        subjects = {claim.subject for claim, _ in self._said} | {subject for subject, _ in self._keys}
        self._lone = next(iter(subjects)) if len(subjects) == 1 else "user"

    def _take(self, message: Claim) -> None:
        for claim in [message] if message.key is not None else in_message(message, message.content):
            held = self._keys.get((claim.subject, claim.key or ""))
            if held is None or held.said_at < claim.said_at:
                self._keys[claim.subject, claim.key or ""] = claim
        if message.subject != "user":
            self._first[message.subject.split()[0].casefold()] = message.subject
        found = self._statements(message)
        if found:
            place = len(self._said)
            self._said.append((Claim(message.id, "", message.said_at, message.subject, message.key), found))
            self._times.append(message.said_at)
            for word in _handles(found):
                self._words[word].append(place)

    def _statements(self, claim: Claim) -> list[Statement]:
        """The statements of a claim; a memory may be one of the messages."""
        found = self._read.get((claim.content, claim.subject))
        if found is None:
            found = self._read[claim.content, claim.subject] = statements(claim.content, claim.subject)
        return found

    def against(self, memory: Claim, rests_on: Iterable[str] = ()) -> Contradiction | None:
        """What speaks against a memory, if anything does; never a message that it was made from."""
        memory = replace(memory, subject=self._subject(memory))
        if memory.key is not None:
            memory = replace(memory, key=_plain_key(memory))
        return self._against(memory, keyed(memory), frozenset(rests_on))

    def _against(self, memory: Claim, named: Claim, left_out: frozenset[str]) -> Contradiction | None:
        later = None if named.key is None else self._keys.get((memory.subject, named.key))
        own = self._statements(memory)
        if later is not None and later.said_at > memory.said_at and later.id not in left_out:  # the last word under its key
            reason = other_value(named, later) or _speaks_against(_lasting(own), self._statements(later))
            return None if reason is None else Contradiction(later.id, reason)
        lasting = _lasting(own)
        if not lasting:
            return None
        for place in self._alike(own, memory):
            claim, said = self._said[place]
            if claim.id not in left_out:
                reason = _speaks_against(lasting, said, claim.subject == memory.subject)
                if reason is not None:
                    return Contradiction(claim.id, reason)
        return None

    def among(self, claim: Claim) -> Contradiction | None:
        """What speaks against one of the messages themselves; its key was looked for before."""
        subject = self._subject(claim)
        return self.against(claim) if subject != claim.subject else self._against(claim, claim, frozenset())

    def _alike(self, own: list[Statement], memory: Claim) -> list[int]:
        """The places of later messages that share words with a memory, those that share most of its rare words first."""
        words = [(len(self._words[word]), word) for word in _handles(own) if word in self._words]
        shared: dict[int, float] = {}
        for count, word in sorted(words)[:_RAREST]:
            for place in self._words[word][:_NEWEST]:
                shared[place] = shared.get(place, 0.0) + 1 / count
        by_weight: defaultdict[float, list[int]] = defaultdict(list)
        for place, weight in shared.items():
            if self._times[place] > memory.said_at:
                by_weight[weight].append(place)
        found: list[int] = []
        for weight in sorted(by_weight, reverse=True):
            found += sorted(by_weight[weight])
            if len(found) >= _COMPARED:
                break
        return found[:_COMPARED]

    def _subject(self, memory: Claim) -> str:
        """Whom a memory speaks of: a speaker whose name it begins with or whose key it has, else the user."""
        first = memory.content[:80].split()[:1]
        name = self._first.get(first[0].casefold().removesuffix("'s").removesuffix("’s")) if first else None
        if name is not None:
            return name
        owner = (memory.key or "").partition(".")[0]
        return next((each for each in self._first.values() if slug(each) == owner), self._lone) if owner else self._lone


def find_contradicting(memories: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Pairs of memories (newer id, older id) that contradict each other. Memories are (id, content), the oldest first."""
    claims = [
        keyed(Claim(id, content, EPOCH + timedelta(seconds=number), _named_subject(content)))
        for number, (id, content) in enumerate(memories)
    ]
    index = MessageIndex(reversed(claims))
    for claim in claims:
        contradiction = index.among(claim)
        if contradiction is not None:
            yield contradiction.id, claim.id


def _named_subject(content: str) -> str:
    """The name that a memory begins with, else the user."""
    name = _NAME.match(content)
    return name[1] if name is not None else "user"


def _handles(found: list[Statement]) -> frozenset[str]:
    return frozenset().union(*(each.handles for each in found))


def _plain_key(memory: Claim) -> str | None:
    """A key as the rules write it; None for those that only the caller understands."""
    owner, dot, rest = (memory.key or "").partition(".")
    return f"user.{rest}" if dot and owner in ("user", slug(memory.subject)) else None
