"""Records that share most of their words with a text: what a new memory may repeat. Imports: columns, postings, numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recollect.scopeindex.columns import View
from recollect.scopeindex.postings import find
from recollect.words import term_hashes, unique

SHARE = 0.5  # of the words of the shorter of the two
_POSTINGS = 4096  # looked at for one text at most, beyond the rarest words that have to be


def overlapping(view: View, terms: Sequence[str], kind: str, tag: str, limit: int) -> NDArray[np.int64]:
    """Slots of active records of this kind and tag that share at least half their words, most first.

    A record that shares half of n words holds one of any n/2 + 1 of them, so only the rarest are looked up."""
    hashes = term_hashes(unique(terms))
    nothing = np.empty(0, dtype=np.int64)
    if not len(hashes) or not view.size:
        return nothing
    lists = sorted((find(view.runs, int(each))[0] for each in hashes.tolist()), key=len)
    needed = len(lists) - math.ceil(SHARE * len(lists)) + 1
    taken, total = [], 0
    for at, slots in enumerate(lists):
        if at >= needed and total + len(slots) > _POSTINGS:
            break
        taken.append(slots)
        total += len(slots)
    candidates = np.unique(np.concatenate(taken))
    fits = view.active[candidates] & (view.kinds[candidates] == view.code(kind)) & (view.tags[candidates] == view.code(tag))
    candidates = candidates[fits]
    if not len(candidates):
        return nothing
    shared = np.zeros(len(candidates), dtype=np.int64)
    for slots in lists:
        if len(slots) < 64 * len(candidates):
            shared += np.isin(candidates, slots, assume_unique=True)
        else:
            shared += _held(candidates, slots)
    shorter = np.minimum(view.lengths[candidates], len(hashes))
    enough = shared >= np.maximum(1, SHARE * shorter)
    chosen: NDArray[np.int64] = candidates[enough][np.argsort(-shared[enough], kind="stable")][:limit]
    return chosen


def _held(candidates: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of a few candidates stand in a long list of slots. A list may be of several runs, so it is not sorted."""
    present = np.zeros(int(max(slots.max(), candidates.max())) + 1, dtype=np.bool_)
    present[slots] = True
    return present[candidates]
