"""Words as search sees them: folded, split, lightly stemmed terms.

Used for what is stored and for what is asked, so both sides always agree. Words are split at everything that is not a letter or
digit. Runs of scripts without spaces become overlapping pairs of letters, those of Han also single letters; so do Korean words.

The language of a short text may be detected wrongly, so no term depends on it alone: in another language than English a word
gives the term that it would give in English, and its stem in that language as a second one.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keepstone.text.english import CLEAR_MONTH_PATTERN, STOP_WORDS, WEEKDAY_PATTERN
from keepstone.text.languages.detection import detect_language
from keepstone.text.languages.lexicon import CODES, fold, load, normalize, pattern
from keepstone.text.languages.stems import light_stem, stop_words
from keepstone.text.patterns import lazy_pattern
from keepstone.text.sentences import first_stop, split_sentences
from keepstone.text.standing import find_standing

# Letters and digits with the marks that belong to them: Indic, Thai, Lao, Burmese and Khmer vowels, Japanese voicing.
_LETTER = (
    r"(?:[^\W_]|[\u0300-\u036f\u0900-\u0963\u0966-\u0dff\u0e31-\u0e4e\u0eb1-\u0ebc\u0ec8-\u0ecd\u102b-\u103e\u17b4-\u17d3\u17dd"
    r"\u3099\u309a])"
)
_WORD = lazy_pattern(rf"[^\W_]{_LETTER}*(?:['’]{_LETTER}+)?")
_ASCII_WORD = lazy_pattern(r"[a-z0-9]+(?:'[a-z0-9]+)?")
_KEY_BREAKS = lazy_pattern(r"[\W_]+")
_SHORT_WITH_E = lazy_pattern(r"[^aeiou][aeiou][^aeiouwxy]")  # what is left of liking, making, moved
_CONTRACTED_NOT = lazy_pattern(r"n['’]t\b")
_VOWEL_SIGNS = lazy_pattern(
    "[\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670]"
)  # Hebrew and Arabic, mostly left out
_HAN = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ffff"
_UNSPACED = lazy_pattern(rf"[{_HAN}\u3040-\u30ff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+|[\u1100-\u11ff\uac00-\ud7a3]+")
_HAN_LETTER = lazy_pattern(rf"[{_HAN}]")
_ELISIONS = frozenset("l d j m n s t qu jusqu lorsqu puisqu all dall dell nell sull quest un".split())  # l'école, dell'arte
ANALYSER = "7"  # change it whenever `terms` or `split_passages` gives other results: stores then write their words anew
_STEMMED = CODES | {"he"}  # languages whose words have a second term
MAX_TERMS = 4096  # of one text: enough for 64 KB of prose in use, a bound for hostile input
_MAX_TERM_CHARS = 64
# Marks: terms that no word can be, for what a record does rather than says. A question has one of the first two.
ASKS, ONLY_ASKS, NUMBERED, TIMED, INSTRUCTS, PREFERS = "?", "??", "#", "@", "!", "!!"
MARKS = frozenset((ASKS, ONLY_ASKS, NUMBERED, TIMED, INSTRUCTS, PREFERS))  # ranking sees them; a full-text index has only words
_MAX_MARK_CHARS = 2000  # characters that are looked through for marks
_TIME_WORDS = lazy_pattern(
    rf"\b(?:yesterday|today|tonight|tomorrow|last|ago|next|weeks?|weekends?|months?|years?|{WEEKDAY_PATTERN}|{CLEAR_MONTH_PATTERN}"
    r"|since|summer|winter|spring|autumn|morning|recently)\b"
)
_DIGIT = lazy_pattern(r"\d")
_INVISIBLE = {"Cf", "Cc", "Zs", "Zl", "Zp", "Mn"}
_MAX_QUESTION_CHARS = 300  # a longer text tells something besides
_QUESTION_MARKS = (
    "?",
    "？",
    "؟",
    "吗",
    "嗎",
    "ですか",
    "ますか",
    "吗。",
    "嗎。",
    "か。",
)  # Chinese and Japanese often end without one
_LONG_CLAUSE = lazy_pattern(
    r"(?:[^\s,，、]+\s+){3,}[^\s,，、]+[,，、]"
)  # more than three words before the first comma: they tell something
_GREETING = lazy_pattern(r"(?:hi|hello|hey|thanks|thank you|ok|okay|please|sorry)\b.{0,20}", re.IGNORECASE)
_TELLS = lazy_pattern(  # has the form of a question and tells something
    r"\W*(?:(?:did|have) (?:i|we) (?:ever )?(?:tell|told|mention|say|said)|did you (?:know|hear)|can you believe|guess"
    r"|how about|why (?:not|don['’]t (?:you|we))"
    r"|so (?:i|you|we)\b|you\b|i\b|we\b|my\b)",
    re.IGNORECASE,
)
_ASKS_UNMARKED = lazy_pattern(  # a short question without its mark
    r"\W*(?:(?:please|hey|ok|so|and)\W+)*(?:"
    r"(?:(?:can|could|would|will) you )?(?:tell|remind) me (?:again )?(?:what|when|where|who|whose|which|how|why)(?:\W+\w+){1,8}"
    r"|(?:what|when|where|who|how|why)(?:['’](?:s|re)\b|\s+(?:is|are|was|were|do|does|did|will|should)\b)(?:\W+\w+){1,6})\W*",
    re.IGNORECASE,
)


def terms(text: str) -> list[str]:
    """Every term of a text in order, stop words left out unless nothing else is there.

    >>> terms("Dana's been preferring dark-mode UIs")
    ['dana', 'prefer', 'dark', 'mode', 'uis']
    >>> terms("She doesn't drink coffee")
    ['not', 'drink', 'coffee']
    >>> terms("Meine Katzen mögen Fisch")
    ['katzen', 'katz', 'mogen', 'mog', 'fisch']
    """
    return _terms(text, text)[0]


def _terms(text: str, content: str) -> tuple[list[str], str]:
    """The terms of a text, and the language of its content; "" for English and for what is not clear."""
    words = _split(text)
    found = [stem(word) for word in words if word not in STOP_WORDS]
    language = _language(content, len(words), len(found))
    if language:
        found = []
        for word in _without_stop_words(words, language):
            plain, light = stem(word), light_stem(word, language)
            found += (plain,) if plain == light else (plain, light)
    elif not found:
        found = [stem(word) for word in words]
    return found[:MAX_TERMS], language


def _language(content: str, words: int, kept: int) -> str:
    """The language of a text of so many words, of which so many are no English stop words; "" for English or unclear."""
    if content.isascii() and (words - kept) * 3 >= words:
        return ""  # most English texts, without a closer look
    language = detect_language(content)
    return language if language in _STEMMED else ""


def _without_stop_words(words: list[str], language: str) -> list[str]:
    """Words without those that are stop words in English or in this language; all of them where none is left."""
    stop = stop_words(language)
    return [word for word in words if word not in STOP_WORDS and word not in stop] or words


def every_term(text: str) -> list[str]:
    """Every term of a text in order, stop words included."""
    return [stem(word) for word in _split(text)]


def has_visible_text(text: str) -> bool:
    """Whether a text has anything to see."""
    return any(unicodedata.category(character) not in _INVISIBLE for character in text)


def index_text(content: str, key: str | None) -> str:
    """What of a record is searched: its content, and its key read as words.

    >>> index_text("dark mode", "ui_preference")
    'ui preference: dark mode'
    """
    return content if key is None else f"{_KEY_BREAKS.sub(' ', key)}: {content}"


def record_terms(content: str, key: str | None) -> tuple[str, ...]:
    """The terms under which a record is stored, and its marks; of a long text those of its first passage.

    >>> record_terms("Shall we meet on Friday at 9?", None)
    ('meet', 'friday', '9', '??', '#', '@')
    """
    head = content[: first_stop(content)]
    found, language = _terms(index_text(head, key), head)
    return (*found, *_marks(content, language))


def _marks(content: str, language: str) -> list[str]:
    """Whether a text asks, has a number, speaks of a time, instructs or states a preference."""
    head = content[:_MAX_MARK_CHARS]
    asks_only = only_asks(content, language)
    found = [ONLY_ASKS] if asks_only else [ASKS] if content.rstrip().endswith(_QUESTION_MARKS) else []
    said = fold(head).lower() if language else head.lower()
    if _DIGIT.search(head) or (language in CODES and _number_words(language).search(said)):
        found.append(NUMBERED)
    if time_words(language).search(said):
        found.append(TIMED)
    standing = find_standing(content, language)
    if standing:
        found.append(INSTRUCTS if standing == "instruction" else PREFERS)
    return found


def only_asks(text: str, language: str | None = None) -> bool:
    """Whether a text only asks and tells nothing, so that it answers no other question. `language`: that of the text, if known.

    >>> [only_asks(text) for text in ("When do we deploy?", "We moved. Did you know?", "How about Rome?")]
    [True, False, False]
    >>> only_asks("Wann ziehen wir um?"), only_asks("Wusstest du, dass ich umgezogen bin?")
    (True, False)
    """
    question = text.strip()
    if not question.endswith(_QUESTION_MARKS):
        return len(question) <= _MAX_QUESTION_CHARS and _ASKS_UNMARKED.fullmatch(question) is not None
    if len(question) > _MAX_QUESTION_CHARS:
        return False
    code = detect_language(question) if language is None else language
    return all(_asks(sentence.strip(), code) for sentence in split_sentences(question))


def _asks(sentence: str, language: str) -> bool:
    if not sentence.endswith(_QUESTION_MARKS):
        return _GREETING.fullmatch(sentence) is not None
    if language in CODES:
        said = fold(normalize(sentence)).lstrip("¿¡ ")
        return not pattern(language, "asking", "tells").match(said) and not _LONG_CLAUSE.match(sentence)
    return not _TELLS.match(sentence) and not _LONG_CLAUSE.match(sentence)


@cache
def _number_words(language: str) -> re.Pattern[str]:
    """Numbers from two on in words; where no spaces separate words, with what they count."""
    lexicon = load(language)
    words = [word for number, word in lexicon.data["numbers"].items() if number.isdigit() and number != "1"]
    return re.compile(lexicon.bound(lexicon.data["words"].get("number", "|".join(words))))


@cache
def time_words(language: str) -> re.Pattern[str]:
    """Words that name a time: months, weekdays, seasons, weeks, years, and phrases such as "yesterday"."""
    if language not in CODES:
        return _TIME_WORDS
    lexicon = load(language)
    data = lexicon.data
    found = [
        *data["months"],
        *data["seasons"],
        *(phrase for phrase, _ in data["times"] if "{" not in phrase and "(?P" not in phrase),
    ]
    found += [data["units"][unit] for unit in ("week", "weekend", "month", "year")]
    if lexicon.spaced:
        found += [*data["weekdays"], *(data["turns"][turn] for turn in ("last", "next") if turn in data["turns"])]
    return re.compile(lexicon.bound("|".join(found)))


class AskedWord(NamedTuple):
    """A word of a question: the term it is looked up by, the word as it was written, and other terms of the same word."""

    term: str
    word: str
    others: tuple[str, ...]
    language: str  # "" for English and where it is not clear


def asked_words(text: str) -> list[AskedWord]:
    """The words of a question in order, each term once; stop words as in `terms`.

    >>> [asked.term for asked in asked_words("Which cities did Dana visit?")]
    ['city', 'dana', 'visit']
    >>> asked_words("Wie heißen meine Katzen?")[-1]
    AskedWord(term='katz', word='katzen', others=('katzen',), language='de')
    """
    words = _split(text)
    kept = [word for word in words if word not in STOP_WORDS]
    language = _language(text, len(words), len(kept))
    if language:
        kept = _without_stop_words(words, language)
    found: dict[str, AskedWord] = {}
    for word in kept or words:
        plain = stem(word)
        term = light_stem(word, language) if language else plain
        if term not in found:
            found[term] = AskedWord(term, word, (plain,) if plain != term else (), language)
    return list(found.values())


def name_words(name: str) -> list[str]:
    """The words of a speaker's name as they stand in a question."""
    return _split(name)


