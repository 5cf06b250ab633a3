"""Whether two memories state the same fact.

Two texts are the same when, with trimmings and spelling set aside, they say the same terms in the same roles. All that
is not known to be a trimming counts, so an unknown word keeps two memories apart: a duplicate left behind costs little,
a fact lost costs the user. No model is asked.

Trimmings, synonyms and roles are read in English. In every other language two texts are the same only when they have the same
words in the same order: letter case, punctuation, the width of letters, greetings and the spelling of small numbers may differ.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from keepstone.text.languages.detection import detect_language
from keepstone.text.languages.lexicon import CODES, fold, load, pattern
from keepstone.text.parsed_memory import WORDS, Clause, Reading, folded, is_number, read

MAX_CHARS = 600  # longer texts are the same only when they are equal
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")
_DOUBLED = re.compile(r"(.)\1")
_SPACES = re.compile(r"\s+")
_WORDS = re.compile(r"\d+(?:[.,:/-]\d+)*|[^\W\d_]+|[^\w\s.,;:!。、،؛…\"'“”„«»「」『』()-]|(?<!\w)-(?=\d)")
_MAX_SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a comparison found; `replace` has a meaning only when `same` is true."""

    same: bool
    replace: bool
    reason: str


def compare(new: str, old: str) -> Verdict:
    """Whether two texts state the same fact, and whether the new wording carries all that the old one does.

    >>> compare("user seems happy", "the user is happy today").same
    True
    >>> compare("The user has 3 cats", "The user has 4 cats").reason
    'differs in a number: 3 / 4'
    """
    if new == old or _normalise(new) == _normalise(old):
        return Verdict(True, True, _same_as(old))
    if len(new) > MAX_CHARS or len(old) > MAX_CHARS:
        return _differs("differs in a long text")
    if _language(new) or _language(old):
        return _compare_words(new, old)
    one, other = read(new), read(old)
    if not one.terms or not other.terms:
        return _differs("has no words to compare")
    if one.terms != other.terms:
        joined = _join_words(new, one, other), _join_words(old, other, one)
        if joined != (new, old):
            one, other = read(joined[0]), read(joined[1])
    difference = _difference(one, other)
    if difference:
        return _differs(difference)
    return Verdict(True, other.extras <= one.extras and one.hedged <= other.hedged, _same_as(old))


def gist(text: str) -> bytes | None:
    """A short mark that is equal for texts that `compare` may find to be the same, so that one look-up finds them all:
    the letters of the terms, sorted, without doubled letters, hyphens and the silent e that stemming takes off.

    >>> gist("user seems happy") == gist("the user is happy today")
    True
    """
    if len(text) > MAX_CHARS:
        return None
    if language := _language(text):
        text = " ".join(_split_words(text, language))
    terms = Reading(folded(_HYPHEN.sub("", text) if "-" in text else text)).terms  # cached only where texts are compared
    letters = "".join(sorted("".join(map(_letters, terms))))
    return hashlib.blake2b(letters.encode("utf-8", "replace"), digest_size=8).digest() if letters else None


@lru_cache(maxsize=16384)
def _letters(term: str) -> str:
    return _DOUBLED.sub(r"\1", term).replace("e", "").replace(" ", "")


def _language(text: str) -> str:
    """The language of a text; "" for English and where it is not clear."""
    language = detect_language(text)
    return "" if language == "en" else language


