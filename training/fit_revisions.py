"""Fits how keepstone tells that a later statement replaces an earlier one, on the everyday relations of `relations/`.

Writes `text/lexicons/statement_kinds.tsv` (what a statement does, by its words) and `text/revisions/` (bilinear forms over the
built-in embedder's vectors, and a logistic model over the features of a pair). Needs numpy only, some minutes:

    python -m training.fit_revisions

The forms and the kinds are fitted on hand-written texts: `relations/`, `changes.tsv` and `episodes.txt`, the forms on `updates/`
too. The weights of the judgement are fitted on the development split of `bench everyday`; the test split is not read.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.everyday.people import Person
from bench.everyday.people import load as load_people
from keepstone.embedders.reader import Reader
from keepstone.embedders.registry import make_embedder
from keepstone.ports.stores import Embedder
from keepstone.ports.vectors import embed_texts
from keepstone.text import revisions
from keepstone.text.revisions import KINDS, features_of
from training.relations import Relation, load_relations
from training.update_rows import UpdateRow, load_updates

Matrix = NDArray[np.float32]
PEOPLE = (
    "Marta", "my brother", "my sister", "Tom", "Priya", "my mother", "my dad", "Kenji", "our neighbour", "Ana", "my boss",
    "Lukas", "Fatima", "my cousin", "Grandma", "my wife", "my husband", "our son", "my daughter", "Olga", "Ben",
    "Carlos", "my flatmate",
)  # fmt: skip
_FIELDS = {
    "statements": "state", "about": "state", "changes": "change", "corrections": "correction", "ends": "end", "past": "past",
    "wishes": "wish", "additions": "addition",
}  # fmt: skip
_READ, _READ_TEXTS = 4, 8  # later statements that are looked at for each earlier one, by the reader more
_STORE = 40  # pairs that are told by one person
_RIDGE = 5.0  # of weights of features that are scaled to the same spread
_OF_WORDS = ("repeated", "denied", "revalued")  # features that are left out where a question tells what is meant
_START = 4.0  # of the diagonal of a form: the points of two equal vectors before fitting


# -- texts --------------------------------------------------------------------------------------------------------
def episodes() -> list[str]:
    """What people tell in passing."""
    lines = (Path(__file__).parent / "episodes.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def read_rows(name: str) -> list[tuple[str, ...]]:
    """The rows of a file of this folder."""
    lines = (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("\t")) for line in lines if line and not line.startswith("#")]


def changes() -> list[Relation]:
    """Statements that were changed in other words, each as a relation of its own."""
    empty: dict[str, tuple[str, ...]] = {each.name: () for each in fields(Relation)}
    return [
        Relation(
            **{
                **empty,
                "name": f"change {number}",
                "attribute": f"change {number}",
                "domain": "changes",
                "values": ("", "", ""),
                "statements": (older,),
                "changes": (newer,),
                "questions": (question,),
            }
        )  # type: ignore[arg-type]
        for number, (older, newer, question) in enumerate(read_rows("changes.tsv"))
    ]


def fill(text: str, value: str, other: str = "", person: str = "") -> str:
    """A text of a relation with its slots filled."""
    return text.replace("{v}", value).replace("{w}", other).replace("{p}", person)


def of_person(text: str, person: str, chance: random.Random) -> str:
    """What the user says of themselves, said of another person: roughly, as only its words matter."""
    subject, owner, whom = chance.choice((("she", "her", "her"), ("he", "his", "him"), ("they", "their", "them")))
    named = [chance.random() < 0.35]  # the name may be left out: "He moved to Leeds."

    def who(_: re.Match[str]) -> str:
        name = subject if named[0] else person
        named[0] = True
        return name

    def whose(_: re.Match[str]) -> str:
        name = owner if named[0] else f"{person}'s"
        named[0] = True
        return name

    for pattern, replacement in (
        (r"\b(?:I'm|we're|i'm|We're)\b", lambda found: who(found) + " is"),
        (r"\b(?:I've|We've|we've|i've)\b", lambda found: who(found) + " has"),
        (r"\b(?:I'll|We'll|we'll|I'd|we'd|We'd)\b", lambda found: who(found) + " will"),
        (r"\b(?:I|We|we|i)\b", who),
        (r"\b(?:My|Our|my|our)\b", whose),
        (r"\b(?:me|us)\b", lambda _: whom),
    ):
        text = re.sub(pattern, replacement, text)
    return text[:1].upper() + text[1:]


# -- the kind of a statement ----------------------------------------------------------------------------------------
def fit_kinds(relations: list[Relation], others: list[str], path: Path, least: int = 2) -> None:
    """Fit the weights of words and pairs of words, and write them."""
    chance = random.Random(3)
    rows: list[tuple[int, set[str], int]] = []
    for number, relation in enumerate(relations):
        for name, kind in _FIELDS.items():
            for text in getattr(relation, name):
                value, other = chance.sample(relation.values, 2)
                rows.append((number, features_of(fill(text, value, other, chance.choice(PEOPLE))), KINDS.index(kind)))
    for number, text in enumerate(others):
        rows.append((10_000 + number, features_of(text), KINDS.index("episode")))
    seen = Counter(feature for feature, _ in {(feature, number) for number, features, _ in rows for feature in features})
    vocabulary = {feature: at for at, feature in enumerate(sorted(name for name, count in seen.items() if count >= least), 1)}
    table = np.zeros((len(rows), len(vocabulary) + 1), dtype=np.float32)
    table[:, 0] = 1
    for at, (_, features, _) in enumerate(rows):
        table[at, [vocabulary[feature] for feature in features if feature in vocabulary]] = 1
    labels = np.array([label for _, _, label in rows])
    weights = _fit_softmax(table, labels)
    quantized = np.clip(np.round(weights * 32), -127, 127).astype(int)
    lines = ["## Weights of words and pairs of words for each kind of statement, times 32: " + ", ".join(KINDS)]
    lines += ["\t".join(["", *map(str, quantized[0])])]
    lines += [
        "\t".join([feature, *map(str, quantized[at])]) for feature, at in vocabulary.items() if abs(quantized[at]).max() > 2
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    revisions._weights.cache_clear()
    revisions.read_statement.cache_clear()
    revisions.classify_statement.cache_clear()
    print(f"kinds: {len(rows)} texts, {len(lines) - 2} features, fitted {np.mean((table @ weights).argmax(1) == labels):.3f}")


def _fit_softmax(table: Matrix, labels: NDArray[np.int64], decay: float = 4e-4, steps: int = 400) -> Matrix:
    weights = np.zeros((table.shape[1], len(KINDS)), dtype=np.float32)
    shares = np.bincount(labels, minlength=len(KINDS)) / len(labels)
    importance = (1 / np.sqrt(shares + 1e-9))[labels]
    importance /= importance.mean()
    adam = Adam({"weights": weights}, 0.05)
    for step in range(steps):
        error = _softmax(table @ weights)
        error[np.arange(len(labels)), labels] -= 1
        gradient = table.T @ (error * importance[:, None]).astype(np.float32) / len(labels) + decay * weights
        adam.step({"weights": gradient}, 1 - step / steps)
    return weights


def _softmax(sums: Matrix) -> Matrix:
    powers = np.exp(sums - sums.max(axis=1, keepdims=True))
    result: Matrix = powers / powers.sum(axis=1, keepdims=True)
    return result


class Adam:
    """Adam over named arrays, in place."""

    def __init__(self, values: dict[str, Matrix], rate: float) -> None:
        self.values, self.rate, self.count = values, rate, 0
        self.first = {name: np.zeros_like(value) for name, value in values.items()}
        self.second = {name: np.zeros_like(value) for name, value in values.items()}

    def step(self, gradients: dict[str, Matrix], factor: float) -> None:
        self.count += 1
        for name, gradient in gradients.items():
            self.first[name] = 0.9 * self.first[name] + 0.1 * gradient
            self.second[name] = 0.999 * self.second[name] + 0.001 * gradient * gradient
            first, second = self.first[name] / (1 - 0.9**self.count), self.second[name] / (1 - 0.999**self.count)
            self.values[name] -= (self.rate * factor * first / (np.sqrt(second) + 1e-8)).astype(np.float32)


# -- forms over vectors ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Examples:
    """A batch: question, older statement, the one that revises it, its relation, and something else that was said."""

    question: Matrix
    older: Matrix
    newer: Matrix
    relation: NDArray[np.int64]
    other: Matrix


def draw(relations: list[Relation], others: list[str], count: int, chance: random.Random, embedder: Embedder) -> Examples:
    """Examples of random relations."""
    texts: list[tuple[str, str, str, str]] = []
    numbers = []
    for _ in range(count):
        number = chance.randrange(len(relations))
        if relations[number].domain == "changes" and chance.random() < 0.8:  # they have one text each
            number = chance.randrange(len(relations))
        relation = relations[number]
        value, other = chance.sample(relation.values, 2)
        revising = relation.changes + relation.changes + relation.corrections + relation.ends
        newer = fill(chance.choice(revising), other, value)
        if not relation.about or chance.random() < 0.7:
            person = ""
            question, older = chance.choice(relation.questions), fill(chance.choice(relation.statements), value)
        else:
            person = chance.choice(PEOPLE)
            question = fill(chance.choice(relation.questions_about), value, other, person)
            older = fill(chance.choice(relation.about), value, other, person)
            newer = of_person(newer, person, chance)
        if relation.past and chance.random() < 0.5:
            kinds = chance.choice((relation.past, relation.wishes, relation.additions or relation.past, relation.about))
            distractor = fill(chance.choice(kinds), chance.choice(relation.values), value, chance.choice(PEOPLE))
        else:
            distractor = chance.choice(others)
        texts.append((question, older, newer, distractor))
        numbers.append(number)
    columns = list(zip(*texts, strict=True))
    question_vectors = embed_texts(embedder, columns[0], "query")
    older, newer, other = (embed_texts(embedder, column) for column in columns[1:])
    return Examples(question_vectors, older, newer, np.array(numbers), other)


def draw_updates(rows: list[UpdateRow], embedder: Embedder, seed: int) -> Callable[[int], Examples]:
    """Draws examples of statements that changed in other words."""
    chance = np.random.default_rng(seed)
    asked = [embed_texts(embedder, texts, "query") for texts in ([row.question for row in rows], [row.reworded for row in rows])]
    earlier, later, others = (
        embed_texts(embedder, texts)
        for texts in ([row.earlier for row in rows], [row.later for row in rows], [row.not_replacing for row in rows])
    )

    def draw(count: int) -> Examples:
        chosen = chance.choice(len(rows), count, replace=False)
        other = np.concatenate([others[chosen], earlier[chance.choice(len(rows), count)]])
        return Examples(asked[chance.integers(2)][chosen], earlier[chosen], later[chosen], np.arange(count), other)

    return draw


def fit_forms(
    relations: list[Relation], others: list[str], embedder: Embedder, seed: int, steps: int, decay: float = 1e-4
) -> revisions.RevisionModel:
    """Fit the forms so that a revision has more points than anything else in its batch."""
    chance = random.Random(seed)
    draw_update = draw_updates(load_updates(), embedder, seed)
    eye = np.eye(embedder.dimension, dtype=np.float32) * _START
    values = {name: eye.copy() for name in ("question", "statement")}
    values["common"] = np.zeros(embedder.dimension, dtype=np.float32)
    start = {name: value.copy() for name, value in values.items()}
    adam = Adam(values, 0.02)
    for step in range(steps):
        batch = draw(relations, others, 256, chance, embedder) if chance.random() < 0.5 else draw_update(256)
        gradients = {name: decay * (value - start[name]) for name, value in values.items()}
        use_question = chance.random() < 0.7
        wanted = batch.older @ values["statement"] + values["common"]
        if use_question:
            wanted = wanted + batch.question @ values["question"]
        pulled = _pull(wanted, np.concatenate([batch.newer, batch.other]), batch.relation)
        gradients["statement"] += batch.older.T @ pulled
        gradients["common"] += pulled.sum(axis=0)
        if use_question:
            gradients["question"] += batch.question.T @ pulled
        adam.step(gradients, 1 - step / steps)
    return revisions.RevisionModel(
        frozenset((embedder.id,)),
        values["question"],
        values["statement"],
        values["common"],
        fit_change(relations, others, embedder),
        {},
    )


def _pull(wanted: Matrix, told: Matrix, relation: NDArray[np.int64]) -> Matrix:
    """The gradient for each row of `wanted`, which should have most points with its own row of `told`."""
    rows = np.arange(len(wanted))
    sums = wanted @ told.T
    sums[:, : len(rows)][(relation[:, None] == relation) & ~np.eye(len(rows), dtype=bool)] = -1e9
    error = _softmax(sums)
    error[rows, rows] -= 1
    gradient: Matrix = (error / len(rows)).astype(np.float32) @ told
    return gradient


def fit_change(relations: list[Relation], others: list[str], embedder: Embedder, ridge: float = 1.0) -> Matrix:
    """What the vectors of changes have in common: the weights of a logistic model, its constant last."""
    chance = random.Random(5)
    texts, labels = list(others) * 2, [0.0] * (2 * len(others))
    for relation in relations:
        for name, kind in _FIELDS.items():
            for text in getattr(relation, name):
                texts.append(fill(text, *chance.sample(relation.values, 2), chance.choice(PEOPLE)))
                labels.append(float(kind in ("change", "correction", "end")))
    vectors = embed_texts(embedder, texts)
    table = np.concatenate([vectors, np.ones((len(texts), 1), dtype=np.float32)], axis=1).astype(np.float64)
    return fit_weights(table, np.array(labels), ridge).astype(np.float32)


def fit_weights(table: NDArray[np.float64], target: NDArray[np.float64], ridge: float) -> NDArray[np.float64]:
    """The weights of a logistic model, by Newton's method."""
    weights = np.zeros(table.shape[1])
    for _ in range(25):
        chances = 1 / (1 + np.exp(-np.clip(table @ weights, -40, 40)))
        hessian = (table * (chances * (1 - chances))[:, None]).T @ table + ridge * np.eye(len(weights))
        weights += np.linalg.solve(hessian, table.T @ (target - chances) - ridge * weights)
    return weights


