"""Counting tokens without a tokenizer, and keeping hits within a budget. Pure. Imports: types, numpy."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from recollect.types import Hit

_STEPS = 2000  # the fineness in which a budget is filled

_PIECES = re.compile(r"[A-Za-z]+|[0-9]+|\s+|[^\sA-Za-z0-9]")


def estimate_tokens(text: str) -> int:
    """About how many tokens a model's tokenizer makes of a text; leans to too many rather than too few.

    >>> estimate_tokens("Dana prefers dark mode.")
    6
    """
    total = 0.0
    for piece in _PIECES.findall(text):
        first = piece[0]
        if first.isspace():
            total += 0.0 if piece == " " else 0.5 + 0.1 * len(piece)
        elif first.isascii():
            if first.isalpha():
                total += 1 if len(piece) <= 6 else len(piece) / 4.5
            else:
                total += (len(piece) + 2) // 3 if first.isdigit() else 1
        else:
            total += 0.8 if first.isalpha() and ord(first) < 0x2E80 else 1.3 if ord(first) < 0x10000 else 2.5
    return int(total + 0.999)


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
