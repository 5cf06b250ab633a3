"""The plain facts that people state about themselves, found by rules alone: rather none than a wrong one. Pure. Text is read
as sentences; a statement counts only where a clause
begins, and only if nothing before it makes it a question, a wish, a quotation or make-believe.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from keepstone.learning import phrases as ph
from keepstone.learning import values as va
from keepstone.learning.clauses import Fact, Found, Rule, Spot, persons, trimmed
from keepstone.learning.relations import RELATIONS
from keepstone.learning.statements import STATEMENTS
from keepstone.learning.wishes import WISHES

__all__ = ["MAX_CHARS", "Fact", "plain_facts"]

MAX_CHARS = 4000  # longer texts are pasted, not said
MAX_SENTENCE = 800
MAX_FACTS = 24
_STRAIGHT = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "\u00a0": " "})


def plain_facts(text: str, subject: str = "The user") -> list[Fact]:
    """What a speaker states about themselves in one message, in the order it is said."""
    plain = text.translate(_STRAIGHT) if len(text) <= MAX_CHARS else ""
    if not _HEADS.search(plain):  # most messages: nothing in it begins a statement about oneself
        return []
    if ph.INJECTION.search(plain) or ph.PASTED.search(plain):
        return []
    own = _own_words(plain)
    quoted = bytearray(len(own))  # 1 where somebody is quoted
    for found in ph.QUOTED.finditer(own):
        quoted[found.start() : found.end()] = b"\1" * len(found[0])
    facts: list[Fact] = []
    doubtful = False  # a marker alone ("Scratch that.") speaks of the next sentence
    for begin, end, asks in _sentences(own):
        if len(facts) >= MAX_FACTS:
            break
        facts.extend(_in_sentence(text, own, begin, end, asks, quoted, subject, doubtful))
        said = own[begin:end].strip(" .,!")
        doubtful = 0 < len(said.split()) <= 3 and ph.CORRECTS.match(said) is not None
    return _settled(facts)[:MAX_FACTS]


def _own_words(plain: str) -> str:
    """The message with what is not the speaker's own word turned into line breaks, so that places stay the same."""

    def blank(found: re.Match[str]) -> str:
        return "\n" * len(found[0])

    own = ph.LOG_LINE.sub(blank, ph.CODE.sub(blank, plain))
    ends = len(own)
    material = ph.NOT_MINE.search(own)
    if material:  # from the beginning of its sentence
        ends = max([found.end() for found in ph.SENTENCE_END.finditer(own, 0, material.start() + 1)], default=0)
    for listed in ph.LISTED_AFTER.finditer(own):
        line = own[own.rfind("\n", 0, listed.start()) + 1 : listed.start()]
        if own[listed.end() :].strip() and not ph.ABOUT_ME.search(line):
            ends = min(ends, listed.start())
            break
    return own[:ends] + "\n" * (len(own) - ends)


def _sentences(own: str) -> Iterator[tuple[int, int, bool]]:
    """Where each sentence begins and ends, and whether it asks."""
    begin = 0
    for found in ph.SENTENCE_END.finditer(own):
        word = own[max(begin, found.start() - 10) : found.start()].rpartition(" ")[2].lower()
        if found[0] == "." and (word in ph.ABBREVIATIONS or (len(word) == 1 and word.isalpha() and word != "i")):
            continue
        if own[begin : found.start()].strip():
            yield begin, found.start(), "?" in found[0]
        begin = found.end()
    if own[begin:].strip():
        yield begin, len(own), False


def _in_sentence(
    raw: str, own: str, begin: int, end: int, asks: bool, quoted: bytearray, subject: str, doubtful: bool
) -> Iterator[Fact]:
    if asks:
        question = ph.ASKING.search(own, begin, end)
        end = question.start() if question else begin
    sentence = own[begin:end]
    if len(sentence) > MAX_SENTENCE or ph.TAKEN_BACK.search(sentence) or ph.SECRET.search(sentence):
        return
    doubt = ph.DOUBT.search(sentence)
    lower = not any(letter.isupper() for letter in sentence)
    place = begin
    for head in _HEADS.finditer(own, begin, end):
        start = head.start()
        if start < place or quoted[start]:
            continue
        first, marked = _clause_start(own, begin, start)
        if first < 0 or (doubt and begin + doubt.end() <= first):
            continue
        casual = lower or own[start] == "i"
        spot = Spot(raw, own, begin, start, end, subject, casual, first == begin, marked or doubtful)
        found = _read(spot)
        if found:
            yield found.fact
            place = found.end


_MARKS = frozenset(",;(")
_JOINS = frozenset(("and", "but", "so", "because", "since", "plus", "although", "though", "given that"))
_JOINED = re.compile(r"(?:(?!(?:i|is|are|am)\b)[\w-]+\s){0,4}", re.IGNORECASE)