# -- the judgement of a pair ------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Pairs:
    """The features of pairs of statements by one person, and whether the later one replaces the earlier one."""

    rows: NDArray[np.float64]
    labels: NDArray[np.float64]


def judged_pairs(person: Person, model: revisions.RevisionModel, embedder: Embedder, asked: bool, reader: Reader | None) -> Pairs:
    """The pairs that recall would read: of each question the statements most like it, with the later ones that have most
    points; or without questions, of every statement."""
    told = [*person.statements, *(each for pair in person.contradictions for each in (pair.old, pair.new) if not asked)]
    replaced = {(update.old, update.new) for update in person.updates}
    replaced |= {(pair.old.id, pair.new.id) for pair in person.contradictions}
    vectors = embed_texts(embedder, [each.text for each in told])
    said = np.array([each.said_at.timestamp() for each in told])
    place = {each.id: at for at, each in enumerate(told)}
    alone = np.where(said[:, None] < said, model.points(None, vectors, vectors), -np.inf)
    changes = model.change_points(vectors)
    rows: list[tuple[float, ...]] = []
    labels: list[bool] = []

    def take(older: int, points: Matrix, question: str | None) -> None:
        likely = points if reader is None or question is None else points + 0.5 * changes
        best = np.argsort(-likely)[: _READ if reader is None else _READ_TEXTS]
        best, old = best[np.isfinite(points[best])], told[older].text
        texts = [told[newer].text for newer in best]
        logits = [0.0] * len(best) if reader is None else reader.replaces(old, texts, question or "")
        for newer, text, logit in zip(best.tolist(), texts, logits, strict=True):
            rival = float(np.delete(alone[:, newer], older).max() - alone[older, newer])
            parts = revisions.VectorPoints(float(points[newer]), float(changes[newer]), rival)
            rows.append(revisions.pair_features(parts, old, text, question, logit, max(logits) - logit))
            labels.append((told[older].id, told[newer].id) in replaced)

    if not asked:
        for older in range(len(told)):
            take(older, alone[older], None)
        return Pairs(np.array(rows), np.array(labels, dtype=np.float64))
    questions = [*person.answerable, *person.traps, *(update.question for update in person.updates)]
    known = {update.question: update.old for update in person.updates}
    for question, vector in zip(questions, embed_texts(embedder, [each.text for each in questions], "query"), strict=True):
        best = np.argsort(-(vectors @ vector))[: 2 if reader is None else 10].tolist()
        if reader is not None:  # recall looks for what replaces the first hit only
            read = np.clip(reader(question.text, [told[at].text for at in best]), -3, 3)
            best = [best[int(np.argmax(0.67 * read + 10 * vectors[best] @ vector))]]
        for older in {place[known.get(question, question.gold[0])], *best}:
            points = np.where(said > said[older], model.points(vector, vectors[older][None], vectors)[0], -np.inf)
            take(older, points, question.text)
    return Pairs(np.array(rows), np.array(labels, dtype=np.float64))


