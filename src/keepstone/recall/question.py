"""Parses a question: its words with their weights, the speakers and the time it names. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from keepstone.ports.values import Vector
from keepstone.recall.related import RelatedWords, related_words
from keepstone.text.english import STOP_WORDS, WEEKDAYS
from keepstone.text.languages.lexicon import CODES, fold, normalize, pattern
from keepstone.text.languages.times import read_time
from keepstone.text.time_expressions import TimeHint
from keepstone.text.words import AskedWord, asked_words, name_words, stem, term_hashes

MAX_TERMS = 64
_MAX_EXPANDED_WORDS = 12  # words of a long question, the ones with the highest weight, that related words are added for
_MAX_PARSED_CHARS = 2000
_OTHER_TERM_SIMILARITY = 0.95  # of another term of the same word: its English stem, in a question of another language
_FIRST_PERSON = re.compile(r"\b(?:[Ii]|[Mm]e|[Mm]y|[Mm]ine|[Ww]e|[Oo]ur|us|[Tt]he user(?:'s)?)\b")  # not the US
# The patterns from here to `_ABOUT_QUESTIONS` read lower-case text: that is three times as fast as ignoring case.
# What the assistant said is asked for in so many words; "can you tell me" alone is not that.
_YOU_SAID = re.compile(
    r"\b(?<!can )(?<!could )(?<!will )(?<!would )(?<!do )(?<!please )you(?:['’]d|['’]ve| had| have)? (?:\w+ly )?(?:recommend"
    r"|suggest|sa(?:y|id)|t(?:ell|old)|mention|explain|g[ai]ve|list|provid|advis|describ|c[oa]me up|call|propos|warn|put|teach"
    r"|taught|show|walk|calculat|work(?:ed)? out)"
    r"|\byour (?:advice|suggestions?|recommendations?|list|answer|estimate|explanation|ideas?|tips?)\b|\bdid you\b"
)
_CONVERSATION = re.compile(r"\b(?:our|previous|last|earlier) (?:previous )?(?:conversation|chat|discussion|session)\b")
_I_SAID = re.compile(r"\b(?:did|had|have) i\b|\bi(?:['’]d|['’]ve| had| have)? (?:said|told|mention|say|tell|ask)")
_WHEN = re.compile(
    r"^\W*when\b|\bwhen(?:['’]s\b| (?:did|was|is|does|do|will|were|are|has|have|had|should|would|can)\b)"
    r"|\b(?:what date|(?:what|which) (?:day|month|year)|what time|how long)\b"
)
_HOW_MANY = re.compile(r"\b(?:how (?:many|much|old|far|often)|what percentage|what time|total|number of|price|cost)\b")
_ASKED_KINDLY = r"\W*(?:(?:please|can you|could you|ok|so|and) )*"
_OVERVIEW = re.compile(
    _ASKED_KINDLY + r"(?:tell me (?:all |everything |something |more )?(?:that you know )?about\b"
    r"|what (?:else )?(?:do|did|have) (?:you|we|i) (?:know|remember|told|tell)\b|an overview\b|everything\b"
    r"|what(?:'s| is) (?:\w+ )?known (?:about|of)\b)"
)
_LIST = re.compile(
    _ASKED_KINDLY
    + r"(?:(?:list|name|show)(?: me)? (?:all|every|my|our|the)\b|(?:who|what) (?:are|were) (?:all )?(?:my|our|the)\b"
    r"|all (?:of )?(?:my|our|the)\b|(?:which|what) (?:\w+ ){0,2}\w+s (?:have|did|do|are|were|am|was)\b)"
)
_ABOUT_QUESTIONS = re.compile(r"\b(?:ask(?:s|ed|ing)?|questions?|wonder(?:ed|ing)?|wanted to know)\b")
_TURNS = frozenset("last past previous this next coming".split())
_TIME_WORDS = _TURNS | frozenset(
    "early late mid middle end beginning start first second third week weeks weekend weekends month months year years day days "
    "night nights morning afternoon evening quarter decade fortnight ago back few couple several half one two three four five "
    "six seven eight nine ten since until till before after during between around about other long".split()
)  # words of a time expression that match no text
_ENGLISH_WORDS = frozenset("the what which where who when why how does did your were".split())
_SPACED = re.compile(r"\S+")
_LATIN_LETTER = re.compile("[A-Za-z]")
_CAPITALIZED = re.compile(r"(?<=[a-z,] )[A-Z][a-z]\w+")  # a capital within a sentence


class QuestionWord(NamedTuple):
    """One word of a question. `names` are the codes of the speakers it names; `is_name`: it looks like the name of something;
    `others` are further terms of the same word."""

    term: str
    related: RelatedWords
    names: frozenset[int] = frozenset()
    is_name: bool = False
    others: tuple[str, ...] = ()


@dataclass(slots=True)
class Question:
    """A parsed question. `embedding_text` is its text without the names of speakers: who said a message is known, and a name in
    the vector pulls towards messages that greet the person."""

    text: str
    embedding_text: str
    words: tuple[QuestionWord, ...]
    names: frozenset[int]
    of_user: bool
    of_assistant: bool
    wants_time: bool
    wants_number: bool
    time: TimeHint | None
    about_questions: bool = False  # it wants what was asked
    wants_overview: bool = False  # it asks for what is known about something
    wants_all: bool = False  # for that or for a list, so that every member answers
    language: str = ""  # of its words, where that is not English
    world: float = 0.0  # log odds that it asks about the world and not about the user, where the embedder can tell
    time_rarity: float = 1.0  # of the time it names: 0 where every record is as near to it, which then says nothing
    event: TimeHint | None = None  # the time of an event in the scope that it dates itself by, once a record of it is found

    @property
    def is_foreign(self) -> bool:
        """Whether it is in another language than English: one that is known, or one without a Latin letter, such as Thai."""
        return bool(self.language) or _LATIN_LETTER.search(self.text) is None

    @property
    def terms(self) -> list[str]:
        return [word.term for word in self.words]

    @property
    def search_terms(self) -> list[str]:
        """Every term under which a record may hold a word of the question."""
        return list(dict.fromkeys(term for word in self.words for term in (word.term, *word.others)))


def parse_question(text: str, speakers: Mapping[str, frozenset[int]], now: datetime) -> Question:
    """Parse a question asked at this time in a scope with these speakers."""
    head = text[:_MAX_PARSED_CHARS]
    time = read_time(head, now)
    spelled = [*asked_words(text), *(_stop_word_names(head, speakers) if speakers else ())][:MAX_TERMS]
    if time is not None:
        spelled = _without_time_words(spelled, time)
    related = [_related(asked) for asked in spelled]
    if len(spelled) > _MAX_EXPANDED_WORDS:
        heaviest = set(sorted(range(len(spelled)), key=lambda at: -related[at].weight)[:_MAX_EXPANDED_WORDS])
        related = [
            entry if at in heaviest or asked.others else RelatedWords(entry.weight, (), ())
            for at, (asked, entry) in enumerate(zip(spelled, related, strict=True))
        ]
    capitalized = _CAPITALIZED.findall(head)
    proper = set(name_words(" ".join(capitalized))) if capitalized else set()
    words = tuple(
        QuestionWord(asked.term, entry, speakers.get(asked.word, frozenset()), asked.word in proper, asked.others)
        for asked, entry in zip(spelled, related, strict=True)
    )
    names = frozenset[int]().union(*(word.names for word in words))
    language = next((asked.language for asked in spelled if asked.language in CODES), "")
    wants = _read_wants(head, language) if language else _read_english_wants(head)
    wants_overview = _OVERVIEW.match(head.lower()) is not None
    return Question(
        text=text,
        embedding_text=_without_speakers(text, speakers) if names else text,
        words=words,
        names=names,
        of_user=not wants.you_said and wants.me,
        of_assistant=wants.you_said,
        wants_time=wants.when,
        wants_number=wants.how_many,
        time=time,
        about_questions=bool(_ABOUT_QUESTIONS.search(head.lower())),
        wants_overview=wants_overview,
        wants_all=wants_overview or _LIST.match(head.lower()) is not None,
        language=language,
    )


def without_event(question: Question) -> Question:
    """The question without the words for its time: an event that has given the period is not what is asked for."""
    if question.time is None:
        return question
    left = question.embedding_text.replace(question.time.text, " ")
    told = {"befor", "before", "after"} | {stem(word) for word in name_words(question.time.anchor)}
    words = tuple(word for word in question.words if word.term not in told)
    return replace(question, words=words, embedding_text=left)


def _without_time_words(spelled: list[AskedWord], time: TimeHint) -> list[AskedWord]:
    """The words of a question without the function words of its time: "last" of "last weekend" is not the "last" of a text. Names
    of months and holidays, years and days of the month stay: a text may name them. So do weekdays, unless "last" or the like
    stands before them."""
    if not time.is_window:
        return spelled
    told = name_words(time.text.replace(time.anchor, " ") if time.anchor else time.text)
    dropped = _TIME_WORDS.union(WEEKDAYS) if not _TURNS.isdisjoint(told) else _TIME_WORDS
    function_words = dropped.intersection(told)
    if spelled and spelled[0].language:
        function_words = frozenset(word for word in told if not any(letter.isdigit() for letter in word))
    return [asked for asked in spelled if asked.word not in function_words]


def is_plainly_english(text: str) -> bool:
    """Whether a question has a word that only English has; cheap, and False for many questions in English."""
    return text.isascii() and not _ENGLISH_WORDS.isdisjoint(text.lower().split())


def weigh_world(question: Question, vector: Vector | None, weights: Vector | None) -> Question:
    """The question with the log odds that it asks about the world, by its vector and the embedder's weights for that."""
    if vector is not None and weights is not None:
        question.world = float(weights[:-1] @ vector + weights[-1])
    return question


