"""The reader: a small cross-encoder that reads two texts together. Of a question and a memory it judges whether the memory
answers, of an earlier and a later statement whether the later one replaces the earlier.

The six layers of all-MiniLM-L6-v2, trained further by `training/train_reader.py`: English, eight bits a weight, four bits a
number of the word rows, a vocabulary of 13,000 pieces. The forward pass is numpy; the files are read with the first question.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from keepstone.embedders.static import unpack_rows
from keepstone.embedders.wordpiece import WordPiece
from keepstone.errors import EmbedderError
from keepstone.ports.forks import reset_after_fork

MODEL_FOLDER = Path(__file__).parent / "reader_model"
MAX_TOKENS, MAX_FIRST_TOKENS = 128, 64  # of a pair, and of the first text in it
MAX_CHARS = 2000  # of a text that are looked at
_HEADS, _EPSILON = 12, 1e-12
Matrix = NDArray[np.float32]


class Reader:
    """Judges whether texts answer a question: `Reader()(question, texts)` gives a logit for each text. `replaces` judges whether
    later statements replace an earlier one.

    Raises EmbedderError when the model's files are missing or damaged.
    """

    def __init__(self, folder: Path = MODEL_FOLDER) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._model: _Model | None = None
        reset_after_fork(self._reset)

    def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        return self._judge(question, texts, 0)

    def replaces(self, older: str, newer: Sequence[str], question: str = "") -> list[float]:
        """The logit, for each later statement, that it replaces an earlier one: as what answers `question`, if one is given."""
        return self._judge(f"{question} {older}" if question else older, newer, 1)

    def _judge(self, first: str, texts: Sequence[str], row: int) -> list[float]:
        if not texts:
            return []
        with self._lock:
            model = self._model = self._model or _Model(self._folder)
        return model.judge(first, texts, row)

    def _reset(self) -> None:
        """A new lock in a forked child: the parent's may be held by a thread that does not exist there."""
        self._lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Where the tokens of pairs of different lengths are: one after the other, and padded for attention within each pair."""

    longest: int
    starts: NDArray[np.intp]  # the first token of each pair
    positions: NDArray[np.intp]  # of each token in its pair
    places: NDArray[np.intp]  # of each token where every pair is as long as the longest
    away: Matrix  # a large negative number where there is no token

    @classmethod
    def of(cls, lengths: Sequence[int]) -> _Pairs:
        longest = max(lengths)
        is_token = np.arange(longest) < np.array(lengths)[:, None]
        pair, positions = is_token.nonzero()
        away = np.where(is_token, np.float32(0), np.float32(-1e9))[:, None, None]
        return cls(longest, np.cumsum([0, *lengths[:-1]]), positions, pair * longest + positions, away)

    def pad(self, x: Matrix) -> Matrix:
        """Values of tokens by pair, head, position and dimension."""
        padded = np.zeros((len(self.starts) * self.longest, x.shape[-1]), dtype=np.float32)
        padded[self.places] = x
        return padded.reshape(len(self.starts), self.longest, _HEADS, -1).transpose(0, 2, 1, 3)


class _Model:
    """The loaded weights and the forward pass."""

    def __init__(self, folder: Path) -> None:
        try:
            vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
            with np.load(folder / "words.npz") as file:
                self._words: Matrix = unpack_rows(file["rows"]) * file["scales"][:, None]
            with np.load(folder / "layers.npz") as file:
                self._tensors = {name: _widen(file, name) for name in file.files if not name.endswith(".scale")}
            if len(vocabulary) != len(self._words):
                raise ValueError(f"vocab.txt has {len(vocabulary)} pieces for {len(self._words)} rows")
        except (OSError, ValueError, KeyError) as error:
            raise EmbedderError(f"The reader's model in {folder} cannot be read ({error}). Reinstall keepstone.") from error
        self._tokenizer = WordPiece(vocabulary)
        self._begin, self._end = vocabulary.index("[CLS]"), vocabulary.index("[SEP]")
        self._layers = 1 + max(int(name.split(".")[2]) for name in self._tensors if name.startswith("encoder.layer."))

    def judge(self, question: str, texts: Sequence[str], head: int) -> list[float]:
        """The logit of each text, by a row of the head."""
        asked = self._tokenizer.encode(question[:MAX_CHARS])[:MAX_FIRST_TOKENS]
        room = MAX_TOKENS - 3 - len(asked)
        said = [self._tokenizer.encode(text[:MAX_CHARS])[:room] for text in texts]
        rows = [[self._begin, *asked, self._end, *tokens, self._end] for tokens in said]
        pairs = _Pairs.of([len(row) for row in rows])
        types = pairs.positions >= len(asked) + 2
        x = self._words[[token for row in rows for token in row]]
        x += self._tensors["embeddings.position_embeddings.weight"][pairs.positions]
        x += self._tensors["embeddings.token_type_embeddings.weight"][types.astype(np.intp)]
        x = self._norm(x, "embeddings.LayerNorm")
        for number in range(self._layers):
            x = self._layer(x, pairs, f"encoder.layer.{number}.", is_last=number == self._layers - 1)
        logits = x @ self._tensors["head.weight"][head] + self._tensors["head.bias"][head]
        return [float(logit) for logit in logits]

    def _layer(self, x: Matrix, pairs: _Pairs, name: str, is_last: bool) -> Matrix:
        """One layer over the tokens of all pairs; of the last one only the first token of each pair, which the head reads."""
        asking = x[pairs.starts] if is_last else x
        key, value = (pairs.pad(self._linear(x, f"{name}attention.self.{part}")) for part in ("key", "value"))
        query = self._linear(asking, f"{name}attention.self.query")
        query = query.reshape(len(asking), 1, _HEADS, -1).transpose(0, 2, 1, 3) if is_last else pairs.pad(query)
        weights = query @ key.transpose(0, 1, 3, 2) / np.float32((x.shape[-1] // _HEADS) ** 0.5) + pairs.away
        weights = np.exp(weights - weights.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        heads = (weights @ value).transpose(0, 2, 1, 3).reshape(-1, x.shape[-1])
        heads = heads if is_last else heads[pairs.places]
        x = self._norm(asking + self._linear(heads, f"{name}attention.output.dense"), f"{name}attention.output.LayerNorm")
        wide = self._linear(x, f"{name}intermediate.dense")
        wide *= 0.5 * (1 + np.tanh(0.7978845608 * (wide + 0.044715 * wide * wide * wide)))  # GELU
        return self._norm(x + self._linear(wide, f"{name}output.dense"), f"{name}output.LayerNorm")

    def _linear(self, x: Matrix, name: str) -> Matrix:
        out: Matrix = x @ self._tensors[f"{name}.weight"].T
        out += self._tensors[f"{name}.bias"]
        return out

    def _norm(self, x: Matrix, name: str) -> Matrix:
        x = x - x.mean(axis=-1, keepdims=True)
        scale = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(_EPSILON))
        out: Matrix = x / scale * self._tensors[f"{name}.weight"] + self._tensors[f"{name}.bias"]
        return out


def _widen(file: np.lib.npyio.NpzFile, name: str) -> Matrix:
    """A tensor as float32: a matrix of bytes has a scale for each row."""
    values: Matrix = file[name].astype(np.float32)
    return values * file[f"{name}.scale"][:, None] if f"{name}.scale" in file.files else values