def written_pairs(model: revisions.RevisionModel, embedder: Embedder, reader: Reader | None) -> Pairs:
    """Pairs of which the later statement contradicts the earlier one, or tells it again, mentions it or is about something near;
    each among the earlier statements of others."""
    told = [(*row, False) for name in ("unchanged.tsv", "restated.tsv") for row in read_rows(name)]
    told += [(row.earlier, row.not_replacing, False) for row in random.Random(7).sample(load_updates(), 400)]
    told += [(*row, True) for row in read_rows("contradicted.tsv")]
    random.Random(8).shuffle(told)
    rows: list[tuple[float, ...]] = []
    for start in range(0, len(told), _STORE):
        part = told[start : start + _STORE]
        older, newer = (embed_texts(embedder, [row[side] for row in part]) for side in (0, 1))
        points, changes = model.points(None, older, newer), model.change_points(newer)
        for at, (before, after, _) in enumerate(part):
            rivals = [point for point, (other, _, _) in zip(points[:, at].tolist(), part, strict=True) if other != before]
            rival = max(rivals, default=-np.inf) - float(points[at, at])
            parts = revisions.VectorPoints(float(points[at, at]), float(changes[at]), rival)
            logit = 0.0 if reader is None else reader.replaces(before, [after])[0]
            rows.append(revisions.pair_features(parts, before, after, None, logit))
    return Pairs(np.array(rows), np.array([replaces for _, _, replaces in told], dtype=np.float64))


