"""Fits how a question about the world is told from one about the user, and writes it next to the model.

    python training/world_questions.py

A logistic model of a question's vector, fitted on questions.tsv, which has the same questions in fifteen languages, and on the
questions of the everyday relations. The languages share one vector space, so one model serves all of them.
"""

from pathlib import Path

import numpy as np
from files import read_lines
from numpy.typing import NDArray
from relations import load_relations

from keepstone.embedders.static import MODEL_FOLDER, WORLD_FILE, StaticEmbedder

SHARES = {"world": 1.5, "own": 1.0, "relations": 1.0}  # how much each group counts, however many questions it has
SHRINK = 1e-3
STEPS = 30
PERSON = "Marta"


def questions() -> dict[str, list[str]]:
    """The questions by group."""
    rows = [line.split("\t") for line in read_lines(Path(__file__).parent / "questions.tsv") if not line.startswith("#")]
    groups = {kind: [text for row in rows if row[0] == kind for text in row[1:]] for kind in ("world", "own")}
    forms = (form for each in load_relations() for form in (*each.questions, *each.questions_about, *each.past_questions))
    return groups | {"relations": [form.replace("{p}", PERSON) for form in forms]}


def fit(vectors: NDArray[np.float64], is_world: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Newton's method; the constant is last."""
    table = np.c_[vectors, np.ones(len(vectors))]
    found = np.zeros(table.shape[1])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-table @ found))
        curve = (table * (weights * chance * (1 - chance))[:, None]).T @ table + SHRINK * np.eye(len(found))
        found += np.linalg.solve(curve, table.T @ (weights * (is_world - chance)) - SHRINK * found)
    return found


def main() -> None:
    groups = questions()
    embedder, total = StaticEmbedder(), sum(SHARES.values())
    vectors = embedder.embed([text for texts in groups.values() for text in texts], purpose="query").astype(np.float64)
    is_world = np.concatenate([np.full(len(texts), float(name == "world")) for name, texts in groups.items()])
    weights = np.concatenate([np.full(len(texts), SHARES[name] / total / len(texts)) for name, texts in groups.items()])
    found = fit(vectors, is_world, weights)
    np.save(MODEL_FOLDER / WORLD_FILE, found.astype(np.float32))
    logits = vectors @ found[:-1] + found[-1]
    print({name: len(texts) for name, texts in groups.items()}, "right:", round(float(((logits > 0) == is_world).mean()), 3))


if __name__ == "__main__":
    main()
