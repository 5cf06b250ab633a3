"""Parses a question: its words with their weights, the speakers and the time it names. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from keepstone.recall.related import RelatedWords, related_words
from keepstone.text.english import STOP_WORDS
from keepstone.text.languages.times import read_time
from keepstone.text.time_expressions import TimeHint
from keepstone.text.words import asked_words, name_words

MAX_TERMS = 64
_MAX_EXPANDED_WORDS = 12  # words of a long question, the ones with the highest weight, that related words are added for
_MAX_PARSED_CHARS = 2000
_FIRST_PERSON = re.compile(r"\b(?:[Ii]|[Mm]e|[Mm]y|[Mm]ine|[Ww]e|[Oo]ur|us|[Tt]he user(?:'s)?)\b")  # not the US
# What the assistant said is asked for in so many words; "can you tell me" alone is not that.
_YOU_SAID = re.compile(
    r"\b(?<!can )(?<!could )(?<!will )(?<!would )(?<!do )(?<!please )you(?:['’]d|['’]ve| had| have)? (?:\w+ly )?(?:recommend"
    r"|suggest|sa(?:y|id)|t(?:ell|old)|mention|explain|g[ai]ve|list|provid|advis|describ|c[oa]me up|call|propos|warn|put|teach"
    r"|taught|show|walk|calculat|work(?:ed)? out)"
    r"|\byour (?:advice|suggestions?|recommendations?|list|answer|estimate|explanation|ideas?|tips?)\b|\bdid you\b",
    re.IGNORECASE,
)
_CONVERSATION = re.compile(
    r"\b(?:our|previous|last|earlier) (?:previous )?(?:conversation|chat|discussion|session)\b", re.IGNORECASE
)
_I_SAID = re.compile(r"\b(?:did|had|have) i\b|\bi(?:['’]d|['’]ve| had| have)? (?:said|told|mention|say|tell|ask)", re.IGNORECASE)
_WHEN = re.compile(
    r"^\W*when\b|\bwhen(?:['’]s\b| (?:did|was|is|does|do|will|were|are|has|have|had|should|would|can)\b)"
    r"|\b(?:what date|(?:what|which) (?:day|month|year)|what time|how long)\b",
    re.IGNORECASE,
)
_HOW_MANY = re.compile(
    r"\b(?:how (?:many|much|old|far|often)|what percentage|what time|total|number of|price|cost)\b",
    re.IGNORECASE,
)
_ABOUT_QUESTIONS = re.compile(r"\b(?:ask(?:s|ed|ing)?|questions?|wonder(?:ed|ing)?|wanted to know)\b", re.IGNORECASE)
_SPACED = re.compile(r"\S+")
_CAPITALIZED = re.compile(r"(?<=[a-z,] )[A-Z][a-z]\w+")  # a capital within a sentence


@dataclass(frozen=True, slots=True)
class QuestionWord:
    """One word of a question. `names` are the codes of the speakers it names; `is_name`: it looks like the name of something."""

    term: str
    related: RelatedWords
    names: frozenset[int] = frozenset()
    is_name: bool = False


@dataclass(frozen=True, slots=True)
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
    event: TimeHint | None = None  # the time of an event in the scope that it dates itself by, once a record of it is found

    @property
    def terms(self) -> list[str]:
        return [word.term for word in self.words]


def parse_question(text: str, speakers: Mapping[str, frozenset[int]], now: datetime) -> Question:
    """Parse a question asked at this time in a scope with these speakers."""
    head = text[:_MAX_PARSED_CHARS]
    spelled = [*asked_words(text).items(), *(_stop_word_names(head, speakers) if speakers else ())][:MAX_TERMS]
    related = [related_words(word) for _, word in spelled]
    if len(spelled) > _MAX_EXPANDED_WORDS:
        heaviest = set(sorted(range(len(spelled)), key=lambda at: -related[at].weight)[:_MAX_EXPANDED_WORDS])
        related = [entry if at in heaviest else RelatedWords(entry.weight, (), ()) for at, entry in enumerate(related)]
    capitalized = _CAPITALIZED.findall(head)
    proper = set(name_words(" ".join(capitalized))) if capitalized else set()
    words = tuple(
        QuestionWord(term, entry, speakers.get(word, frozenset()), word in proper)
        for (term, word), entry in zip(spelled, related, strict=True)
    )
    names = frozenset[int]().union(*(word.names for word in words))
    of_assistant = bool(_YOU_SAID.search(head)) or bool(_CONVERSATION.search(head) and not _I_SAID.search(head))
    return Question(
        text=text,
        embedding_text=_without_speakers(text, speakers) if names else text,
        words=words,
        names=names,
        of_user=not of_assistant and bool(_FIRST_PERSON.search(head)),
        of_assistant=of_assistant,
        wants_time=bool(_WHEN.search(head)),
        wants_number=bool(_HOW_MANY.search(head)),
        time=read_time(head, now),
        about_questions=bool(_ABOUT_QUESTIONS.search(head)),
    )


def _stop_word_names(text: str, speakers: Mapping[str, frozenset[int]]) -> list[tuple[str, str]]:
    """Speakers whose names are stop words, such as Will: a capital within a sentence tells them."""
    capitalized = [word for word in _SPACED.findall(text)[1:] if word[0].isupper()]
    return [(part, part) for word in capitalized for part in name_words(word) if part in speakers and part in STOP_WORDS]


def _without_speakers(text: str, speakers: Mapping[str, frozenset[int]]) -> str:
    """A text without the words that name a speaker; the whole text, if it has no others."""
    kept = " ".join(word for word in _SPACED.findall(text) if not any(part in speakers for part in name_words(word)))
    return kept if any(character.isalnum() for character in kept) else text
