"""People made up from the everyday relations: what each has said, what can be asked, and which of it answers.

The reader is trained on their pairs of question and statement, and the confidence of a recall is fitted on stores of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from training.relations import Relation

PEOPLE = (
    "Marta Nadia Oscar Jun Priya Tomasz Elena Kofi Ines Björn Aisha Luca Sofia Rashid Greta Pablo Mei Ivan Chloe Samir "
    "Hanna Diego Yuki Freya Omar Clara Viktor Leila Hugo Naomi Felix Amara Stefan Rosa Kenji Lucia Emil Zoe Andre Mina "
    "Jakub Olga Tariq Vera Noel Carmen Arjun Paula Sven Fatima Gavin Tess Milan Ada Caleb Ruth Danny Hank Susan Peter "
    "Irina Malik Nora Owen Bea Lars Karin Elsa Theo Gunnar Alma Boris Dina Ewan Flora Gita Henrik Isla Joel Kira Liam "
    "Mona Nils Opal Pia Quinn Rafael Sana Tim Uma Wanda Yara Zack Anders Birgit Cem Dora Edith Frank Gwen Harold Ida "
    "Jonas Keiko Lena Marc Nell Otto Petra Ravi Sara Tilda Ulrich Vince Walter"
).split()
KIN = (
    "my brother|my sister|my mother|my dad|my aunt|my uncle|my cousin|my neighbour|my boss|my best friend|my husband|my wife|"
    "my daughter|my son|my grandmother|my flatmate|my colleague|my cousin {n}|my brother {n}|my sister {n}|my friend {n}|"
    "our neighbour {n}|my colleague {n}|my daughter {n}|my son {n}|uncle {n}|Dr. {n}|{n} from work|{n} next door|my ex"
).split("|")
TEAMS = (
    "the Oslo team|the mobile team|the data team|the design team|the Berlin office|the platform team|the support team|"
    "team Falcon|the payments team|the infra team|the research group|the search service|the billing service|"
    "the Lisbon office|the web team"
).split("|")
OPENERS = (
    "By the way, ",
    "btw ",
    "Just so you know: ",
    "Note: ",
    "Oh and ",
    "FYI, ",
    "For the record, ",
    "Quick update. ",
    "ok so ",
)


@dataclass(frozen=True)
class Statement:
    """Something that was said: the relation, whom it is about ("" for the user) and how it stands: stated, changed, ended,
    corrected, added, past or wished."""

    text: str
    relation: Relation
    subject: str
    form: str


@dataclass(frozen=True)
class Question:
    """A question with what answers it. `hard` looks as if it did. `open` is left out of training: it may or may not answer."""

    text: str
    relation: Relation
    kind: str  # answerable, attribute, premise
    gold: tuple[Statement, ...] = ()
    hard: tuple[Statement, ...] = ()
    open: tuple[Statement, ...] = ()


@dataclass
class Persona:
    """What one person said, in this order, and the questions."""

    statements: list[Statement] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)


_ANSWERS = ("stated", "changed", "ended", "corrected", "added")


def make_persona(relations: Sequence[Relation], rng: Random, own: int = 18, others: int = 5) -> Persona:
    """A person with `own` relations and `others` people or teams they speak of."""
    by_name = {relation.name: relation for relation in relations}
    persona = Persona()
    chosen = rng.sample(relations, min(len(relations), own + 10))
    told, untold = chosen[:own], chosen[own:]
    for relation in told:
        persona.statements += _own_statements(relation, rng)
    subjects = [_subject(rng, relation.domain) for relation in rng.choices(relations, k=others)]
    subjects = list(dict.fromkeys(subjects))
    said_about: list[tuple[str, Relation]] = []
    for subject in subjects:
        usual = [relation for relation in relations if (subject in TEAMS) == (relation.domain in ("work", "software"))] or list(
            relations
        )
        for relation in rng.sample(usual, min(len(usual), rng.randint(1, 5))) + (
            [rng.choice(told)] if rng.random() < 0.4 else []
        ):
            if (subject, relation) not in said_about:
                said_about.append((subject, relation))
                text = fill(rng.choice(relation.about), rng.choice(relation.values), "", subject)
                persona.statements.append(Statement(text, relation, subject, "stated"))
    for relation in untold[:4]:  # only the past and wishes: they look like an answer
        for form in ("past", "wished"):
            if rng.random() < 0.4:
                persona.statements.append(_say(relation, form, rng))
    rng.shuffle(persona.statements)
    for relation in (*told, *untold):
        templates = rng.sample(relation.questions, min(2, len(relation.questions)))
        persona.questions += [_question(persona, by_name, tidy(text), relation, "") for text in templates]
        if rng.random() < 0.3:
            persona.questions.append(_past_question(persona, relation, rng))
    for subject in subjects:
        known = [relation for name, relation in said_about if name == subject]
        never = [by_name[name] for relation in known for name in relation.near if name in by_name] + rng.sample(relations, 2)
        for relation in list({each.name: each for each in (*known, *never[:4])}.values()):
            text = fill(rng.choice(relation.questions_about), "", "", subject)
            persona.questions.append(_question(persona, by_name, text, relation, subject))
    for relation in rng.sample(relations, 4):  # a person never heard of
        stranger = rng.choice([name for name in PEOPLE if not any(name in subject for subject in subjects)])
        text = fill(rng.choice(relation.questions_about), "", "", stranger)
        persona.questions.append(_question(persona, by_name, text, relation, stranger))
    return persona


def _own_statements(relation: Relation, rng: Random) -> list[Statement]:
    forms = ["stated"] if rng.random() < 0.75 else ["changed"]
    for form, share in (
        ("changed", 0.15),
        ("ended", 0.06),
        ("corrected", 0.08),
        ("added", 0.1),
        ("past", 0.15),
        ("wished", 0.15),
    ):
        if rng.random() < share and (form != "added" or relation.additions):
            forms.append(form)
    return [_say(relation, form, rng) for form in forms]


def _say(relation: Relation, form: str, rng: Random) -> Statement:
    templates = {
        "stated": relation.statements, "changed": relation.changes, "ended": relation.ends, "corrected": relation.corrections,
        "added": relation.additions, "past": relation.past, "wished": relation.wishes,
    }[form]  # fmt: skip
    value, other = rng.sample(relation.values, 2)
    return Statement(fill(rng.choice(templates), value, other, ""), relation, "", form)


def _question(persona: Persona, by_name: dict[str, Relation], text: str, relation: Relation, subject: str) -> Question:
    of_subject = [said for said in persona.statements if said.subject == subject]
    same = [said for said in of_subject if said.relation is relation]
    gold = [said for said in same if said.form in _ANSWERS]
    near = [said for said in of_subject if said.relation.name in relation.near or relation.name in said.relation.near]
    hard = [said for said in same if said.form not in _ANSWERS] + near
    hard += [said for said in persona.statements if said.relation is relation and said.subject != subject]
    if subject:
        hard += [said for said in of_subject if said not in hard and said.relation.attribute != relation.attribute]
    like = [said for said in of_subject if said.relation is not relation and said.relation.attribute == relation.attribute]
    kind = "answerable" if gold else "premise" if not of_subject or not subject else "attribute"
    return Question(text, relation, kind, tuple(gold), tuple(dict.fromkeys(hard)), tuple(like))


def _past_question(persona: Persona, relation: Relation, rng: Random) -> Question:
    same = [said for said in persona.statements if said.relation is relation and not said.subject]
    gold = tuple(said for said in same if said.form == "past")
    unsure = tuple(said for said in same if said.form in _ANSWERS)
    hard = tuple(said for said in same if said.form == "wished")
    return Question(tidy(rng.choice(relation.past_questions)), relation, "answerable" if gold else "premise", gold, hard, unsure)


def _subject(rng: Random, domain: str) -> str:
    draw = rng.random()
    if domain in ("work", "software") and draw < 0.5:
        return rng.choice(TEAMS)
    return rng.choice(PEOPLE) if draw < 0.75 else rng.choice(KIN).replace("{n}", rng.choice(PEOPLE))


def fill(template: str, value: str, other: str, subject: str) -> str:
    """A template with its value, another value and its subject; the second mention of a subject is a pronoun at times."""
    return tidy(template.replace("{v}", value).replace("{w}", other).replace("{p}", subject))


def tidy(text: str) -> str:
    """A text whose first letter is a capital where a subject such as "my brother" stands first.

    >>> tidy("my brother lives in Rome.")
    'My brother lives in Rome.'
    """
    return re.sub(r"^(?:my|our|the|uncle)\b", lambda found: found[0].capitalize(), text)


def vary(text: str, rng: Random) -> str:
    """The same statement as people type it: with an opener, without capitals, without its last full stop."""
    draw = rng.random()
    if draw < 0.12:
        opener = rng.choice(OPENERS)
        keeps = re.match(r"I\b|[A-Z]\w*[A-Z]", text) or text.split(" ")[0].strip(",.'s") in PEOPLE
        return opener + (text if keeps or opener.endswith(". ") else text[0].lower() + text[1:])
    if draw < 0.2:
        return text.lower()
    return text.rstrip(".") if draw < 0.3 else text
