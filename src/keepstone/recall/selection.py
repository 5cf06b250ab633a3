"""The order and number of hits: repeats last, newer statements first, reranking, the token budget, several scopes together."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from keepstone.ports.stores import Reranker
from keepstone.recall.candidates import Column, Slots
from keepstone.recall.features import Features
from keepstone.recall.question import Question
from keepstone.scope_index.columns import View
from keepstone.text.english import STOP_WORDS
from keepstone.text.token_count import estimate_tokens
from keepstone.text.words import term_hashes
from keepstone.types import BURIED, MESSAGE, Hit, Recall, Scope

if TYPE_CHECKING:
    from keepstone.recall.flow import RecallFlow
    from keepstone.recall.query import RecallQuery

MIN_SAME = 0.97  # cosine from which two records repeat each other
MIN_ALIKE = 0.6  # cosine from which one fact may be a newer state of the other
MIN_ALIKE_COVERED = 0.3  # the same where both hold the question's words, as "lives in Rome" and "lives in Oslo" do
MIN_ALIKE_MESSAGES = 0.8  # the same for messages: they resemble each other more
_MIN_ALIKE = np.array([MIN_ALIKE_COVERED, MIN_ALIKE_MESSAGES], dtype=np.float32)
MAX_GAP = 1.5  # points by which the newer of two alike records may score lower and still be put first
MAX_GAP_COVERED = 4.0  # the same for alike facts that hold the question's words
MAX_RERANKED = 30  # hits that a reranker reads, or the caller's limit where that is larger
_NOT_NOW_TERMS = ("love", "wish", "dream", "hope", "mayb", "someday", "tempt", "used")  # of a wish, or of the past
_NOT_NOW = dict(zip(_NOT_NOW_TERMS, term_hashes(_NOT_NOW_TERMS).tolist(), strict=True))
_CAPITALIZED = re.compile(r"\b[A-Z][\w-]+")
_HEAD_EXTRA = 10  # hits after the limit that are compared with each other too
_BUDGET_STEPS = 2000  # resolution of the knapsack that fills a token budget


def bury_last(view: View, features: Features, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order with what is buried, of importance 0, after the rest."""
    if view.least_importance > BURIED:
        return order
    buried = view.importances[features.slots[order]] <= BURIED
    return np.concatenate([order[~buried], order[buried]])


# -- repeats and revisions ----------------------------------------------------------------------------------------
def arrange(
    view: View,
    question: Question,
    slots: Slots,
    sums: Column,
    order: NDArray[np.int64],
    limit: int,
    coverage: Column,
) -> tuple[NDArray[np.int64], Column]:
    """Candidates in order, with repeats of a text after the others and newer statements before older ones that they may revise;
    and their sums, reassigned by position so that the first has the highest. No candidate is dropped."""
    repeated = _find_repeats(view, slots[order])
    if repeated is not None:
        moved = np.concatenate([order[~repeated], order[repeated]])
        arranged_sums = sums.copy()
        arranged_sums[moved] = sums[order]
        order, sums = moved, arranged_sums
    head = order[: limit + _HEAD_EXTRA]
    head_slots = slots[head]
    if len(head) < 2:
        return order, sums
    vectors = view.vectors[head_slots]
    similarity = vectors @ vectors.T
    if not view.all_embedded:
        similarity[~view.embedded[head_slots]] = 0.0
    below = _below_diagonal(len(head))
    highest = (similarity * below).max()
    if highest < MIN_ALIKE_COVERED:
        return order, sums  # no two are alike
    positions = _put_newer_first(view, question, head_slots, sums[head], similarity, coverage[head])
    moved = np.array(positions)
    if highest >= MIN_SAME:
        similarity = similarity[moved[:, None], moved]
        roles, names = view.roles[head_slots][moved], view.names[head_slots][moved]
        same = (similarity >= MIN_SAME) & (roles[:, None] == roles) & (names[:, None] == names)
        repeats = (same & below).any(axis=1)
        moved = np.concatenate([moved[~repeats], moved[repeats]])
    elif positions == list(range(len(head))):
        return order, sums
    arranged_sums = sums.copy()
    arranged_sums[head[moved]] = sums[head]
    return np.concatenate([head[moved], order[len(head) :]]), arranged_sums