def fit_scaled(table: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights of a logistic model whose ridge treats all columns alike."""
    spread = np.maximum(table.std(axis=0), 0.05)
    return fit_weights(table / spread, target, _RIDGE) / spread


def fit_judgement(people: list[Pairs], also: Pairs | None, left_out: Sequence[str] = ()) -> dict[str, float]:
    """The weights of the features but for some, with pairs of nobody in particular; prints how well weights that were fitted on
    the other people judge each."""
    used = np.array([name not in left_out for name in revisions.FEATURES])
    people = [Pairs(each.rows * used, each.labels) for each in people]
    beside = [] if also is None else [also]
    chances = []
    for at, person in enumerate(people):
        rest = beside + [each for number, each in enumerate(people) if number != at]
        weights = fit_scaled(np.concatenate([each.rows for each in rest]), np.concatenate([each.labels for each in rest]))
        chances.append(1 / (1 + np.exp(-person.rows @ weights)))
    judged, target = np.concatenate(chances), np.concatenate([each.labels for each in people])
    for threshold in (0.1, 0.2, 0.3, 0.5):
        chosen = judged >= threshold
        precision, found = target[chosen].mean() if chosen.any() else 1.0, target[chosen].sum() / target.sum()
        print(f"  from {threshold}: precision {precision:.3f}, recall {found:.3f}")
    both = people + beside
    weights = fit_scaled(np.concatenate([each.rows for each in both]), np.concatenate([each.labels for each in both]))
    return {name: round(float(weight), 4) for name, weight in zip(revisions.FEATURES, weights, strict=True)}


def main() -> None:
    """Fit everything and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1500, help="batches that the forms are fitted on")
    parser.add_argument("--judgement-only", action="store_true", help="keep the forms and kinds that are there")
    options = parser.parse_args()
    embedder = make_embedder("auto")
    assert embedder is not None
    relations, others = load_relations() + changes(), episodes()
    print(f"{len(relations)} relations, {len(others)} episodes, embedder {embedder.id}")
    revisions.FOLDER.mkdir(exist_ok=True)
    if options.judgement_only:
        model = revisions.load_model()
    else:
        fit_kinds(relations, others, Path(revisions._WEIGHTS_PATH))
        model = fit_forms(relations, others, embedder, 99, options.steps)
    people = load_people("development")
    weights = {}
    reader = Reader()
    for name in ("asked", "asked_read", "unasked", "unasked_read"):
        asked, read = not name.startswith("un"), reader if name.endswith("_read") else None
        pairs = [judged_pairs(person, model, embedder, asked, read) for person in people]
        print(f"{sum(len(each.labels) for each in pairs)} pairs, {name}:")
        also = None if asked else written_pairs(model, embedder, read)
        weights[name] = fit_judgement(pairs, also, _OF_WORDS if asked else ())
    write_model(model, weights)


def write_model(model: revisions.RevisionModel, weights: dict[str, dict[str, float]]) -> None:
    """Write the forms as int8 and the rest as JSON."""
    named = [model.of_question, model.of_statement]
    scales = [float(np.abs(form).max()) / 127 for form in named]
    packed = np.stack([np.round(form / scale).astype(np.int8) for form, scale in zip(named, scales, strict=True)])
    np.save(revisions.FOLDER / "forms.npy", packed)
    document = {
        "embedders": sorted(model.embedders),
        "scales": scales,
        "common": [round(float(value), 4) for value in model.common],
        "change": [round(float(value), 4) for value in model.change],
        "weights": weights,
    }
    (revisions.FOLDER / "model.json").write_text(json.dumps(document) + "\n", encoding="utf-8")
    print(f"wrote {revisions.FOLDER}: {sum(path.stat().st_size for path in revisions.FOLDER.iterdir()) / 1024:.0f} KB")


if __name__ == "__main__":
    main()
