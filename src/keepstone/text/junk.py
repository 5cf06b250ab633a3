"""What is no memory at all: greetings, empty facts, noise of tools, talk about the talk. Pure.

Every rule asks for the whole text, or for its beginning, so that one detail more ("the user asked a question about tax in Malta")
makes a memory of it. What no rule knows is kept: junk left behind costs little, a memory lost costs the user.
"""

from __future__ import annotations

import json
import re
import unicodedata

from keepstone.text.lexicon import Lexicon

_HEAD = 20_000  # characters that are looked at
_SHORT = 200  # longer texts are never chatter
_TELLING = 16  # words of a statement about the talk itself
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_ONE_WORD = re.compile(r"[^\W\d_][^\W\d_'’-]{0,29}")
_SPACED = re.compile(r"[a-zà-ɏͰ-ӿ]*", re.IGNORECASE)  # scripts that put spaces between words

_LEXICON = Lexicon("junk")
_WORDS, PATTERNS = _LEXICON.words, _LEXICON.patterns
_CHATTER = frozenset(
    tuple(_WORD.findall(phrase.casefold())) for phrase in _LEXICON.data["chatter"].strip().replace("\n", " | ").split(" | ")
)
_MAX_PHRASE_WORDS = max(map(len, _CHATTER))
_SUBJECTS = _WORDS["subjects"] | _WORDS["talks"]
_ACTS = _WORDS["acts"] | _WORDS["talks"]
_ABOUT_TALK = (
    _WORDS["about_talk"] | _SUBJECTS | _ACTS
)  # a text of these alone, with an act among them, says only that it was said
_TOOL_FIELDS = _WORDS["tool_fields"] | _WORDS["tool_marks"]
_GOOD_DAY = re.compile(r"\bgood (?:morning|afternoon|evening|night)\b", re.IGNORECASE)
_BLOB = re.compile(r"(?:data:[\w/+.-]+;base64,)?([A-Za-z0-9+/_=\n\r-]{80,})")
_RUN = re.compile(r"(.{1,4}?)\1{5,}\W*", re.DOTALL)


def junk_reason(content: str) -> str | None:
    """Why a text is no memory, in plain words; None where it may be one.

    >>> junk_reason("ok, thanks!"), junk_reason("The user asked a question.")
    ('a greeting or an acknowledgement', 'says only that something was said')
    >>> junk_reason("The user asked how to renew a passport in Malta.") is None
    True
    """
    text = unicodedata.normalize("NFKC", content[:_HEAD]).replace("’", "'").strip()
    if not any(letter.isalnum() for letter in text):
        return "has neither a word nor a number"
    if len(text) <= _SHORT:
        if _chatter(text):
            return "a greeting or an acknowledgement"
        if _one_word(text):
            return "a single word without a key"
        if (told := _told(text)) is not None:
            return told
    if PATTERNS["refusal"].match(text):
        return "a model's own phrase, not a memory"
    return _noise(text)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _chatter(text: str) -> bool:
    """Whether a text is made of greetings and acknowledgements alone."""
    words = _words(text)
    at = 0
    found = False
    while at < len(words):
        for length in range(min(_MAX_PHRASE_WORDS, len(words) - at), 0, -1):
            if tuple(words[at : at + length]) in _CHATTER:
                at, found = at + length, True
                break
        else:
            if not found or words[at] not in _WORDS["fillers"]:
                return False
            at += 1
    return found and (not any(sign in text for sign in "=@#/\\") or words == ["n", "a"])


def _one_word(text: str) -> bool:
    bare = text.strip(" \t\n.!?…,;:\"'“”()*-")
    return bool(_ONE_WORD.fullmatch(bare) and _SPACED.fullmatch(bare.replace("'", "").replace("’", "").replace("-", "")))


def _told(text: str) -> str | None:
    if PATTERNS["nothing"].fullmatch(text):
        return "says only that something was said"
    words = _words(_GOOD_DAY.sub("hello", text))
    if len(words) > _TELLING or not (_SUBJECTS.intersection(words) or words[0] in ("no", "nothing", "there")):
        return None
    if _ABOUT_TALK.issuperset(words) and _ACTS.intersection(words) and not PATTERNS["wish"].search(" ".join(words)):
        return "says only that something was said"
    hollow = (len(words) > 1 and _WORDS["hollow"].issuperset(words)) or PATTERNS["using"].fullmatch(text)
    return "states nothing in particular" if hollow else None


def _noise(text: str) -> str | None:
    if PATTERNS["tool"].match(text) or _tool_answer(text):
        return "noise of a tool"
    lines = [line for line in text.splitlines() if line.strip()]
    frames = sum(bool(PATTERNS["frame"].match(line)) for line in lines)
    if frames >= 2 and (2 * frames >= len(lines) or text.startswith(("Traceback (most", "goroutine ", "Exception in thread"))):
        return "a stack trace"
    blob = _BLOB.search(text)
    if blob is not None and len(blob[0]) >= 0.8 * len(text) and _mixed(blob[1]):
        return "a block of encoded data"
    return "the same signs over and over" if _RUN.fullmatch(text) and not text.isdigit() else None


def _tool_answer(text: str) -> bool:
    if not text.startswith("{") or not text.endswith("}"):
        return False
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(read, dict) and bool(read) and read.keys() <= _TOOL_FIELDS and bool(read.keys() & _WORDS["tool_marks"])


def _mixed(run: str) -> bool:
    """Whether a run of signs is an encoding, and not a long word or a ruled line."""
    return any(sign.isdigit() for sign in run) and any(sign.isalpha() for sign in run) and len(set(run)) >= 12
