"""The default embedder: a static model shipped with the package.

A text's vector is the normalised sum of one stored row per token, in one space for fifteen languages. Nothing is downloaded, only
numpy is needed; training/README.md says how the rows were made and what they can do. The English model of earlier releases,
static-256-v2, stays loadable.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keepstone.embedders.pieces import Pieces
from keepstone.embedders.texts import MAX_CHARS, check_texts
from keepstone.embedders.wordpiece import WordPiece
from keepstone.errors import EmbedderError

MODEL_FOLDER = Path(__file__).parent / "multilingual_model"
ENGLISH_FOLDER = Path(__file__).parent / "static_model"  # static-256-v2
LANGUAGES_FILE, LETTERS_FILE = "languages.npy", "languages.json"  # how a language that the model does not know is told
WORLD_FILE = "world.npy"  # how a question about the world is told from one about the user; `training/world_questions.py` fits it
QUESTION_PIECES, QUESTION_ROWS, QUESTION_SCALES = "question_pieces.npy", "question_rows.npy", "question_scales.npy"
MAX_TOKENS = 512  # of a text that are embedded: the vector of a whole chapter carries no meaning
MAX_LETTERS, MAX_LANGUAGE_TOKENS = 300, 64  # of a text that tell its language
MAX_UNKNOWN_SHARE = 2 / 3  # of a text's letters; with more of them its language is not known
CHUNK_TOKENS = 512  # summed at once: their rows stay in the cache of a core

# Rows of four bits a number: each is one of 16 levels, times the scale of its row. These are the best levels for numbers that are
# normally distributed (Lloyd and Max); their mean squared error is 1 %.
_POSITIVE = (0.1284, 0.3881, 0.6568, 0.9424, 1.2562, 1.6181, 2.0690, 2.7326)
LEVELS: Final = (*(-level for level in reversed(_POSITIVE)), *_POSITIVE)
_LEVEL = np.array(LEVELS, dtype=np.float32)
# Both numbers of a byte, as one number that numpy can look up at once.
_PAIRS: Final = np.stack([_LEVEL[np.arange(256) >> 4], _LEVEL[np.arange(256) & 15]], axis=1).view(np.complex64)[:, 0]

# Words that hardly any other language in Latin letters has: a text with one is English, however odd its names are.
_ENGLISH_WORDS: Final = frozenset("the with and that this they their you your from have which would should because about".split())


class StaticEmbedder:
    """Embeds text with the model in the package: about 20 microseconds for a short text, the same on every machine.

    Only the first 512 tokens, within the first 16,384 characters, count. A text without any token (empty, or white
    space) gets the vector of an unknown word, so that every text can be stored and compared. A text in a language that the
    model does not know gets a vector of its own that is like no other text's.

    Example: `StaticEmbedder().embed(["likes green tea"])` gives an array of shape (1, 256).
    Raises EmbedderError when the model's files are missing or damaged, or when a text is not a string.
    """

    local = True
    deviation = 0.09  # of the cosine between a question and texts it is not about

    def __init__(self, folder: Path = MODEL_FOLDER) -> None:
        try:
            manifest = json.loads((folder / "model.json").read_text(encoding="utf-8"))
            self.dimension: int = manifest["dimension"]
            if "levels" not in manifest:
                vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
                self._tokenizer: Pieces | WordPiece = WordPiece(vocabulary)
                self._rows = _map_array(folder / "rows.npy", np.int8, (len(vocabulary), self.dimension))
                self._packed = np.empty((0, self.dimension // 2), dtype=np.uint8)
            else:
                self._tokenizer = Pieces.map(folder)
                self._rows = _map_array(folder / "rows.npy", np.int8, (None, self.dimension))
                self._packed = _map_array(folder / "packed.npy", np.uint8, (None, self.dimension // 2))
            size = len(self._rows) + len(self._packed)
            self._scales = _map_array(folder / "scales.npy", np.float32, (size,))
            self._language_weights, self._letter_weights, self._least_evidence = _read_language_weights(folder, size)
            is_fitted = (folder / WORLD_FILE).exists()
            self.world_weights = _map_array(folder / WORLD_FILE, np.float32, (self.dimension + 1,)) if is_fitted else None
            self._question_rows = _QuestionRows.map(folder, self.dimension, size)
            if isinstance(self._tokenizer, Pieces) and len(self._tokenizer) != size:
                raise ValueError(f"pieces.txt has {len(self._tokenizer)} pieces for {size} rows")
        except (OSError, ValueError, KeyError) as error:
            raise EmbedderError(
                f"The static embedder's model in {folder} cannot be read ({error}). "
                "Reinstall keepstone, or train the model again as training/README.md describes."
            ) from error
        self.id = f"static-{self.dimension}-v{manifest['version']}"
        unknown = self._rows[self._tokenizer.unknown_id].astype(np.float32)
        self._unknown_vector = unknown / np.linalg.norm(unknown)
        self._last: tuple[str, list[int]] = ("", [])  # recall asks `knows` first and then embeds the same text

    def embed(self, texts: Sequence[str], *, purpose: Literal["document", "query"] = "document") -> NDArray[np.float32]:
        """One unit vector per text, in order. In a query the rows differ a little: what answers is nearer."""
        check_texts(texts)
        question_rows = self._question_rows if purpose == "query" else None
        out = np.empty((len(texts), self.dimension), dtype=np.float32)
        encoded = [self._encode(text) for text in texts]
        tokens: list[int] = []
        starts: list[int] = []
        first = 0
        for index, ids in enumerate(encoded):
            starts.append(len(tokens))
            tokens += ids or (self._tokenizer.unknown_id,)
            if len(tokens) >= CHUNK_TOKENS:
                self._sum_into(out[first : index + 1], tokens, starts, question_rows)
                tokens, starts, first = [], [], index + 1
        if tokens:
            self._sum_into(out[first:], tokens, starts, question_rows)
        for index, (text, evidence) in enumerate(zip(texts, self._evidence(encoded), strict=True)):
            if not self._is_known(text, evidence):
                out[index] = self._own_vector(text)
        return out

    def knows(self, text: str) -> bool:
        """Whether the model knows the language of a text; if not, its vector says nothing.

        >>> [StaticEmbedder().knows(text) for text in ("Wo wohne ich?", "मैं कहाँ रहता हूँ?", "Kde bydlím já teď?")]
        [True, False, False]
        """
        return self._is_known(text, *self._evidence([self._encode(text)]))

    def _evidence(self, encoded: Sequence[Sequence[int]]) -> list[int]:
        """How much the pieces of each text speak for a language that the model does not know."""
        if not isinstance(self._tokenizer, Pieces):
            return [0] * len(encoded)
        weigh = self._language_weights.__getitem__
        return [sum(map(weigh, set(ids[:MAX_LANGUAGE_TOKENS]))) for ids in encoded]

    def _is_known(self, text: str, evidence: int) -> bool:
        if not isinstance(self._tokenizer, Pieces):
            return True
        if not text.isascii():
            letters = set(text[:MAX_LETTERS].lower())
            evidence += sum(self._letter_weights[letter] for letter in letters.intersection(self._letter_weights))
        if evidence > self._least_evidence and " " in text:  # a single word, such as a name, does not tell a language
            return not _ENGLISH_WORDS.isdisjoint(text[:MAX_CHARS].lower().split())
        return text.isascii() or self._tokenizer.unknown_share(text[:MAX_CHARS]) <= MAX_UNKNOWN_SHARE

    def _encode(self, text: str) -> list[int]:
        """The tokens of a text that count."""
        last, tokens = self._last
        if last is not text:
            tokens = self._tokenizer.encode(text[:MAX_CHARS])[:MAX_TOKENS]
            self._last = text, tokens
        return tokens

    def _own_vector(self, text: str) -> NDArray[np.float32]:
        """A unit vector in a direction that only this text has."""
        seed = zlib.crc32(text[:MAX_CHARS].encode("utf-8", "surrogatepass"))
        vector = np.random.Generator(np.random.PCG64(seed)).standard_normal(self.dimension).astype(np.float32)
        own: NDArray[np.float32] = vector / np.linalg.norm(vector)
        return own

    def _sum_into(
        self, out: NDArray[np.float32], tokens: list[int], starts: list[int], question_rows: _QuestionRows | None
    ) -> None:
        """Write the normalised sums of the tokens' rows; `starts` are the first tokens of the texts."""
        ids = np.array(tokens, dtype=np.intp)
        scales = self._scales[ids]
        rows = self._rows.take(ids, axis=0, mode="clip").astype(np.float32)
        packed = (ids >= len(self._rows)).nonzero()[0]
        if len(packed):
            rows[packed] = unpack_rows(self._packed[ids[packed] - len(self._rows)])
        if question_rows is not None:
            places = question_rows.places[ids]
            asked = (places >= 0).nonzero()[0]
            added = unpack_rows(question_rows.rows[places[asked]]) * question_rows.scales[places[asked], None]
            rows[asked] += added / scales[asked, None]
        for at, (start, end) in enumerate(zip(starts, [*starts[1:], len(ids)], strict=True)):
            np.matmul(scales[start:end], rows[start:end], out=out[at])
        norms = np.sqrt(np.einsum("ij,ij->i", out, out))
        if norms.min() < 1e-6:  # the rows cancel out exactly
            out[norms < 1e-6] = self._unknown_vector
            norms[norms < 1e-6] = 1.0
        out /= norms[:, None]