@lru_cache(maxsize=128)
def _below_diagonal(size: int) -> NDArray[np.bool_]:
    """Of each place in a square its column is before its row."""
    return np.tri(size, k=-1, dtype=np.bool_)


def _find_repeats(view: View, slots: Slots) -> NDArray[np.bool_] | None:
    """Which slots hold the same words by the same speaker as an earlier one; None: none."""
    sums = view.sums[slots]
    ordered = np.sort(sums)
    if not np.count_nonzero(ordered[1:] == ordered[:-1]):
        return None
    keys = sums.astype(np.int64) << 31 ^ view.names[slots].astype(np.int64) << 8 ^ view.roles[slots]
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    repeated = np.ones(len(slots), dtype=np.bool_)
    repeated[first] = False
    repeated &= view.lengths[slots] > 0
    later, earlier = slots[repeated], slots[first[group[repeated]]]
    similarity = np.vecdot(view.vectors[later], view.vectors[earlier])  # the same terms may have another meaning
    repeated[np.flatnonzero(repeated)] = (similarity >= MIN_SAME) | ~view.embedded[later] | ~view.embedded[earlier]
    return repeated


def _put_newer_first(
    view: View, question: Question, slots: Slots, sums: Column, similarity: NDArray[np.float32], coverage: Column
) -> list[int]:
    """The positions of the head, each moved before the first older one that it may revise."""
    positions = list(range(len(slots)))
    hint = question.time
    if hint is not None and (hint.order == "earliest" or hint.start is not None or hint.end is not None):
        return positions  # the question names a time itself
    occurred = view.occurred[slots]
    may_revise = (occurred[:, None] > occurred) & _below_diagonal(len(slots))
    if not np.count_nonzero(may_revise):
        return positions
    is_message = view.kinds[slots] == view.codes.get(MESSAGE, -1)
    gaps, covers = sums - sums[:, None], (coverage >= 0.5) & ~is_message
    alike = similarity >= MIN_ALIKE
    may_revise &= (similarity >= _MIN_ALIKE[is_message.view(np.int8)]) & (gaps < MAX_GAP_COVERED)
    may_revise &= (covers[:, None] & covers) | alike
    rows, columns = may_revise.nonzero()  # row by row, older ones best first
    if not len(rows):
        return positions
    asked = question.terms
    not_now = view.holds(*(term for word, term in _NOT_NOW.items() if word not in asked))[slots]
    said = list(zip(*(column[slots].tolist() for column in (view.kinds, view.roles, view.names)), strict=True))
    tags = view.tags[slots]
    for newer, older in zip(rows.tolist(), columns.tolist(), strict=True):
        if said[newer] != said[older]:
            continue
        is_alike, is_close = alike[newer, older], gaps[newer, older] < MAX_GAP
        both_cover = covers[newer] and covers[older] and abs(coverage[newer] - coverage[older]) <= 0.1
        # Facts that hold the question's words are compared whatever their tags.
        if not (is_alike or is_close if both_cover else is_alike and is_close and tags[newer] == tags[older]):
            continue
        # A wish or the past revises nothing.
        if not not_now[newer] and positions.index(older) < positions.index(newer):
            positions.remove(newer)
            positions.insert(positions.index(older), newer)
    return positions


# -- whole answers ------------------------------------------------------------------------------------------------
def group_by_subject(query: str, hits: list[tuple[int, Hit]]) -> list[tuple[int, Hit]]:
    """The hits of a question for a list or an overview with those about the same name next to each other, the best first. A name
    is a word with a capital that several of them hold and the question does not."""
    asked = {word.lower() for word in _CAPITALIZED.findall(query)}
    names = [{word for word in _CAPITALIZED.findall(hit.content) if word.lower() not in asked} for _, hit in hits]
    counts = Counter(name for each in names for name in each)
    groups: dict[object, list[tuple[int, Hit]]] = {}
    for hit, each in zip(hits, names, strict=True):
        shared = [name for name in each if counts[name] > 1 and name.lower() not in STOP_WORDS]
        subject: object = max(shared, key=lambda name: (counts[name], name)) if shared else hit[1].id
        groups.setdefault(subject, []).append(hit)
    return [hit for group in groups.values() for hit in group]


