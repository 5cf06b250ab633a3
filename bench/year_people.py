"""A year of made-up people and what they tell an assistant every day; the same texts for the same seed. Pure.

Each person has attributes whose values change on days of their own. A session a day holds small talk, news, things said before
in the same and in other words, junk, tool results (some with injected instructions) and now and then a secret. With it come the
writes that an agent makes after such a session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, partial
from random import Random
from typing import Any

from bench.year_secrets import Secret, hide_secret
from bench.year_words import (
    ANSWERS,
    ASKS,
    ATTRIBUTES,
    INJECTIONS,
    JUNK,
    LOOKUPS,
    REPLIES,
    TOPICS,
    TRIVIA,
    Attribute,
    Route,
)

START = date(2025, 1, 1)
_FIRST_DAYS = len(ATTRIBUTES) // 2  # two attributes a day are told at first
_MOST_NEWS = 3  # of one day
_MOST_CHANGES = 4  # of one attribute
_RETURNS = 0.15  # how often a change goes back to a value of before
_NAMES = (
    "Dana Marek Priya Tomas Aiko Leila Bruno Kofi Sven Noor Hana Otto Zara Emil Rosa Jamal Freya Luca Mina Pavel Selma Viktor "
    "Wanda Yusuf Anouk Cleo Dmitri Esra Farid Greta"
).split()
Message = dict[str, Any]  # role, content, at


@dataclass(frozen=True, slots=True)
class Write:
    """What an agent keeps after a session. `question` is how it looks for what it may have to update, `outdated` what it then
    finds there."""

    route: Route
    content: str
    key: str | None = None
    importance: float = 0.5
    question: str = ""
    outdated: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Question:
    """A question with the value that answers it now and those that did before."""

    attribute: str
    text: str
    current: str
    superseded: frozenset[str]


@dataclass(slots=True)
class Session:
    """One day of one user. `junk` and `tools` are the places of such messages."""

    day: date
    user: str
    name: str
    messages: list[Message] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    junk: set[int] = field(default_factory=set)
    tools: set[int] = field(default_factory=set)
    secrets: list[Secret] = field(default_factory=list)

    def say(self, role: str, content: str | list[dict[str, Any]]) -> None:
        """Add a message, some minutes after the one before."""
        at = datetime.combine(self.day, time(9), UTC) + timedelta(minutes=7 * len(self.messages))
        self.messages.append({"role": role, "content": content, "at": at})


@dataclass(frozen=True)
class Person:
    """What holds of a person over the year: for each attribute the days on which it gets a value."""

    name: str
    timeline: Mapping[str, tuple[tuple[int, str], ...]]

    @classmethod
    def create(cls, name: str, random: Random, days: int) -> Person:
        """A person with changes on days of their own; no day has more news than a session can hold."""
        news = [0] * max(days, _FIRST_DAYS)
        timeline: dict[str, tuple[tuple[int, str], ...]] = {}
        for at, attribute in enumerate(random.sample(ATTRIBUTES, len(ATTRIBUTES))):
            free = [day for day in range(_FIRST_DAYS + 1, days) if news[day] < _MOST_NEWS]
            changes = sorted(random.sample(free, min(len(free), random.randint(0, _MOST_CHANGES))))
            changes = [at // 2, *changes]
            for day in changes:
                news[day] += 1
            timeline[attribute.name] = tuple(zip(changes, _values(random, attribute, len(changes)), strict=True))
        return cls(name, timeline)

    def values(self, attribute: str, day: int) -> list[str]:
        """The values that an attribute has had until and on a day, the current one last."""
        return [value for since, value in self.timeline[attribute] if since <= day]


def _values(random: Random, attribute: Attribute, count: int) -> list[str]:
    """Values in a row: new ones mostly, one of before now and then, never the same twice running."""
    chosen = [random.choice(attribute.values)]
    while len(chosen) < count:
        new = [value for value in attribute.values if value not in chosen]
        old = [value for value in chosen if value != chosen[-1]]
        chosen.append(random.choice(old if old and (not new or random.random() < _RETURNS) else new))
    return chosen


@dataclass(frozen=True)
class Year:
    """So many users over so many days. Iterating gives the sessions, day by day; each is made from the seed, its user and its
    day alone, so the order in which anything is asked for does not matter."""

    seed: int = 1
    users: int = 20
    days: int = 365

    @cached_property
    def people(self) -> Mapping[str, Person]:
        """Everybody by name."""
        names = [_NAMES[at % len(_NAMES)] + (str(at // len(_NAMES) + 1) if at >= len(_NAMES) else "") for at in range(self.users)]
        return {name: Person.create(name, self._random(name), self.days) for name in names}

    def __iter__(self) -> Iterator[Session]:
        for at in range(self.days):
            for user in self.people:
                yield self.session(user, at)

    def session(self, user: str, at: int) -> Session:
        """What a user and the assistant say on a day, counted from 0."""
        random = self._random(user, at)
        session = Session(START + timedelta(days=at), user, f"{user}-{START + timedelta(days=at)}")
        _Day(session, self.people[user], at, random).fill()
        return session

    def truth(self, user: str, day: date) -> Mapping[str, str]:
        """What has been said to hold of a user, at the end of a day."""
        at = (day - START).days
        told = {each.name: self.people[user].values(each.name, at) for each in ATTRIBUTES}
        return {name: values[-1] for name, values in told.items() if values}

    def questions(self, user: str, day: date, every: bool = False) -> list[Question]:
        """A question for each attribute that has been told, in words that differ by the day; with `every`, in all its words."""
        at = (day - START).days
        random = self._random(user, at, "questions")
        asked: list[Question] = []
        for attribute in ATTRIBUTES:
            values = self.people[user].values(attribute.name, at)
            texts = attribute.questions if every else (random.choice(attribute.questions),)
            for text in texts if values else ():
                asked.append(Question(attribute.name, text, values[-1], frozenset(values) - {values[-1]}))
        return asked

    def secrets(self) -> list[Secret]:
        """Every secret that was planted."""
        return [secret for session in self for secret in session.secrets]

    def _random(self, *about: object) -> Random:
        return Random(":".join(map(str, (self.seed, *about))))


class _Day:
    """Fills a session: what must be said first, then whatever there is room for, in a shuffled order."""

    def __init__(self, session: Session, person: Person, at: int, random: Random) -> None:
        self.session = session
        self.person = person
        self.at = at
        self.random = random

    def fill(self) -> None:
        """4 to 12 messages: the news, perhaps a secret or a tool, and small talk around them."""
        random = self.random
        news = [each for each in ATTRIBUTES if any(day == self.at for day, _ in self.person.timeline[each.name])]
        parts: list[Callable[[], None]] = [partial(self.news, each) for each in news]
        if random.random() < 0.07:
            parts.append(self.secret)
        if random.random() < 0.2 and len(parts) < 5:
            parts.append(self.tool)
        wanted = random.randint(max(2, len(parts)), 6)
        while len(parts) < wanted:
            parts.append(random.choices((self.talk, self.repeat, self.junk, self.asked), weights=(10, 5, 4, 1))[0])
        random.shuffle(parts)
        for part in parts:
            part()

    def news(self, attribute: Attribute) -> None:
        """Something new; the agent writes it down where the rules would not understand it."""
        values = self.person.values(attribute.name, self.at)
        plain = self.random.random() < len(attribute.plain) / (len(attribute.plain) + len(attribute.other))
        self.session.say("user", self._stated(attribute, values[-1], plain))
        self.session.say("assistant", self.random.choice(REPLIES))
        if not plain:
            self._write(attribute, values)

    def repeat(self) -> None:
        """Something said before, in the same or in other words; now and then the agent writes it down once more."""
        attribute = self.random.choice(ATTRIBUTES)
        values = self.person.values(attribute.name, self.at - 1)
        if not values or any(day == self.at for day, _ in self.person.timeline[attribute.name]):
            return self.talk()
        plain = bool(attribute.plain) and self.random.random() < 0.5
        self.session.say("user", self._stated(attribute, values[-1], plain))
        self.session.say("assistant", self.random.choice(REPLIES))
        if self.random.random() < 0.3:
            self._write(attribute, values)
        return None

    def _stated(self, attribute: Attribute, value: str, plain: bool) -> str:
        """A statement, by itself or with a question after it."""
        said = self.random.choice(attribute.plain if plain else attribute.other).format(value)
        ask = self.random.choice(ASKS).format(self.random.choice(TOPICS))
        return f"{said} {ask}" if self.random.random() < 0.25 else said

    def _write(self, attribute: Attribute, values: list[str]) -> None:
        content = self.random.choice(attribute.facts).format(values[-1])
        outdated = frozenset(values) - {values[-1]}
        write = Write(attribute.route, content, attribute.key, 0.6, attribute.questions[0], outdated)
        self.session.writes.append(write)

    def asked(self) -> None:
        """A question about themselves, which the assistant answers from what it knows."""
        attribute = self.random.choice(ATTRIBUTES)
        values = self.person.values(attribute.name, self.at - 1)
        if not values or any(day == self.at for day, _ in self.person.timeline[attribute.name]):
            return self.talk()
        own = [text for text in attribute.questions if "the user" not in text]
        self.session.say("user", self.random.choice(own))
        self.session.say("assistant", f"As far as I know: {values[-1]}.")
        return None

    def talk(self) -> None:
        """A question about the world, and what a careless agent keeps of it."""
        topic = self.random.choice(TOPICS)
        self.session.say("user", self.random.choice(ASKS).format(topic))
        answer = " ".join(self.random.sample(ANSWERS, self.random.randint(2, 4)))
        self.session.say("assistant", answer.replace("{}", topic))
        if self.random.random() < 0.05:
            self.session.writes.append(Write("loose", self.random.choice(TRIVIA).format(topic), importance=0.2))

    def junk(self) -> None:
        """Words that say nothing; once in a while an agent keeps even those."""
        text = self.random.choice(JUNK)
        self.session.junk.add(len(self.session.messages))
        self.session.say("user", text)
        self.session.say("assistant", self.random.choice(REPLIES))
        if self.random.random() < 0.02:
            self.session.writes.append(Write("loose", text, importance=0.1))

    def secret(self) -> None:
        """A secret in the middle of a sentence; sometimes the agent writes it down, sometimes a tool says it."""
        sentence, secret = hide_secret(self.random)
        self.session.secrets.append(secret)
        if self.random.random() < 0.2:
            self._result(f"Log: {sentence}")
            return
        self.session.say("user", sentence)
        self.session.say("assistant", "Please be careful with that.")
        if self.random.random() < 0.2:
            self.session.writes.append(Write("loose", f"The user said: {sentence}"))

    def tool(self) -> None:
        """What a tool found; a third of it carries instructions that must not be followed."""
        found = self.random.choice(LOOKUPS).format(self.random.choice(TOPICS))
        if self.random.random() < 1 / 3:
            found = f"{found}\n{self.random.choice(INJECTIONS)}"
        self._result(found)

    def _result(self, text: str) -> None:
        """A tool's words in one of the two forms that there are."""
        used = f"tool_{self.at}_{len(self.session.messages)}"
        if self.random.random() < 0.5:
            self.session.say("assistant", "Let me look that up.")
            self.session.tools.add(len(self.session.messages))
            self.session.say("tool", text)
            return
        use = {"type": "tool_use", "id": used, "name": "look_up", "input": {"day": self.at}}
        self.session.say("assistant", [{"type": "text", "text": "One moment."}, use])
        self.session.tools.add(len(self.session.messages))
        self.session.say("user", [{"type": "tool_result", "tool_use_id": used, "content": text}])
