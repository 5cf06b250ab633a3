"""Fits how sure a recall is and writes it to src/keepstone/recall/weights.json.

    python -m training.fit_confidence [--longmemeval longmemeval_s_dev50.json.xz]

Fitted with the weights of the ranking in force, on questions that something answers and questions that nothing does: the
development halves of `bench everyday` and `bench languages`, people made up from training/relations, the conversations in
bench/data/conversations and the 50 development questions of LongMemEval-S, which are asked in one another's haystacks
too. Facts and messages in English and the other languages are fitted apart. The figures are of each store under weights fitted
without it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bench.datasets import OWN, load
from bench.everyday import people as everyday
from bench.languages.command import UNANSWERABLE
from bench.languages.data import NAMES, load_language
from bench.quality import fill
from bench.threshold import with_unrelated
from keepstone import Memory
from keepstone.embedders.reader import Reader
from keepstone.recall import confidence, fusion
from keepstone.recall.confidence import EVIDENCE
from keepstone.recall.query import RecallQuery
from keepstone.recall.reading import MAX_READ, read_texts
from keepstone.types import MESSAGE
from training.personas import make_persona
from training.relations import load_relations

WEIGHTS = Path(fusion.__file__).parent / "weights.json"
SHRINK = 2.0  # pulls the weights of standardised evidence towards 0
FIRST = 5  # hits that count
PERSONAS = 40
UNANSWERED_WEIGHT = 1.5  # of questions in other languages that nothing answers: there are few of them
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Row:
    """One question: the evidence, which of the first hits answer, how many points each is behind the best."""

    evidence: Values
    right: tuple[bool, ...]
    behind: tuple[float, ...]
    kind: str
    store: str
    model: str
    weight: float
    logits: tuple[float, ...] = ()  # of the first hits, and of any, with the weights in force
    any_logit: float = 0.0
    read: tuple[float, ...] = ()  # by the reader

    @property
    def first(self) -> bool:
        return self.right[:1] == (True,)

    @property
    def bounded(self) -> list[float]:
        """What the reader says, as far as it counts."""
        return [min(max(logit, -confidence.MAX_LOGIT), confidence.MAX_LOGIT) for logit in self.read]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, when it is asked, the labels of what answers it, its kind and weight."""

    text: str
    gold: frozenset[str]
    kind: str
    weight: float = 1.0
    asked_at: datetime | None = None


def ask(
    memory: Memory,
    labels: dict[str, set[str]],
    questions: Iterable[Asked],
    store: str,
    kinds: set[str] | None = None,
    reader: Reader | None = None,
) -> list[Row]:
    """What recall measures for questions; `labels` are those of each record. With a reader, what it says of the first hits."""
    rows = []
    engine, scope = memory._engine, memory.scope
    for question in questions:
        query = RecallQuery.parse(question.text, kinds=kinds, asked_at=question.asked_at, min_similarity=0.0)
        ranking = engine.recalling.rank(scope, query)
        if ranking.confidence.evidence is None or not len(ranking.order):
            continue
        best = ranking.order[: FIRST if reader is None else MAX_READ]
        records = engine.store.fetch(scope, ranking.sequences(best))
        right = tuple(record is not None and not labels.get(record.id, set()).isdisjoint(question.gold) for record in records)
        behind = tuple(float(ranking.sums[best[0]] - ranking.sums[at]) for at in best)
        is_message = records[0] is not None and records[0].kind == MESSAGE
        model = confidence.choose_model(ranking.question, is_message)
        row = Row(ranking.confidence.evidence, right, behind, question.kind, store, model, question.weight)
        if reader is not None and model != "other":
            texts = [f"{each.name}: {each.content}" if each.name else each.content for each in records if each]
            at_once = is_message or ranking.question.wants_all
            read = tuple(read_texts(reader, question.text, texts, at_once))
            logits = tuple(ranking.confidence.logits(ranking.sums[best]).tolist())[: len(read)]
            any_logit = confidence.to_logit(ranking.confidence.any)
            row = replace(row, right=right[: len(read)], logits=logits, any_logit=any_logit, read=read)
        rows.append(row)
    return rows


def tell(memory: Memory, statements: Iterable[tuple[str, str, datetime | str | None]]) -> dict[str, set[str]]:
    """Remember labelled statements; the labels of each record."""
    labels: dict[str, set[str]] = {}
    for label, text, said_at in statements:
        labels.setdefault(memory.remember(text, occurred_at=said_at).id or "", set()).add(label)
    return labels


