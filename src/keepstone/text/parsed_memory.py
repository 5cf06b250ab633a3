"""One memory read for comparison: its facts as ordered clauses of plain terms, its trimmings set aside. A reading knows
nothing of the text it will be compared with. Terms are
lower-case lemmas; "<" after a term marks the past, "~" the passive.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from keepstone.text import english as lex
from keepstone.text.compare_terms import SYNONYM, codes, folded, is_past, lemma, names, tokenize

Chunk = tuple[str, tuple[str, ...]]  # the preposition that opens it (or one of the marks below), its terms
Clause = tuple[Chunk, ...]
_OPEN = ("", ",", "who", "be")  # markers that say nothing about the role of what follows


@dataclass(frozen=True, slots=True)
class Reading:
    clauses: tuple[Clause, ...]
    terms: tuple[str, ...]  # all of them, sorted
    words: tuple[str, ...]  # as written, lower-cased, in order
    names: frozenset[str]  # words with a capital, lower-cased
    surfaces: dict[str, str]  # term -> the word it came from
    singular: frozenset[str]  # terms said with "a"
    plural: frozenset[str]
    extras: frozenset[str]
    hedged: bool
    owner: str  # whose things are spoken of: "user", "other" or ""
    text: str
    secret: bool  # it speaks of a password or the like, so that capitals count

    @property
    def codes(self) -> tuple[str, ...]:
        """Paths, addresses and identifiers, exactly as written; looked for only when two readings are compared."""
        return codes(self.text, self.secret)


# Every token that `take` may treat as anything but content; most words are none of these.
_SPECIAL = frozenset({"just", "of-it", ":", "user", "did", ","}).union(
    lex.CLAUSE_ENDS, lex.HEDGES, lex.HEDGE_VERBS, lex.MANNERS, lex.STARTERS, lex.FILLERS, lex.POSSESSIVES, lex.ARTICLES,
    lex.BE_NOW, lex.BE_THEN, lex.USER_OBJECT, lex.USER, lex.GRAMMAR, lex.HAVE, lex.PREPOSITIONS, lex.JOINERS,
)  # fmt: skip


@dataclass(slots=True)
class _Reader:
    """Walks over the tokens once, building clauses of chunks."""

    clauses: list[Clause] = field(default_factory=list)
    chunks: list[tuple[str, list[str]]] = field(default_factory=lambda: [("", [])])
    surfaces: dict[str, str] = field(default_factory=dict)
    singular: set[str] = field(default_factory=set)
    plural: set[str] = field(default_factory=set)
    extras: set[str] = field(default_factory=set)
    hedged: bool = False
    user_acts: bool = False
    owner: str = ""
    landed: bool = False  # whether houses or firms are spoken of
    names: frozenset[str] = frozenset()
    before: str = ""  # what grammar stood just before: be, have, did, the, or nothing
    after_a: int = 0  # how many words a preceding "a" still reaches

    def open_chunk(self, marker: str) -> None:
        if not self.chunks[-1][1] and self.chunks[-1][0] in _OPEN:
            self.chunks.pop()
        self.chunks.append((marker, []))

    def end_clause(self) -> None:
        clause = _settled([(marker, tuple(terms)) for marker, terms in self.chunks if terms or marker not in _OPEN])
        if clause:
            self.clauses.append(clause)
        self.chunks = [("", [])]
        self.before = ""

    def last(self) -> str:
        return self.chunks[-1][1][-1] if self.chunks[-1][1] else ""

    def take(self, token: str, following: str) -> None:
        """Sort one token: trimming, grammar, preposition or content."""
        if token not in _SPECIAL:
            self.content(token, following)
        elif token in lex.CLAUSE_ENDS:
            if token == "?":
                self.chunks[-1][1].append("?")
            self.end_clause()
        elif token in lex.HEDGES:
            self.hedged = True
        elif token in lex.HEDGE_VERBS and following and following not in lex.PREPOSITIONS:
            self.hedged = True
            self.is_something(token, following)
        elif self.is_filler(token, following):
            self.extras.add(token)
        elif token in lex.POSSESSIVES:
            self.owner = "user" if token in ("my", "our", "user's") or self.user_acts else "other"
            self.before = "the"
        elif token in lex.ARTICLES or token == "of-it":
            self.before = "the"
            self.after_a = 2 if token in ("a", "an") else 0
        elif token in lex.BE_NOW or token in lex.BE_THEN or token == ":":
            self.is_something(token, following)
        elif token in lex.USER_OBJECT or (token == "user" and self.is_object(following)):
            self.chunks[-1][1].append("me")
        elif token in lex.USER:
            if self.chunks != [("", [])]:
                self.open_chunk("who")
            self.user_acts = True
            self.before = ""
        elif token in lex.GRAMMAR:
            pass
        elif token == "did":
            self.before = "did"
        elif token in lex.HAVE and is_past(following):
            self.before = "have"
        elif token in lex.PREPOSITIONS:
            self.preposition(token, following)
        elif token == ",":
            self.open_chunk(",")
        elif token in lex.JOINERS:
            self.open_chunk("and" if token in ("&", "plus") else token)
        else:
            self.content(token, following)

    def is_something(self, token: str, following: str) -> None:
        """A copula: what it joins may change places, but not after "are": managers are designers."""
        if token in lex.BE_THEN:
            self.chunks[-1][1].append("was")
        if not (following.endswith("ing") and following not in lex.NOT_GERUND):
            started = any(terms for _, terms in self.chunks)
            self.open_chunk("" if not started else "are" if token in ("are", "were", "seem", "appear") else "be")
        self.before = "be" if token != ":" else ""

    def is_filler(self, token: str, following: str) -> bool:
        if self.last() == "not":
            return False
        if token in lex.MANNERS:
            return bool(following) and following not in lex.PREPOSITIONS and following.isalpha()
        if token in lex.STARTERS:
            return not self.clauses and not any(terms for _, terms in self.chunks)
        return token in lex.FILLERS or (token == "just" and is_past(following))

    def is_object(self, following: str) -> bool:
        started = bool(self.chunks[-1][1]) or self.chunks[-1][0] not in _OPEN
        ends = not following or following in lex.PREPOSITIONS or following in lex.CLAUSE_ENDS or following in lex.ARTICLES
        return started and (ends or following[0].isdigit() or following == ",")

    def preposition(self, token: str, following: str) -> None:
        if token == "to" and self.last() in ("like", "love", "prefer", "hate", "begin"):
            return
        if token == "in" and _is_day(following):
            token = "on"
        elif token in ("for", "at") and self.last() == "work":
            token = "at"
        self.open_chunk({"into": "to", "onto": "to", "till": "until"}.get(token, token))
        self.before = "the" if token != "to" else ""

    def content(self, token: str, following: str) -> None:
        if token == "today" and (self.last() in lex.MOODS or following in lex.MOODS):
            self.extras.add(token)
            return
        if token in ("feel", "feels", "feeling") and following in lex.MOODS:
            return
        term = lex.SYMBOLS.get(token) or lex.ORDINALS.get(token) or self.inflection(token)
        if token.endswith("s") and not token.endswith(("ss", "us")):
            self.plural.add(term)
        elif self.after_a:
            self.singular.add(term)
        self.after_a = max(0, self.after_a - 1)
        marker, terms = self.chunks[-1]
        if token in self.names and marker in _OPEN:
            self.user_acts = False  # from here on "his" may be anyone's
        if marker != "on" and (_is_day(token) or token.endswith("-ly")):
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
        if token in lex.MOODS:
            return token
        if self.is_naming(token):
            return "called"
        if term == "own" and self.landed and token not in lex.HAVE:
            term = "own outright"
        if token in SYNONYM and self.before in ("be", "the") and is_past(token):  # is employed, the preferred
            return SYNONYM[token]
        if token.endswith("ing") and self.before == "the" and token not in lex.NOT_GERUND:
            return token
        if not is_past(token) or (self.chunks[-1][0] == "to" and not self.last()):
            return term + "<" if self.before == "did" and term != "not" else term
        if self.before == "be":
            return term + "~"
        if self.before == "have" and term in lex.STATES:
            return term + "<<"
        return term + "<"

    def is_naming(self, token: str) -> bool:
        if token == "name":
            return self.before == "the"
        return token in ("called", "named") and (self.before == "be" or any("own" in terms for _, terms in self.chunks))


def _is_day(token: str) -> bool:
    return token in lex.WEEKDAYS or token == "date" or token.startswith("each-")


def _settled(chunks: list[Chunk]) -> Clause:
    """A clause with lists sorted, the passive turned round, names and adverbs where every clause has them."""
    chunks = _lists_sorted(chunks)
    chunks = _active(chunks)
    adverbs = [term for _, terms in chunks for term in terms if term in lex.FREQUENCIES]
    if len(adverbs) == 1:
        chunks = [(marker, tuple(term for term in terms if term != adverbs[0])) for marker, terms in chunks]
        chunks = [chunk for chunk in chunks if chunk[1] or chunk[0] not in _OPEN] + [("how often", (adverbs[0],))]
    return _named(tuple(chunks))


def _active(chunks: list[Chunk]) -> list[Chunk]:
    """Ben is managed by Anna -> Anna manages Ben."""
    for at, (marker, agent) in enumerate(chunks):
        verb = chunks[at - 1][1][-1:] if at and chunks[at - 1][0] in ("be", "are") else ()
        if marker == "by" and agent and verb and verb[0].endswith("~"):
            subject = chunks[at - 2][1] if at > 1 else ("me",)
            past = subject[-1:] == ("was",)
            turned = (*agent, verb[0][:-1] + ("<" if past else ""), *(subject[:-1] if past else subject))
            return [*chunks[: max(0, at - 2)], ("", turned), *chunks[at + 1 :]]
    return chunks


def _lists_sorted(chunks: list[Chunk]) -> list[Chunk]:
    """tea, milk and eggs -> one chunk; an item is a single word, so that nothing is torn from what it belongs to."""
    settled: list[Chunk] = []
    items: list[str] = []
    joiner = ""
    for marker, terms in [*chunks, ("end", ())]:
        if marker in ("and", "or", ",") and len(terms) == 1 and settled and settled[-1][1]:
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


def _named(clause: Clause) -> Clause:
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
    text = folded(text)
    tokens, hedged, by_user = tokenize(text)
    capitals = names(text)
    reader = _Reader(hedged=hedged, user_acts=by_user, names=capitals)
    reader.landed = any(token in lex.PROPERTY for token in tokens)
    following = ""
    ahead: list[str] = []  # of each token, the next one that is no filler
    for token in reversed(tokens):
        ahead.append(following)
        following = following if token in lex.FILLERS else token
    for token, following in zip(tokens, reversed(ahead), strict=True):
        reader.take(token, following)
    reader.end_clause()
    clauses = tuple(reader.clauses)
    return Reading(
        clauses=clauses,
        terms=tuple(sorted(term for clause in clauses for _, terms in clause for term in terms)),
        words=tuple(tokens),
        names=capitals,
        surfaces=reader.surfaces,
        singular=frozenset(reader.singular),
        plural=frozenset(reader.plural),
        extras=frozenset(reader.extras),
        hedged=reader.hedged,
        owner=reader.owner,
        text=text,
        secret=not lex.SECRETS.isdisjoint(tokens),
    )
