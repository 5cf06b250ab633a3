"""Sentences as statements that can be held against each other: about whom, which words, which values, yes or no. Pure.

No grammar is attempted: a statement is the set of its words with the values (numbers, days, times) taken out. What cannot be read
with some safety, a question, a wish, a quotation or a mere "it", is no statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from keepstone.text import english
from keepstone.text.english import MONTHS, STOP_WORDS
from keepstone.text.lexicon import Lexicon
from keepstone.text.words import stem

SELF = "\u263a"  # the speaker, or whom a memory calls "the user"
MAX_CHARS = 4000  # longer texts are pasted, not said
_MAX_SENTENCE = 400


LEXICON = Lexicon("english_statements")
WORDS, PATTERNS = LEXICON.words, LEXICON.patterns
_CLASSES: dict[str, str] = {stem: name for name, stems in LEXICON.data["same_words"].items() for stem in stems.split()}


@lru_cache(maxsize=65536)
def word_class(word: str) -> str:
    """The stem of a word, or of the commonest word that says the same."""
    return _CLASSES.get(stem(word), stem(word))


def classes(words: Iterable[str]) -> frozenset[str]:
    """The classes of some words."""
    return frozenset(map(word_class, words))


EXCLUDING_GROUPS = tuple(classes(group.split()) for group in LEXICON.data["excluding"])
EXCLUDING = {word: number for number, group in enumerate(EXCLUDING_GROUPS) for word in group}
TRIMMINGS = classes(WORDS["trimmings"])
CHANGES = classes(WORDS["changes"])
_VERBS, _ME = WORDS["verbs"], WORDS["me"]
_STARTED = _VERBS | _ME | {"user"}
_NEGATIONS = english.NEGATIONS | {"without"}
_UNSAID = (STOP_WORDS | _NEGATIONS | {SELF}) - {"have", "has", "had", "having"}
_SENTENCE = re.compile(r"[^.!?\n]+(?:\.(?=[\w@])[^.!?\n]+)*[.!?\n]*")
_QUOTED = re.compile(r"\"[^\"\n]{1,400}\"|“[^”\n]{1,400}”|^\s*>[^\n]*|```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_QUOTES = re.compile(r"[\"“>`]")  # every quotation has one
_TITLE = re.compile(r"\b(Dr|Mr|Mrs|Ms|Prof|St)\.")
_NAMED = re.compile(r"'s name is | is (?:called|named) ")
_TOKEN = re.compile(r"[^\W_][\w'’+#@]*(?:[-./&](?=\w)[\w'’+#@]*)*")
_NT = re.compile(r"(?:(?<=ca)n't|n['’]t)\b|\bcannot\b|\bcan not\b", re.IGNORECASE)


def _value(found: re.Match[str]) -> tuple[str, str]:
    """(what sort of value, the value in one spelling)."""
    kind = found.lastgroup or ""
    if kind == "iso":
        return "date", found[0][5:]
    if kind.startswith(("md", "dm")):
        month, day = found["md"] or found["dm"], found["md_day"] or found["dm_day"]
        return "date", f"{MONTHS[month]:02}-{int(day):02}"
    if found["hour"]:
        hour = int(found["hour"]) % 12 + (12 if found["half"] == "p" else 0)
        return "clock", f"{hour}:{found['minute'] or '00'}"
    if found["hour24"]:
        return "clock", f"{int(found['hour24'])}:{found['minute24']}"
    if found["noon"]:
        return "clock", "12:00" if found["noon"] == "noon" else "0:00"
    if found["month"]:
        return "month", str(MONTHS[found["month"]])
    if found["word"]:
        return "number", str(english.UNITS[found["word"]])
    said = found[kind]
    return kind, said if kind == "day" else re.sub(r"[^\d.km]|\.$|(?<=\d)\.0+\b", "", said.replace(",", ""))


_STILL_NEGATED = re.compile(r"\b(?:no longer|not|n't|don't|doesn't)\b")
_COPULA = re.compile(r"\b(?:is|are|am)\b|'[sm]\b|\b(?:will|to) be\b|'re\b")


@dataclass(frozen=True)
class Statement:
    """One clause, in lower case. `about` are the words of its subject (SELF alone: the speaker), `words` all that it says without
    values and trimmings, `things` those with a capital. What only a comparison needs is found at its first use."""

    text: str
    sentence: str
    about: frozenset[str]
    words: frozenset[str]
    things: frozenset[str]
    values: tuple[tuple[str, str], ...]
    negations: int

    @cached_property
    def handles(self) -> frozenset[str]:
        """What it is found by: its words, those that exclude them, and its values."""
        groups = (f"one of {EXCLUDING[word]}" for word in self.words if word in EXCLUDING)
        return self.words.union(self.about - {SELF}, groups, (f"{sort} {value}" for sort, value in self.values))

    @cached_property
    def of_self(self) -> bool:
        """Whether it is about the speaker alone."""
        return self.about == {SELF}

    @cached_property
    def given_up(self) -> re.Match[str] | None:
        """What it says was given up for something else, as `then`."""
        if not self.changed:
            return None
        return next(filter(None, (PATTERNS[name].search(self.text) for name in ("from_to", "replaced", "to_from"))), None)

    @cached_property
    def chosen(self) -> re.Match[str] | None:
        """What it says is chosen `now`, and instead of what (`then`)."""
        return PATTERNS["instead"].match(self.text)

    @cached_property
    def negative(self) -> bool:
        """Whether it denies."""
        denied = self.negations + bool(PATTERNS["hates"].search(self.text))
        if self.ended and _STILL_NEGATED.search(self.text) is None and "any" not in self.text:
            denied += 1
        return denied % 2 == 1

    @cached_property
    def ended(self) -> bool:
        """Whether it says that something is over."""
        return PATTERNS["ended"].search(self.text) is not None

    @cached_property
    def changed(self) -> bool:
        """Whether its sentence says that something is new."""
        return PATTERNS["now"].search(self.sentence) is not None

    @cached_property
    def past(self) -> bool:
        """Whether it is in the past tense."""
        return PATTERNS["past"].search(self.text) is not None

    @cached_property
    def passing(self) -> bool:
        """Whether it holds for a short time only; "last week" may also say when something ended or changed."""
        if PATTERNS["brief"].search(self.text):
            return True
        passing = PATTERNS["passing"].search(self.text)
        return passing is not None and not self.ended and not (self.changed and passing[0].startswith(("last", "yesterday")))

    @cached_property
    def copula(self) -> bool:
        """Whether it says what something is."""
        return _COPULA.search(self.text) is not None


def statements(text: str, subject: str = "user") -> list[Statement]:
    """The statements in a text, clause by clause, and each sentence as a whole where it has several."""
    found: list[Statement] = []
    if len(text) > MAX_CHARS:
        return found
    plain = text.replace("’", "'")
    if "." in plain:
        plain = _TITLE.sub(r"\1", plain)
    if _QUOTES.search(plain):
        plain = _QUOTED.sub(" \u2026 ", plain)
    plain = _NAMED.sub(" is ", plain)
    for sentence in _SENTENCE.findall(plain):
        sentence = sentence.strip()
        if not sentence or sentence.endswith("?") or len(sentence) > _MAX_SENTENCE or "\u2026" in sentence:
            continue
        lower = sentence.lower()
        if len(lower) != len(sentence):  # places in both must be the same
            lower = "".join(letter.lower()[:1] for letter in sentence)
        if PATTERNS["unsure"].search(lower):
            continue
        for start, end in _clause_spans(lower):
            statement = _statement(sentence[start:end].strip(" .!"), lower[start:end].strip(" .!"), subject, lower)
            if statement is not None:
                found.append(statement)
    return found


def _clause_spans(sentence: str) -> dict[tuple[int, int], None]:
    """Where the sentence and its clauses begin and end."""
    spans = {(0, len(sentence)): None}
    start = 0
    for mark in PATTERNS["clause"].finditer(sentence):
        spans[start, mark.start()] = None
        start = mark.end()
    spans[start, len(sentence)] = None
    return {(start, end): None for start, end in spans if sentence[start:end].strip()}


def _statement(clause: str, lower: str, subject: str, sentence: str) -> Statement | None:
    values: list[tuple[str, str]] = []
    bare: list[str] = []
    last = 0
    for match in PATTERNS["values"].finditer(lower):
        sort, value = _value(match)
        bare.append(clause[last : match.start()])
        last = match.end()
        if sort == "number" and not _before_it(lower, match.start()) & _STARTED:
            bare.append(f" {value} ")  # "chapter 3 is …": which one it is, not what is said of it
        else:
            values.append((sort, value))
            bare.append(" \u00b7 ")
    text = "".join((*bare, clause[last:]))
    tokens = list(_tokens(_NT.sub(" not", text) if "n't" in lower or "can" in lower else text, subject))
    about = _about(tokens)
    if about is None:
        return None
    said = [(word, shown) for word, shown in tokens if word not in _UNSAID]
    words = frozenset([word_class(word) for word, _ in said]) - TRIMMINGS
    names = [word_class(word) for word, shown in said[0 if about == {SELF} else 1 :] if shown[:1].isupper()]
    names += [stem(word) for word, shown in said if not shown[1:].islower() and any(letter.isupper() for letter in shown[1:])]
    negations = len(_NEGATIONS.intersection([word for word, _ in tokens]))
    return Statement(lower, sentence, about, words, frozenset(names), tuple(values), negations)


def _before_it(clause: str, at: int) -> set[str]:
    return set(clause[:at].replace("'s", " ").split())


def _tokens(text: str, subject: str) -> Iterator[tuple[str, str]]:
    """(the word in lower case, as it is written); the speaker's words and name are SELF."""
    own = {"user", *subject.lower().split()}
    for shown in _TOKEN.findall(text):
        shown = shown.rstrip("'")
        word = shown.lower()
        if "'" not in word:
            yield (SELF if word in _ME or word in own else word), shown
            continue
        whose = word.removesuffix("'s")
        if word in _ME or whose in own:
            yield SELF, shown
            continue
        if word != whose and whose in ("it", "that", "there", "he", "she", "what", "let"):
            yield whose, shown
            yield "is", "is"
            continue
        yield whose, shown.removesuffix("'s")


def _about(tokens: list[tuple[str, str]]) -> frozenset[str] | None:
    """The words of the subject; None where there is none that says whom it means."""
    at = 0
    while at < len(tokens) and tokens[at][0] in WORDS["fillers"]:
        at += 1
    rest = tokens[at:]
    if not rest or rest[0][0] in WORDS["others"]:
        return None
    if rest[0][0] == SELF:
        owner = rest[0][1].lower()
        if owner not in ("my", "our") and not owner.endswith("'s"):
            return frozenset((SELF,))
        rest = rest[1:]
    head: list[str] = []
    for place, (word, shown) in enumerate(rest[:8]):
        if place and (
            word in _VERBS
            or (
                place == len(head)
                and rest[0][1][:1].isupper()
                and shown.islower()
                and word.endswith("s")
                and not _is_plural(rest, place)
            )
        ):
            return frozenset(word_class(each) for each in head if each not in STOP_WORDS and each != SELF) - TRIMMINGS or None
        head.append(word)
    return None


def _is_plural(rest: list[tuple[str, str]], place: int) -> bool:
    """Whether a word in -s is more likely a noun: an article or a small word stands before it."""
    return rest[place - 1][0] in STOP_WORDS or rest[0][0] in STOP_WORDS