def everyday_rows(reader: Reader | None = None) -> list[Row]:
    """Each person's own questions, the others' unrelated ones, and everything asked of one store of all."""
    rows = []
    people = everyday.load("development")
    unrelated = [(person, each) for person in people for each in person.unanswerable if each.kind == "unrelated"]
    pooled: list[tuple[str, str, datetime | str | None]] = []
    pooled_questions: list[Asked] = []
    for person in people:
        own = [
            Asked(each.text, frozenset(each.gold), each.kind or "answerable", 1.0, each.asked_at)
            for each in (*person.answerable, *person.unanswerable)
        ]
        foreign = [
            Asked(each.text, frozenset(), "unrelated", 0.6, each.asked_at) for other, each in unrelated if other is not person
        ]
        with Memory.open(":memory:") as memory:
            labels = tell(memory, ((each.id, each.text, each.said_at) for each in person.statements))
            rows += ask(memory, labels, [*own, *foreign[:: 1 if reader is None else 4]], person.name, reader=reader)
        pooled += [(f"{person.name}/{each.id}", each.text, each.said_at) for each in person.statements]
        pooled_questions += [
            Asked(each.text, frozenset(f"{person.name}/{gold}" for gold in each.gold), each.kind, 0.3, each.asked_at)
            for each in _lasting(own)
        ]
    if reader is None:
        with Memory.open(":memory:") as memory:
            rows += ask(memory, tell(memory, pooled), pooled_questions, "pooled")
    return rows


def _lasting(asked: Sequence[Asked]) -> list[Asked]:
    """Those that stay answerable or unrelated where several people share a store."""
    return [each for each in asked if each.kind in ("answerable", "unrelated")]


def language_rows(languages: Iterable[str] = NAMES, reader: Reader | None = None) -> list[Row]:
    """The facts and questions of languages."""
    rows = []
    for language in languages:
        store = load_language(language, "development")
        asked = [
            Asked(
                each.text,
                frozenset([each.answer] if each.answer else []),
                each.kind if each.kind in UNANSWERABLE else "answerable",
                UNANSWERED_WEIGHT if each.kind in UNANSWERABLE else 0.5,
            )
            for each in store.questions
            if not each.kind.startswith("update")
        ]
        with Memory.open(":memory:") as memory:
            labels = tell(memory, ((each.text, each.text, each.said) for each in store.statements))
            rows += ask(memory, labels, asked, language, reader=reader)
    return rows


def persona_rows() -> list[Row]:
    """People made up from the relations, with stores of different sizes."""
    rows, relations = [], load_relations()
    for number in range(PERSONAS):
        rng = Random(number)
        persona = make_persona(relations, rng, rng.randint(8, 40), rng.randint(2, 12))
        asked = [
            Asked(each.text, frozenset(said.text for said in (*each.gold, *each.open)), each.kind, 0.02)
            for each in persona.questions
        ]
        with Memory.open(":memory:") as memory:
            rows += ask(
                memory, tell(memory, ((each.text, each.text, None) for each in persona.statements)), asked, f"persona {number}"
            )
    return rows


def conversation_rows(longmemeval: Path | None) -> list[Row]:
    """Messages: questions of a conversation, those it does not answer, and questions of other conversations."""
    rows = []
    sets = [load("own", OWN), *([load("longmemeval", longmemeval)] if longmemeval else [])]
    for cases in sets:
        for case in with_unrelated(cases):
            with Memory.open(":memory:") as memory:
                places, _ = fill(memory, case)
                labels = {id: {unit, turn} for id, (unit, turn) in places.items()}
                asked = [
                    Asked(each.text, each.gold_turns or each.gold, "unrelated" if each.absent else "answerable", 0.3, each.asked)
                    for each in case.questions
                ]
                rows += ask(memory, labels, asked, case.name, {"message"})
    return rows


# -- fitting ------------------------------------------------------------------------------------------------------
def fit(values: Values, right: NDArray[np.bool_], weight: Values) -> Values:
    """The weights of a logistic model, the constant last."""
    mean, deviation = values.mean(axis=0), values.std(axis=0) + 1e-9
    table = np.c_[(values - mean) / deviation, np.ones(len(values))]
    shrink = np.append(np.full(values.shape[1], SHRINK), 0.0)

    def loss(at: Values) -> tuple[float, Values]:
        logits = table @ at
        miss = 1 / (1 + np.exp(-np.clip(logits, -60, 60))) - right
        value = float((weight * (np.logaddexp(0, logits) - right * logits)).sum() + (shrink * at * at).sum())
        return value, table.T @ (weight * miss) + 2 * shrink * at

    found = minimize(loss, np.zeros(table.shape[1]), jac=True, method="L-BFGS-B").x
    plain = found[:-1] / deviation
    return np.append(plain, found[-1] - float(plain @ mean))


