"""Trains the rows that the default embedder uses for questions: what answers an English question comes nearer to it.

    python -m training.train_questions --data FOLDER [--locomo locomo10.json.xz]

Statements keep their vectors, so stores stay as they are. Trained on `answers/` and `updates/`, in random stores of their rows,
and on the public questions that `reader_pairs.py` reads from FOLDER; torch on a processor needs some minutes. Writes
`question_pieces.npy`, `question_rows.npy` and `question_scales.npy` into the embedder's folder. Then `world_questions.py`,
`fit_revisions.py` and `fit_confidence.py` are to be run again. LoCoMo, if given, is only measured.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from random import Random

import numpy as np
import torch
import torch.nn.functional as functional

from bench.datasets import load
from keepstone.embedders.static import (
    MAX_TOKENS,
    MODEL_FOLDER,
    QUESTION_PIECES,
    QUESTION_ROWS,
    QUESTION_SCALES,
    StaticEmbedder,
    pack_rows,
    unpack_rows,
)
from training.reader_pairs import public_pairs
from training.update_rows import Row, UpdateRow, load_answers, load_updates

STORE, STORES = 60, 24  # rows of a store, and stores of a step
TEMPERATURE, PUBLIC, NEWEST, KEPT = 14.0, 0.3, 0.5, 2.0  # shares of the losses: see `Trainer.step`
PUBLIC_BATCH, TASKS = 1024, 0.15
LEAST = 0.06  # of a row's length: rows that changed less are left out


class Texts:
    """The pieces of texts as one padded matrix; the last row of the embedder's table stands for no piece."""

    def __init__(self, embedder: StaticEmbedder) -> None:
        self._embedder = embedder
        self.numbers: dict[str, int] = {}
        self.pieces: list[list[int]] = []

    def add(self, text: str) -> int:
        """The number of a text."""
        if text not in self.numbers:
            self.numbers[text] = len(self.pieces)
            self.pieces.append(self._embedder._encode(text)[:MAX_TOKENS] or [self._embedder._tokenizer.unknown_id])
        return self.numbers[text]


