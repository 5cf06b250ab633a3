"""Facts that people state about themselves, found by rules without a model. Precision comes before recall.

A statement counts only at the start of a clause, and only if nothing before it makes it a question, a wish, a quotation or
fiction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from keepstone.learning.clauses import LEXICON, PATTERNS, Clause, Fact, FactMatch, Rule, strip_now, to_third_person, trim_end
from keepstone.learning.readers import READERS
from keepstone.text.english import ABBREVIATIONS

__all__ = ["MAX_CHARS", "Fact", "find_facts"]

MAX_CHARS = 4000  # longer texts are pasted, not said
_MAX_SENTENCE_CHARS = 800
_MAX_FACTS = 24
_ABBREVIATIONS = ABBREVIATIONS | {"ft", "inc", "a.m", "p.m", "dept"}
_STRAIGHT_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "\u00a0": " "})


def find_facts(text: str, subject: str = "The user") -> list[Fact]:
    """The facts that a speaker states about themselves in one message, in order."""
    plain = "" if len(text) > MAX_CHARS else text if text.isascii() else text.translate(_STRAIGHT_QUOTES)
    heads = _LOWER_HEADS.finditer(plain.lower()) if plain.isascii() else PATTERNS["heads"].finditer(plain)
    starts = [head.start() for head in heads]
    if not any(rule.head.match(plain, start) for start in starts for rule in RULES):  # most state nothing about oneself
        return []
    if PATTERNS["injection"].search(plain) or PATTERNS["pasted"].search(plain):
        return []
    own = _blank_foreign_text(plain)
    quoted = bytearray(len(own))  # 1 inside a quotation
    for quotation in PATTERNS["quoted"].finditer(own):
        quoted[quotation.start() : quotation.end()] = b"\1" * len(quotation[0])
    facts: list[Fact] = []
    is_correcting = False  # a marker alone ("Scratch that.") corrects with the next sentence
    for begin, end, asks in _sentence_spans(own):
        if len(facts) >= _MAX_FACTS:
            break
        facts.extend(_read_sentence(text, own, begin, end, asks, quoted, subject, is_correcting))
        sentence = own[begin:end].strip(" .,!")
        is_correcting = 0 < len(sentence.split()) <= 3 and PATTERNS["corrects"].match(sentence) is not None
    return _resolve_corrections(facts)[:_MAX_FACTS]


def _blank_foreign_text(plain: str) -> str:
    """The message with text that is not the speaker's own replaced by line breaks, so that offsets stay the same."""

    def blank(match: re.Match[str]) -> str:
        return "\n" * len(match[0])

    own = PATTERNS["log_line"].sub(blank, PATTERNS["code"].sub(blank, plain))
    ends = len(own)
    material = PATTERNS["not_mine"].search(own)
    if material:  # from the beginning of its sentence
        ends = max([end.end() for end in PATTERNS["sentence_end"].finditer(own, 0, material.start() + 1)], default=0)
    for value_list in PATTERNS["listed_after"].finditer(own):
        line = own[own.rfind("\n", 0, value_list.start()) + 1 : value_list.start()]
        if own[value_list.end() :].strip() and not PATTERNS["about_me"].search(line):
            ends = min(ends, value_list.start())
            break
    return own[:ends] + "\n" * (len(own) - ends)


def _sentence_spans(own: str) -> Iterator[tuple[int, int, bool]]:
    """Start and end of each sentence, and whether it is a question."""
    begin = 0
    for mark in PATTERNS["sentence_end"].finditer(own):
        word = own[max(begin, mark.start() - 10) : mark.start()].rpartition(" ")[2].lower()
        if mark[0] == "." and (word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha() and word != "i")):
            continue
        if own[begin : mark.start()].strip():
            yield begin, mark.start(), "?" in mark[0]
        begin = mark.end()
    if own[begin:].strip():
        yield begin, len(own), False


def _read_sentence(
    raw: str, own: str, begin: int, end: int, asks: bool, quoted: bytearray, subject: str, is_correcting: bool
) -> Iterator[Fact]:
    if asks:
        question = PATTERNS["asking"].search(own, begin, end)
        end = question.start() if question else begin
    sentence = own[begin:end]
    if len(sentence) > _MAX_SENTENCE_CHARS or PATTERNS["taken_back"].search(sentence) or PATTERNS["secret"].search(sentence):
        return
    doubt = PATTERNS["doubt"].search(sentence)
    lower = not any(letter.isupper() for letter in sentence)
    place = begin
    for head in PATTERNS["heads"].finditer(own, begin, end):
        start = head.start()
        if start < place or quoted[start]:
            continue
        first, marked = _clause_start(own, begin, start)
        if first < 0 or (doubt and begin + doubt.end() <= first):
            continue
        casual = lower or own[start] == "i"
        clause = Clause(raw, own, begin, start, end, subject, casual, first == begin, marked or is_correcting)
        match = _read_clause(clause)
        if match:
            yield match.fact
            place = match.end


_MARKS = frozenset(",;(")
_JOINS = frozenset(("and", "but", "so", "because", "since", "plus", "although", "though", "given that"))
_JOINED = re.compile(r"(?:(?!(?:i|is|are|am)\b)[\w-]+\s){0,4}", re.IGNORECASE)


