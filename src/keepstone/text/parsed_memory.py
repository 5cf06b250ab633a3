"""One memory read for comparison: its facts as ordered clauses of plain terms, its trimmings set aside. A reading knows nothing
of the text it will be compared with. Terms are lower-case lemmas; "<" after a term marks the past, "~" the passive.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from keepstone.text import english
from keepstone.text.lexicon import Lexicon, join_words
from keepstone.text.words import stem

LEXICON = Lexicon("english_duplicates")
WORDS = LEXICON.words

# -- tokens and terms -----------------------------------------------------------------------------------------------------
_TOKEN = re.compile(  # most tokens are plain words: they come first
    r"[a-z]++(?![-+#]|[^\W\d_])|c\+\+|[cf]#|\.net\b|!=|\d+th\b|(?<![\w)])-?\d[\d,]*(?:[.:]\d+)*|\d[\d,]*(?:[.:]\d+)*"
    r"|each-[a-z]+|[a-z]++-ly\b|'(?:s|re|ve|m|ll|d)\b|[^\W\d_]+|[^\s\w\"'()\[\]{}*_/\\`~.…–—-]|\.(?=\s|$)|(?<=\s)[–—](?=\s)"
)
_PHRASES = [(hints.split("|"), LEXICON.compile(pattern, 0), plain) for hints, pattern, plain in LEXICON.data["phrases"]]
_HINTED = {  # hint -> the phrases with a hint that begins like it
    hint: [at for at, (hints, _, _) in enumerate(_PHRASES) if any(each.startswith(hint) for each in hints)]
    for hint in {hint for hints, _, _ in _PHRASES for hint in hints}
}
_HINTS = re.compile(f"(?=({join_words(sorted(_HINTED))}))")
_FRAME = re.compile(r"^(?:" + "|".join(LEXICON.data["frames"]) + r")\s*")
_BASE_FORMS: dict[str, str] = LEXICON.data["base_forms"]
_SYMBOLS: dict[str, str] = LEXICON.data["symbols"]
_DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({english.MONTH_PATTERN})\b\.?")
_MONTH_DAY = re.compile(rf"\b({english.MONTH_PATTERN})\.? (\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)")
_DIGIT = re.compile(r"\d")
_DATE_YEAR = re.compile(r"(date \d+:\d+),? (?=\d{4}\b)")
_SHORT_CLOCK = re.compile(r"\d(?<![\d:-]\d)(?<!date \d):\d\d\b")
_ISO_DATE = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b")
_CLOCK_SIGN = re.compile(r"\d ?[ap]\.?m\b")
_CLOCK = re.compile(r"\b(\d{1,2})(?::(\d\d))? ?([ap])\.?m\b\.?")
_ORDINAL_SIGN = re.compile(r"\d(?:st|nd|rd|th)\b")
_ORDINAL = re.compile(r"\b(\d+)(?:st|nd|rd|th)\b")
_AMOUNT = re.compile(r"([€$£]) ?(\d[\d,.]*\d|\d)")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+\b")
_VERSION = re.compile(r"v(?<!\wv)(?=\d)")
_NAME = re.compile(r"[A-Z](?<!\w[A-Z])(?!(?<=U)ser|(?<=T)he\b)\w+")
_NO_CODE = re.compile(r"(?i)v?[\d.,:]+[a-z]{0,3}(?:-[a-z]+)*|k8s")  # 3pm, 25th, 64GB, v2.1, 3-year-old
_FRAME_OF_USER = re.compile(r"(?:according to )?(?:the )?(?:user|i|we|they)\b")
_FRAME_OF_NOTE = re.compile(r"(?:please|note|remember|reminder|fyi|for the|just|by the|btw)\b")
# Letters that would pass for grammar: vitamin A, a job in IT, the US.
_MEANT = {"IT": "infotech", "US": "usa", "A": "lettera", "WHO": "worldhealth"}
_SHOUTED = re.compile(r"[IUAW](?<=[\w,] [IUAW])(?:(?<=I)T|(?<=U)S|(?<=A)|(?<=W)HO)\b")
_ISE = re.compile(r"(?<=\w{3})(?:ys|is)(?=(?:e|es|ed|ing|ation)$)")
_OUR = re.compile(r"(?<=\w{3})our(?=s?$|ite|ed$|ing$|hood)")
_TRE = re.compile(r"(?<=[nt])tre$")


def _base_form(word: str) -> str:
    if word in _BASE_FORMS:
        return _BASE_FORMS[word]
    if word in WORDS["not_gerund"] or word in WORDS["only_plural"] or word.endswith("ly"):
        return word
    for ending in ("ing", "ed"):
        if word.endswith(ending) and word[: -len(ending)] in WORDS["e_verbs"]:
            return word[: -len(ending)] + "e"
    if word.endswith("ied") and len(word) > 4:
        return word[:-3] + "y"
    plain = stem(_one_spelling(word))
    return plain[:-1] if plain.endswith("ll") and len(plain) > 5 else plain


def _one_spelling(word: str) -> str:
    """One spelling of two: organise, colour and centre become organize, color and center."""
    word = _ISE.sub(lambda found: found[0][0] + "z", word) if "is" in word or "ys" in word else word
    word = _OUR.sub("or", word) if "our" in word and len(word) > 4 else word
    return _TRE.sub("ter", word) if word.endswith("tre") else word


_GROUPS = [group.split() for group in " ".join(LEXICON.data["synonyms"].split()).split(" | ")]
SYNONYM = {word if word.endswith("ed") else _base_form(word): group[0] for group in _GROUPS for word in group}


@lru_cache(maxsize=16384)
def lemma(word: str) -> str:
    """The term a word is compared by: uninflected, in one spelling, the first of its synonyms."""
    base = word if word in WORDS["not_our"] else _base_form(english.PAST_FORMS.get(word, word))
    return SYNONYM.get(base, base)


def _prepare(text: str) -> tuple[str, bool, bool]:
    """The text in plain phrases; whether it is only supposed or reported; whether the user reports it."""
    plain = text if text.isupper() else _SHOUTED.sub(lambda found: _MEANT[found[0]], text)
    plain = " ".join(plain.lower().split())
    hedged = by_user = False
    for _ in range(3):
        frame = _FRAME.match(plain)
        shorter = plain[frame.end() :] if frame else plain
        if shorter == plain or not shorter:
            break
        hedged = hedged or not _FRAME_OF_NOTE.match(plain)
        by_user = by_user or _FRAME_OF_USER.match(plain) is not None
        plain = shorter
    plain = _replace_phrases(plain.replace("the user", "user"))
    return (_normalise_figures(plain) if _DIGIT.search(plain) else plain), hedged, by_user


def _replace_phrases(plain: str, first: int = 0) -> str:
    """The text with the phrases from the first one on replaced, in their order."""
    for at in sorted({at for hint in set(_HINTS.findall(plain)) for at in _HINTED[hint] if at >= first}):
        hints, pattern, replacement = _PHRASES[at]
        changed = pattern.sub(replacement, plain) if any(hint in plain for hint in hints) else plain
        if changed != plain:
            return _replace_phrases(changed, at + 1)
    return plain


def _normalise_figures(plain: str) -> str:
    """Dates, times, versions and amounts, each kind written in one way. Each is looked for only where a cheap sign of it is.
    The replacements are functions, which are faster than templates."""
    if "-" in plain:
        plain = _ISO_DATE.sub(lambda d: f"date {int(d[2])}:{int(d[3])} {d[1]}", plain)
    if not english.MONTHS.keys().isdisjoint([word.rstrip(".,;") for word in plain.split()]):
        plain = _DAY_MONTH.sub(lambda d: f"date {english.MONTHS[d[2]]}:{int(d[1])}", plain)
        plain = _MONTH_DAY.sub(lambda d: f"date {english.MONTHS[d[1]]}:{int(d[2])}", plain)
    if "date " in plain:
        plain = _DATE_YEAR.sub(lambda d: d[1] + " ", plain)
    if _CLOCK_SIGN.search(plain):
        plain = _CLOCK.sub(lambda t: f"{int(t[1]) % 12 + 12 * (t[3] == 'p'):02d}:{t[2] or '00'}", plain)
    if ":" in plain:
        plain = _SHORT_CLOCK.sub(lambda t: "0" + t[0], plain)
    if "v" in plain:
        plain = _VERSION.sub("version ", plain)
    if "$" in plain or "€" in plain or "£" in plain:
        plain = _AMOUNT.sub(lambda a: f"{a[2]} {a[1]}", plain)
    return _ORDINAL.sub(lambda n: n[1] + "th", plain) if _ORDINAL_SIGN.search(plain) else plain


def folded(text: str) -> str:
    """One form of every character: compatibility forms merged, accents off, quotes straight."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKD", text.replace("’", "'").replace("‘", "'"))
    return unicodedata.normalize("NFC", "".join(c for c in text if unicodedata.category(c) != "Mn" or c > "\u0370"))


