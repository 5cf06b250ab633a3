"""Links between the messages of a session.

The columns `before` and `after` hold slots, -1 for none; `similarity_to_previous` is the cosine with the message before. Links
are made when records are added, so the next recall knows a message's neighbours in whatever order they were written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CHUNK = 512  # vectors compared at a time: they stay in the cache of a core
Columns = dict[str, NDArray[Any]]
Slots = NDArray[np.int64]
VectorsAt = Callable[[Slots], NDArray[np.float32]]
Links = tuple[NDArray[np.int32], NDArray[np.int32]]  # of each slot the slots before and after it, -1 for none; last, of no slot


def link_all(columns: Columns, vectors_at: VectorsAt, slots: Slots) -> dict[int, int]:
    """Chain these slots and no others by session and sequence, in columns of their own: a view taken before keeps the old ones.
    The last slot of each session."""
    room = len(columns["sessions"])
    before, after = np.full(room, -1, dtype=np.int32), np.full(room, -1, dtype=np.int32)
    sessions = columns["sessions"][slots]
    order = np.lexsort((columns["sequences"][slots], sessions))
    slots, sessions = slots[order], sessions[order]
    same = sessions[1:] == sessions[:-1]
    later, earlier = slots[1:][same], slots[:-1][same]
    before[later], after[earlier] = earlier, later
    columns["before"], columns["after"] = before, after
    columns["similarity_to_previous"] = np.zeros(room, dtype=np.float32)
    measure_links(columns, vectors_at, np.flatnonzero(before >= 0))
    ends = np.flatnonzero(np.append(~same, True)) if len(slots) else np.empty(0, dtype=np.int64)
    return {int(sessions[end]): int(slots[end]) for end in ends}


def append_link(columns: Columns, slot: int, last: dict[int, int]) -> bool:
    """Put a new slot at the end of its session; False if it belongs further up."""
    session = int(columns["sessions"][slot])
    end = last.get(session, -1)
    columns["after"][slot] = -1
    columns["before"][slot] = end
    columns["similarity_to_previous"][slot] = 0.0
    if end >= 0:
        if columns["sequences"][slot] <= columns["sequences"][end]:
            return False
        columns["after"][end] = slot
    last[session] = slot
    return True


def remove_links(columns: Columns, slots: Slots, last: dict[int, int]) -> None:
    """Take slots out of their chains, in columns of their own."""
    for name in ("before", "after", "similarity_to_previous"):
        columns[name] = columns[name].copy()
    before, after = columns["before"], columns["after"]
    for slot in slots.tolist():
        previous, following = int(before[slot]), int(after[slot])
        if previous >= 0:
            after[previous] = following
        if following >= 0:
            before[following] = previous
        session = int(columns["sessions"][slot])
        if last.get(session) == slot:
            if previous >= 0:
                last[session] = previous
            else:
                del last[session]
        before[slot] = after[slot] = -1


def divide_sessions(sessions: NDArray[np.int32]) -> tuple[NDArray[np.float64], Slots, Slots, Slots]:
    """How messages divide into sessions once they are sorted by 16 times the code of their session, given for each, less a value
    below 8: the codes, where the first three messages of each session begin and end, and how many these are."""
    counts = np.bincount(sessions)
    codes = counts.nonzero()[0]
    sizes = counts[codes]
    starts, taken = sizes.cumsum() - sizes, np.minimum(sizes, 3)
    return sessions * np.float64(16), codes, np.array([starts, starts + taken]).ravel("F"), taken


def find_links(columns: Columns, shown: NDArray[np.bool_]) -> Links:
    """The links of all slots to those that are `shown`."""
    is_shown = np.append(shown, False)  # the last stands for slots that were added later
    before, after = (np.append(columns[way], np.int32(-1)) for way in ("before", "after"))
    for following in (before, after):
        following[~is_shown.take(following, mode="clip")] = -1
    return before, after


def find_neighbours(links: Links, slots: Slots) -> Slots:
    """The slots, and those one before, one after, two before and two after each; -1 for none."""
    before, after = links
    previous, following = before[slots], after[slots]
    return np.array([slots, previous, following, before[previous], after[following]])


def measure_links(columns: Columns, vectors_at: VectorsAt, slots: Slots) -> None:
    """Measure anew how alike these slots are to the ones before them."""
    for start in range(0, len(slots), _CHUNK):
        some = slots[start : start + _CHUNK]
        previous = columns["before"][some].astype(np.int64)
        some, previous = some[previous >= 0], previous[previous >= 0]
        columns["similarity_to_previous"][some] = np.vecdot(vectors_at(some), vectors_at(previous))
