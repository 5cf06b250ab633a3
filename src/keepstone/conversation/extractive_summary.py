"""A summary of a conversation without a model: the sentences that say most, word for word. Pure.

A line's worth is read off the line alone, so a summary can be taken up again from its own text: `earlier` is parsed back,
new lines come behind, and what is worth least goes first, whatever its age. Decisions, wishes and corrections are recognised in
English. In other languages names, numbers, times and what is said about oneself count, and lines are one only if their words are.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from keepstone.prompts.extraction import Line
from keepstone.text import english
from keepstone.text.languages.detection import detect_language
from keepstone.text.languages.lexicon import CODES, fold, pattern
from keepstone.text.lexicon import Lexicon
from keepstone.text.sentences import split_sentences
from keepstone.text.words import stem, terms, time_words

_HEAD_CHARS, _TAIL_CHARS = 6000, 2000  # characters read of one turn, from its start and its end
_MAX_LINE_CHARS = 280  # characters of one line's sentence; a longer one becomes several
_LONG_TURN_CHARS = 600  # from here on an assistant's turn is an explanation
_MIN_WORTH = 0.3  # lines worth less are shown only where there is nothing better
_MAX_COMPARED_LINES = 64  # lines with the same word that a new line is compared with
_MAX_SPEAKER_CHARS = 40
_ROLES = {"assistant": 0.55, "ai": 0.55, "model": 0.55, "system": 0.3, "developer": 0.3, "tool": 0.2, "function": 0.2}
_LINE = re.compile(r"- ([^:\n]{1,64}?)(?:, \d{4}-\d\d-\d\d)?: (\S.*)")

_BULLET = re.compile(r"^\s*(?:[-*•·–‣]|\d{1,3}[.)]|[a-zA-Z]\)|#{1,6}|>+)\s+(?:\[[ xX]?\]\s+)?(?=\S)")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_CLAUSE = re.compile(r".*[,;:，、；：—–](?=\s|\W|$)", re.DOTALL)
_PATTERNS = Lexicon("english_summary").patterns
_DAYS = f"{english.WEEKDAY_PATTERN}s?"
_MONTHS = english.CLEAR_MONTH_PATTERN
_CODE = re.compile(
    r"\s*(?:def |class |import |from \w+ import|return\b|function\b|const |let \w+ =|var |if \(|for \(|while \(|else\b|SELECT "
    r"|INSERT |#include|[{}\[\]()<]|\$ |>>> |@\w+$|\w+\(.*\)\s*[;{]?$|[\w.\[\]]+ [-+*/]?= )"
)
_NAME = re.compile(r"(?<![.!?:]\s)(?<=\s)[\"'“(]?(?!I\b)[A-ZÀ-ÖØ-ÞА-Я][\w'’-]*[^\W_]")
_QUOTED = re.compile(r"[\"“«「『„][^\"”»」』“]{2,80}[\"”»」』“]")
_DIGITS = re.compile(r"\d+(?:[.,:/-]?\d+)*")
_VALUE = re.compile(rf"(?<!\w)[\w#$€£+-]*\d[\w.,:/@%€$£+-]*|\b(?i:{_DAYS}|{_MONTHS})\b|{_NAME.pattern}|{_QUOTED.pattern}")
# Between a topic and its value: what a later sentence of the same topic does away with.
_STANDS = re.compile(
    r"(?:\b(?:is|are|am|was|be|becomes?|costs?|starts?|ends?|lasts?|lives?|prefers?|go with|going with|to)|['’](?:s|m|re)|[=:])"
    r"(?:\s+(?:now|at|on|in|by|to|the|about|around|for|with|from))*\W*$"
)
_NOT_TOPIC = frozenset(
    stem(word)
    for word in ("actually correction no not wait sorry oops now instead please mean meant really longer rather changed".split())
)
_STRONG = {"decides": 3.0, "prefers": 3.0, "open": 2.6, "oneself": 2.0, "corrects": 1.5}  # the worth of a pattern


@dataclass(frozen=True, slots=True)
class _Line:
    text: str  # as it stands in the summary
    said: str
    speaker: str
    human: bool
    worth: float
    place: int


def summarise(turns: Sequence[Line], *, earlier: str = "", max_tokens: int = 400, count: Callable[[str], int]) -> str:
    """What matters of a conversation, as lines in the order they were said, never more than `max_tokens` as `count` counts.
    `earlier` is what this gave for the turns before; any other text is kept at the top as it is."""
    if max_tokens <= 0:
        return ""
    roles = {_speaker(turn): turn.role for turn in turns}
    lead, known = _parsed(earlier, roles)
    if lead and count(lead) > max_tokens:
        lead = _shortened_lead(lead, max_tokens, count)
    lines = [*known, *_new_lines(turns, len(known))]
    if len(lines) > 2 * max_tokens:  # a line takes some tokens, so those behind could never be shown
        lines = sorted(sorted(lines, key=_rank)[: 2 * max_tokens], key=lambda line: line.place)
    worthy = [line for line in lines if line.worth >= _MIN_WORTH] or sorted(lines, key=_rank)[:1]
    worthy = _without_repeats(worthy, lead, len(known))
    text = _within(lead, worthy, max_tokens, count)
    if text or not worthy:
        return text
    best = min(worthy, key=_rank)
    return _shortened(best.text.removesuffix(best.said), best.said, max_tokens, count)


def _rank(line: _Line) -> tuple[float, int]:
    """Best first; of equals the newer."""
    return -line.worth, -line.place


def _speaker(turn: Line) -> str:
    given = (_clean(each.replace(":", " "))[:_MAX_SPEAKER_CHARS].strip(" ,") for each in (turn.name or "", turn.role))
    return next(filter(_visible, given), "user")


def _clean(text: str) -> str:
    """On one line, without what cannot be seen; joiners that shape letters stay."""
    if not text.isprintable():
        text = "".join(
            each
            for each in " ".join(text.split())
            if each in "\u200c\u200d" or unicodedata.category(each) not in ("Cc", "Cf", "Cs")
        )
    return " ".join(text.split())


def _visible(text: str) -> bool:
    return any(unicodedata.category(each)[0] in "LNPS" for each in text)


def _parsed(earlier: str, roles: dict[str, str]) -> tuple[str, list[_Line]]:
    """Text that is not ours, and our lines behind it."""
    rows = earlier.strip().split("\n")
    lines: list[_Line] = []
    while rows and (match := _LINE.fullmatch(rows[-1])):
        role = roles.get(match[1], match[1])
        lines.append(_Line(rows.pop(), match[2], match[1], role not in _ROLES, _worth(match[2], role), 0))
    return "\n".join(rows).strip(), [replace(line, place=place) for place, line in enumerate(reversed(lines))]


def _new_lines(turns: Sequence[Line], place: int) -> Iterator[_Line]:
    for turn in turns:
        speaker = _speaker(turn)
        when = f", {turn.at.date().isoformat()}" if turn.at is not None else ""
        long = turn.role in _ROLES and len(turn.text) > _LONG_TURN_CHARS
        for at, (said, code) in enumerate(_sentences(turn.text)):
            worth = _worth(said, turn.role)
            worth += 0.1 if at == 0 and worth >= _MIN_WORTH else 0.0
            worth *= (0.2 if code else 1.0) * (0.6 if long and at else 1.0)
            yield _Line(f"- {speaker}{when}: {said}", said, speaker, turn.role not in _ROLES, worth, place)
            place += 1


def _sentences(text: str) -> Iterator[tuple[str, bool]]:
    """The sentences of a turn, each with whether it is code."""
    if len(text) > _HEAD_CHARS + _TAIL_CHARS:
        text = f"{text[:_HEAD_CHARS]}\n{text[-_TAIL_CHARS:]}"
    fenced = False
    for row in _rows(text):
        fence = _FENCE.match(row) is not None
        fenced ^= fence
        code = fenced or fence or row.rstrip()[-1] in "{};" or "=>" in row or "</" in row or _CODE.match(row) is not None
        for sentence in [row] if code else split_sentences(_BULLET.sub("", row, count=1)):
            for piece in _pieces(_clean(sentence)):
                if _visible(piece):
                    yield piece, code


def _rows(text: str) -> list[str]:
    """The lines of a text; one that only wraps a sentence is joined to the one before."""
    rows: list[str] = []
    for row in text.splitlines():
        before = rows[-1] if rows else ""
        if len(before) > 40 and row[:1].islower() and before[-1] not in ".!?:;{}" and not _BULLET.match(row):
            rows[-1] = f"{before} {row}"
        elif row.strip():
            rows.append(row)
    return rows


def _pieces(sentence: str) -> Iterator[str]:
    """A sentence that is too long, in parts that end at a clause, a word or where they must."""
    while len(sentence) > _MAX_LINE_CHARS:
        part = sentence[:_MAX_LINE_CHARS]
        clause = _CLAUSE.match(part)
        cut = clause.end() if clause and clause.end() > _MAX_LINE_CHARS // 3 else part.rfind(" ")
        cut = cut if cut > _MAX_LINE_CHARS // 3 else _MAX_LINE_CHARS
        yield sentence[:cut].strip()
        sentence = sentence[cut:].strip()
    if sentence:
        yield sentence


def _worth(said: str, role: str) -> float:
    """How much a sentence is worth keeping, by itself."""
    low = said.lower().replace("’", "'")
    digits = _DIGITS.search(said) is not None
    strong = [weight for name, weight in _STRONG.items() if _PATTERNS[name].search(low)]
    wish = any(weight > 2.5 for weight in strong)
    if _PATTERNS["identifier"].search(low):
        strong.append(3.0)
    if digits and _PATTERNS["amount"].search(low):
        strong.append(2.6)
    names = len(_NAME.findall(said))
    soft = min(2.0, (0.7 + 0.3 * names if names else 0.0) + (1.0 if digits else 0.0) + (0.6 if _QUOTED.search(said) else 0.0))
    language = detect_language(said)
    if language in CODES:
        folded = fold(said)
        soft += 0.5 if time_words(language).search(folded.lower()) else 0.0
        strong += [1.2] if pattern(language, "questions", "me").search(folded) else []
    else:
        soft += 0.5 if _PATTERNS["when"].search(low) else 0.0
    strong.sort(reverse=True)
    worth = 0.35 + 0.15 * min(1.0, len(said) / 60) + 0.6 * soft + sum(weight * 0.5**at for at, weight in enumerate(strong))
    if low.endswith(("?", "？", "؟")) or (_PATTERNS["asks"].match(low) and not low.endswith(".") and not digits):
        worth *= 0.8 if wish and _PATTERNS["selves"].search(low) else 0.3
    if not strong and _PATTERNS["small_talk"].match(low):
        worth *= 0.25
    return worth * _ROLES.get(role, 1.0) * (1.0 - max(0, len(said) - 120) / 640)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What two lines are compared by: terms, numbers, values, and the terms before the first value and behind it."""

    line: _Line
    all: frozenset[str]
    numbers: frozenset[str]
    values: frozenset[str]
    topic: frozenset[str]
    rest: frozenset[str]
    stands: bool
    corrects: bool
    negated: bool
    own: bool  # the speaker is in it


