"""What a question asks for: its words and how much each says, who is meant, when. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from keepstone.recall.related import Relatives, relatives
from keepstone.text.english import STOP_WORDS
from keepstone.text.time_expressions import TimeHint, read_time
from keepstone.text.words import asked_words, name_words

MAX_TERMS = 64
_WITH_RELATIVES = 12  # of a long question only so many words, the weightiest, bring their relatives
_LOOKED_AT = 2000
_I = re.compile(r"\b(?:[Ii]|[Mm]e|[Mm]y|[Mm]ine|[Ww]e|[Oo]ur|us|[Tt]he user(?:'s)?)\b")  # not the US
# What the assistant said is asked for in so many words; "can you tell me" alone is not that.
_YOU_SAID = re.compile(
    r"\b(?<!can )(?<!could )(?<!will )(?<!would )(?<!do )(?<!please )you(?:['’]d|['’]ve| had| have)? (?:\w+ly )?(?:recommend"
    r"|suggest|sa(?:y|id)|t(?:ell|old)|mention|explain|g[ai]ve|list|provid|advis|describ|c[oa]me up|call|propos|warn|put|teach"
    r"|taught|show|walk|calculat|work(?:ed)? out)"
    r"|\byour (?:advice|suggestions?|recommendations?|list|answer|estimate|explanation|ideas?|tips?)\b|\bdid you\b",
    re.IGNORECASE,
)
_SPOKEN_OF = re.compile(
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
_SPACED = re.compile(r"\S+")
_PROPER = re.compile(r"(?<=[a-z,] )[A-Z][a-z]\w+")  # a capital within a sentence


@dataclass(frozen=True, slots=True)
class Asked:
    """One word of a question. `names` are the codes of the speakers it names; `proper`: it looks like a name of something."""

    term: str
    relatives: Relatives
    names: frozenset[int] = frozenset()
    proper: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A question as ranking reads it. `meant` is its text without the names of speakers, for the embedder: who spoke is
    known, and a name pulls towards turns that greet the person."""

    text: str
    meant: str
    words: tuple[Asked, ...]
    names: frozenset[int]
    of_user: bool
    of_assistant: bool
    wants_time: bool
    wants_number: bool
    time: TimeHint | None
    event: TimeHint | None = None  # the time of an event in the scope that it dates itself by, once that is found

    @property
    def terms(self) -> list[str]:
        return [word.term for word in self.words]


def read(text: str, speakers: Mapping[str, frozenset[int]], now: datetime) -> Question:
    """Read a question asked now of a scope with these speakers."""
    head = text[:_LOOKED_AT]
    written = [*asked_words(text).items(), *_stop_names(head, speakers)][:MAX_TERMS]
    known = [relatives(word) for _, word in written]
    proper = {word for said in _PROPER.findall(head) for word in name_words(said)}
    weighty = sorted(range(len(written)), key=lambda at: -known[at].weight)[:_WITH_RELATIVES]
    kept = set(weighty) if len(written) > _WITH_RELATIVES else set(range(len(written)))
    known = [each if at in kept else Relatives(each.weight, (), ()) for at, each in enumerate(known)]
    words = tuple(
        Asked(term, known[at], speakers.get(word, frozenset()), word in proper) for at, (term, word) in enumerate(written)
    )
    names = frozenset[int]().union(*(word.names for word in words))
    of_assistant = bool(_YOU_SAID.search(head)) or bool(_SPOKEN_OF.search(head) and not _I_SAID.search(head))
    return Question(
        text=text,
        meant=_without(text, speakers) if names else text,
        words=words,
        names=names,
        of_user=not of_assistant and bool(_I.search(head)),
        of_assistant=of_assistant,
        wants_time=bool(_WHEN.search(head)),
        wants_number=bool(_HOW_MANY.search(head)),
        time=read_time(head, now),
    )


def _stop_names(text: str, speakers: Mapping[str, frozenset[int]]) -> list[tuple[str, str]]:
    """Speakers whose names are stop words, such as Will: capitals within a sentence tell them."""
    said = _SPACED.findall(text)[1:]
    return [
        (word, word) for each in said if each[0].isupper() for word in name_words(each) if word in speakers and word in STOP_WORDS
    ]


def _without(text: str, speakers: Mapping[str, frozenset[int]]) -> str:
    """A text without the words that name a speaker; as it is, if nothing else is in it."""
    kept = " ".join(word for word in _SPACED.findall(text) if not any(part in speakers for part in name_words(word)))
    return kept if any(character.isalnum() for character in kept) else text
