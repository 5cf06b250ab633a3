"""Which words mean nearly the same, and how much a word says at all, out of the static model's rows: what recall knows about
English. `python training/related_words.py` writes src/keepstone/recall/related_words/."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import styles
from numpy.typing import NDArray

from keepstone.embedders.static import ENGLISH_FOLDER
from keepstone.text.words import STOP_WORDS, stem

OUT = Path(__file__).parent.parent / "src" / "keepstone" / "recall" / "related_words"
RELATED = 16  # words kept beside each
LEAST = 0.3  # cosine under which two words have nothing to do with each other
HEAVIEST = 1.3  # times the middle word's weight
NAME_TOKENS, NAME_WEIGHT = 1200, 0.5  # as in train_static.py


def main() -> None:
    """Write words.txt, related.npy, similarity.npy and weights.npy."""
    vocabulary = (ENGLISH_FOLDER / "vocab.txt").read_text(encoding="utf-8").split("\n")
    rows = np.load(ENGLISH_FOLDER / "rows.npy").astype(np.float32) * np.load(ENGLISH_FOLDER / "scales.npy").reshape(-1, 1)
    norms = np.linalg.norm(rows, axis=1)
    chosen = [
        at for at, word in enumerate(vocabulary) if word.isascii() and word.isalpha() and len(word) > 2 and word not in STOP_WORDS
    ]
    words = [vocabulary[at] for at in chosen]
    stems = [stem(word) for word in words]
    units = rows[chosen] / (norms[chosen, None] + 1e-9)
    related = np.zeros((len(words), RELATED), dtype="<u2")
    similarity = np.zeros((len(words), RELATED), dtype=np.uint8)
    for at in range(len(words)):
        near = units @ units[at]
        seen = {stems[at]}
        place = 0
        for other in np.argsort(-near, kind="stable")[: 4 * RELATED]:
            if near[other] < LEAST or place == RELATED:
                break
            if stems[other] not in seen:
                seen.add(stems[other])
                related[at, place] = other
                similarity[at, place] = round(255 * (float(near[other]) - LEAST) / (1 - LEAST))
                place += 1
    weight = norms[chosen] / float(np.median(norms))
    weight[_names(words, units)] /= NAME_WEIGHT  # word search is what tells Dana's from Lee's
    weights = np.round(255 * np.minimum(HEAVIEST, weight) / HEAVIEST).astype(np.uint8)
    OUT.mkdir(exist_ok=True)
    (OUT / "words.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    np.save(OUT / "related.npy", related)
    np.save(OUT / "similarity.npy", similarity)
    np.save(OUT / "weights.npy", weights)
    print(f"{len(words)} words, {int((similarity > 0).sum())} pairs, {sum(f.stat().st_size for f in OUT.iterdir()) / 1e6:.2f} MB")


def _names(words: list[str], units: NDArray[np.float32]) -> NDArray[np.int64]:
    """The words that training made quieter because they are most like first names."""
    known = {name.lower() for name in styles.NAMES}
    mean = units[[at for at, word in enumerate(words) if word in known]].mean(axis=0)
    return np.argsort(-(units @ mean), kind="stable")[:NAME_TOKENS]


if __name__ == "__main__":
    main()