def _facts(line: _Line) -> _Facts:
    said, low = line.said, line.said.lower()
    every = frozenset(terms(said) or [said])
    values = frozenset(terms(" ".join(_VALUE.findall(said)))) & every
    first = _VALUE.search(said)
    head = said[: first.start()] if first else said
    topic = frozenset(terms(head)) - _NOT_TOPIC
    rest = every - values - topic - _NOT_TOPIC
    stands = first is not None and _STANDS.search(head.lower()) is not None
    corrects = _PATTERNS["corrects"].search(low) is not None and " also " not in low
    negated, own = not english.NEGATIONS.isdisjoint(every), _PATTERNS["selves"].search(low) is not None
    return _Facts(line, every, frozenset(_DIGITS.findall(said)), values, topic, rest, stands, corrects, negated, own)


def _without_repeats(lines: Iterable[_Line], lead: str, known: int) -> list[_Line]:
    """Each thing once, and of two values of one thing the later. Lines from before are only compared with new ones."""
    kept: dict[int, _Line] = {}
    having: defaultdict[str, list[_Facts]] = defaultdict(list)
    leading = [_Line("", said, "", False, 9.0, -1 - at) for at, (said, _) in enumerate(_sentences(lead))]
    for line in [*leading, *lines]:
        new = _facts(line)
        kept[line.place] = line
        if line.place >= known:
            near = {
                old.line.place: old for term in new.all for old in having[term][-_MAX_COMPARED_LINES:] if old.line.place in kept
            }
            stays = {place: _compared(near[place], new) for place in sorted(near)}
            if "old" in stays.values():
                del kept[line.place]
                continue
            for place, stay in stays.items():
                if stay == "new" and place >= 0:
                    del kept[place]
        for term in new.all:
            having[term].append(new)
    return [line for place, line in kept.items() if place >= 0]