_NUMBER_WORDS = english.UNITS.keys() | english.TENS.keys()


def _merge_numbers(tokens: list[str]) -> list[str]:
    """Number words and thousands as digits: twenty five -> 25, 2 million -> 2000000, 10,000 -> 10000."""
    merged: list[str] = []
    value: int | None = None
    last = 0
    for token in [*tokens, ""]:
        if value is None and token not in _NUMBER_WORDS and (token.isalpha() or token in (",", ".")):  # most words
            merged.append(token)
            continue
        digits = token.replace(",", "") if _THOUSANDS.match(token) else token.rstrip(",")
        if value is not None and token in english.SCALES:
            value, last = value * english.SCALES[token], english.SCALES[token]
            continue
        step = english.UNITS.get(token, english.TENS.get(token))
        if value is not None and step is not None and (last >= 100 or (last >= 20 and step < 10)):
            value, last = value + step, step
            continue
        if value is not None:
            merged.append(str(value))
            value = None
        if step is not None:
            value = last = step
        elif digits.isascii() and digits.isdigit() and len(digits) < 16 and not digits.startswith("0"):
            value, last = int(digits), 1
        elif token:
            merged.append(digits or token)
    return merged


def is_past(word: str) -> bool:
    """Whether a word has the form of a past tense or a participle."""
    return word in english.PAST_FORMS or (word.endswith("ed") and len(word) > 3 and word not in WORDS["not_past"])