class _Wants(NamedTuple):
    """Whether a question is about the user, what the assistant said, a time, a number."""

    me: bool
    you_said: bool
    when: bool
    how_many: bool


def _read_english_wants(head: str) -> _Wants:
    said = head.lower()
    you_said = bool(_YOU_SAID.search(said)) or bool(_CONVERSATION.search(said) and not _I_SAID.search(said))
    return _Wants(bool(_FIRST_PERSON.search(head)), you_said, bool(_WHEN.search(said)), bool(_HOW_MANY.search(said)))


def _read_wants(head: str, language: str) -> _Wants:
    said = fold(normalize(head))
    return _Wants(*(pattern(language, "questions", name).search(said) is not None for name in _Wants._fields))


def _related(asked: AskedWord) -> RelatedWords:
    """Related words of an English word; of a word in another language its other terms, which mean the same."""
    if not asked.language:
        return related_words(asked.word)
    return RelatedWords(1.0, tuple(term_hashes(asked.others).tolist()), (_OTHER_TERM_SIMILARITY,) * len(asked.others))


def _stop_word_names(text: str, speakers: Mapping[str, frozenset[int]]) -> list[AskedWord]:
    """Speakers whose names are stop words, such as Will: a capital within a sentence tells them."""
    capitalized = [word for word in _SPACED.findall(text)[1:] if word[0].isupper()]
    parts = [part for word in capitalized for part in name_words(word)]
    return [AskedWord(part, part, (), "") for part in parts if part in speakers and part in STOP_WORDS]


def _without_speakers(text: str, speakers: Mapping[str, frozenset[int]]) -> str:
    """A text without the words that name a speaker; the whole text, if it has no others."""
    kept = " ".join(word for word in _SPACED.findall(text) if not any(part in speakers for part in name_words(word)))
    return kept if any(character.isalnum() for character in kept) else text