def fit_decay(rows: Sequence[Row], first: Values) -> float:
    """The odds that a point behind the best hit costs, by the second to fifth hits."""
    behind = np.array([each for row in rows for each in row.behind[1:]])
    right = np.array([each for row in rows for each in row.right[1:]])
    logits = np.array([float(np.append(row.evidence, 1) @ first) for row in rows for _ in row.right[1:]])
    weight = np.array([row.weight for row in rows for _ in row.right[1:]])

    def loss(at: Values) -> float:
        logit = logits - at[0] * behind
        return float((weight * (np.logaddexp(0, logit) - right * logit)).sum())

    return float(minimize(loss, np.array([0.4]), method="Nelder-Mead").x[0])


def auroc(positive: Values, negative: Values) -> float:
    """The share of pairs in which the positive value is larger; ties count half."""
    ordered = np.sort(negative)
    places = np.searchsorted(ordered, positive, "left") + np.searchsorted(ordered, positive, "right")
    return float(places.mean() / 2 / len(negative))


def table(rows: Sequence[Row]) -> tuple[Values, NDArray[np.bool_], NDArray[np.bool_], Values]:
    """Evidence, first is right, any is right, weights."""
    return (
        np.array([row.evidence for row in rows]),
        np.array([row.first for row in rows]),
        np.array([any(row.right) for row in rows]),
        np.array([row.weight for row in rows]),
    )


def report(rows: Sequence[Row], stores: Iterable[str], title: str) -> None:
    """How well crossed confidences of some stores tell answered questions from others, and what silence at a level costs."""
    values, _, found, weight = table(rows)
    of = np.array([row.store for row in rows])
    own = weight == 1.0 if title == "everyday" else weight >= 0.3
    logits = np.full(len(rows), np.nan)
    for store in stores:
        held = of == store
        if held.any():
            at = fit(values[~held], found[~held], weight[~held])
            logits[held] = np.c_[values[held], np.ones(held.sum())] @ at
    judged = ~np.isnan(logits) & own
    kinds = np.array([row.kind for row in rows])
    answerable = judged & (kinds == "answerable")
    probability = 1 / (1 + np.exp(-logits))
    parts = sorted(set(kinds[judged]) - {"answerable"})
    figures = " ".join(f"{kind} {auroc(logits[answerable], logits[judged & (kinds == kind)]):.3f}" for kind in parts)
    print(f"{title}: AUROC {auroc(logits[answerable], logits[judged & (kinds != 'answerable')]):.3f} {figures}")
    for level in (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4):
        lost = (probability[answerable & found] < level).mean()
        silent = " ".join(f"{kind} {(probability[judged & (kinds == kind)] < level).mean():.2f}" for kind in parts)
        print(f"  below {level}: {lost:.3f} of those found are lost; silent: {silent}")


def fit_reader() -> dict[str, dict[str, float]]:
    """How much the reader counts beside the own evidence, with the other weights in force."""
    rows = [row for row in (*everyday_rows(Reader()), *language_rows(["en"], Reader())) if row.read]
    judged = [_judge(part, _fit_reader(rest)) for part, rest in _left_out(rows)]
    any, first = (np.concatenate(each) for each in zip(*judged, strict=True))
    kinds = np.array([row.kind for part, _ in _left_out(rows) for row in part])
    own = np.array([row.weight == 1.0 for part, _ in _left_out(rows) for row in part])
    answerable, parts = own & (kinds == "answerable"), ("unrelated", "premise", "attribute")
    for name, sure in (("any", any), ("best score", first)):
        figures = {kind: round(auroc(sure[answerable], sure[own & (kinds == kind)]), 3) for kind in parts}
        print(f"reader, each person left out: {name}", figures)
    for level in (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4):
        silent = {kind: round(float((any[own & (kinds == kind)] < level).mean()), 3) for kind in parts}
        print(f"  below {level}: {(any[answerable] < level).mean():.3f} of the answerable; silent: {silent}")
    return _fit_reader(rows)


