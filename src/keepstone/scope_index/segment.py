"""Most of a large scope as columns that never change, in a file that is mapped into memory or in memory alone.

The file is a cache: it says which store, embedder and moment it was made of, is written beside its place and moved there
whole, and is made anew when anything about it does not fit. What was forgotten is overwritten in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from keepstone.ports.values import Matrix, Vector
from keepstone.scope_index.codes import Codes
from keepstone.scope_index.columns import CODED, PLAIN
from keepstone.scope_index.postings import NO_POSTINGS, Counts, Run

FORMAT = 4
BLOCK = 64  # dimensions that share a scale
_MAGIC = b"keepstone scope\n"
_ALIGNED = 64
_TABLES = ("vectors", "scales", "centres", "planes")  # the other arrays are columns
_LINKS = ("before", "after", "similarity_to_previous")
_BLANK = "\0"  # what a name begins with that was overwritten
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Segment:
    """Records in slots, in the order of their sequences. `about` says what it was made of."""

    about: Mapping[str, Any]
    arrays: Arrays
    codes: Codes
    names: dict[str | None, int]  # kinds, tags, sessions, roles and speakers as numbers
    speakers: tuple[str, ...]
    path: Path | None = None

    @classmethod
    def of(cls, about: Mapping[str, Any], arrays: Arrays, path: Path | None = None) -> Segment:
        codes = Codes(*(arrays[name] for name in ("centres", "starts", "planes", "spreads", "code_slots")))
        names = _names(arrays)
        spoken = set(arrays["speakers"].tolist())
        speakers = tuple(text for text, code in names.items() if code in spoken and text is not None and text[:1] != _BLANK)
        return cls(about, arrays, codes, names, speakers, path)

    @property
    def size(self) -> int:
        return len(self.arrays["sequences"])

    @property
    def latest(self) -> int:
        return int(self.about["latest"])

    def vectors_at(self, slots: NDArray[np.int64]) -> Matrix:
        """Vectors as near to the stored ones as a byte a dimension brings them."""
        return dequantise(self.arrays, slots, int(self.about["dimension"]))

    def measure_similarity(self, slots: NDArray[np.int64], vector: Vector) -> NDArray[np.float32]:
        """The similarity of these slots to a vector, by the quantised vectors."""
        scales = self.arrays["scales"].take(slots, axis=0)
        if not scales.shape[1]:  # there are no vectors
            return np.zeros(len(slots), dtype=np.float32)
        asked = np.zeros(scales.shape[1] * BLOCK, dtype=np.float32)
        asked[: len(vector)] = vector
        parts = self.arrays["vectors"].take(slots, axis=0).astype(np.float32).reshape(*scales.shape, BLOCK)
        found: NDArray[np.float32] = np.vecdot(np.vecdot(parts, asked.reshape(-1, BLOCK)), scales)
        return found

    def find_all(self, terms: Sequence[int]) -> list[tuple[NDArray[np.uint32], Counts]]:
        """Of each term the slots it stands in, ascending, and how often in each."""
        found: list[tuple[NDArray[np.uint32], Counts]] = [(np.empty(0, np.uint32), NO_POSTINGS[1])] * len(terms)
        for at, slots, counts in Run(*(self.arrays[name] for name in Run._fields)).find(terms):
            found[at] = slots, counts
        return found

    def slots_of(self, sequences: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slots of some records, ascending, with all their passages; those that are not here are left out."""
        held = self.arrays["sequences"]
        wanted = np.sort(sequences)
        wanted = wanted[np.diff(wanted, prepend=-1) > 0]  # `np.unique` would import numpy.ma, which takes 20 ms
        starts, ends = np.searchsorted(held, wanted), np.searchsorted(held, wanted, side="right")
        counts = ends - starts
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        found: NDArray[np.int64] = np.repeat(starts, counts) + within
        return found

    def nbytes(self) -> int:
        """Bytes that it takes alone: the pages of a mapped file can be dropped."""
        return 0 if self.path is not None else sum(array.nbytes for array in self.arrays.values())