def _split(text: str) -> list[str]:
    if text.isascii():
        lowered = text.lower()
        found = _ASCII_WORD.findall(_CONTRACTED_NOT.sub(" not", lowered) if "n't" in lowered else lowered)
    else:
        folded = _CONTRACTED_NOT.sub(" not", unicodedata.normalize("NFKC", text).casefold())
        found = [piece for word in _WORD.findall(_without_accents(folded)) for piece in _split_unspaced(word)]
    if "'" in text or "’" in text:
        found = [_before_apostrophe(word) for word in found]
    return [word[:_MAX_TERM_CHARS] for word in found] if max(map(len, found), default=0) > _MAX_TERM_CHARS else found


def _before_apostrophe(word: str) -> str:
    """The word without what an apostrophe adds: "dana's", "l'école", "ankara'da"."""
    first, _, rest = word.replace("’", "'").partition("'")
    return rest if first in _ELISIONS and len(rest) > 2 else first


def _without_accents(text: str) -> str:
    """Latin, Greek and Cyrillic without accents, Arabic and Hebrew without vowel signs; other scripts' marks are letters."""
    plain = "".join(c for c in unicodedata.normalize("NFD", text) if not "\u0300" <= c <= "\u036f")
    return fold(_VOWEL_SIGNS.sub("", unicodedata.normalize("NFC", plain)))