def _left_out(rows: Sequence[Row]) -> Iterator[tuple[list[Row], list[Row]]]:
    """The rows of each store, and those of the others."""
    for store in dict.fromkeys(row.store for row in rows):
        yield [row for row in rows if row.store == store], [row for row in rows if row.store != store]


def _fit_reader(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Three models: that a hit answers, that any does, and that the best does."""
    weight = np.array([row.weight for row in rows])
    hits = np.array([values for row in rows for values in zip(row.logits, row.bounded, strict=True)])
    answers = np.array([each for row in rows for each in row.right])
    hit = fit(hits, answers, np.repeat(weight, [len(row.right) for row in rows]))
    orders = [np.argsort(-_hit_logits(row, hit), kind="stable") for row in rows]
    found = np.array([any(row.right[at] for at in order[:FIRST]) for row, order in zip(rows, orders, strict=True)])
    evidence = np.array([_read_evidence(row, int(order[0])) for row, order in zip(rows, orders, strict=True)])
    of_any = fit(evidence, found, weight)
    best = np.array([[_hit_logits(row, hit).max(), np.append(at, 1) @ of_any] for row, at in zip(rows, evidence, strict=True)])
    first = fit(best, np.array([row.right[order[0]] for row, order in zip(rows, orders, strict=True)]), weight)
    named = {"hit": (("own", "read"), hit), "any": (confidence.READ_EVIDENCE, of_any), "first": (("hit", "any"), first)}
    return {
        part: {name: round(float(value), 4) for name, value in zip((*names, "constant"), values, strict=True)}
        for part, (names, values) in named.items()
    }


def _hit_logits(row: Row, hit: Values) -> Values:
    logits: Values = hit[0] * np.array(row.logits) + hit[1] * np.array(row.bounded) + hit[2]
    return logits


def _read_evidence(row: Row, best: int) -> tuple[float, ...]:
    judged = np.array(row.bounded, dtype=np.float32)
    return confidence.gather_read_evidence(row.any_logit, judged, row.logits[best], row.bounded[best], row.evidence)


def _judge(rows: Sequence[Row], weights: dict[str, dict[str, float]]) -> tuple[Values, Values]:
    """The probability that any hit answers, and that the best does, of each row."""
    hit, of_any, first = (np.array([*weights[part].values()]) for part in ("hit", "any", "first"))
    any, score = [], []
    for row in rows:
        logits = _hit_logits(row, hit)
        any.append(float(np.append(_read_evidence(row, int(logits.argmax())), 1) @ of_any))
        score.append(float(np.array([logits.max(), any[-1], 1]) @ first))
    return 1 / (1 + np.exp(-np.array(any))), 1 / (1 + np.exp(-np.array(score)))


def main() -> None:
    """Fit, print what came out, write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--longmemeval", type=Path)
    parser.add_argument("--dry-run", action="store_true", help="print the weights, do not write them")
    parser.add_argument("--reader-only", action="store_true", help="fit only how much the reader counts")
    options = parser.parse_args()
    if options.reader_only:
        document = json.loads(WEIGHTS.read_text(encoding="utf-8"))
        document["reader"] = fit_reader()
        print(json.dumps(document["reader"]))
        WEIGHTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        return
    people, languages = everyday_rows(), language_rows()
    personas, conversations = persona_rows(), conversation_rows(options.longmemeval)
    rows = [*people, *languages, *personas, *conversations]
    by_model = {name: [row for row in rows if row.model == name] for name in ("facts", "messages", "other")}
    report(by_model["facts"], {row.store for row in people} - {"pooled"}, "everyday")
    report(by_model["facts"], {"pooled"}, "everyday, one store")
    report(by_model["messages"], {row.store for row in conversations}, "conversations")
    report(by_model["other"], set(NAMES), "languages")
    document = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    document["version"] += 1
    document["confidence"] = {}
    for name, part in by_model.items():
        values, first, found, weight = table(part)
        best = fit(values, first, weight)
        document["confidence"][name] = {
            "first": _named(best) | {"decay": round(fit_decay(part, best), 3)},
            "any": _named(fit(values, found, weight)),
        }
    print(json.dumps(document["confidence"]))
    if not options.dry_run:
        WEIGHTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        confidence.models.cache_clear()
        document["reader"] = fit_reader()
        print(json.dumps(document["reader"]))
        WEIGHTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _named(weights: Values) -> dict[str, float]:
    return {name: round(float(value), 4) for name, value in zip((*EVIDENCE, "constant"), weights, strict=True)}


if __name__ == "__main__":
    main()