def _clause_start(own: str, begin: int, start: int) -> tuple[int, bool]:
    """Where the fillers before a statement begin, and whether they mark a correction; -1 if no clause begins there."""
    at, loose = start, False
    for _ in range(8):
        bare = own[begin:at].rstrip(" \t,:;-–—!(.*•")
        between = own[begin + len(bare) : at].strip()
        loose = loose or between in ("-", "–", "—") or not _MARKS.isdisjoint(between)
        if not bare.strip() or re.fullmatch(r"\s*\d{1,2}", bare):
            return begin, bool(PATTERNS["corrects"].search(own, begin, start))
        tail = own[max(begin, begin + len(bare) - 40) : begin + len(bare)]
        fillers = [filler for filler in PATTERNS["fillers"].finditer(tail) if filler.end() == len(tail)]
        filler = max(fillers, key=lambda filler: len(filler[0]), default=None)
        if filler is None:
            marked = bool(PATTERNS["corrects"].search(own, begin + len(bare), start))
            return (begin + len(bare) if loose else -1), marked
        if filler[0].lower() == "and" and not loose and _JOINED.fullmatch(own, begin, begin + len(bare) - 3):
            return -1, False  # "My husband and I …"
        loose = loose or filler[0].lower() in _JOINS
        at = begin + len(bare) - len(filler[0])
    return -1, False


def _read_clause(clause: Clause) -> FactMatch | None:
    """The result of the first rule that can read a clause."""
    for rule in RULES:
        match = rule.head.match(clause.plain, clause.start, clause.end)
        if match:
            read = _read_note if rule.read == "note" else READERS[rule.read]
            current = strip_now(clause, match, rule.passing) if rule.now else clause
            fact_match = None if current is None else read(current, match, rule)
            if fact_match:
                return fact_match
    return None


def _resolve_corrections(facts: list[Fact]) -> list[Fact]:
    """Distinct facts, without what no longer holds where the message also says what holds now."""
    current = {fact.key for fact in facts if fact.key and not _has_ended(fact)}
    kept = [fact for fact in facts if not (_has_ended(fact) and fact.key in current)]
    ended = {fact.key for fact in facts if _has_ended(fact)}
    marked = [replace(fact, correction=True) if fact.key in ended else fact for fact in kept]
    return list(dict.fromkeys(marked))


def _has_ended(fact: Fact) -> bool:
    return fact.correction and (" no longer " in fact.content or fact.content.endswith(("anymore.", "any more.")))


def _read_note(clause: Clause, match: re.Match[str], rule: Rule) -> FactMatch | None:
    """What the speaker asks to remember: a fact where a rule can read it, otherwise a note."""
    if not clause.alone or (match["verb"].lower() == "note" and match["link"] is None):
        return None
    fact_match = _read_clause(replace(clause, start=match.end(), begin=match.end()))
    if fact_match:
        return fact_match
    end = trim_end(clause, match.end(), clause.end)
    raw = clause.raw[match.end() : end].strip()
    plain = clause.plain[match.end() : end].strip()
    if not _is_worth_noting(match, plain):
        return None
    return FactMatch(
        Fact(_word_note(plain, raw, clause.subject), rule.tag, None, rule.confidence, clause.is_correction), clause.end
    )


def _is_worth_noting(match: re.Match[str], said: str) -> bool:
    """Whether a note is about the speaker; about code or the world, the same words explain something."""
    verb, link = match["verb"].lower(), (match["link"] or "").strip()
    if not 3 <= len(said.split()) <= 60 or PATTERNS["deictic"].match(said):
        return False
    if verb.startswith("note"):
        return re.match(r"(?:i|my)\b", said, re.IGNORECASE) is not None and not PATTERNS["at_hand"].search(said)
    own = re.match(r"(?:i|my|we|our)\b", said, re.IGNORECASE) is not None
    if link in ("", ","):
        return (own or verb.startswith("for")) and not PATTERNS["addressee"].search(said)
    kindly = PATTERNS["kindly"].match(match["ask"]) is not None or match["this"] is not None
    if not own and PATTERNS["note_start"].match(said) is None:  # "remember that song": no clause follows
        return False
    if kindly or verb.startswith(("for", "make", "take")):
        return True
    return (
        PATTERNS["first_person"].search(said) is not None
        and not PATTERNS["addressee"].search(said)
        and not PATTERNS["at_hand"].search(said)
    )


def _word_note(plain: str, said: str, subject: str) -> str:
    """A note in the third person where no meaning is lost, otherwise in the speaker's words."""
    verb = PATTERNS["i_verb"].match(plain)
    if not PATTERNS["together"].search(plain):
        if verb:
            return f"{subject} {_third_person(verb)}{to_third_person(said[verb.end() :])}."
        if re.match(r"my\s", plain, re.IGNORECASE):
            return f"{subject}'s {to_third_person(said[3:])}."
        if not PATTERNS["speaker"].search(plain):
            whom = "the user" if subject == "The user" else subject
            text = PATTERNS["me"].sub(whom, PATTERNS["my"].sub(f"{whom}'s", said))
            return f"{text[0].upper()}{text[1:]}."
    return f"{subject} asked to remember: {said}."


def _third_person(verb: re.Match[str]) -> str:
    """The third person of the verb after "I"."""
    for name, form in (("be", "is"), ("have", "has"), ("will", "will"), ("nt", "doesn't")):
        if verb[name]:
            return form
    if verb["same"]:
        return verb["same"].lower()
    plain = verb["verb"].lower()
    return {"teach": "teaches", "study": "studies"}.get(plain, plain + "s")


def _rule(fields: dict[str, Any]) -> Rule:
    patterns: dict[str, Any] = {name: PATTERNS[fields[name]] for name in ("value", "passing") if name in fields}
    return Rule(**(fields | patterns | {"head": LEXICON.compile(fields["head"])}))


_LOWER_HEADS = LEXICON.compile(LEXICON.data["patterns"]["heads"], 0)  # without regard to case it takes twice as long
RULES = [_rule(fields) for fields in LEXICON.data["rules"]]
