"""Keeping hits within a budget of tokens. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keepstone.text.token_count import estimate_tokens
from keepstone.types import Hit

_STEPS = 2000  # the fineness in which a budget is filled


def within(hits: Sequence[Hit], max_tokens: int | None) -> tuple[list[Hit], list[Hit]]:
    """The hits that fit a budget and are worth most together, in order, and those left out. Worth is the score; the best
    hit that fits is always among them."""
    if max_tokens is None:
        return list(hits), []
    costs = [estimate_tokens(hit.content) for hit in hits]
    fitting = [at for at, cost in enumerate(costs) if cost <= max_tokens]
    if sum(costs[at] for at in fitting) <= max_tokens:
        chosen = set(fitting)
    else:
        first = fitting[0]
        rest = fitting[1:]
        picked = _worth_most([costs[at] for at in rest], [hits[at].score for at in rest], max_tokens - costs[first])
        chosen = {first, *(rest[at] for at in picked)}
    kept = [hit for at, hit in enumerate(hits) if at in chosen]
    return kept, [hit for at, hit in enumerate(hits) if at not in chosen]


def _worth_most(costs: Sequence[int], worths: Sequence[float], room: int) -> list[int]:
    """Which things of these costs fit a room and are worth most together: the knapsack problem, solved exactly up to a
    room of `_STEPS`, in steps of the room's `_STEPS`th part beyond."""
    step = max(1, -(-room // _STEPS))
    size = room // step
    units = [-(-cost // step) for cost in costs]
    best = np.zeros(size + 1)
    taken = np.zeros((len(costs), size + 1), dtype=np.bool_)
    for at, unit in enumerate(units):
        if unit <= size:
            with_it = best[: size + 1 - unit] + worths[at]
            taken[at, unit:] = with_it >= best[unit:]
            best[unit:] = np.maximum(best[unit:], with_it)
    chosen = []
    for at in range(len(costs) - 1, -1, -1):
        if taken[at, size]:
            chosen.append(at)
            size -= units[at]
    return chosen