# -- reranking ----------------------------------------------------------------------------------------------------
def rerank(reranker: Reranker, query: str, hits: list[tuple[int, Hit]]) -> tuple[list[tuple[int, Hit]], tuple[str, ...]]:
    """Hits in the order of a reranker's scores, or as they are with a note on why."""
    if not hits:
        return hits, ()
    try:
        scores = [float(score) for score in reranker(query, [hit.content for _, hit in hits])]
    except Exception as error:  # the caller's code may raise anything, and must not cost the hits
        return hits, (f"not reranked: the reranker failed with {type(error).__name__}: {error}",)
    if len(scores) != len(hits):
        return hits, (f"not reranked: the reranker gave {len(scores)} scores for {len(hits)} texts",)
    invalid = next((score for score in scores if not (math.isfinite(score) and 0 <= score <= 1)), None)
    if invalid is not None:
        return hits, (f"not reranked: the reranker gave the score {invalid}; scores go from 0 to 1",)
    rescored = [
        (position, replace(hit, score=round(score, 4), signals={**hit.signals, "first_score": hit.score}))
        for (position, hit), score in zip(hits, scores, strict=True)
    ]
    return sorted(rescored, key=lambda entry: -entry[1].score), ()


# -- token budget -------------------------------------------------------------------------------------------------
def fit_budget(hits: Sequence[Hit], max_tokens: int | None) -> tuple[list[Hit], list[Hit]]:
    """The hits that fit a token budget with the highest total score, in order, and those left out. The best hit that fits is
    always kept."""
    if max_tokens is None:
        return list(hits), []
    costs = [estimate_tokens(hit.content) for hit in hits]
    fitting = [at for at, cost in enumerate(costs) if cost <= max_tokens]
    if sum(costs[at] for at in fitting) <= max_tokens:
        chosen = set(fitting)
    else:
        first, *rest = fitting
        picked = _solve_knapsack([costs[at] for at in rest], [hits[at].score for at in rest], max_tokens - costs[first])
        chosen = {first, *(rest[at] for at in picked)}
    kept = [hit for at, hit in enumerate(hits) if at in chosen]
    return kept, [hit for at, hit in enumerate(hits) if at not in chosen]


def recall_together(flow: RecallFlow, scopes: Sequence[Scope], query: RecallQuery) -> Recall:
    """The hits of several scopes in one order: a score means the same in each. What repeats another hit comes last."""
    found = [flow.recall(scope, replace(query, max_tokens=None), counts=False) for scope in scopes]
    ranked = sorted((hit for recall in found for hit in recall), key=lambda hit: -hit.score)
    first = {hit.content: hit for hit in reversed(ranked)}
    ranked.sort(key=lambda hit: first[hit.content] is not hit)
    kept, cut = fit_budget(ranked[: query.limit], query.max_tokens)
    if query.as_of is None and query.known_at is None:
        for scope in scopes:
            flow.count_reads(scope, [hit.id for hit in kept if hit.record.scope == scope])
    return replace(
        found[0],
        hits=tuple(kept),
        considered=sum(recall.considered for recall in found),
        left_out=len(cut),
        notes=tuple(dict.fromkeys(note for recall in found for note in recall.notes)),
        cut=tuple(hit.id for hit in cut),
        confidence=max(recall.confidence for recall in found),
    )


def _solve_knapsack(costs: Sequence[int], values: Sequence[float], budget: int) -> list[int]:
    """The items within a budget that have the highest total value: exact up to a budget of `_BUDGET_STEPS`, in steps of that
    fraction of the budget beyond."""
    step = max(1, -(-budget // _BUDGET_STEPS))
    size = budget // step
    units = [-(-cost // step) for cost in costs]
    best = np.zeros(size + 1)
    taken = np.zeros((len(costs), size + 1), dtype=np.bool_)
    for at, unit in enumerate(units):
        if unit <= size:
            with_item = best[: size + 1 - unit] + values[at]
            taken[at, unit:] = with_item >= best[unit:]
            best[unit:] = np.maximum(best[unit:], with_item)
    chosen = []
    for at in range(len(costs) - 1, -1, -1):
        if taken[at, size]:
            chosen.append(at)
            size -= units[at]
    return chosen