def _compared(old: _Facts, new: _Facts) -> str:
    """Which of two lines stays where one says the same or otherwise: "old", "new", or "both"."""
    shared = len(old.all & new.all)
    alike = shared / len(old.all | new.all)
    if old.line.speaker != new.line.speaker and old.line.human and new.line.human and new.own:
        return "both"  # what two people say of themselves is two things
    may_differ = alike >= 0.8 and not new.corrects and detect_language(new.line.said) in ("en", "")  # else a "not" may be in it
    if old.negated == new.negated and old.numbers == new.numbers and (alike == 1 or may_differ):
        return "new" if new.line.worth > old.line.worth + 0.5 else "old"
    if old.line.human and not new.line.human:  # an echo
        return "old" if shared >= 0.6 * len(new.all) and new.values <= old.all and new.numbers <= old.numbers else "both"
    if new.corrects:
        one, other = old.topic | old.rest, new.topic | new.rest
        size = (min if old.values and new.values else max)(len(one), len(other))
        return "new" if len(one & other) >= max(1, 0.5 * size) and (new.own or not old.own) else "both"
    if old.stands and new.stands and old.topic == new.topic and old.topic and old.values != new.values:
        rests = len(old.rest & new.rest) / max(1, len(old.rest | new.rest))
        return "new" if not old.rest or not new.rest or rests >= 0.5 else "both"
    return "both"


