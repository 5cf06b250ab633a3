"""Facts that people state about themselves in other languages than English, by the rules in each language's data file.

Precision comes before recall: a rule must match a whole clause, and a sentence that asks, denies, quotes, doubts, or speaks of
the past or of other people states nothing. A fact is worded in the language it was said in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from keepstone.learning.clauses import Fact
from keepstone.text.languages.lexicon import Lexicon, fold, load, load_exactly, normalize, pattern
from keepstone.text.languages.stems import LATIN
from keepstone.text.sentences import split_sentences
from keepstone.text.words import terms

MAX_CHARS = 4000  # longer texts are pasted, not said
_MAX_SENTENCE_CHARS = 300
_MAX_FACTS = 24
_MAX_UNCLEAR_CHARS = 200
_KINDS = {  # kind of statement -> key, tag, confidence
    "name": ("user.name", "profile", 0.95),
    "home": ("user.home", "profile", 0.9),
    "employer": ("user.employer", "profile", 0.9),
    "job": ("user.job", "profile", 0.88),
    "diet": ("user.diet", "profile", 0.93),
    "birthday": ("user.birthday", "profile", 0.93),
    "allergy": (None, "profile", 0.93),
    "relation": (None, "profile", 0.9),
    "like": (None, "preference", 0.85),
    "dislike": (None, "preference", 0.85),
}
_CLOSED = frozenset(("relation", "occupation", "diet", "pet", "date", "born"))  # values out of a list, or of one form
_HOLDERS = frozenset(("partner", "mother", "father", "manager"))  # relations with one holder at a time
_PROPER = r"(?-i:[A-Z][\w'-]+(?: (?:(?:de|da|do|dos|van|von|der|den|la|le|el|di|del) )*[A-Z][\w'-]+){0,2})"
_VALUES = {  # what a value looks like, where a language's file does not say
    "name": _PROPER,
    "place": _PROPER,
    "employer": r"(?-i:[A-Z][\w'&.-]*(?: (?:(?:de|da|do|van|von|der|di|del) )*[A-Z][\w'&.-]*){0,3})",
    "thing": r"[\w'-]+(?: [\w'-]+){0,4}?",
}
_DATES = (
    r"\d{{1,2}}(?:\.|er|º)? ?(?:de |di )?(?:{months})(?:,? (?:de |del )?\d{{4}})?(?: ?г(?:ода)?\.?)?"
    r"|\d{{1,2}}[./]\d{{1,2}}(?:[./]\d{{2,4}}|\.)?"
    r"|(?:\d{{4}}年)?\d{{1,2}}月\d{{1,2}}[日号號]|(?:\d{{4}}년 )?\d{{1,2}}월 \d{{1,2}}일"
)
_QUOTES = re.compile('["“”„«»「」『』`<>|{}]|(?<!\\d)[:：]|https?')
_SLOT = re.compile(r"\{\w+\}")
_ASKS = re.compile(r"[?？؟]|吗[。!]?\s*$")
_EDGES = " \t'’.,!。！、，…~-"


@dataclass(frozen=True, slots=True)
class Statement:
    """A fact with the kind of statement and its value as it was said."""

    kind: str
    value: str
    fact: Fact


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules of one language: kind, pattern of a whole clause, and the wording of the fact."""

    rules: tuple[tuple[str, re.Pattern[str], str], ...]
    lexicon: Lexicon
    fiction: re.Pattern[str]
    doubt: re.Pattern[str]
    unfit: re.Pattern[str]
    lead: re.Pattern[str]
    splits: re.Pattern[str]  # commas, and "and" before "I"
    joins: re.Pattern[str]  # every "and"


def find_in_any_language(text: str, name: str | None = None) -> list[Statement]:
    """The statements of a short text whose language is not clear, where the rules of only one language can read it.

    >>> [each.fact.content for each in find_in_any_language("Chamo-me Inês.")]
    ['O usuário chama-se Inês.']
    """
    if len(text) > _MAX_UNCLEAR_CHARS:
        return []
    found = [statements for language in sorted(LATIN) if (statements := find_statements(text, language, name))]
    return found[0] if len(found) == 1 else []


def find_statements(text: str, language: str, name: str | None = None) -> list[Statement]:
    """What a speaker states about themselves in one message in this language; `name` is the speaker's, where it is known.

    >>> [each.fact.content for each in find_statements("Ich heiße Anna und ich wohne in Köln.", "de")]
    ['Der Nutzer heißt Anna.', 'Der Nutzer wohnt in Köln.']
    """
    rules = _load(language)
    said = normalize(text) if len(text) <= MAX_CHARS else ""
    if not said or rules.fiction.search(fold(said)):
        return []
    found: dict[Fact, Statement] = {}
    for line in said.split("\n"):
        for sentence in split_sentences(line):
            if len(sentence) <= _MAX_SENTENCE_CHARS and not _QUOTES.search(sentence) and not _ASKS.search(sentence):
                found |= {each.fact: each for each in _read_sentence(sentence, rules, name)}
    return list(found.values())[:_MAX_FACTS]