class Trainer:
    """The rows for questions, as what is added to those for statements."""

    def __init__(self, embedder: StaticEmbedder, rows: list[Row], public: list[tuple[str, str]], seed: int) -> None:
        torch.manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        texts = Texts(embedder)
        self.table = torch.tensor([self._numbers(row, texts) for row in rows])
        self.newest = torch.tensor([isinstance(row, UpdateRow) for row in rows])
        attributes = {row.attribute: at for at, row in enumerate(rows)}
        self.attribute = torch.tensor([attributes[row.attribute] for row in rows])
        self.public = torch.tensor([[texts.add(question), texts.add(answer)] for question, answer in public])
        self.used = np.unique(np.concatenate([np.array(each) for each in texts.pieces]))
        self.base = torch.tensor(np.concatenate([read_rows(embedder, self.used), np.zeros((1, 256), np.float32)]))
        longest = min(64, max(map(len, texts.pieces)))
        self.pieces = torch.full((len(texts.pieces), longest), len(self.used))
        for at, each in enumerate(texts.pieces):
            self.pieces[at, : len(each[:longest])] = torch.tensor(np.searchsorted(self.used, each[:longest]))
        self.vectors = functional.normalize(torch.stack([self.base[torch.tensor(np.searchsorted(self.used, each))].sum(0)
                                                         for each in texts.pieces]), dim=1)  # fmt: skip
        self.added = torch.nn.Parameter(torch.zeros_like(self.base))

    def _numbers(self, row: Row, texts: Texts) -> list[int]:
        task = row.question if isinstance(row, UpdateRow) else row.task
        return [texts.add(text) for text in (row.question, row.reworded, task, *row.told)]

    def ask(self, numbers: torch.Tensor) -> torch.Tensor:
        """The vectors of texts as questions."""
        pieces = self.pieces[numbers]
        return functional.normalize((self.base[pieces] + self.added[pieces]).sum(-2), dim=-1)

    def step(self, stores: np.ndarray) -> torch.Tensor:
        """The loss of some stores: what answers has the highest similarity of all that was said, the newest of two statements
        above the older one; of public questions, the sentence that answers; and vectors stay where they were."""
        chosen = torch.tensor(stores)
        told = self.table[chosen]
        drawn = torch.rand(chosen.shape)
        column = torch.where(drawn < 0.5, 0, torch.where(drawn < 1 - TASKS, 1, 2))
        asked = self.ask(told.gather(2, column[..., None])[..., 0])
        said = self.vectors[told[:, :, 3:].reshape(len(chosen), -1)]
        sums = TEMPERATURE * torch.einsum("sqd,std->sqt", asked, said)
        at = torch.arange(STORE)
        right = torch.zeros((*chosen.shape, STORE, 3), dtype=torch.bool)
        right[:, at, at, 0], right[:, at, at, 1] = True, self.newest[chosen]
        same = self.attribute[chosen][:, :, None] == self.attribute[chosen][:, None, :]
        same[:, at, at] = False
        right, same = right.flatten(2), same[..., None].expand(-1, -1, -1, 3).flatten(2)
        shares = sums.masked_fill(same, -1e4).log_softmax(2)
        loss = -shares.masked_fill(~right, -1e9).logsumexp(2).mean()
        newest = self.newest[chosen]
        loss = loss - NEWEST * (shares[:, at, 3 * at] * newest).sum() / (newest.sum() + 1)
        drawn_pairs = self.public[self.rng.integers(0, len(self.public), PUBLIC_BATCH)]
        pairs = TEMPERATURE * self.ask(drawn_pairs[:, 0]) @ self.vectors[drawn_pairs[:, 1]].T
        repeated = (drawn_pairs[:, 1, None] == drawn_pairs[None, :, 1]) & ~torch.eye(PUBLIC_BATCH, dtype=torch.bool)
        loss = loss + PUBLIC * functional.cross_entropy(pairs.masked_fill(repeated, -1e4), torch.arange(PUBLIC_BATCH))
        plain = told[:, :, 0].reshape(-1)
        return loss + KEPT * (1 - (self.ask(plain) * self.vectors[plain]).sum(1)).mean()

    def train(self, epochs: int, rate: float) -> np.ndarray:
        """What is added to the rows of `used`."""
        optimizer = torch.optim.Adam([self.added], lr=rate)
        passes = []
        for _ in range(epochs):
            order = self.rng.permutation(len(self.table))
            stores = order[: len(order) // STORE * STORE].reshape(-1, STORE)
            passes += np.array_split(stores, max(1, len(stores) // STORES))
        for number, stores in enumerate(passes):
            optimizer.param_groups[0]["lr"] = rate * (1 - number / len(passes))
            loss = self.step(stores)
            optimizer.zero_grad()
            loss.backward()
            self.added.grad[-1] = 0
            optimizer.step()
        print(f"loss {loss.item():.3f}", flush=True)
        return self.added.detach().numpy()[:-1]


def read_rows(embedder: StaticEmbedder, pieces: np.ndarray) -> np.ndarray:
    """The rows of pieces as they are added up in a text."""
    rows = embedder._rows.take(pieces, axis=0, mode="clip").astype(np.float32)
    packed = pieces >= len(embedder._rows)
    rows[packed] = unpack_rows(embedder._packed[pieces[packed] - len(embedder._rows)])
    return rows * embedder._scales[pieces][:, None]


def write(embedder: StaticEmbedder, pieces: np.ndarray, added: np.ndarray) -> None:
    """Write what is added to the rows that changed, in four bits."""
    base = read_rows(embedder, pieces)
    changed = np.linalg.norm(added, axis=1) > LEAST * np.linalg.norm(base, axis=1)
    rows, scales = pack_rows(added[changed])
    for name, values in ((QUESTION_PIECES, pieces[changed].astype(np.int32)), (QUESTION_ROWS, rows), (QUESTION_SCALES, scales)):
        np.save(MODEL_FOLDER / name, values)
    print(f"{changed.sum()} of {len(pieces)} rows")


def measure(embedder: StaticEmbedder, path: Path) -> None:
    """Print any@5 and any@10 of LoCoMo, single turns by vectors alone."""
    hits = []
    for case in load("locomo", path):
        turns = [turn for session in case.sessions for turn in session.turns]
        said = embedder.embed([turn.text for turn in turns])
        for question in case.questions:
            order = np.argsort(-(said @ embedder.embed([question.text], purpose="query")[0]))[:10]
            hits.append([turns[at].unit in question.gold for at in order])
    found = np.array(hits)
    print(f"LoCoMo any@5 {found[:, :5].any(1).mean():.3f}, any@10 {found.any(1).mean():.3f}")


def main() -> None:
    """Train, write, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--locomo", type=Path)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--seeds", type=int, default=3, help="trainings whose mean is written")
    options = parser.parse_args()
    embedder = StaticEmbedder()
    public = [
        (question, text) for question, text, answers in public_pairs(options.data, Random(1)) if answers and len(text) < 600
    ]
    rows: list[Row] = [*load_answers(), *load_updates()]
    added = []
    for seed in range(options.seeds):
        trainer = Trainer(embedder, rows, public, seed)
        added.append(trainer.train(options.epochs, options.rate))
    write(embedder, trainer.used, np.mean(added, axis=0))
    if options.locomo is not None:
        measure(StaticEmbedder(), options.locomo)


if __name__ == "__main__":
    main()
