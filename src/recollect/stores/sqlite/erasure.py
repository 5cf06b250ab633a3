"""Making sure that what was forgotten is in no byte of the file. Imports: rows beside it, words, stdlib.

Deleting overwrites the freed space, but an engine may leave copies behind where it moved things around before. So after a
forget the file is searched for the texts and for words that nothing else has; what is found makes the store write the
full-text index, and if need be the whole file, anew.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence

import apsw

from recollect.stores.sqlite.driver import Driver, one_row
from recollect.stores.sqlite.moment import sql
from recollect.words import terms

_PATTERNS = 64  # beyond so many, writing the file anew is quicker than searching for each
_LARGE = 512 * 1024 * 1024  # bytes: a file too large to be written anew for the asking; there the first patterns have to do
_SLICE = 48  # characters: long texts are searched for by pieces, because a page may end within them
_SHORTEST = 5
_USUAL = {"general", "import", "system"}  # names that say nothing about anybody


def erase(driver: Driver, texts: Sequence[str], timeout: float) -> bool:
    """Empty the log and leave no trace of these texts; False while another process still reads the old pages."""
    if not driver.checkpoint(timeout):
        return False
    if driver.path == ":memory:":
        return True
    rewrites: list[Callable[[], None]] = [lambda: driver.writing(_optimize), driver.vacuum]
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


def _optimize(db: apsw.Connection) -> None:
    db.execute(sql.words_optimize)


def _traces(driver: Driver, patterns: Sequence[str]) -> bool:
    """Whether the file holds one of the patterns where none should be."""
    if not patterns:
        return False
    with open(driver.path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        found = [pattern for pattern in patterns if raw.find(pattern.encode()) >= 0]
    if not found:
        return False
    with driver.reading() as db:
        db.execute(sql.words_vocabulary)
        return any(not one_row(db, sql.erasure_live, (pattern.lower(),))[0] for pattern in found)


def _patterns(driver: Driver, texts: Sequence[str]) -> list[str]:
    """Pieces of the texts, and the words that nothing else in the store has."""
    pieces: dict[str, None] = {}
    for text in texts:
        middle = len(text) // 2
        for piece in (text[:_SLICE], text[middle : middle + _SLICE], text[-_SLICE:]):
            if len(piece) >= _SHORTEST and piece not in _USUAL:
                pieces[piece] = None
    words = {term for text in texts for term in terms(text) if len(term) >= _SHORTEST}
    with driver.reading() as db:
        db.execute(sql.words_vocabulary)
        lost = [term for term in words if one_row(db, sql.words_known, (term,)) is None]
    return [*pieces, *sorted(lost, key=len, reverse=True)]
