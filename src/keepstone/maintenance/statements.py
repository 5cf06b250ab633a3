"""Sentences as statements that can be held against each other: about whom, which words, which values, yes or no. Pure.

No grammar is attempted: a statement is the set of its words with the values (numbers, days, times) taken out. What cannot be read
with some safety, a question, a wish, a quotation or somebody's "it", is no statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from keepstone.text import english
from keepstone.text.english import MONTHS, STOP_WORDS
from keepstone.text.words import stem

SELF = "\u263a"  # whoever speaks, or whom a memory calls "the user"
MAX_CHARS = 4000  # longer texts are pasted, not said
_MAX_SENTENCE = 400


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def word_class(word: str) -> str:
    """The stem of a word, or of the commonest word that says the same."""
    return _CLASSES.get(stem(word), stem(word))


def classes(text: str) -> frozenset[str]:
    """The classes of a list of words."""
    return frozenset(word_class(word) for word in text.split())


# -- values ---------------------------------------------------------------------------------------------------------------
_MONTH = english.MONTH_PATTERN
_NUMBERS = {word: str(number) for word, number in english.UNITS.items() if number <= 12}
_VALUES = re.compile(
    r"(?P<iso>\b\d{4}-\d\d-\d\d\b)"
    rf"|\b(?P<md>{_MONTH})\.? (?P<md_day>\d{{1,2}})(?:st|nd|rd|th)?(?:,? (?P<md_year>\d{{4}}))?\b(?!:)"
    rf"|\b(?P<dm_day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<dm>{_MONTH})(?:,? (?P<dm_year>\d{{4}}))?\b"
    r"|\b(?P<hour>\d{1,2})(?::(?P<minute>\d\d))? ?(?P<half>[ap])\.?m\b\.?"
    r"|\b(?P<hour24>\d{1,2}):(?P<minute24>\d\d)\b|\b(?P<noon>noon|midnight)\b"
    r"|\b(?P<day>mon|tues|wednes|thurs|fri|satur|sun)days?\b"
    r"|(?P<money>[$€£] ?\d[\d.,]*\d ?[km]?\b|[$€£] ?\d[km]?\b|\b\d[\d.,]* ?(?:dollars|euros?|usd|eur|gbp)\b)"
    r"|\b(?P<percent>\d[\d.,]*) ?(?:%|percent\b)"
    r"|\b(?P<nth>\d{1,3})(?:st|nd|rd|th)\b"
    rf"|\b(?:in|until|till|by|to|for|since|from) (?P<month>{_MONTH})\b(?! \d)"
    r"|\b(?:in|until|till|by|since) (?P<year>(?:19|20)\d\d)\b"
    rf"|(?<![\w.-])v?(?P<number>\d[\d.,]*\d|\d)(?=k\b|km\b|kg\b|gb\b|mb\b|[^\w-]|$)"
    rf"|\b(?P<word>{'|'.join(_NUMBERS)})\b(?! of\b| day\b)",
    re.IGNORECASE,
)


def _value(found: re.Match[str]) -> tuple[str, str]:
    """(what sort of value, the value in one spelling)."""
    kind = found.lastgroup or ""
    if kind == "iso":
        return "date", found[0][5:]
    if kind.startswith(("md", "dm")):
        month, day = found["md"] or found["dm"], found["md_day"] or found["dm_day"]
        return "date", f"{MONTHS[month.lower()]:02}-{int(day):02}"
    if found["hour"]:
        hour = int(found["hour"]) % 12 + (12 if found["half"].lower() == "p" else 0)
        return "clock", f"{hour}:{found['minute'] or '00'}"
    if found["hour24"]:
        return "clock", f"{int(found['hour24'])}:{found['minute24']}"
    if found["noon"]:
        return "clock", "12:00" if found["noon"].lower() == "noon" else "0:00"
    if found["month"]:
        return "month", str(MONTHS[found["month"].lower()])
    if found["word"]:
        return "number", _NUMBERS[found["word"].lower()]
    said = found[kind].lower()
    return kind, said if kind == "day" else re.sub(r"[^\d.km]|\.$|(?<=\d)\.0+\b", "", said.replace(",", ""))


# -- words ----------------------------------------------------------------------------------------------------------------
_ME = _set("i me my mine myself we us our ours im ive i'm i've we're we've i'll we'll i'd we'd")
_OTHERS = _set("he she it they you this that these those there his her its their he's she's it's they're you're that's there's")
_FILLERS = _set(
    "and but so well ok okay oh ah yes yeah no nope also btw by the way fyi actually sorry correction update heads up just now "
    "then hi hello hey thanks honestly anyway quick news good bad great from on as of today wait please note remember "
    "currently recently finally officially unfortunately sadly luckily starting"
)
_NOW = re.compile(
    r"\b(?:now|nowadays|these days|as of|since|from now on|no longer|any ?more|instead|actually|correction|changed?|switched"
    r"|moved|rescheduled|pushed|postponed|shifted|increased|decreased|raised|lowered|dropped|grew|grown|shrank|became"
    r"|upgraded|downgraded|replaced|went (?:up|down)|gone (?:up|down)|migrated|turned|renamed|bumped|delayed|extended"
    r"|brought forward|reduced|relocated|swapped|doubled|not .{1,40} but)\b",
    re.IGNORECASE,
)
_CLASSES = {
    **dict.fromkeys(_set("love enjoy adore like hate dislik detest loath"), "like"),
    **dict.fromkeys(_set("own got has have having had"), "have"),
    **dict.fromkeys(_set("resid base locat live living"), "live"),
    **dict.fromkeys(_set("employ work"), "work"),
    **dict.fromkeys(_set("favorit favourit"), "favourite"),
    **dict.fromkeys(_set("people person member employee engineer"), "people"),
    **dict.fromkeys(_set("marry marri"), "marri"),
    **dict.fromkeys(_set("color colour"), "colour"),
    **dict.fromkeys(_set("sugar sugary"), "sugar"),
    "goe": "go", "flie": "fly", "flew": "fly", "drove": "drive", "ate": "eat", "drank": "drink", "ran": "run", "paid": "pay",
    "kid": "child", "children": "child", "meetup": "meeting", "took": "take", "cancell": "cancel",
}  # fmt: skip
TRIMMINGS = classes(
    "now currently actually really still already anymore longer any more lately recently finally again officially all "
    "instead definitely completely totally honestly sadly unfortunately day btw fyi thank sorry user nowadays entirely "
    "altogether both anyway update correction new current up down recent present more today onward dr mr mrs ms prof"
)
CHANGES = classes(
    "move switch change reschedul push postpone shift increase decrease raise lower drop grow grew shrink become became "
    "upgrade downgrade replac go went bring brought migrat turn start begin began correct cut double rename bump reset "
    "delay extend shorten reduce relocat swap set rise rose"
)
_VERBS = _set(
    "is are was were has have had will does do did lives works uses runs likes loves prefers drives costs starts begins ends "
    "takes needs wants plays speaks eats drinks owns goes comes sits stands opens closes meets reports moved changed switched "
    "went got became takes happens belongs hates knows wears sleeps studies teaches teach use run meet live work report cost "
    "prefer start drive speak eat drink pays pay increased decreased dropped rose grew doubled supports support isn't aren't "
    "doesn't don't isn't won't hasn't wasn't can cannot can't stores store deploys deploy weighs weigh earns earn reads "
    "writes returns listens requires require allows allow contains contain holds hold expires left quit stopped died retired "
    "ended closed opened charges charge stays stay gets get manages leads shipped called"
)
_STARTED = _VERBS | _ME | {"user"}
_NEGATIONS = english.NEGATIONS | {"without"}
_UNSAID = (STOP_WORDS | _NEGATIONS | {SELF}) - _set("have has had having")
_PAST = re.compile(
    r"(?<!\bis )(?<!\bare )(?<!\bbe )(?<!\bbeen )(?<!\bam )(?<!'s )(?<!'m )(?<!\bget )(?<!\bgets )(?<!\bhas )(?<!\bhave )"
    r"\b(?:was|were|had|did|went|got|bought|took|made|saw|met|gave|paid|spent|ran|came|found|wrote|sold|drove|flew|ate|drank"
    r"|left|lost|won|used to|(?:ve|have|has) never|(?:did|was|were|had|have|has)n't"
    r"|(?!(?:named|called|based|located|married|retired|used)\b)[a-z]{3,14}(?<!e)ed)\b",
    re.IGNORECASE,
)

# -- sentences ------------------------------------------------------------------------------------------------------------
_SENTENCE = re.compile(r"[^.!?\n]+(?:\.(?=[\w@])[^.!?\n]+)*[.!?\n]*")
_UNSURE = re.compile(
    r"\b(?:if|unless|maybe|perhaps|might|may(?! \d)|would|could|should|wish|hope|hoping|imagine|pretend|suppose|supposed"
    r"|hypothetically|wonder|wondering|guess|thinking (?:of|about)|think about|consider|considering|plan(?:ning)? (?:to|on)"
    r"|want to|wants to|about to|going to|gonna|what|why|how come|whether|sometimes|almost|nearly|probably|possibly|joking"
    r"|kidding|dreamt|dreamed|according to|says|said|say|told|tells|claims?|asked|asks|heard|read that"
    r"|song|story|novel|film|movie|character|quote|example|here(?:'s| is| are)|remind me|can you"
    r"|please (?:write|translate|draft|fix)|translate|summari[sz]e|until i|when i|used to"
    r"|back (?:in|then|when)|in the past|as a (?:child|kid|student)|years? ago|let's|try(?:ing)? to|need to|have to"
    r"|not (?:just|only|too|very|so|that|all|even|quite|sure|always|really|necessarily|yet)|yet)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"\n]{1,400}\"|“[^”\n]{1,400}”|^\s*>[^\n]*|```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_PASSING = re.compile(
    r"\b(?:today|tonight|yesterday|tomorrow|this (?:week|weekend|month|morning|afternoon|evening|time|year)"
    r"|(?:on|in) (?:january|lent)|last (?:night|week|month|year|time|summer))\b",
    re.IGNORECASE,
)
_BRIEF = re.compile(
    r"\b(?:for (?:a|the) (?:day|week|weekend|while|moment|month|trip|holidays?)|right now|at the moment|temporarily"
    r"|(?:on|in) (?:vacation|holiday))\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"\s*[,;:(]\s+|\s+[-–—]+\s+|\s+(?:but|so|because|since|which|while|although|though)\s+"
    r"|,?\s+and\s+(?=(?:i|we|my|our|the|it|now)\b)",
    re.IGNORECASE,
)
_TITLE = re.compile(r"\b(Dr|Mr|Mrs|Ms|Prof|St)\.")
_NAMED = re.compile(r"'s name is | is (?:called|named) ")
_TOKEN = re.compile(r"[^\W_](?:[\w'’+#@]|[-./&](?=\w))*")
_NT = re.compile(r"(?:(?<=ca)n't|n['’]t)\b|\bcannot\b|\bcan not\b", re.IGNORECASE)
_HATES = re.compile(r"\b(?:hates?|dislikes?|detests?|loathes?|can'?t stand|cannot stand)\b", re.IGNORECASE)
_ENDED = re.compile(
    r"\b(?:no longer|any ?more|(?:have |has |'ve )?(?:stopped|quit|given up|gave up|cancell?ed|dropped|ditched"
    r"|got rid of|gotten rid of|sold|left|resigned from|broke up with|abandoned|shut down|discontinued"
    r"|deleted|uninstalled|unsubscribed from|retired from))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One clause. `about` are the words of its subject (SELF alone: the speaker), `words` all that it says without values and
    trimmings, `things` those with a capital, `negative` whether it denies, `ended` whether it says that something is over,
    `changed` whether it says that something is new, `passing` whether it holds for a short time only."""

    text: str
    about: frozenset[str]
    words: frozenset[str]
    things: frozenset[str]
    values: tuple[tuple[str, str], ...]
    negative: bool
    ended: bool
    changed: bool
    past: bool
    passing: bool
    copula: bool