def _mark_possessives(tokens: list[str]) -> list[str]:
    """'s as "is" where it must be, and as the mark of an owner everywhere else."""
    if "'s" not in tokens:
        return tokens
    told: list[str] = []
    for at, token in enumerate(tokens):
        after = tokens[at + 1] if at + 1 < len(tokens) else ""
        if token != "'s":
            told.append(token)
        elif (
            told[-1:] in (["it"], ["he"], ["she"], ["that"], ["there"], ["what"], ["who"])
            or (after.endswith("ing") and after not in WORDS["not_gerund"])
            or after in WORDS["articles"]
            or after in WORDS["moods"]
            or after in ("not", "")
            or is_past(after)
        ):
            told.append("is")
        elif told[-1:] == ["user"]:
            told[-1] = "user's"
        elif told:
            told.append("of-it")
    return told


def _following(words: list[str]) -> list[str]:
    """The word after each, fillers left out."""
    found, after, fillers = [], "", WORDS["fillers"]
    for word in reversed(words):
        found.append(after)
        if word not in fillers:
            after = word
    return found[::-1]


def is_number(term: str) -> bool:
    """Whether a term counts, dates or tells the time."""
    return any(c.isdigit() for c in term) or term in english.ORDINALS.values()


# -- clauses ----------------------------------------------------------------------------------------------------------------
Chunk = tuple[str, tuple[str, ...]]  # the preposition that opens it (or one of the marks below), its terms
Clause = tuple[Chunk, ...]
_LISTING = ("and", "or", ",")
_OPEN = ("", ",", "who", "be")  # markers that say nothing about the role of what follows


