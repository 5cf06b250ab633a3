"""Counting tokens without a tokenizer, and keeping hits within a budget. Pure. Imports: types, stdlib."""

from __future__ import annotations

import re
from collections.abc import Iterable

from recollect.types import Hit

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


def within(hits: Iterable[Hit], max_tokens: int | None) -> tuple[list[Hit], int]:
    """The hits that fit, in order, and how many were left out; one that is too long does not stop shorter ones."""
    if max_tokens is None:
        return list(hits), 0
    kept: list[Hit] = []
    left_out, spent = 0, 0
    for hit in hits:
        cost = estimate_tokens(hit.content)
        if spent + cost > max_tokens:
            left_out += 1
        else:
            kept.append(hit)
            spent += cost
    return kept, left_out
