"""The order in which candidates are shown: repeats behind, the newer of two statements before the older. Pure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from keepstone.recall.candidates import Column, Slots
from keepstone.recall.question import Question
from keepstone.scope_index.columns import View
from keepstone.types import MESSAGE

SAME = 0.97  # cosine from which two records say the same in the same words
ALIKE = 0.6  # from which one fact may be a newer state of what the other says
ALIKE_ASKED = 0.3  # the same where both hold what the question asks for, as "lives in Rome" and "lives in Oslo" do
ALIKE_SAID = 0.8  # the same for what was said: turns resemble each other more
CLOSE = 1.5  # points within which the newer of two alike is put first
CLOSE_ASKED = 4.0  # the same for facts that say in like words what is asked for, whoever wrote them


def arranged(
    view: View,
    question: Question,
    slots: Slots,
    sums: Column,
    order: NDArray[np.int64],
    limit: int,
    coverage: Column,
) -> tuple[NDArray[np.int64], Column]:
    """Candidates in order, with repeats of one text behind the others and newer statements before older ones that they may
    revise; and their sums, handed on from place to place so that the first has the highest. Nothing is left out."""
    given = sums.copy()
    same_words = _repeated(view, slots[order])
    if same_words.any():
        turned = np.concatenate([order[~same_words], order[same_words]])
        given[turned] = sums[order]
        order, sums = turned, given
    head = order[: limit + 10]
    at = slots[head]
    if len(head) < 2 or not view.embedded[at].any():
        return order, sums
    vectors = view.vectors[at]
    likeness = vectors @ vectors.T
    likeness[~view.embedded[at]] = 0.0
    most = np.tril(likeness, -1).max()
    if most < ALIKE_ASKED:
        return order, sums  # each says something of its own
    places = _newest_first(view, question, at, sums[head], likeness, coverage[head])
    if most < SAME and places == list(range(len(head))):
        return order, sums
    turned = np.array(places)
    likeness = likeness[np.ix_(turned, turned)]
    roles, names = view.roles[at][turned], view.names[at][turned]
    same = (likeness >= SAME) & (roles[:, None] == roles) & (names[:, None] == names)
    repeats = np.tril(same, -1).any(axis=1)
    turned = np.concatenate([turned[~repeats], turned[repeats]])
    given = sums.copy()
    given[head[turned]] = sums[head]
    return np.concatenate([head[turned], order[len(head) :]]), given


def _repeated(view: View, at: Slots) -> NDArray[np.bool_]:
    """Which of some slots say, in the same words, what the same speaker said in one before."""
    said = view.sums[at].astype(np.int64) << 31 ^ view.names[at].astype(np.int64) << 8 ^ view.roles[at]
    if len(set(said.tolist())) == len(said):
        return np.zeros(len(at), dtype=np.bool_)
    _, first, group = np.unique(said, return_index=True, return_inverse=True)
    repeated = np.ones(len(at), dtype=np.bool_)
    repeated[first] = False
    repeated &= view.lengths[at] > 0
    again, before = at[repeated], at[first[group[repeated]]]
    likeness = np.vecdot(view.vectors[again], view.vectors[before])  # the same terms may say another thing
    repeated[np.flatnonzero(repeated)] = (likeness >= SAME) | ~view.embedded[again] | ~view.embedded[before]
    return repeated


def _newest_first(
    view: View, question: Question, at: Slots, sums: Column, likeness: NDArray[np.float32], coverage: Column
) -> list[int]:
    """The places of the head, each moved before the first older one that it may revise."""
    places = list(range(len(at)))
    hint = question.time
    if hint is not None and (hint.order == "earliest" or hint.start is not None or hint.end is not None):
        return places  # a question that says itself which time it is about is left alone
    when = view.occurred[at]
    later = np.tril(when[:, None] > when, -1) & (likeness >= ALIKE_ASKED)
    pairs = np.argwhere(later).tolist()  # row by row, older ones best first
    if not pairs:
        return places
    message = view.code(MESSAGE)
    who = list(zip(*(column[at].tolist() for column in (view.kinds, view.roles, view.names)), strict=True))
    tags, points, covered, alike = view.tags[at].tolist(), sums.tolist(), coverage.tolist(), likeness.tolist()
    for newer, older in pairs:
        if who[newer] != who[older]:
            continue
        said, like = who[older][0] == message, alike[newer][older]
        asked = not said and min(covered[newer], covered[older]) >= 0.5 and abs(covered[newer] - covered[older]) <= 0.1
        if not asked and tags[newer] != tags[older]:
            continue  # who wrote them may have filed them differently, where both hold what is asked for
        close = CLOSE_ASKED if asked and like >= ALIKE else CLOSE
        enough = ALIKE_SAID if said else ALIKE_ASKED if asked else ALIKE
        if like >= enough and points[older] - points[newer] < close and places.index(older) < places.index(newer):
            places.remove(newer)
            places.insert(places.index(older), newer)
    return places