def _within(lead: str, lines: Sequence[_Line], max_tokens: int, count: Callable[[str], int]) -> str:
    """The lead and the best lines that fit, in order."""
    left = max_tokens - (count(lead + "\n") if lead else 0)
    whole = len(lines) < max_tokens and count("\n".join(filter(None, [lead, *(line.text for line in lines)]))) <= max_tokens
    chosen = list(lines) if whole else []
    for line in () if whole else sorted(lines, key=_rank):
        if left < 3:
            break
        cost = count(line.text + "\n")
        if cost <= left:
            chosen.append(line)
            left -= cost
    while True:
        rows = [line.text for line in sorted(chosen, key=lambda line: line.place)]
        text = "\n".join([lead, *rows] if lead else rows)
        if count(text) <= max_tokens:
            return text
        if not chosen:
            return ""
        chosen.pop()


def _shortened(before: str, said: str, max_tokens: int, count: Callable[[str], int]) -> str:
    """As much of a sentence as fits, up to a word where there is one; "" where nothing does."""
    fits = bisect_right(range(1, len(said)), False, key=lambda end: count(f"{before}{said[:end]}…") > max_tokens)
    cut = said[:fits] if " " not in said[:fits].strip() else said[: said.rindex(" ", 0, fits)]
    text = f"{before}{cut.rstrip()}…"
    return text if _visible(cut) and count(text) <= max_tokens else ""


def _shortened_lead(lead: str, max_tokens: int, count: Callable[[str], int]) -> str:
    """Text that is not ours without its oldest sentences, so that it fits."""
    pieces = [said for row in lead.split("\n") for said in (*split_sentences(row), "\n")]
    first = bisect_left(range(len(pieces)), True, key=lambda at: count("".join(pieces[at:]).strip()) <= max_tokens)
    last = [said.strip() for said in pieces if said.strip()][-1]
    return "".join(pieces[first:]).strip() or _shortened("", last, max_tokens, count)
