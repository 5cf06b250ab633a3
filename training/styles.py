"""Text in many styles for training the static embedder, made from sentence forms.

    python training/styles.py --count 40000 > styles.txt

LongMemEval's text is one person with one assistant. Memories are more than that: one-line chat, notes, tickets, commit
messages, calendar entries, facts about a person, questions. The forms and words are in styles.toml, all of them written
for keepstone; the seed fixes the output.
"""

import argparse
import random
import tomllib
from collections.abc import Iterator
from pathlib import Path

FORMS = tomllib.loads((Path(__file__).parent / "styles.toml").read_text(encoding="utf-8"))
TOPICS: dict[str, dict[str, list[str]]] = FORMS["topics"]
NAMES: list[str] = FORMS["names"]
SEED = 0
# How often each kind of line comes, in parts of the whole.
SHARES = {"said": 0.42, "told": 0.12, "asked": 0.20, "chat": 0.02, "two said": 0.06, "note": 0.18}


def lines(rng: random.Random) -> Iterator[str]:
    """Endless lines: what people say, what is told about them, questions, chat and notes."""
    while True:
        name = rng.choice(NAMES)
        kind = rng.choices(list(SHARES), weights=list(SHARES.values()))[0]
        if kind == "chat":
            yield casual(rng.choice(FORMS["chat"]), rng)
        elif kind == "note":
            form = rng.choice(FORMS["notes"][rng.choice(list(FORMS["notes"]))])
            yield filled(form, rng.choice(rng.choice(list(TOPICS.values()))["things"]), name, rng)
        elif kind == "two said":
            yield casual(f"{about_topic('said', name, rng)}. {about_topic('said', name, rng)}", rng)
        elif kind == "said":
            yield casual(about_topic(kind, name, rng), rng)
        else:
            yield about_topic(kind, name, rng)


def about_topic(kind: str, name: str, rng: random.Random) -> str:
    topic = rng.choice(list(TOPICS.values()))
    return filled(rng.choice(topic[kind]), rng.choice(topic["things"]), name, rng)


def filled(form: str, thing: str, name: str, rng: random.Random) -> str:
    topic = rng.choice(list(TOPICS))
    other = rng.sample(TOPICS[topic]["things"], 2)
    food = rng.sample(FORMS["ingredients"], 2)
    return form.format(
        i=thing, n=name, m=rng.choice(NAMES), p=rng.choice(FORMS["prices"]), d=rng.choice(FORMS["dates"]),
        topic=topic.replace("_", " "), j=other[0], k=other[1], a=food[0], b=food[1], x=thing.split()[-1].lower(),
    )  # fmt: skip


def casual(text: str, rng: random.Random) -> str:
    """The text as typed in a chat: something before and after it, capitals or none."""
    text = rng.choice(FORMS["before"]) + text + rng.choice(FORMS["after"])
    return text.lower() if rng.random() < 0.4 else text[0].upper() + text[1:]


def distinct(count: int) -> list[str]:
    """That many different lines, the same ones at every call."""
    found: dict[str, None] = {}
    source = lines(random.Random(SEED))
    while len(found) < count:
        found[next(source)] = None
    return list(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40_000, help="lines to print (default: 40,000)")
    for line in distinct(parser.parse_args().count):
        print(line)


if __name__ == "__main__":
    main()