def _split_unspaced(word: str) -> list[str]:
    if not _UNSPACED.search(word):
        return [word]
    pieces: list[str] = []
    at = 0
    for run in _UNSPACED.finditer(word):
        if run.start() > at:
            pieces.append(word[at : run.start()])
        characters = run.group()
        if len(characters) > 1:
            pieces.extend(_HAN_LETTER.findall(characters))
        pieces.extend(characters[i : i + 2] for i in range(max(1, len(characters) - 1)))
        at = run.end()
    if at < len(word):
        pieces.append(word[at:])
    return pieces


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """A word without its commonest English endings; words with digits and words that are not ASCII stay whole.

    >>> [stem(w) for w in ("cities", "running", "liked", "preferences", "preferred", "boxes", "glass", "4x4")]
    ['city', 'run', 'like', 'prefer', 'prefer', 'box', 'glass', '4x4']
    """
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and _has_vowel(word[: -len(ending)]):
            return _undouble(word[: -len(ending)])
    for ending in ("ence", "ance", "ment", "ness", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return _without_e(word[: -len(ending)])
    return _without_e(word)


def _without_e(word: str) -> str:
    return word[:-1] if len(word) > 4 and word[-1] == "e" != word[-2] else word


def _has_vowel(word: str) -> bool:
    return any(c in "aeiouy" for c in word)


def _undouble(word: str) -> str:
    """What stands before -ing or -ed as the word's plain form has it: running, liking, preferring."""
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
        return word[:-1]
    if _SHORT_WITH_E.fullmatch(word):
        return word + "e"
    return _without_e(word)


def term_hashes(words: Iterable[str]) -> NDArray[np.uint32]:
    """Terms as 32-bit numbers, the form in which ranking holds them."""
    return np.fromiter(map(term_hash, words), dtype=np.uint32)


@lru_cache(maxsize=65536)
def term_hash(word: str) -> int:
    """The number of one term."""
    return zlib.crc32(word.encode("utf-8", "surrogatepass"))


def unique(words: Sequence[str]) -> list[str]:
    """Each term once, in order of first appearance."""
    return list(dict.fromkeys(words))
