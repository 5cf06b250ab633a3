"""What a statement does, and whether a later one replaces an earlier one. Pure.

The kinds of a statement (a state, a change, an end, a wish …) are probabilities of a linear model over its words and pairs of
words; the weights are in `lexicons/statement_kinds.tsv`. They are for English; in other languages the vectors decide alone.

A pair is judged by its vectors: a bilinear form gives a change many points with the statement it changes, whatever its words,
and with a question that asks for it. It reads vectors of the built-in embedder only. A logistic model over those points and a few
features of both texts gives the probability; where a reader has time, what it says of the two texts is one more feature.
`training/fit_revisions.py` fits all of this.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from heapq import nlargest
from itertools import pairwise
from operator import mul
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keepstone.text.english import STOP_WORDS
from keepstone.text.patterns import lazy_pattern
from keepstone.text.words import terms

# -- one statement ------------------------------------------------------------------------------------------
# A state holds now; a change gives it a new value, a correction says what it was all along, an end leaves it without one. The
# past and a wish leave it as it is, an addition is one more of the same, an episode happened and changed nothing.
KINDS = ("state", "change", "correction", "end", "past", "wish", "addition", "episode")
_WEIGHTS_PATH = Path(__file__).parent / "lexicons" / "statement_kinds.tsv"
_OFFSET, _LANE, _SHIFTS = 128, (1 << 24) - 1, range(0, 24 * len(KINDS), 24)  # of packed weights
_TOKEN = lazy_pattern(r"[a-z]+(?:'[a-z]+)?|[.!?,:;]|\d+")
_MAX_CHARS = 600
_NAME = lazy_pattern(r"\b[A-ZÀ-ÖØ-Þ][\w'’-]*\w")
_SELF = lazy_pattern(r"\b(?:i|i'm|i've|i'd|i'll|me|my|mine|we|we're|we've|we'd|we'll|us|our|ours|the user|user)\b")
_OTHER = lazy_pattern(r"\b(?:he|she|they|his|her|their|him|them|he's|she's|they're|they've)\b")
_KIN = lazy_pattern(
    r"\b(?:mother|mum|mom|mama|father|dad|papa|brother|sister|son|daughter|wife|husband|partner|girlfriend|boyfriend|fianc[ée]e?"
    r"|aunt|uncle|cousin|niece|nephew|grandm\w+|grandf\w+|grandpa|granddad|granny|nan|grandson|granddaughter|boss|manager"
    r"|colleague|neighbours?|neighbors?|flatmate|roommate|friend|team|godchild|twins|kids|children|in-laws)\b"
)
_VALUE = lazy_pattern(
    r"\d+(?:[.,:]\d+)*|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ty|hundred|half past|noon"
    r"|midnight|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august|(?:sept|nov|dec)ember"
    r"|october)(?=s?\b)"
)
_DENIAL = lazy_pattern(
    r"n't\b|\b(?:not|no|never|cannot|none|nobody|nothing|neither|nor|without|hates?|hated|afraid|scared|dislikes?)\b"
)
_AFTER_NAME = lazy_pattern(
    r"(?: [A-Z][\w-]+)?(?: and [A-Z]\w+)?(?:'s)? (?:is|has|was|lives|works|[a-z]+s|died|moved|got|quit|left|now|sold|passed)\b"
)


@dataclass(frozen=True, slots=True)
class StatementReading:
    """A statement: the probability of each kind, the names and the content words in it, and whom it speaks of."""

    kinds: tuple[float, ...]
    names: frozenset[str]
    words: frozenset[str]
    of_self: bool
    of_other: bool  # a pronoun of the third person
    kin: frozenset[str]
    subject: str  # the name or relative that it begins with; "" for none
    values: frozenset[str]  # numbers, days and months
    denies: bool

    def probability(self, *kinds: str) -> float:
        """The probability that it is of one of some kinds."""
        return sum(self.kinds[KINDS.index(kind)] for kind in kinds)


@lru_cache(maxsize=8192)
def read_statement(text: str) -> StatementReading:
    """Read one statement; of a long text the beginning."""
    head = _head(text)
    names = _names(head)
    lowered = head.lower()
    return StatementReading(
        kinds=classify_statement(text),
        names=names,
        words=frozenset(term for term in terms(head) if term not in STOP_WORDS),
        of_self=_SELF.search(lowered) is not None,
        of_other=_OTHER.search(lowered) is not None,
        kin=frozenset(_KIN.findall(lowered)),
        subject=_subject(head, names),
        values=frozenset(_VALUE.findall(lowered)),
        denies=_DENIAL.search(lowered) is not None,
    )


def features_of(text: str) -> set[str]:
    """The words and pairs of words that the kind of a statement is told by."""
    tokens = ["<", *("#" if token.isdigit() else token for token in _TOKEN.findall(text.lower())), ">"]
    return {*tokens, *map(" ".join, pairwise(tokens))}


def _head(text: str) -> str:
    return text[:_MAX_CHARS].replace("’", "'")


def _add_changes(probabilities: tuple[float, ...]) -> float:
    """The probability of a change, a correction or an end."""
    return probabilities[1] + probabilities[2] + probabilities[3]


@lru_cache(maxsize=8192)
def classify_statement(text: str) -> tuple[float, ...]:
    """The probability of each kind; of a long text the beginning counts."""
    weights = _weights()
    known = [packed for feature in features_of(_head(text)) if (packed := weights.get(feature)) is not None]
    packed = sum(known, weights[""])
    sums = [((packed >> shift) & _LANE) - _OFFSET * (len(known) + 1) for shift in _SHIFTS]
    top = max(sums)
    powers = [math.exp((value - top) / 32) for value in sums]
    total = sum(powers)
    return tuple(power / total for power in powers)


@cache
def _weights() -> dict[str, int]:
    """The weights of each feature for all kinds, those of "" always added: 24 bits of one number for each, so that one addition
    adds all."""
    lines = _WEIGHTS_PATH.read_text(encoding="utf-8").splitlines()
    entries = [line.partition("\t") for line in lines if not line.startswith("##")]
    values = np.fromstring("\t".join(entry[2] for entry in entries), dtype=np.int16, sep="\t").reshape(len(entries), len(KINDS))
    lanes = np.zeros((*values.shape, 3), dtype=np.uint8)  # 24 bits each
    lanes[:, :, 0] = values + _OFFSET
    packed, size = lanes.tobytes(), 3 * len(KINDS)
    starts = range(0, len(packed), size)
    return {entry[0]: int.from_bytes(packed[at : at + size], "little") for entry, at in zip(entries, starts, strict=True)}


def _names(text: str) -> frozenset[str]:
    """Words with a capital, lower-cased; at the start of a sentence only those that are no common word."""
    found = set()
    for match in _NAME.finditer(text):
        word = match[0].removesuffix("'s").lower()
        if word in STOP_WORDS or word.startswith(("i'", "we'")):
            continue
        if not _starts_sentence(text[: match.start()]) or match[0].endswith("'s") or _AFTER_NAME.match(text, match.end()):
            found.add(word)
    return frozenset(found)


def _starts_sentence(before: str) -> bool:
    """Whether a sentence begins after this text."""
    last = before.rstrip()[-1:]
    return not before or last in tuple('"“(') or (last in tuple(".!?:;") and before[-1].isspace())


def _subject(text: str, names: frozenset[str]) -> str:
    first = re.match(r"\W*(?:my |our |the )?([\w'-]+)", text, re.IGNORECASE)
    if first is None:
        return ""
    word = first[1].lower().removesuffix("'s")
    if word in names or _KIN.fullmatch(word):
        return word
    return ""


_SPEAKER = lazy_pattern(r"\b(?:i|me|we|us|mine|ours)\b")  # "my brother" alone is of the brother
_NAMES_SOMEBODY = lazy_pattern(r"\b(?:name is|name's|(?:am|is|are) called|call me)\b", re.IGNORECASE)
_FULL_NAME = lazy_pattern(r"\W*([A-Z][\w-]+) ([A-Z][\w-]+)")
_ONE_MORE = lazy_pattern(r"\b(?:an? (?:second|third|fourth|fifth|extra|additional)|one more)\b", re.IGNORECASE)
_OF_A_NAME = lazy_pattern(r"\b(?:(?:sur|nick)?names?|named|name's|call(?:s|ed)?|known as)\b", re.IGNORECASE)

# -- two statements -----------------------------------------------------------------------------------------
_READ = 8  # later statements that are read for each earlier one
_CHUNK = 512  # earlier statements that are compared at a time
_MAX_PAIRS_READ = 2000  # by the reader, the likeliest; it takes about 10 ms for each
FOLDER = Path(__file__).parent / "revisions"
MIN_POINTS = 0.0  # by vectors, from which a pair is worth reading
FEATURES = (
    "points",  # of the pair, by vectors
    "vector",  # that the later statement tells a change, by its vector
    "rival",  # points by which the later statement fits another earlier one better
    "change",  # log odds that the later statement tells a change, a correction or an end, by its words
    "end",
    "episode",
    "state",  # probability that the earlier one tells a state
    "names",  # both hold a name
    "words",  # logarithm of the number of words in both
    "asks_now",  # the question asks for what holds now in so many words
    "asked_words",  # the same of the question and the later statement
    "other_subject",  # the later one begins with a name or relative that the earlier one does not hold
    "other_speaker",  # one is about the speaker, the other about somebody else only
    "pronoun",  # the later one has a pronoun for a person whom the earlier one names
    "numbers",  # both hold a number, a day or a month
    "repeated",  # the share of the earlier one's words that are in the later one
    "denied",  # the share of the words of the one that has fewer, where one of them denies and the other does not
    "revalued",  # the same where both hold numbers, days or months, and no common one
    "read",  # the reader's logit that the later one replaces the earlier
    "behind",  # by how much it is below that of another later statement, read with the same earlier one
    "bias",
)
MAX_LOGIT = 6.0  # of the reader's judgement that counts
MIN_CHANGE = 0.5  # probability of a change, a correction or an end from which a statement tells one
MIN_READ = 0.01  # probability without the reader from which the two texts are read
_KIND_FEATURES = FEATURES.index("names")  # features before this one are told by vectors and kinds
_READ_FEATURES = FEATURES.index("read")  # from this one on they need a reader
_MIN_WORD_CHARS = 4  # of a content word and what is around it, at the least, on average
_ASKS_NOW = lazy_pattern(
    r"\b(?:now|nowadays|still|currently|current|at the moment|at present|these days|today|any ?more|any longer|yet|lately)\b",
    re.IGNORECASE,
)
Points = NDArray[np.float32]
ReadPair = Callable[[str, str], float]  # the logit that the second text replaces the first


class VectorPoints(NamedTuple):
    """What the vectors say of a pair: its points, the log odds that the later statement is a change, and by how many points it
    fits another earlier statement better."""

    points: float
    change: float
    rival: float


@dataclass(frozen=True)
class RevisionModel:
    """The fitted forms. `of_question` and `of_statement` take a vector to what a statement that revises it is like (`common` is
    added); `change` are the weights of a logistic model of changes, its constant last."""

    embedders: frozenset[str]
    of_question: Points
    of_statement: Points
    common: Points
    change: Points
    weights: dict[str, tuple[float, ...]]  # of the features: asked, asked_read, unasked, unasked_read

    def points(self, question: Points | None, older: Points, newer: Points) -> Points:
        """The points of every pair: a row for each older statement, a column for each newer one."""
        wanted = older @ self.of_statement + self.common
        if question is not None:
            wanted = wanted + question @ self.of_question
        points: Points = (wanted @ newer.T).astype(np.float32, copy=False)
        return points

    def change_points(self, statements: Points) -> Points:
        """The log odds that each statement tells a change."""
        points: Points = (statements @ self.change[:-1] + self.change[-1]).astype(np.float32)
        return points


@cache
def load_model() -> RevisionModel:
    """The model that ships with keepstone."""
    document = json.loads((FOLDER / "model.json").read_text(encoding="utf-8"))
    forms = np.load(FOLDER / "forms.npy").astype(np.float32)
    scales = document["scales"]
    return RevisionModel(
        embedders=frozenset(document["embedders"]),
        of_question=forms[0] * np.float32(scales[0]),
        of_statement=forms[1] * np.float32(scales[1]),
        common=np.array(document["common"], dtype=np.float32),
        change=np.array(document["change"], dtype=np.float32),
        weights={kind: tuple(weights.get(name, 0.0) for name in FEATURES) for kind, weights in document["weights"].items()},
    )


def revision_probabilities(
    pairs: Iterable[tuple[VectorPoints, str, str]], question: str | None = None, least: float = 0.0
) -> list[float]:
    """Of pairs (points, older, newer) the probability that the newer statement replaces the older one; `question`: for those who
    ask this. A probability that is surely below `least` is given as 0."""
    return [_revision_probability(points, older, newer, question, least) for points, older, newer in pairs]


def read_probabilities(
    pairs: Sequence[tuple[VectorPoints, str, str]], logits: Sequence[float], question: str | None = None
) -> list[float]:
    """The same of pairs whose texts a reader has judged."""
    weights = load_model().weights["unasked_read" if question is None else "asked_read"]
    best: dict[str, float] = {}
    for (_, older, _), logit in zip(pairs, logits, strict=True):
        best[older] = max(logit, best.get(older, logit))
    return [
        _weigh(weights, pair_features(points, older, newer, question, logit, best[older] - logit))
        for (points, older, newer), logit in zip(pairs, logits, strict=True)
    ]


def _revision_probability(vectors: VectorPoints, older: str, newer: str, question: str | None, least: float = 0.0) -> float:
    kinds = classify_statement(newer)
    if question is not None and _add_changes(kinds) < MIN_CHANGE:
        return 0.0
    weights = load_model().weights["unasked" if question is None else "asked"]
    if least:  # most pairs need no closer reading
        known = sum(map(mul, weights, kind_features(vectors, classify_statement(older), kinds)))
        if known + _most(weights, question, min(len(older), len(newer))) < math.log(least / (1 - least)):
            return 0.0
    if leaves_standing(older, newer):
        return 0.0
    return _weigh(weights, pair_features(vectors, older, newer, question))


def _weigh(weights: tuple[float, ...], features: tuple[float, ...]) -> float:
    total = sum(map(mul, weights, features))
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, total))))


def _most(weights: tuple[float, ...], question: str | None, chars: int) -> float:
    """The most that the features after those of `kind_features` can add in texts of so many characters."""
    positive, asked_chars = _positive(weights), 0 if question is None else len(question)
    most = (1.0, _most_words(chars), _asks_now(question), _most_words(asked_chars), *[1.0] * 7)
    return sum(map(mul, positive, most), start=weights[-1])


@cache
def _positive(weights: tuple[float, ...]) -> tuple[float, ...]:
    """The weights of the features after those of `kind_features`, without the negative ones, those of a reader and the bias."""
    return tuple(max(0.0, weight) for weight in weights[_KIND_FEATURES:_READ_FEATURES])


@lru_cache(maxsize=64)
def _asks_now(question: str | None) -> float:
    return float(question is not None and _ASKS_NOW.search(question) is not None)


def _most_words(chars: int) -> float:
    return math.log1p(min(chars, _MAX_CHARS) / _MIN_WORD_CHARS)


_Judged = tuple[int, int, VectorPoints, float]  # the numbers of an older and a newer statement, and the probability


class Told(NamedTuple):
    """Something that was said: its text, when, and the number of its speaker."""

    text: str
    said_at: float
    speaker: int = 0


def find_replacements(
    older: Sequence[Told],
    older_vectors: Points,
    newer: Sequence[Told],
    newer_vectors: Points,
    min_probability: float,
    read: ReadPair | None = None,
) -> list[tuple[int, int, float]]:
    """Of each older statement the newer one that most probably replaces it, where that is probable enough: (older, newer,
    probability). Of two speakers neither replaces what the other said. `read` judges the texts of the likeliest pairs; the others
    are left out then."""
    if not older or not newer:
        return []
    model = load_model()
    said, later = np.array([each.said_at for each in older]), np.array([each.said_at for each in newer])
    by, of = np.array([each.speaker for each in older]), np.array([each.speaker for each in newer])
    changes = model.change_points(newer_vectors)
    best_fit, second_fit = np.full(len(newer), -np.inf), np.full(len(newer), -np.inf)  # points with the older statements
    chosen: list[tuple[int, int, float]] = []
    for start in range(0, len(older), _CHUNK):
        part = slice(start, start + _CHUNK)
        points = model.points(None, older_vectors[part], newer_vectors)
        points[(said[part, None] >= later) | (by[part, None] != of)] = -np.inf
        highest = np.sort(np.concatenate([points, best_fit[None], second_fit[None]]), axis=0)[-2:]
        second_fit, best_fit = highest
        for row in range(len(points)):
            best = np.argpartition(-points[row], min(_READ, len(newer) - 1))[:_READ]
            chosen += [(start + row, int(at), float(points[row, at])) for at in best if np.isfinite(points[row, at])]
    least = min_probability if read is None else MIN_READ
    judged: list[_Judged] = []
    for old, new, value in chosen:
        rival = float(second_fit[new] if value >= best_fit[new] else best_fit[new]) - value
        vectors = VectorPoints(value, float(changes[new]), rival)
        probability = _revision_probability(vectors, older[old].text, newer[new].text, None, least)
        if probability >= least:
            judged.append((old, new, vectors, probability))
    if read is not None:
        judged = _read_likeliest(judged, older, newer, read)
    found: dict[int, tuple[int, float]] = {}
    for old, new, _, probability in judged:
        if probability >= max(min_probability, found.get(old, (0, 0.0))[1]):
            found[old] = (new, probability)
    return [(old, new, probability) for old, (new, probability) in found.items()]


def _read_likeliest(judged: list[_Judged], older: Sequence[Told], newer: Sequence[Told], read: ReadPair) -> list[_Judged]:
    """The likeliest pairs, with the probability after their texts were read."""
    likeliest = nlargest(_MAX_PAIRS_READ, judged, key=lambda pair: pair[-1])
    texts = [(vectors, older[old].text, newer[new].text) for old, new, vectors, _ in likeliest]
    probabilities = read_probabilities(texts, [read(before, after) for _, before, after in texts])
    return [(*pair[:3], probability) for pair, probability in zip(likeliest, probabilities, strict=True)]


def tells_change(text: str) -> bool:
    """Whether a statement reads more like a change, a correction or an end than like anything else."""
    return _add_changes(classify_statement(text)) >= MIN_CHANGE


def find_changes(texts: Iterable[str]) -> set[str]:
    """The statements among some that tell a change."""
    return {text for text in texts if tells_change(text)}


def leaves_standing(older: str, newer: str, read: bool = False) -> bool:
    """Whether a newer statement surely replaces nothing of an older one: it tells the past, a wish or one more, begins with
    another person, or tells a name where the older one tells something else. `read`: a reader judges both texts as well, and
    sees that "they changed my dose" is about the speaker."""
    if _NAMES_SOMEBODY.search(newer[:_MAX_CHARS]) and not _OF_A_NAME.search(older[:_MAX_CHARS]):
        return True
    if _ONE_MORE.search(newer[:_MAX_CHARS]) and not _ONE_MORE.search(older[:_MAX_CHARS]):
        return True
    if _other_surname(older[:_MAX_CHARS], newer):
        return True
    old, new = read_statement(older), read_statement(newer)
    if newer.lower().startswith(older.lower().rstrip(" .!")) and not new.denies and new.probability("change", "end") < 0.5:
        return True  # told again, with more to it
    if new.probability("past", "wish", "addition") > 0.7 or _other_person(old, new, newer):
        return True
    return not read and _other_speaker(old, new)


def tells_of_another(asked: frozenset[str], older: str, newer: str) -> bool:
    """Whether only the older statement holds a name that was asked for, and the newer one has no pronoun that may mean it."""
    old, new = read_statement(older), read_statement(newer)
    return not (new.of_self or new.of_other) and not (asked & old.words) <= new.words


def kind_features(vectors: VectorPoints, older: tuple[float, ...], newer: tuple[float, ...]) -> tuple[float, ...]:
    """The first features of a pair, by its vectors and the kinds of both statements."""
    revising, rival = _add_changes(newer), max(-3.0, min(6.0, vectors.rival))
    odds = math.log((revising + 0.02) / (1.02 - revising))
    return vectors.points, vectors.change, rival, odds, newer[KINDS.index("end")], newer[KINDS.index("episode")], older[0]


def pair_features(
    vectors: VectorPoints, older: str, newer: str, question: str | None, read: float = 0.0, behind: float = 0.0
) -> tuple[float, ...]:
    """The features of a pair, in the order of FEATURES; `read` is the reader's logit, `behind` how far below the best."""
    old, new = read_statement(older), read_statement(newer)
    asked = None if question is None else read_statement(question)
    shared = (old.words & new.words) - old.names
    asked_words = frozenset() if asked is None else (asked.words & new.words) - asked.names
    known = old.names if asked is None else old.names | asked.names
    count = len(old.words & new.words)
    share = count / max(1, min(len(old.words), len(new.words)))
    return (
        *kind_features(vectors, old.kinds, new.kinds),
        float(not known.isdisjoint(new.names)),
        math.log1p(len(shared)),
        _asks_now(question),
        math.log1p(len(asked_words)),
        float(bool(new.subject) and new.subject not in known | old.kin),
        float(_other_speaker(old, new)),
        float(new.of_other and not new.subject and bool(old.names or old.kin)),
        float(bool(old.values and new.values)),
        count / max(1, len(old.words)),
        share * (old.denies is not new.denies),
        share * (bool(old.values and new.values) and old.values.isdisjoint(new.values)),
        max(-MAX_LOGIT, min(MAX_LOGIT, read)),
        min(MAX_LOGIT, behind),
        1.0,
    )


def _other_surname(older: str, newer: str) -> bool:
    """Whether the newer one begins with a full name, and the older one has that first name with another surname."""
    named = _FULL_NAME.match(newer)
    if named is None or f"{named[1]} {named[2]}" in older:
        return False
    return re.search(rf"\b{re.escape(named[1])} [A-Z]", older) is not None


def _other_person(old: StatementReading, new: StatementReading, newer: str) -> bool:
    """Whether the newer one begins with a person whom the older one does not name, and says nothing of the speaker."""
    if not new.subject or new.subject in old.names | old.kin:
        return False
    return not (_SPEAKER if new.subject in new.kin else _SELF).search(newer[:_MAX_CHARS].lower())


def _other_speaker(old: StatementReading, new: StatementReading) -> bool:
    """Whether one is about the speaker and the other only about others."""
    if old.of_self and not (old.kin or old.names):
        return not new.of_self and bool(new.kin or new.subject or new.of_other)
    return bool(old.subject) and new.of_self and not (new.of_other or new.kin or new.names)