def _split_words(text: str, language: str) -> list[str]:
    """The words of a text in another language than English, in order and in one spelling; "?", "+" and the like are words."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    if language not in CODES:
        return _WORDS.findall(plain)
    lead = pattern(language, "facts", "lead").match(fold(plain))
    words = _WORDS.findall(plain[lead.end() :] if lead else plain)
    return [_small_number(fold(word), language) or word for word in words]


@lru_cache(maxsize=4096)
def _small_number(word: str, language: str) -> str:
    """The digits of a number from 2 that is written as a word; "" for other words."""
    lexicon = load(language)
    number = lexicon.resolve("n", word) if lexicon.spaced and not word.isdigit() else ""
    return number if number.isdigit() and int(number) > 1 else ""


def _compare_words(new: str, old: str) -> Verdict:
    language = _language(new) or _language(old)
    one, other = _split_words(new, language), _split_words(old, language)
    if one and one == other:
        return Verdict(True, True, _same_as(old))
    mine, yours = Counter(one), Counter(other)
    return _differs(_describe_difference(list((mine - yours).elements()), list((yours - mine).elements())))


def _differs(reason: str) -> Verdict:
    return Verdict(False, False, reason)


def _same_as(old: str) -> str:
    shown = _SPACES.sub(" ", old[: 2 * _MAX_SHOWN_CHARS]).strip()
    return f"says the same as '{shown if len(shown) <= _MAX_SHOWN_CHARS else shown[: _MAX_SHOWN_CHARS - 1] + '…'}'"


def _normalise(text: str) -> str:
    return _SPACES.sub(" ", unicodedata.normalize("NFC", text)).strip()


def _difference(one: Reading, other: Reading) -> str:
    """What keeps two readings apart, in words; empty when nothing does."""
    if one.terms != other.terms:
        mine, yours = Counter(one.terms), Counter(other.terms)
        only_mine, only_yours = list((mine - yours).elements()), list((yours - mine).elements())
        if not _is_slip(only_mine, only_yours, one, other):
            return _describe_difference(only_mine, only_yours)
        one_clauses = _swap_term(one.clauses, only_yours[0], only_mine[0])
    else:
        one_clauses = one.clauses
    if _to_roles(one_clauses) != _to_roles(other.clauses):
        return "says the same words in other roles"
    counted = (one.singular & other.plural - other.singular) | (other.singular & one.plural - one.singular)
    if counted:
        return f"differs in number: one {min(counted)} / several"
    if one.owner != other.owner and "other" in (one.owner, other.owner):
        return "differs in whose it is"
    if one.codes != other.codes:
        return "differs in the letters of a code"
    for term, word in one.surfaces.items():
        if not _is_inflection(word, other.surfaces.get(term, word), one, other):
            return f"differs in a word: {word} / {other.surfaces[term]}"
    return ""


def _describe_difference(mine: list[str], yours: list[str]) -> str:
    both = [*mine, *yours]
    if any(is_number(term) for term in both):
        name = "a number"
    elif any(term.rstrip("<~") in WORDS["negating_terms"] for term in both):
        name = "a negation"
    else:
        name = "words"
    return f"differs in {name}: {_list_terms(mine)} / {_list_terms(yours)}"


def _list_terms(terms: Iterable[str]) -> str:
    return " ".join(term.rstrip("<~") for term in terms)[:_MAX_SHOWN_CHARS] or "nothing"


def _to_roles(clauses: Sequence[Clause]) -> object:
    """The clauses in a form that is equal when the roles are: whole phrases may change places, words may not."""
    settled = [_phrases(clause) for clause in clauses]
    if len(settled) > 1 and not any(term in WORDS["ordered"] for clause in clauses for _, terms in clause for term in terms):
        return sorted(settled, key=repr)
    return settled


def _phrases(clause: Clause) -> tuple[object, ...]:
    markers = [marker for marker, _ in clause]
    if any(marker in ("and", "or", "nor") for marker in markers):
        return clause
    subject_last = [("", terms) if marker in (",", "who", "be") else (marker, terms) for marker, terms in clause]
    markers = [marker for marker, _ in subject_last if marker]
    plain = sum(not marker for marker, _ in subject_last)
    if len(set(markers)) < len(markers) or plain > 2:
        return clause
    return tuple(sorted((chunk for chunk in subject_last if chunk[0] or chunk[1]), key=repr))


def _join_words(text: str, mine: Reading, yours: Reading) -> str:
    """The text with pairs of words written as one where the other text does so: back-end, time zone."""
    theirs = {word for word in yours.words if len(word) >= 5 and word.isalpha()}
    joined = 0
    for left, right in pairwise(mine.words):
        if left + right in theirs and left not in WORDS["articles"] and joined < 3:
            joined += 1
            whole = left + right
            text = re.sub(rf"(?i)\b{re.escape(left)}[ -]{re.escape(right)}\b", whole, text)
    return text


def _is_slip(mine: list[str], yours: list[str], one: Reading, other: Reading) -> bool:
    """Whether one single word differs, and only by a slip of the pen: two letters swapped, or one left undoubled."""
    if len(mine) != 1 or len(yours) != 1:
        return False
    left, right = one.surfaces.get(mine[0], ""), other.surfaces.get(yours[0], "")
    if min(len(left), len(right)) < 6 or not (left.isalpha() and right.isalpha()):
        return False
    if left in WORDS["real_pairs"] or right in WORDS["real_pairs"] or left in one.names or right in other.names:
        return False
    if len(left) == len(right):
        apart = [at for at in range(len(left)) if left[at] != right[at]]
        return (
            len(apart) == 2 and apart[1] == apart[0] + 1 and left[apart[0]] + left[apart[1]] == right[apart[1]] + right[apart[0]]
        )
    return _DOUBLED.sub(r"\1", left) == _DOUBLED.sub(r"\1", right)


def _swap_term(clauses: Sequence[Clause], wanted: str, there: str) -> list[Clause]:
    return [
        tuple((marker, tuple(wanted if term == there else term for term in terms)) for marker, terms in clause)
        for clause in clauses
    ]


def _is_inflection(left: str, right: str, one: Reading, other: Reading) -> bool:
    """Whether two words that share a term are forms of one word, and not plan and plane, or the names Jon and Jones."""
    if left == right:
        return True
    if left in one.names and right in other.names:
        return False
    if left.rstrip("s") == right.rstrip("s") and (left in WORDS["same_in_past"] or right in WORDS["same_in_past"]):
        return False  # read is past, reads is not
    return left + "e" != right and right + "e" != left
