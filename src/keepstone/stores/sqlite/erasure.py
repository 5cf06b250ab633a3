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
from keepstone.text.sentences import split_passages
from keepstone.text.words import terms

_MAX_PATTERNS = 64  # above this, rewriting the file is faster than searching
_MAX_REWRITE_BYTES = 512 * 1024 * 1024  # a larger file is not rewritten: only the first patterns are searched
_READ_BYTES = 1024 * 1024  # read at a time
_PAGE_BYTES = 4096  # of an encrypted file: only whole pages are decrypted
_PATTERN_CHARS = 48  # long texts are searched by pieces, because a page may end within them
_MIN_PATTERN_CHARS = 5
# Words that the store itself writes into audit entries.
_STORE_WORDS = frozenset(
    "active added aside expired forget forgotten general import ingest message quarantine redact remember session supersede "
    "superseded system update updated".split()
)


def erase(driver: Driver, texts: Sequence[str], timeout: float) -> bool:
    """Empty the log and erase these texts from the file; False while another process reads the old pages."""
    if not driver.checkpoint(timeout):
        return False
    if driver.path == ":memory:":
        return True
    rewrites: list[Callable[[], None]] = [lambda: driver.writing("", _optimize), driver.vacuum]
    patterns = _patterns(driver, texts)
    if len(patterns) > _MAX_PATTERNS and os.path.getsize(driver.path) <= _MAX_REWRITE_BYTES:
        rewrites = []
        driver.writing("", _optimize)
        driver.vacuum()
        if not driver.checkpoint(timeout):
            return False
    patterns = patterns[: _MAX_PATTERNS // 2] + patterns[_MAX_PATTERNS // 2 :][-_MAX_PATTERNS // 2 :]  # pieces, and words
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
    """Whether the file holds one of the patterns outside of live rows."""
    if not patterns:
        return False
    with driver.reading() as db:
        found = _standing(db, patterns, _PAGE_BYTES if driver.encrypted else _READ_BYTES)
        if not found:
            return False
        db.run("words_vocabulary")
        return any(not db.one("erasure_live", (pattern.lower(),))[0] for pattern in found)


def _standing(db: SqliteTransaction, patterns: Sequence[str], step: int) -> list[str]:
    """The patterns that stand in the file. It is read a piece at a time, as another may write it anew meanwhile, and shorter:
    a process that reads it through a mapping would be killed. And it is read through the engine's own handle: closing another one
    would let go of all the locks that this process has on the file."""
    left = {pattern.encode(): pattern for pattern in patterns}
    overlap = max(map(len, left)) - 1
    found: list[str] = []
    held, at, whole = b"", 0, True
    while whole and left:
        whole, piece = db.db.read("main", 0, at, step)
        held = held[-overlap:] + piece
        found += [left.pop(each) for each in list(left) if each in held]
        at += step
    return found


def _patterns(driver: Driver, texts: Sequence[str]) -> list[str]:
    """Pieces of the texts, and words that no other row has."""
    pieces: dict[str, None] = {}
    texts = [text[start:stop] for text in texts for start, stop in split_passages(text)]
    for text in texts:
        middle = len(text) // 2
        for piece in (text[:_PATTERN_CHARS], text[middle : middle + _PATTERN_CHARS], text[-_PATTERN_CHARS:]):
            if len(piece) >= _MIN_PATTERN_CHARS and piece not in _STORE_WORDS:
                pieces[piece] = None
    words = {term for text in texts for term in terms(text) if len(term) >= _MIN_PATTERN_CHARS and term not in _STORE_WORDS}
    with driver.reading() as db:
        db.run("words_vocabulary")
        lost = [term for term in words if db.one("words_known", (term,)) is None]
    return [*pieces, *sorted(lost, key=len, reverse=True)]