# What `take` may treat as anything but content, by the list that it is in (no word is in two) or by itself.
_ROLE_LISTS = """clause_ends hedges hedge_verbs manners starters fillers possessives articles be_now be_then user_object user
    grammar have prepositions joiners"""
_ROLES = {word: word for word in "just of-it : did , today feel feels feeling".split()} | {
    word: name for name in _ROLE_LISTS.split() for word in WORDS[name]
}


class Reading:
    """A memory as clauses of chunks, built in one walk over its tokens."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names = set() if text.isupper() else {name.lower() for name in _NAME.findall(text)}  # words with a capital
        plain, self.hedged, self.user_acts = _prepare(text)  # whether it is only supposed, and whether the user reports it
        self.words = _mark_possessives(_merge_numbers(_TOKEN.findall(plain)))  # as written, lower-cased, in order
        self.clauses: list[Clause] = []
        self.surfaces: dict[str, str] = {}  # term -> the word it came from
        self.singular: set[str] = set()  # terms said with "a"
        self.plural: set[str] = set()
        self.extras: set[str] = set()
        self.owner = ""  # whose things are spoken of: "user", "other" or ""
        self.landed = not WORDS["property"].isdisjoint(self.words)  # whether houses or firms are spoken of
        self.chunks: list[tuple[str, list[str]]] = [("", [])]
        self.before = ""  # what grammar stood just before: be, have, did, the, or nothing
        self.after_a = 0  # how many words a preceding "a" still reaches
        for token, following in zip(self.words, _following(self.words), strict=True):
            if token in _ROLES:
                self.take(token, following)
            else:
                self.content(token)
        self.end_clause()
        self.terms = sorted(term for clause in self.clauses for _, terms in clause for term in terms)

    @property
    def codes(self) -> tuple[str, ...]:
        """Paths, addresses and identifiers, exactly as written; in a text about a password or the like, capitals count."""
        secret = not WORDS["secrets"].isdisjoint(self.words)
        found = []
        for at, word in enumerate(self.text.split()):
            word = word.strip(".,;:!?()[]\"'")
            path = "@" in word or "_" in word or "\\" in word or (("." in word or word.count("/") > 1) and "/" in word)
            mixed = word[:1] and not word.isalpha() and any(c.isdigit() for c in word) and any(c.isalpha() for c in word)
            if path or (mixed and not _NO_CODE.fullmatch(word)) or (secret and at and word.lower() != word):
                found.append(word)
        return tuple(sorted(found))

    def open_chunk(self, marker: str) -> None:
        if not self.chunks[-1][1] and self.chunks[-1][0] in _OPEN:
            self.chunks.pop()
        self.chunks.append((marker, []))

    def end_clause(self) -> None:
        clause = _settle([(marker, tuple(terms)) for marker, terms in self.chunks if terms or marker not in _OPEN])
        if clause:
            self.clauses.append(clause)
        self.chunks = [("", [])]
        self.before = ""

    def last(self) -> str:
        return self.chunks[-1][1][-1] if self.chunks[-1][1] else ""

    def take(self, token: str, following: str) -> None:
        """Sort one token: trimming, grammar, preposition or content."""
        role = _ROLES[token]
        if role == "prepositions":  # the commonest roles first
            self.preposition(token, following)
        elif role == ",":
            self.open_chunk(",")
        elif role in ("articles", "of-it"):
            self.before = "the"
            self.after_a = 2 if token in ("a", "an") else 0
        elif role == "clause_ends":
            if token == "?":
                self.chunks[-1][1].append("?")
            self.end_clause()
        elif role == "joiners":
            self.open_chunk("and" if token in ("&", "plus") else token)
        elif role in ("be_now", "be_then", ":"):
            self.is_something(token, following)
        elif role == "hedges":
            self.hedged = True
        elif role == "hedge_verbs" and following and following not in WORDS["prepositions"]:
            self.hedged = True
            self.is_something(token, following)
        elif role in ("manners", "starters", "fillers", "just") and self.is_filler(token, following):
            self.extras.add(token)
        elif role == "possessives":
            self.owner = "user" if token in ("my", "our", "user's") or self.user_acts else "other"
            self.before = "the"
        elif role == "user_object" or (token == "user" and self.is_object(following)):
            self.chunks[-1][1].append("me")
        elif role == "user":
            if self.chunks != [("", [])]:
                self.open_chunk("who")
            self.user_acts = True
            self.before = ""
        elif role == "grammar":
            pass
        elif role == "did":
            self.before = "did"
        elif role == "have" and is_past(following):
            self.before = "have"
        elif role == "today" and (self.last() in WORDS["moods"] or following in WORDS["moods"]):
            self.extras.add(token)
        elif not (token.startswith("feel") and following in WORDS["moods"]):
            self.content(token)

    def is_something(self, token: str, following: str) -> None:
        """A copula: what it joins may change places, but not after "are": managers are designers."""
        if token in WORDS["be_then"]:
            self.chunks[-1][1].append("was")
        if not (following.endswith("ing") and following not in WORDS["not_gerund"]):
            started = any(terms for _, terms in self.chunks)
            self.open_chunk("" if not started else "are" if token in ("are", "were", "seem", "appear") else "be")
        self.before = "be" if token != ":" else ""

    def is_filler(self, token: str, following: str) -> bool:
        if self.last() == "not":
            return False
        if token in WORDS["manners"]:
            return bool(following) and following not in WORDS["prepositions"] and following.isalpha()
        if token in WORDS["starters"]:
            return not self.clauses and not any(terms for _, terms in self.chunks)
        return token in WORDS["fillers"] or (token == "just" and is_past(following))

    def is_object(self, following: str) -> bool:
        started = bool(self.chunks[-1][1]) or self.chunks[-1][0] not in _OPEN
        ends = following in ("", ",") or any(following in WORDS[name] for name in ("prepositions", "clause_ends", "articles"))
        return started and (ends or following[0].isdigit())

    def preposition(self, token: str, following: str) -> None:
        if token == "to" and self.last() in ("like", "love", "prefer", "hate", "begin"):
            return
        if token == "in" and _is_day(following):
            token = "on"
        elif token in ("for", "at") and self.last() == "work":
            token = "at"
        self.open_chunk({"into": "to", "onto": "to", "till": "until"}.get(token, token))
        self.before = "the" if token != "to" else ""

    def content(self, token: str) -> None:
        fixed, term, plural, on_day = _traits(token)
        if not term or self.before == "did":
            term = fixed or self.inflection(token)
        if plural:
            self.plural.add(term)
        elif self.after_a:
            self.singular.add(term)
        if self.after_a:
            self.after_a -= 1
        marker, terms = self.chunks[-1]
        if token in self.names and marker in _OPEN:
            self.user_acts = False  # from here on "his" may be anyone's
        if on_day and marker != "on":
            self.open_chunk("on")
            terms = self.chunks[-1][1]
        if token == "no":
            terms.insert(max(0, len(terms) - 1), "not")  # has no car: not has car
        else:
            terms.append(term)
            self.surfaces[term] = token
        if term != "not":
            self.before = ""

    def inflection(self, token: str) -> str:
        term = lemma(token)
        if token in WORDS["moods"]:
            return token
        if self.is_naming(token):
            return "called"
        if term == "own" and self.landed and token not in WORDS["have"]:
            term = "own outright"
        if token in SYNONYM and self.before in ("be", "the") and is_past(token):  # is employed, the preferred
            return SYNONYM[token]
        if token.endswith("ing") and self.before == "the" and token not in WORDS["not_gerund"]:
            return token
        if not is_past(token) or (self.chunks[-1][0] == "to" and not self.last()):
            return term + "<" if self.before == "did" and term != "not" else term
        if self.before == "be":
            return term + "~"
        if self.before == "have" and term in WORDS["states"]:
            return term + "<<"
        return term + "<"

    def is_naming(self, token: str) -> bool:
        if token == "name":
            return self.before == "the"
        return token in ("called", "named") and (self.before == "be" or any("own" in terms for _, terms in self.chunks))


@lru_cache(maxsize=16384)
def _traits(token: str) -> tuple[str, str, bool, bool]:
    """What is true of a word wherever it stands: the term of a symbol or an ordinal; the term, unless it depends on the words
    before it; whether it is a plural; whether it names a day."""
    fixed = _SYMBOLS.get(token) or english.ORDINALS.get(token) or ""
    depends = token in ("name", "called", "named") or token.endswith("ing") or is_past(token) or lemma(token) == "own"
    term = token if token in WORDS["moods"] else "" if depends else lemma(token)
    plural = token.endswith("s") and not token.endswith(("ss", "us"))
    return fixed, fixed or term, plural, _is_day(token) or token.endswith("-ly")


def _is_day(token: str) -> bool:
    return token in english.WEEKDAYS or token == "date" or token.startswith("each-")


def _settle(chunks: list[Chunk]) -> Clause:
    """A clause with lists sorted, the passive turned round, names and adverbs where every clause has them."""
    markers = {marker for marker, _ in chunks}
    chunks = chunks if markers.isdisjoint(_LISTING) else _sort_lists(chunks)
    chunks = _to_active(chunks) if "by" in markers else chunks
    frequencies = WORDS["frequencies"]
    adverbs = [term for _, terms in chunks for term in terms if term in frequencies]
    if len(adverbs) == 1:
        chunks = [(marker, tuple(term for term in terms if term != adverbs[0])) for marker, terms in chunks]
        chunks = [chunk for chunk in chunks if chunk[1] or chunk[0] not in _OPEN] + [("how often", (adverbs[0],))]
    return _normalise_naming(tuple(chunks))


def _to_active(chunks: list[Chunk]) -> list[Chunk]:
    """Ben is managed by Anna -> Anna manages Ben."""
    for at, (marker, agent) in enumerate(chunks):
        verb = chunks[at - 1][1][-1:] if at and chunks[at - 1][0] in ("be", "are") else ()
        if marker == "by" and agent and verb and verb[0].endswith("~"):
            subject = chunks[at - 2][1] if at > 1 else ("me",)
            past = subject[-1:] == ("was",)
            turned = (*agent, verb[0][:-1] + ("<" if past else ""), *(subject[:-1] if past else subject))
            return [*chunks[: max(0, at - 2)], ("", turned), *chunks[at + 1 :]]
    return chunks


def _sort_lists(chunks: list[Chunk]) -> list[Chunk]:
    """tea, milk and eggs -> one chunk; an item is a single word, so that nothing is torn from what it belongs to."""
    settled: list[Chunk] = []
    items: list[str] = []
    joiner = ""
    for marker, terms in [*chunks, ("end", ())]:
        if marker in _LISTING and len(terms) == 1 and settled and settled[-1][1]:
            items = items or [settled[-1][1][-1]]
            items.append(terms[0])
            joiner = marker if marker != "," else joiner
            continue
        if items:
            head, words = settled[-1]
            settled[-1] = (head, (*words[:-1], *sorted(items), *([joiner] if joiner == "or" else [])))
            items, joiner = [], ""
        settled.append((marker, terms))
    return settled[:-1]


def _normalise_naming(clause: Clause) -> Clause:
    """X is called Y, X's name is Y, has an X named Y and Y is the name of X, all as {X, Y, called}."""
    for at, (_, terms) in enumerate(clause):
        if "called" in terms and len(clause) <= 3:
            here = terms.index("called")
            sides = [*terms[:here], *(["|"] if here else []), *terms[here + 1 :]]
            flat = [term for i, (_, other) in enumerate(clause) for term in (sides if i == at else [*other, "|"])]
            sides = [side.strip() for side in " ".join(flat).split("|")]
            kept = sorted(side.removeprefix("own ") for side in sides if side)
            if len(kept) <= 2 and all(m in _OPEN for m, _ in clause):
                return (("called", tuple(kept)),)
    return clause


@lru_cache(maxsize=4096)
def read(text: str) -> Reading:
    """Read one memory. The text is at most a few hundred characters: the caller sees to that."""
    return Reading(folded(text))
