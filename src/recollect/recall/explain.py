"""Why a record was recalled, or what kept it out, in plain words. Pure. Imports: types."""

from __future__ import annotations

from collections.abc import Mapping

_WORDS = {
    "meaning": "likeness of meaning",
    "words": "shared words",
    "coverage": "share of the question's words it holds",
    "similarity": "relevance on its own",
    "importance": "importance",
}


def signal_lines(signals: Mapping[str, float]) -> list[str]:
    """Each part of a score as a sentence."""
    return [f"{_WORDS.get(name, name)}: {value:.2f}" for name, value in signals.items()]


def placed(rank: int, considered: int, limit: int) -> str:
    """Where a record came in."""
    if rank <= limit:
        return f"it is number {rank} of {considered} candidates, so it is recalled"
    return f"it is number {rank} of {considered} candidates and only the first {limit} are returned: raise limit"