def _clause_start(own: str, begin: int, start: int) -> tuple[int, bool]:
    """Where the fillers before a statement begin, and whether they correct; -1 if it is no clause's beginning."""
    at, loose = start, False
    for _ in range(8):
        bare = own[begin:at].rstrip(" \t,:;-–—!(.*•")
        between = own[begin + len(bare) : at].strip()
        loose = loose or between in ("-", "–", "—") or not _MARKS.isdisjoint(between)
        if not bare.strip() or re.fullmatch(r"\s*\d{1,2}", bare):
            return begin, bool(ph.CORRECTS.search(own, begin, start))
        tail = own[max(begin, begin + len(bare) - 40) : begin + len(bare)]
        fillers = [found for found in ph.FILLERS.finditer(tail) if found.end() == len(tail)]
        filler = max(fillers, key=lambda found: len(found[0]), default=None)
        if filler is None:
            marked = bool(ph.CORRECTS.search(own, begin + len(bare), start))
            return (begin + len(bare) if loose else -1), marked
        if filler[0].lower() == "and" and not loose and _JOINED.fullmatch(own, begin, begin + len(bare) - 3):
            return -1, False  # "My husband and I …"
        loose = loose or filler[0].lower() in _JOINS
        at = begin + len(bare) - len(filler[0])
    return -1, False


def _read(spot: Spot) -> Found | None:
    """The first rule that reads the clause beginning here."""
    for head, rule in RULES:
        match = head.match(spot.plain, spot.start, spot.end)
        if match:
            found = rule(spot, match)
            if found:
                return found
    return None


def _settled(facts: list[Fact]) -> list[Fact]:
    """Each once; what no longer holds is left out where the message also says what holds now."""
    said = {fact.key for fact in facts if fact.key and not _over(fact)}
    kept = [fact for fact in facts if not (_over(fact) and fact.key in said)]
    over = {fact.key for fact in facts if _over(fact)}
    marked = [replace(fact, correction=True) if fact.key in over else fact for fact in kept]
    return list(dict.fromkeys(marked))


def _over(fact: Fact) -> bool:
    return fact.correction and (" no longer " in fact.content or fact.content.endswith(("anymore.", "any more.")))


def _remember(spot: Spot, match: re.Match[str]) -> Found | None:
    """What the speaker asks to be remembered: a plain fact if it is one, otherwise a note."""
    if not spot.alone or (match["verb"].lower() == "note" and match["link"] is None):
        return None
    inner = replace(spot, start=match.end(), begin=match.end())
    for head, rule in RULES:
        told = head.match(spot.plain, inner.start, inner.end) if rule is not _remember else None
        found = rule(inner, told) if told else None
        if found:
            return found
    end = trimmed(spot, match.end(), spot.end)
    said = spot.raw[match.end() : end].strip()
    plain = spot.plain[match.end() : end].strip()
    if not _worth_noting(match, plain):
        return None
    return Found(Fact(_note(plain, said, spot.subject), "note", None, 0.8, spot.corrects), spot.end)


def _worth_noting(match: re.Match[str], said: str) -> bool:
    """Whether a note is the speaker's own business; said of code or of the world, the same words explain something."""
    verb, link = match["verb"].lower(), (match["link"] or "").strip()
    if not 3 <= len(said.split()) <= 60 or ph.DEICTIC.match(said):
        return False
    if verb.startswith("note"):
        return re.match(r"(?:i|my)\b", said, re.IGNORECASE) is not None and not ph.AT_HAND.search(said)
    own = re.match(r"(?:i|my|we|our)\b", said, re.IGNORECASE) is not None
    if link in ("", ","):
        return (own or verb.startswith("for")) and not ph.ADDRESSEE.search(said)
    kindly = ph.KINDLY.match(match["ask"]) is not None or match["this"] is not None
    if not own and ph.NOTE_START.match(said) is None:  # "remember that song": no clause follows
        return False
    if kindly or verb.startswith(("for", "make", "take")):
        return True
    return ph.FIRST_PERSON.search(said) is not None and not ph.ADDRESSEE.search(said) and not ph.AT_HAND.search(said)


def _note(plain: str, said: str, subject: str) -> str:
    """A note in the third person where that is safe, otherwise in the speaker's words."""
    verb = ph.I_VERB.match(plain)
    if not ph.TOGETHER.search(plain):
        if verb:
            return f"{subject} {_third(verb)}{persons(said[verb.end() :])}."
        if re.match(r"my\s", plain, re.IGNORECASE):
            return f"{subject}'s {persons(said[3:])}."
        if not ph.SPEAKER.search(plain):
            whom = "the user" if subject == "The user" else subject
            told = ph.ME.sub(whom, ph.MY.sub(f"{whom}'s", said))
            return f"{told[0].upper()}{told[1:]}."
    return f"{subject} asked to remember: {said}."


def _third(verb: re.Match[str]) -> str:
    """The verb after "I" in the third person."""
    for name, told in (("be", "is"), ("have", "has"), ("will", "will"), ("nt", "doesn't")):
        if verb[name]:
            return told
    if verb["same"]:
        return verb["same"].lower()
    plain = verb["verb"].lower()
    return {"teach": "teaches", "study": "studies"}.get(plain, plain + "s")


RULES: list[tuple[re.Pattern[str], Rule]] = [*STATEMENTS, *RELATIONS, *WISHES, (ph.REMEMBER, _remember)]
_HEADS = va.pattern(
    r"(?<![\w'’-])(?:i|im|ive|my|the name|call me|you can call|you may call|feel free to call|just call|please|pls|kindly"
    r"|everyone|everybody|people|friends|all my friends|folks|most people"
    r"|address me|refer to me|always|never|from now on|in (?:the )?future|don't|do not|remember|keep in mind|bear in mind"
    r"|make a note|take a note|note|for (?:future|your) reference|for later)(?=[\s',:])"
)
