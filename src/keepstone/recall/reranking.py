"""A second opinion on the best hits: the caller's own model reads question and texts together.

Off unless `Memory.open(reranker=…)` names one. What it says replaces the score; what it gets wrong costs nothing but a note.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from keepstone.ports.stores import Reranker
from keepstone.types import Hit

READ = 30  # hits that a reranker reads, or the caller's limit where that is larger

Places = Sequence[tuple[int, Hit]]


def reranked(reranker: Reranker, query: str, found: Places) -> tuple[Places, tuple[str, ...]]:
    """Hits in the order of a reranker's scores, or as they are with a note saying why."""
    if not found:
        return found, ()
    try:
        scores = [float(score) for score in reranker(query, [hit.content for _, hit in found])]
    except Exception as error:  # the caller's code: anything may come, and none of it may cost the hits
        return found, (f"not reranked: the reranker failed with {type(error).__name__}: {error}",)
    if len(scores) != len(found):
        return found, (f"not reranked: the reranker gave {len(scores)} scores for {len(found)} texts",)
    wrong = next((score for score in scores if not (math.isfinite(score) and 0 <= score <= 1)), None)
    if wrong is not None:
        return found, (f"not reranked: the reranker gave the score {wrong}; scores go from 0 to 1",)
    judged = [
        (place, replace(hit, score=round(score, 4), signals={**hit.signals, "first_score": hit.score}))
        for (place, hit), score in zip(found, scores, strict=True)
    ]
    return sorted(judged, key=lambda each: -each[1].score), ()
