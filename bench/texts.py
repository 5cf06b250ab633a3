"""Memories, messages and questions for the benchmarks: made up, varied, the same on every run.

Each memory states one fact about an invented person or project in 8 to 30 words; its question asks for that fact in other
words. No two memories state the same fact, so a store that merges any of them has lost one.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

_SYLLABLES = (
    "ba be bo da de do fa fi ga go ha hi ja jo ka ke ki la le li lo ma me mi mo na ne ni no pa po ra re ri ro sa se "
    "si so ta te ti to va ve vi wa we ya yo za zo"
).split()
_FIRST = (
    "Dana Marek Priya Tomas Aiko Leila Bruno Ines Kofi Sven Noor Hana Otto Zara Emil Rosa Jamal Freya Luca Mina "
    "Pavel Selma Viktor Wanda Yusuf Anouk Cleo Dmitri Esra Farid"
).split()
_CITIES = (
    "Lisbon Oslo Kyoto Denver Nairobi Gdansk Porto Turin Leeds Austin Bergen Osaka Quito Lyon Malmo Perth Cork Ghent Bilbao Tartu"
).split()
_MONTHS = "January February March April May June July August September October November December".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_FOODS = (
    "oysters lentils halloumi rhubarb tofu mackerel saffron buckwheat cilantro peanuts kimchi anchovies fennel tamarind okra"
).split()
_HOBBIES = (
    "bouldering pottery fencing birdwatching archery calligraphy rowing beekeeping origami kayaking welding "
    "juggling astronomy falconry"
).split()
_TOOLS = ("Terraform Grafana Kafka Redis Ansible Jenkins Airflow Postgres Vault Nomad Prometheus ClickHouse Envoy Celery").split()
THINGS = (
    "bicycle|telescope|espresso machine|standing desk|violin|camper van|sewing machine|record player|drone|"
    "kayak|greenhouse|3D printer|piano"
).split("|")
_FEELINGS = "relieved worried thrilled annoyed curious proud anxious grateful".split()
_INSTRUMENTS = "cello oboe trumpet harp drums".split()
_DRINKS = "oat coffee|rooibos|jasmine tea|tonic water|cold brew|hot chocolate|kombucha|mint tea".split("|")
_PLACES = "locker|drawer|mailbox|garage|cabinet|toolbox|basement box|shelf".split("|")
_TAILS = (
    "as {other} confirmed by phone", "which {other} finds too late", "unless it rains in {city}", "so ask {other} first",
    "and nobody else knows about it yet", "because the lease of the {thing} ends then", "though {tool} may change that",
    "with {number} spare parts in the boot",
)  # fmt: skip
_ROLES = (
    "platform engineer|head of support|data analyst|release manager|account lead|security reviewer|designer|site manager"
).split("|")


@dataclass(frozen=True, slots=True)
class Text:
    """One memory and a question that it answers."""

    content: str
    question: str


def texts(count: int, seed: int = 1) -> list[Text]:
    """Distinct memories with their questions."""
    made: dict[str, Text] = {}
    random_ = random.Random(seed)
    while len(made) < count:
        text = _tailed(random_, _text(random_, len(made)))
        made.setdefault(text.content, text)
    return list(made.values())


def messages(count: int, seed: int = 2) -> list[dict[str, str]]:
    """A conversation: user and assistant by turns."""
    random_ = random.Random(seed)
    openings = (
        "By the way,",
        "I wanted to tell you that",
        "Quick note:",
        "For next time:",
        "As I said before,",
        "Just so you know,",
    )
    replies = ("Noted, thanks.", "Got it.", "That helps.", "I will keep that in mind.", "Understood.")
    said = []
    for at, text in enumerate(texts(count, seed)):
        if at % 2:
            said.append(
                {"role": "assistant", "content": f"{random_.choice(replies)} So {text.content[0].lower()}{text.content[1:]}"}
            )
        else:
            said.append({"role": "user", "content": f"{random_.choice(openings)} {text.content}"})
    return said


def name(random_: random.Random) -> str:
    """A person who does not exist."""
    return f"{random_.choice(_FIRST)} {_invented(random_)}"


def _invented(random_: random.Random) -> str:
    return "".join(random_.choice(_SYLLABLES) for _ in range(random_.randint(2, 4))).capitalize()


def _date(random_: random.Random) -> str:
    return f"{random_.choice(_MONTHS)} {random_.randint(1, 28)}, {random_.randint(2015, 2026)}"


def _tailed(r: random.Random, text: Text) -> Text:
    """Some memories go on for a clause, so that lengths vary as they do in life."""
    if r.random() < 0.6:
        return text
    tail = r.choice(_TAILS).format(
        other=name(r), city=r.choice(_CITIES), thing=r.choice(THINGS), tool=r.choice(_TOOLS), number=r.randint(11, 9999)
    )
    return Text(f"{text.content[:-1]}, {tail}.", text.question)


def _text(r: random.Random, at: int) -> Text:
    who, other, project = name(r), name(r), f"{_invented(r)} {r.choice(('portal', 'pipeline', 'rollout', 'migration', 'audit'))}"
    city, tool, thing = r.choice(_CITIES), r.choice(_TOOLS), r.choice(THINGS)
    number, date, day = r.randint(11, 9999), _date(r), r.choice(_DAYS)
    match at % 14:
        case 12:
            return Text(f"{who} drinks {r.choice(_DRINKS)} without sugar after {r.randint(2, 6)} pm.", f"What does {who} drink?")
        case 13:
            return Text(f"{who} keeps the spare key in {r.choice(_PLACES)} {number}.", f"Where is the spare key of {who}?")
        case 0:
            return Text(
                f"{who} moved to {city} on {date} and now rents a flat above the bakery at number {number}.",
                f"Where does {who} live now?",
            )
        case 1:
            food = r.choice(_FOODS)
            return Text(
                f"{who} is allergic to {food} and carries an injector in the left pocket of the blue backpack.",
                f"What must {who} not eat?",
            )
        case 2:
            return Text(
                f"The {project} runs on {tool} {r.randint(2, 30)}.{r.randint(0, 40)} in the {city} data centre, "
                f"rack {number}, and {who} is on call.",
                f"Which tool does the {project} run on?",
            )
        case 3:
            return Text(
                f"{who} asked for invoices of the {project} to be sent on day {r.randint(1, 28)} of each month, "
                "never as a spreadsheet.",
                f"When does {who} want the invoices?",
            )
        case 4:
            return Text(
                f"{who} took up {r.choice(_HOBBIES)} after the trip to {city} and trains every {day} evening with {other}.",
                f"What hobby does {who} have?",
            )
        case 5:
            return Text(
                f"The door code of the {city} office is {number} until {date}; {who} changes it and tells reception.",
                f"What is the door code of the office that {who} looks after?",
            )
        case 6:
            return Text(
                f"{who} bought a second-hand {thing} from {other} for {number} euros and wants it delivered on a {day}.",
                f"What did {who} buy from {other}?",
            )
        case 7:
            return Text(
                f"{who} works as {r.choice(_ROLES)} on the {project} and reports to {other} since {date}.",
                f"Who is the manager of {who}?",
            )
        case 8:
            return Text(
                f"The deadline of the {project} slipped from {_date(r)} to {date} because {tool} lost {number} jobs.",
                f"Why was the {project} late?",
            )
        case 9:
            return Text(
                f"{who} felt {r.choice(_FEELINGS)} about the review on {day} and prefers written feedback "
                f"before any call about the {project}.",
                f"How does {who} like to get feedback?",
            )
        case 10:
            return Text(
                f"{who}'s daughter plays the {r.choice(_INSTRUMENTS)} in {city} and has a concert on {date} "
                f"at {r.randint(5, 9)} pm.",
                f"When is the concert of {who}'s daughter?",
            )
        case _:
            return Text(
                f"Budget for the {project} is {number * 100} dollars, approved by {who} on {date} "
                f"after {other} cut the travel line.",
                f"Who approved the budget of the {project}?",
            )