def quantise(vectors: Matrix) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Vectors with a byte a dimension, and the scales of their blocks."""
    count, dimension = vectors.shape
    blocks = -(-dimension // BLOCK)
    padded = np.zeros((count, blocks * BLOCK), dtype=np.float32)
    padded[:, :dimension] = vectors
    parts = padded.reshape(count, blocks, BLOCK)
    scales = np.abs(parts).max(axis=2) / np.float32(127)
    whole = np.rint(parts / np.maximum(scales, np.float32(1e-12))[:, :, None]).astype(np.int8)
    return whole.reshape(count, blocks * BLOCK), scales


def dequantise(arrays: Arrays, slots: NDArray[np.int64], dimension: int) -> Matrix:
    """The quantised vectors of some slots as floats."""
    scales = arrays["scales"].take(slots, axis=0)
    vectors = arrays["vectors"].take(slots, axis=0).reshape(*scales.shape, BLOCK) * scales[:, :, None]
    found: Matrix = np.ascontiguousarray(vectors.reshape(len(slots), scales.shape[1] * BLOCK)[:, :dimension])
    return found


def encode_names(names: Mapping[str | None, int], speakers: Collection[str]) -> Arrays:
    """Names in the order of their numbers, where they can be overwritten; the first is None. And the numbers of speakers."""
    texts = [b"" if text is None else text.encode() for text in names]
    return {
        "texts": np.frombuffer(b"".join(texts), dtype=np.uint8),
        "text_ends": np.cumsum([len(text) for text in texts], dtype=np.int64),
        "speakers": np.array(sorted(names[name] for name in speakers), dtype=np.int32),
    }


def _names(arrays: Arrays) -> dict[str | None, int]:
    raw, ends = arrays["texts"].tobytes(), arrays["text_ends"].tolist()
    texts = [raw[start:end].decode(errors="replace") for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    # Those that were overwritten keep their numbers, under names that no record has.
    named = [f"{_BLANK}{code}" if text[:1] == _BLANK else text for code, text in enumerate(texts)]
    found: dict[str | None, int] = {None: 0, **{text: code for code, text in enumerate(named) if code}}
    if len(found) != len(ends):
        raise ValueError("two names are the same: the file is damaged")
    return found


def write_segment(path: Path, about: Mapping[str, Any], arrays: Arrays) -> None:
    """Put a segment into a file: beside its place, on the disk, then moved there, so that it is there whole or not at all."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    layout, at = {}, 0
    for name, array in arrays.items():
        layout[name] = [at, array.dtype.str, list(array.shape)]
        at += -(-array.nbytes // _ALIGNED) * _ALIGNED
    head = json.dumps({**about, "format": FORMAT, "layout": layout, "bytes": at}).encode()
    remove_drafts(path)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            _lock(file)  # while this process runs, no other process removes it
            file.write(_MAGIC + np.array([len(head), zlib.crc32(head)], dtype="<u8").tobytes() + head)
            file.write(b"\0" * (-file.tell() % _ALIGNED))
            for array in arrays.values():
                file.write(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
                file.write(b"\0" * (-array.nbytes % _ALIGNED))
            file.flush()
            os.fsync(file.fileno())
            os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def _lock(file: IO[bytes]) -> None:
    """Have a file for ourselves; OSError if another has it. Where there are no such locks, no open file can be deleted."""
    with contextlib.suppress(ImportError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def remove_drafts(path: Path) -> None:
    """Delete what processes that were killed while they wrote have left beside a file's place."""
    listed = os.listdir(path.parent) if path.parent.is_dir() else ()  # `glob` compiles a pattern for each scope
    for draft in [path.parent / name for name in listed if name.startswith(f"{path.name}.")]:
        with contextlib.suppress(OSError), draft.open("rb") as file:
            _lock(file)  # refused while another process writes there
            draft.unlink()


def read_segment(path: Path, expected: Mapping[str, Any], writable: bool = False) -> Segment | None:
    """The segment in a file, mapped; None if there is none, or it is not whole, or was made of something else."""
    try:
        with path.open("r+b" if writable else "rb") as file:
            start = file.read(len(_MAGIC) + 16)
            length, checksum = np.frombuffer(start[len(_MAGIC) :], dtype="<u8") if len(start) == len(_MAGIC) + 16 else (0, 0)
            head = file.read(int(length)) if start.startswith(_MAGIC) and length < 1 << 30 else b""
            begin = -(-file.tell() // _ALIGNED) * _ALIGNED
            size = os.fstat(file.fileno()).st_size
            if not head or zlib.crc32(head) != int(checksum):
                return None
            about = json.loads(head)
            fits = about["format"] == FORMAT and all(about[name] == expected[name] for name in expected)
            if not fits or size != begin + about["bytes"]:
                return None
            # The same file, not the path again: another may have been moved there meanwhile.
            whole = np.memmap(file, dtype=np.uint8, mode="r+" if writable else "r")
        arrays = {}
        for name, (at, kind, shape) in about["layout"].items():
            count = int(np.prod(shape)) * np.dtype(kind).itemsize
            part = whole[begin + at : begin + at + count]
            arrays[name] = np.frombuffer(part, dtype=kind).reshape(shape) if not writable else part.view(kind).reshape(shape)
        return Segment.of(about, arrays, path) if _sound(arrays) else None
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None


def _sound(arrays: Arrays) -> bool:
    """Whether nothing in a file leads out of it. What it says may still be wrong: that is only a worse proposal."""
    size, held, names = len(arrays["sequences"]), len(arrays["slots"]), len(arrays["text_ends"])
    if any(array.ndim != (2 if name in _TABLES else 1) for name, array in arrays.items()) or not _lengths_fit(arrays):
        return False
    rising = all(
        (not len(array) or (array[0] >= 0 and array[-1] == end)) and bool((array[1:] >= array[:-1]).all())
        for array, end in (
            (arrays["starts"], len(arrays["code_slots"])), (arrays["ends"], held), (arrays["text_ends"], len(arrays["texts"])),
        )
    )  # fmt: skip
    bounds = [("slots", 0, size), ("code_slots", 0, size), ("last_slots", 0, size), ("last_sessions", 0, names)]
    bounds += [("speakers", 0, names), ("before", -1, size), ("after", -1, size), *((name, 0, names) for name in CODED)]
    return rising and all(
        not len(arrays[name]) or (arrays[name].min() >= low and arrays[name].max() < end) for name, low, end in bounds
    )


def _lengths_fit(arrays: Arrays) -> bool:
    """Whether arrays that are read at the same places are as long as each other."""
    size, coded, scales = len(arrays["sequences"]), len(arrays["code_slots"]), arrays["scales"]
    lengths = [(name, size) for name in (*PLAIN, *CODED, *_LINKS, "lengths", "sums", "vectors", "scales")]
    lengths += [("counts", len(arrays["slots"])), ("ends", len(arrays["terms"])), ("spreads", coded)]
    lengths += [("last_sessions", len(arrays["last_slots"])), ("starts", len(arrays["centres"]) + 1)]
    return (
        all(len(arrays[name]) == length for name, length in lengths)
        and arrays["planes"].shape[1] == coded
        and (not size or arrays["vectors"].shape[1] == scales.shape[1] * BLOCK)
    )


def erase_slots(segment: Segment, slots: NDArray[np.int64]) -> None:
    """Leave nothing of some records in a segment that was opened for writing: neither their vectors nor their words."""
    arrays = segment.arrays
    arrays["vectors"][slots] = 0
    arrays["scales"][slots] = 0
    for name in ("lengths", "sums", "similarity_to_previous", "importances", "occurred", "valid_from"):
        arrays[name][slots] = 0
    coded = np.isin(arrays["code_slots"], slots.astype(np.uint32))
    arrays["planes"][:, coded] = 0
    arrays["spreads"][coded] = 0
    _unname(arrays, slots)
    ends = arrays["ends"]
    for at in np.flatnonzero(np.isin(arrays["slots"], slots.astype(np.uint32))).tolist():
        _unword(arrays, at, int(np.searchsorted(ends, at, side="right")), set(slots.tolist()))
    base = arrays["vectors"].base
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    if base is not None:
        base.flush()


def _unname(arrays: Arrays, slots: NDArray[np.int64]) -> None:
    """Leave no tag, session or name that only these had."""
    had = {code for name in CODED for code in arrays[name][slots].tolist()} - {0}
    for name in CODED:
        arrays[name][slots] = 0
    for code in sorted(had):
        if not any((arrays[name] == code).any() for name in CODED):
            arrays["texts"][int(arrays["text_ends"][code - 1]) : int(arrays["text_ends"][code])] = 0


def _unword(arrays: Arrays, at: int, place: int, gone: set[int]) -> None:
    """Overwrite one entry of a word's list with another of its entries; a word that no other record has becomes its neighbour."""
    ends = arrays["ends"]
    start, end = int(ends[place - 1]) if place else 0, int(ends[place])
    left = next((each for each in range(at - 1, start - 1, -1) if int(arrays["slots"][each]) not in gone), None)
    right = next((each for each in range(at + 1, end) if int(arrays["slots"][each]) not in gone), None)
    other = left if left is not None else right
    if other is not None:
        arrays["slots"][at], arrays["counts"][at] = arrays["slots"][other], arrays["counts"][other]
        return
    arrays["counts"][at] = 0
    arrays["terms"][place] = arrays["terms"][place - 1] if place else 0  # a search for that word finds the first of equals
