"""Standing instructions and preferences: what a user wants done in every answer, found by rules. Pure. Precision comes first.

"Always show prices with tax", "never call me before ten", "from now on answer in French" are instructions; "I prefer aisle seats"
is a preference. What someone else said, what is for one occasion only, and questions are neither.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from keepstone.text.languages.detection import detect_language
from keepstone.text.languages.lexicon import CODES, fold, load, normalize, pattern
from keepstone.text.lexicon import Lexicon
from keepstone.text.patterns import lazy_pattern
from keepstone.text.sentences import split_sentences

StandingKind = Literal["instruction", "preference", ""]
MAX_CHARS = 2000  # characters that are read: a longer text is pasted
_MAX_SENTENCE_CHARS = 300
_MAX_SENTENCES = 40
_QUOTED = lazy_pattern(r"\"[^\"\n]{12,}\"|“[^”\n]{12,}”|«[^»\n]{12,}»|```.*?```|(?m:^>.*$)", re.DOTALL)
_QUOTES = lazy_pattern(r"[\"“«`>]")  # every quotation begins with one
_BRACKETS = lazy_pattern(r"\s*\([^()]*\)")
_CUES = lazy_pattern(
    r"\b(?:you|must|should|always|never|only|please|every|each|all|skip|needs?|(?:has|have) to)\b"
    r"|: (?:no|max|under)|give me|, so "
)  # one of these is in every sentence that the rules can match, in lower case: without regard to case it takes twice as long
_FIRST_WORDS = lazy_pattern(r"[\w'’-]+")


@cache
def _lexicon() -> Lexicon:
    return Lexicon("english_instructions")


def find_standing(text: str, language: str | None = None) -> StandingKind:
    """Whether a text holds a standing instruction for an assistant, or else a stated preference. `language` is that of the text,
    "" for English, where it is known.

    >>> find_standing("Please always show prices with tax."), find_standing("I prefer aisle seats.")
    ('instruction', 'preference')
    >>> find_standing("She never calls before ten."), find_standing("Should I always answer in French?")
    ('', '')
    >>> find_standing("Antworte ab jetzt immer auf Französisch."), find_standing("Er antwortet immer auf Französisch.")
    ('instruction', '')
    """
    if len(text) > MAX_CHARS:
        return ""
    code = detect_language(text) if language is None else language
    found: StandingKind = ""
    for number, sentence in enumerate(standing_sentences(text)):
        if number >= _MAX_SENTENCES:
            break
        kind = _classify_foreign(sentence, code) if code in CODES else _classify(sentence)
        if kind == "instruction":
            return kind
        found = found or kind
    return found


def read_standing(text: str) -> tuple[StandingKind, str, str]:
    """The kind of a text as `find_standing` tells it; what its instruction is about ("language", "units", "name", …), where that
    has one value at a time and there is no condition; and its words, by which copies of it are told.

    >>> read_standing("From now on answer in French."), read_standing("Answer in German again.")[:2]
    (('instruction', 'language', 'from now on answer in french'), ('instruction', 'language'))
    """
    kind = find_standing(text)
    if kind != "instruction":
        return kind, "", ""
    lexicon, code = _lexicon(), detect_language(text)
    if code in CODES:
        return kind, "", " ".join(text.lower().split())
    sentence = next(sentence for sentence in standing_sentences(text) if _classify(sentence) == kind)
    opening = lexicon.patterns["opening"].match(sentence)
    words = sentence[opening.end() if opening else 0 :].lower().strip(" .!")
    if lexicon.patterns["condition"].search(sentence):
        return kind, "", words
    about = (name for name in lexicon.data["topics"] if lexicon.patterns[f"about_{name}"].search(sentence))
    return kind, next(about, ""), words


def standing_sentences(text: str) -> list[str]:
    """The sentences of a text that are the speaker's own and no questions."""
    own = _QUOTED.sub(" ", text) if _QUOTES.search(text) else text
    lines = [line.strip(" \t-*•") for line in own.splitlines()]
    sentences = [sentence.strip() for line in lines for sentence in split_sentences(line)]
    request = _lexicon().patterns["request"]
    kept = (each for each in sentences if 3 <= len(each) <= _MAX_SENTENCE_CHARS)
    return [each for each in kept if not each.endswith("?") or request.search(each)]


def _classify(sentence: str) -> StandingKind:
    lexicon = _lexicon()
    patterns, words = lexicon.patterns, lexicon.words
    if patterns["said_rule"].search(sentence) or patterns["request"].search(sentence):
        return "instruction"
    opening = patterns["opening"].match(sentence)
    plain = sentence[opening.end() :] if opening else sentence
    first, second = ([*_FIRST_WORDS.findall(plain[:60].lower().replace("’", "'"))[:2], "", ""])[:2]
    names: tuple[str, ...] = ()
    if first in words["conditions"]:
        names = ("conditional", "standing") if first in ("in", "unless") else ("conditional",)
    elif first in _STARTS or first in words["verbs"]:
        names = ("standing", "asks", "forbids", "style")
    elif first in words["wishes"]:
        names = ("asks",)
    if {first, second} & words["outputs"] or first in ("all", "any", "only"):
        names += ("verbless",)
    is_wish = first in words["wishes"] or second in ("prefers", "wants")
    if _CUES.search(plain.lower()):
        names += ("rules",)
    if not (names or is_wish) or not second:
        return ""
    plain = _BRACKETS.sub("", plain)
    if any(patterns[name].search(plain) for name in names) and _is_lasting(plain):
        return "instruction"
    return "preference" if is_wish and patterns["preference"].search(plain) and _is_lasting(plain) else ""


def _classify_foreign(sentence: str, code: str) -> StandingKind:
    said = fold(normalize(sentence))
    if pattern(code, "standing", "always").search(said) and not pattern(code, "standing", "never").search(said):
        first, last = _orders(code)
        if first.match(said) or last.search(said):
            return "instruction"
    return "preference" if pattern(code, "standing", "preference").search(said) else ""


@cache
def _orders(code: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A sentence that begins with an order, and one that ends with it."""
    lexicon = load(code)
    words = lexicon.data["standing"]
    gap, end = (r"\W+", r"(?!\w)") if lexicon.spaced else (r"\W*", "")
    before = "|".join((words["opening"], words["always"]))
    first = rf"\W*(?:(?:{before}){gap})*(?:{words['verbs']}){end}"
    start = r"(?<!\w)" if lexicon.spaced else ""
    return re.compile(first, re.IGNORECASE), re.compile(rf"{start}(?:{words['ends']})\W*$", re.IGNORECASE)


def _is_lasting(plain: str) -> bool:
    """Whether a sentence is the speaker's own wish, and not for one occasion only."""
    patterns = _lexicon().patterns
    if patterns["reported"].search(plain) or patterns["encouraging"].search(plain):
        return False
    return patterns["occasion"].search(plain) is None or patterns["lasting"].search(plain) is not None


_STARTS = frozenset(
    "always never only from henceforth going in by as at please kindly just do don't you make be remember stop avoid no".split()
)  # first words of an instruction besides verbs