class _QuestionRows(NamedTuple):
    """What is added to the rows of pieces in questions: of each piece its place among these rows, or -1. They are made by
    `training/train_questions.py`."""

    places: NDArray[np.int16]
    rows: NDArray[np.uint8]
    scales: NDArray[np.float32]

    @classmethod
    def map(cls, folder: Path, dimension: int, size: int) -> _QuestionRows | None:
        """Those of a model; None: it has none."""
        if not (folder / QUESTION_PIECES).exists():
            return None
        pieces = _map_array(folder / QUESTION_PIECES, np.int32, (None,))
        places = np.full(size, -1, dtype=np.int16)
        places[pieces] = np.arange(len(pieces))
        rows = _map_array(folder / QUESTION_ROWS, np.uint8, (len(pieces), dimension // 2))
        return cls(places, rows, _map_array(folder / QUESTION_SCALES, np.float32, (len(pieces),)))


def _read_language_weights(folder: Path, size: int) -> tuple[memoryview, dict[str, int], int]:
    """How much each piece and each letter says that a text is in a language that the model does not know, and what is enough."""
    if not (folder / LANGUAGES_FILE).exists():
        return memoryview(bytes(size)), {}, 0
    document = json.loads((folder / LETTERS_FILE).read_text(encoding="utf-8"))
    return _map_array(folder / LANGUAGES_FILE, np.int8, (size,)).data, document["letters"], document["enough"]


def _map_array(path: Path, dtype: Any, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """The array in a file, mapped into memory: pages are read when a token needs them and shared between processes."""
    array = np.asarray(np.load(path, mmap_mode="r"))
    wanted = tuple(array.shape[at] if size is None else size for at, size in enumerate(shape) if at < array.ndim)
    if array.dtype != dtype or array.shape != wanted or len(wanted) != len(shape):
        raise ValueError(f"{path.name} holds {array.dtype} {array.shape} and should hold {np.dtype(dtype)} {shape}")
    return array


def pack_rows(rows: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Rows as bytes of two numbers each, and the scale of each row."""
    scales = np.maximum(np.sqrt((rows.astype(np.float64) ** 2).mean(axis=1)), 1e-9).astype(np.float32)
    borders = (_LEVEL[1:] + _LEVEL[:-1]) / 2
    codes = np.searchsorted(borders, rows / scales[:, None]).astype(np.uint8)
    chosen = _LEVEL[codes]
    scales *= (rows / scales[:, None] * chosen).sum(axis=1) / np.maximum((chosen**2).sum(axis=1), 1e-9)  # least squares
    return codes[:, ::2] << 4 | codes[:, 1::2], scales


def unpack_rows(packed: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The rows of bytes, without their scales."""
    return _PAIRS.take(packed).view(np.float32)