def _read_sentence(sentence: str, rules: _Rules, name: str | None) -> Iterator[Statement]:
    folded = fold(sentence)
    for start, end in _clauses(folded, 0, len(folded), rules.splits, rules):
        whole = _read_clause(sentence, folded, start, end, rules, name)
        parts = [(start, end)] if whole else _clauses(folded, start, end, rules.joins, rules)
        for first, last in parts:
            statement = whole or _read_clause(sentence, folded, first, last, rules, name)
            if statement:
                yield statement


def _read_clause(sentence: str, folded: str, start: int, end: int, rules: _Rules, name: str | None) -> Statement | None:
    for kind, clause, wording in rules.rules:
        match = clause.fullmatch(folded, start, end)
        values = {group: span for group in match.groupdict() if (span := match.span(group))[0] >= 0} if match else {}
        if match and not _is_doubtful(folded, start, end, values, rules):
            return _build(kind, wording, sentence, match, values, rules, name)
    return None


def _clauses(folded: str, begin: int, close: int, splits: re.Pattern[str], rules: _Rules) -> Iterator[tuple[int, int]]:
    """Start and end of each clause in a part of a sentence, without fillers and punctuation."""
    at = begin
    for cut in [*splits.finditer(folded, begin, close), None]:
        end = close if cut is None else cut.start()
        clause = folded[at:end]
        start, stop = at + len(clause) - len(clause.lstrip(_EDGES)), at + len(clause.rstrip(_EDGES))
        while (lead := rules.lead.match(folded, start, stop)) and lead.end() > start:
            start = lead.end()
        if start < stop:
            yield start, stop
        at = end if cut is None else cut.end()


def _is_doubtful(folded: str, start: int, end: int, values: dict[str, tuple[int, int]], rules: _Rules) -> bool:
    """Whether a value names nothing, or the words around the rule's own make it no fact."""
    said = [folded[first:last] for group, (first, last) in values.items() if group not in _CLOSED]
    if any(rules.unfit.search(value) for value in said):
        return True
    around = [folded[:start], folded[end:], *said]
    return any(rules.doubt.search(part) for part in around)


def _build(
    kind: str,
    wording: str,
    sentence: str,
    match: re.Match[str],
    values: dict[str, tuple[int, int]],
    rules: _Rules,
    name: str | None,
) -> Statement:
    said = dict.fromkeys(match.groupdict(), "")
    said |= {group: sentence[first:last].strip(_EDGES) for group, (first, last) in values.items()}
    facts = load_exactly(rules.lexicon.code)["facts"]
    user, of_user = (facts["user"], facts["of_user"]) if name is None else (name, facts["of_name"].format(name=name))
    content = wording.format(user=user, of_user=of_user, **said)
    key, tag, confidence = _KINDS[kind]
    if kind == "relation" and (relation := said.get("relation")):
        holder = rules.lexicon.resolve("relation", fold(relation).lower())
        key = f"user.{holder}" if holder in _HOLDERS else None
    last = said.get("name") or next((value for group, value in reversed(said.items()) if value), "")
    return Statement(kind, last, Fact(content[0].upper() + content[1:], tag, key, confidence))


@cache
def _load(language: str) -> _Rules:
    lexicon = load(language)
    facts = lexicon.data["facts"]
    months = "|".join(lexicon.data["months"])
    defaults = {name: [("", value)] for name, value in (*_VALUES.items(), ("date", _DATES.format(months=months)))}
    lexicon = replace(lexicon, slots={**defaults, **lexicon.slots})
    wordings = [wording for _, _, wording in load_exactly(language)["facts"]["rules"]]
    rules = tuple(
        (kind, re.compile(lexicon.expand(clause), re.IGNORECASE), wording)
        for (kind, clause, _), wording in zip(facts["rules"], wordings, strict=True)
    )
    word = {name: pattern(language, "facts", name) for name in ("fiction", "doubt", "unfit")}
    after_lead = r"[ ,!،，！、.。]+" if language not in ("zh", "ja") else r"[ ,，!！、.。]*"
    lead = re.compile(rf"(?:{facts['lead']}){after_lead}", re.IGNORECASE)
    splits = re.compile(
        rf"[,;，；،、](?:\s*(?:{facts['joins']})(?!\w))?|\s(?:{facts['joins']})\s(?={_starts(lexicon)})", re.IGNORECASE
    )
    joins = re.compile(rf"\s(?:{facts['joins']})\s", re.IGNORECASE)
    return _Rules(rules, lexicon, word["fiction"], word["doubt"], word["unfit"], lead, splits, joins)


def _starts(lexicon: Lexicon) -> str:
    """How a clause about oneself begins: the first word of each rule."""
    return lexicon.bound(lexicon.data["questions"]["me"]) if lexicon.spaced else ""


@cache
def wording_terms(language: str) -> frozenset[str]:
    """The terms that the wording of every fact may hold, whatever its value."""
    facts = load_exactly(language)["facts"]
    wordings = [
        wording.replace("{user}", facts["user"]).replace("{of_user}", facts["of_user"]) for _, _, wording in facts["rules"]
    ]
    return frozenset(term for wording in wordings for term in terms(_SLOT.sub(" ", wording)))