def statements(text: str, subject: str = "user") -> list[Statement]:
    """The statements in a text, clause by clause, and each sentence as a whole where it has several."""
    found: list[Statement] = []
    if len(text) > MAX_CHARS:
        return found
    plain = _NAMED.sub(" is ", _TITLE.sub(r"\1", _QUOTED.sub(" \u2026 ", text.replace("’", "'"))))
    for sentence in _SENTENCE.findall(plain):
        sentence = sentence.strip()
        if not sentence or sentence.endswith("?") or len(sentence) > _MAX_SENTENCE or "\u2026" in sentence:
            continue
        if _UNSURE.search(sentence):
            continue
        clauses = [each for each in _CLAUSE.split(sentence) if each and each.strip()]
        for clause in dict.fromkeys([sentence, *clauses]):
            statement = _statement(clause.strip(" .!"), subject, sentence)
            if statement is not None:
                found.append(statement)
    return found


def _statement(clause: str, subject: str, sentence: str) -> Statement | None:
    values: list[tuple[str, str]] = []

    def taken(found: re.Match[str]) -> str:
        sort, value = _value(found)
        if sort == "number" and not _before_it(clause, found.start()) & _STARTED:
            return f" {value} "  # "chapter 3 is …": which one it is, not what is said of it
        values.append((sort, value))
        return " \u00b7 "

    bare = _VALUES.sub(taken, clause)
    tokens = list(_tokens(bare, subject))
    about = _about(tokens)
    if about is None:
        return None
    said = [(word, shown) for word, shown in tokens if word not in _UNSAID]
    words = frozenset(word_class(word) for word, _ in said) - TRIMMINGS
    names = frozenset(word_class(word) for word, shown in said[0 if about == {SELF} else 1 :] if shown[:1].isupper())
    names |= frozenset(stem(word) for word, shown in said if any(letter.isupper() for letter in shown[1:]))
    denied = len(_NEGATIONS & {word for word, _ in tokens}) + bool(_HATES.search(clause))
    ended = _ENDED.search(clause) is not None
    if ended and re.search(r"\b(?:no longer|not|n't|don't|doesn't)\b", clause, re.IGNORECASE) is None and "any" not in clause:
        denied += 1
    changed = _NOW.search(sentence) is not None
    return Statement(
        clause,
        about,
        words,
        names,
        tuple(values),
        denied % 2 == 1,
        ended,
        changed,
        _PAST.search(clause) is not None,
        _is_passing(clause, ended, changed),
        re.search(r"\b(?:is|are|am)\b|'[sm]\b|\b(?:will|to) be\b|'re\b", clause) is not None,
    )


