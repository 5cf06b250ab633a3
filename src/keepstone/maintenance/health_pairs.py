"""The checks of the health report that hold memories against each other: near-duplicates, and echoes of memory itself. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from keepstone.maintenance.health_checks import Found, Shelf, distinct, is_log, moment, place, plain
from keepstone.text.words import stem, terms

if TYPE_CHECKING:
    from keepstone.maintenance.health import Item

_LEADERS, _GROUP = 8, 2000  # of memories with one gist: how many different facts, how many of them
_ALIKE = 0.8  # of all words of two memories: in both
_FEWEST, _MOST = 5, 150  # words that make a memory comparable by its words
_NEIGHBOURS = 24  # of those that share a rare word: the nearest in length
_NAME = re.compile(r"(?<=[\w,;:] )[A-ZÀ-ÖØ-Þ][\w'’-]+")
_NEGATIONS = frozenset("not no never without nor neither none unless except".split())


def near_duplicates(shelf: Shelf) -> Iterator[Found]:
    """The same fact in other words: surely where both readings agree, perhaps where nearly all words are the same."""
    settled: set[str] = set()
    unkeyed = [item for item in distinct(shelf) if item.key is None]
    for leader, others in _by_gist(shelf, unkeyed):
        settled.update(others)
        yield Found(others, "says the same as another memory in other words", "put aside", (leader,))
    rest = [item for item in unkeyed if item.id not in settled]
    for one, other in _by_words(shelf, rest):
        first, second = sorted((one, other), key=shelf.worth)
        yield Found((second.id,), "has nearly all its words in common with another memory", "review", (first.id,))


def _by_gist(shelf: Shelf, items: Iterable[Item]) -> Iterator[tuple[str, tuple[str, ...]]]:
    from keepstone.write.near_duplicates import compare, gist  # 20 ms of word lists that an import alone should not take

    groups: dict[object, list[Item]] = defaultdict(list)
    for item in items:
        if (mark := gist(item.content)) is not None:
            groups[place(item), mark].append(item)
    for group in groups.values():
        if len(group) == 1:
            continue
        led: list[tuple[Item, list[str]]] = []
        for item in sorted(group, key=shelf.worth)[:_GROUP]:
            for leader, others in led:
                if compare(item.content, leader.content).same:
                    others.append(item.id)
                    break
            else:
                if len(led) < _LEADERS:
                    led.append((item, []))
        yield from ((leader.id, tuple(others)) for leader, others in led if others)


def _by_words(shelf: Shelf, items: Sequence[Item]) -> Iterator[tuple[Item, Item]]:
    """Pairs that share four fifths of their words. Two such memories share one of their rarest words too, so only those that
    do are held against each other; the shorter ones come first, so that the last in a row are the nearest in length."""
    often: Counter[str] = Counter()
    for item in items:
        often.update(shelf.words(item))
    ranked = [item for item in items if _FEWEST <= len(shelf.words(item)) <= _MOST]
    rows: dict[object, list[Item]] = defaultdict(list)
    for item in sorted(ranked, key=lambda each: len(shelf.words(each))):
        words = sorted(shelf.words(item), key=lambda word: (often[word], word))
        rare = words[: len(words) - math.ceil(_ALIKE * len(words)) + 1]
        tried: set[str] = set()
        match = None
        for other in (each for word in rare for each in rows[place(item), word][-_NEIGHBOURS:]):
            if match is None and other.id not in tried and _alike(shelf, item, other):
                match = other
            tried.add(other.id)
        if match is not None:
            yield item, match
        for word in rare:
            rows[place(item), word].append(item)


def _alike(shelf: Shelf, one: Item, other: Item) -> bool:
    """Whether nearly all words are in both, in the same order, and what is not is no name, number or negation."""
    mine, yours = set(shelf.words(one)), set(shelf.words(other))
    common = mine & yours
    if len(common) < _ALIKE * len(mine | yours):
        return False
    only_mine, only_yours = mine - common, yours - common
    apart = only_mine | only_yours
    if any(not word.isalpha() or word in _NEGATIONS for word in apart) or apart & (_names(one) | _names(other)):
        return False
    if [word for word in shelf.words(one) if word in common] != [word for word in shelf.words(other) if word in common]:
        return False
    if only_mine and only_yours:
        return len(only_mine) == len(only_yours) == 1 and _spelled_alike(*only_mine, *only_yours)
    return bool(apart)


def _names(item: Item) -> set[str]:
    return {stem(found[0].casefold()) for found in _NAME.finditer(item.content)}


def _spelled_alike(one: str, other: str) -> bool:
    return min(len(one), len(other)) >= 5 and SequenceMatcher(None, one, other).ratio() >= _ALIKE


# -- echoes -------------------------------------------------------------------------------------------------------------
_TALKS = r"(?:conversations?|chats?|discussions?|interactions?|messages?|sessions?|exchanges?|history)"
_OPENING = re.compile(
    r"\W*(?:"
    r"(?:according to|based on|from|per|going by) (?:my|our|your|the|what is in my) (?:stored |saved |long-term |own )?"
    rf"(?:memory|memories|records|notes|(?:previous|past|earlier|prior|last|recent) {_TALKS}|{_TALKS} history)\b"
    r"|(?:from|based on) what (?:i (?:remember|recall|know about you)|you(?:'ve| have)? (?:told|shared with) me)\b"
    r"|(?:as|like) (?:i (?:recall|remember)|you (?:mentioned|told me|said|shared)|we (?:discussed|talked about))"
    r"(?: (?:before|earlier|previously|last time|in (?:a|our|the) (?:previous|past|earlier|last) \w+))?,"
    r"|i (?:(?:can |do |also )?(?:recall|remember)) (?:that )?you(?:r|'re|'ve)?\b"
    r"|you(?:'ve| have)? (?:previously|earlier|once|already) (?:mentioned|told me|said|shared|noted)\b"
    r"|my (?:memory|memories|records|notes) (?:says?|shows?|indicates?|tells?|contains?|holds?)\b"
    r"|(?:i've|i have|i'll|i will) (?:noted|saved|stored|remember(?:ed)?|made a note)\b"
    r"|(?:relevant|recalled|retrieved|stored|related|user) memor(?:y|ies)(?: (?:of|about) (?:the )?user)?\s*:"
    r"|here(?: is|'s) what i (?:know|remember|recall) about you\b"
    r"|(?:&lt;|<|\[)/?(?:memory|memories|recalled)\b[^>\]]{0,300}(?:>|\]|&gt;)"
    r"|\[\d{4}-\d\d-\d\d, [^\]]{1,300}\] "
    r")[\s,:;]*(?:that )?",
    re.IGNORECASE,
)
_FENCED = re.compile(r"<(memory|memories|recalled)\b[^>]{0,300}>.*?</\1>", re.IGNORECASE | re.DOTALL)
_TAGS = re.compile(r"[<\[]/?(?:memory|memories|recalled)\b[^>\]]{0,300}[>\]]", re.IGNORECASE)
_HEAD = 4000  # characters that are looked through for fences
_SENTENCE = re.compile(r"[^.!?\n]*[.!?\n]+|[^.!?\n]+\Z")


def echoes(shelf: Shelf) -> Iterator[Found]:
    """What repeats words that memory itself had put into a prompt: put aside where another memory has all of it."""
    sounding = {item.id for item in shelf.memories if _opening(item) or _FENCED.search(item.content[:_HEAD])}
    repeated = _repeated(shelf) - sounding
    if not sounding and not repeated:
        return
    holders: dict[tuple[str, str], list[Item]] = defaultdict(list)
    for item in shelf.memories:
        if item.id not in sounding:
            for word in shelf.meant(item):
                holders[item.user, word].append(item)
    going: set[str] = set()
    for item in shelf.memories:
        if item.id not in sounding and item.id not in repeated:
            continue
        origin = _origin(shelf, item, holders, going, sounding=item.id in sounding)
        if origin is not None:
            going.add(item.id)
            yield Found((item.id,), "repeats what memory had said of another record", "put aside", (origin.id,))
        elif item.id in sounding:
            yield Found((item.id,), "is worded as an answer from memory, and no other record says it", "review")


def _opening(item: Item) -> int:
    """Where what an answer from memory says begins; 0 where a text is no such answer."""
    found = _OPENING.match(item.content.replace("’", "'"))
    return found.end() if found is not None else 0


def _repeated(shelf: Shelf) -> set[str]:
    """Memories that equal an assistant's message or a sentence of one, and nothing that the user said."""
    said: dict[bool, set[tuple[str, str]]] = {True: set(), False: set()}
    for item in filter(is_log, shelf.every.values()):
        if item.role is not None:
            texts = {plain(item.content), *(plain(each) for each in _SENTENCE.findall(item.content))}
            said[item.role == "assistant"].update((item.user, text) for text in texts)
    only = said[True] - said[False]
    return {item.id for item in shelf.memories if only and (item.user, plain(item.content)) in only}


def _origin(
    shelf: Shelf, item: Item, holders: dict[tuple[str, str], list[Item]], going: set[str], *, sounding: bool
) -> Item | None:
    """The record that an echo repeats: it stays, and has all that the echo says; where only a message tells it is an echo, it is
    older and the echo says all that it has."""
    words = shelf.meant(item)
    if sounding:
        words &= set(terms(_TAGS.sub(" ", item.content[_opening(item) :])))
    rows = [holders.get((item.user, word), []) for word in words]
    near = min(rows, key=len, default=[])[:_GROUP] if sounding else [each for row in rows for each in row[:_NEIGHBOURS]]
    for other in near:
        theirs = shelf.meant(other)
        told = words <= theirs if sounding else len(theirs) > 1 and theirs <= words and _older(other, item)
        if told and other.id != item.id and other.id not in shelf.gone and other.id not in going:
            return other
    return None


def _older(one: Item, other: Item) -> bool:
    first, second = moment(one.created_at), moment(other.created_at)
    return first is not None and second is not None and first < second
