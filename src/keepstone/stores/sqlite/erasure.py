"""Making sure that what was forgotten is in no byte of the file.

Deleting overwrites the freed space, but an engine may leave copies behind where it moved things around before. So after a
forget the file is searched for the texts and for words that nothing else has; what is found makes the store write the
full-text index, and if need be the whole file, anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from keepstone.stores.sqlite.connections import Driver
from keepstone.stores.sqlite.transaction import SqliteTransaction
from keepstone.text.words import terms

_PATTERNS = 64  # beyond so many, writing the file anew is quicker than searching for each
_LARGE = 512 * 1024 * 1024  # bytes: a file too large to be written anew for the asking; there the first patterns have to do
_PIECE = 1024 * 1024  # bytes that are searched at a time
_SLICE = 48  # characters: long texts are searched for by pieces, because a page may end within them
_SHORTEST = 5
# Words that the store writes itself, in every row of the trail: they say nothing about anybody.
_USUAL = frozenset(
    "active added aside expired forget forgotten general import ingest message quarantine redact remember session supersede "
    "superseded system update updated".split()
)


def erase(driver: Driver, texts: Sequence[str], timeout: float) -> bool:
    """Empty the log and leave no trace of these texts; False while another process still reads the old pages."""
    if not driver.checkpoint(timeout):
        return False
    if driver.path == ":memory:":
        return True
    rewrites: list[Callable[[], None]] = [lambda: driver.writing("", _optimize), driver.vacuum]
    patterns = _patterns(driver, texts)
    if len(patterns) > _PATTERNS and os.path.getsize(driver.path) <= _LARGE:
        rewrites = []
        driver.vacuum()
        if not driver.checkpoint(timeout):
            return False
    patterns = patterns[:_PATTERNS]
    for rewrite in rewrites:
        if not _traces(driver, patterns):
            return True
        rewrite()
        if not driver.checkpoint(timeout):
            return False
    return not _traces(driver, patterns)


def _optimize(db: SqliteTransaction) -> None:
    db.run("words_optimize")


def _traces(driver: Driver, patterns: Sequence[str]) -> bool:
    """Whether the file holds one of the patterns where none should be."""
    if not patterns:
        return False
    with driver.reading() as db:
        found = _standing(db, patterns)
        if not found:
            return False
        db.run("words_vocabulary")
        return any(not db.one("erasure_live", (pattern.lower(),))[0] for pattern in found)


def _standing(db: SqliteTransaction, patterns: Sequence[str]) -> list[str]:
    """The patterns that stand in the file. It is read a piece at a time, as another may write it anew meanwhile, and shorter:
    whoever looked at it through a mapping would be killed. And it is read through the engine's own handle: closing another one
    would let go of all the locks that this process has on the file."""
    left = {pattern.encode(): pattern for pattern in patterns}
    overlap = max(map(len, left)) - 1
    found: list[str] = []
    held, at, whole = b"", 0, True
    while whole and left:
        whole, piece = db.db.read("main", 0, at, _PIECE)
        held = held[-overlap:] + piece
        found += [left.pop(each) for each in list(left) if each in held]
        at += _PIECE
    return found


def _patterns(driver: Driver, texts: Sequence[str]) -> list[str]:
    """Pieces of the texts, and the words that nothing else in the store has."""
    pieces: dict[str, None] = {}
    for text in texts:
        middle = len(text) // 2
        for piece in (text[:_SLICE], text[middle : middle + _SLICE], text[-_SLICE:]):
            if len(piece) >= _SHORTEST and piece not in _USUAL:
                pieces[piece] = None
    words = {term for text in texts for term in terms(text) if len(term) >= _SHORTEST and term not in _USUAL}
    with driver.reading() as db:
        db.run("words_vocabulary")
        lost = [term for term in words if db.one("words_known", (term,)) is None]
    return [*pieces, *sorted(lost, key=len, reverse=True)]