def _before_it(clause: str, at: int) -> set[str]:
    return set(clause[:at].lower().replace("'s", " ").split())


def _is_passing(clause: str, ended: bool, changed: bool) -> bool:
    """Whether something is said of a short time only; "last week" may also say when it ended or changed."""
    if _BRIEF.search(clause):
        return True
    passing = _PASSING.search(clause)
    return passing is not None and not ended and not (changed and passing[0].lower().startswith(("last", "yesterday")))


def _tokens(text: str, subject: str) -> Iterator[tuple[str, str]]:
    """(the word in lower case, as it is written); the speaker's words and name are SELF."""
    own = {"user", *subject.lower().split()}
    for found in _TOKEN.finditer(_NT.sub(" not", text)):
        shown = found[0].rstrip("'")
        word = shown.lower()
        whose = word.removesuffix("'s")
        if word in _ME or whose in own:
            yield SELF, shown
            continue
        if word != whose and whose in ("it", "that", "there", "he", "she", "what", "let"):
            yield whose, shown
            yield "is", "is"
            continue
        yield whose, shown.removesuffix("'s")


def _about(tokens: list[tuple[str, str]]) -> frozenset[str] | None:
    """The words of the subject; None where there is none that says whom it means."""
    at = 0
    while at < len(tokens) and tokens[at][0] in _FILLERS:
        at += 1
    rest = tokens[at:]
    if not rest or rest[0][0] in _OTHERS:
        return None
    if rest[0][0] == SELF:
        owner = rest[0][1].lower()
        if owner not in ("my", "our") and not owner.endswith("'s"):
            return frozenset((SELF,))
        rest = rest[1:]
    head: list[str] = []
    for place, (word, shown) in enumerate(rest[:8]):
        if place and (
            word in _VERBS
            or (
                place == len(head)
                and rest[0][1][:1].isupper()
                and shown.islower()
                and word.endswith("s")
                and not _is_plural(rest, place)
            )
        ):
            return frozenset(word_class(each) for each in head if each not in STOP_WORDS and each != SELF) - TRIMMINGS or None
        head.append(word)
    return None


def _is_plural(rest: list[tuple[str, str]], place: int) -> bool:
    """Whether a word in -s is more likely a noun: an article or a small word stands before it."""
    return rest[place - 1][0] in STOP_WORDS or rest[0][0] in STOP_WORDS
