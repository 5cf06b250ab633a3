"""The recall playground: hits with the parts of their scores, explanations of misses, the block for a prompt."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from keepstone.errors import NotFound, ValidationError
from keepstone.ports.serialize import because
from keepstone.recall.query import RecallQuery
from keepstone.server.dashboard.context import Page, PageRequest
from keepstone.server.dashboard.pages_memories import KINDS, MAX_TAGS, parse
from keepstone.text.token_count import estimate_tokens
from keepstone.types import Explanation, Hit, Recall

_FIELDS = (
    "query", "limit", "kind", "tag", "session", "min_confidence", "min_similarity", "min_importance", "min_trust", "max_tokens",
    "as_of",
    "known_at",
)  # fmt: skip
_MAX_MISSES = 8
_DEFAULT_CONTEXT_TOKENS = 1500


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a question. `top_score` is the score that a whole bar stands for; `misses` came close."""

    recall: Recall
    milliseconds: float
    tokens: int
    top_score: float
    reasons: Mapping[str, Sequence[str]]
    misses: Sequence[Hit]


def show_recall(request: PageRequest) -> Response:
    fields = {name: request.http.param(name) for name in _FIELDS}
    query, id = fields["query"], request.http.param("why")
    return request.page(
        "recall.html",
        fields=fields,
        answer=None if query is None else _answer(request, query, fields),
        kinds=KINDS,
        why=id,
        tags=request.backend.tags(request.caller.scope, MAX_TAGS),
        explanation=None if id is None or query is None else _explain(request, query, id),
    )


def _answer(request: PageRequest, text: str, fields: Mapping[str, str | None]) -> Answer:
    arguments = _recall_arguments(fields)
    start = time.perf_counter()
    recall = request.memory.recall(text, **arguments)
    seconds = time.perf_counter() - start
    if request.service.metrics is not None:
        request.service.metrics.count_verb("recall", 200, seconds)
    recalled = {hit.id for hit in recall}
    wider = RecallQuery.parse(
        text,
        **arguments | {"limit": len(recalled) + _MAX_MISSES, "min_similarity": 0.0, "min_confidence": 0.0, "max_tokens": None},
    )
    misses = [hit for hit in request.backend.search(request.caller.scope, wider) if hit.id not in recalled][:_MAX_MISSES]
    shown = [*recall, *misses]
    return Answer(
        recall=recall,
        milliseconds=seconds * 1000,
        tokens=sum(estimate_tokens(hit.content) for hit in recall),
        top_score=max((hit.score for hit in shown), default=1.0),
        reasons={hit.id: because(hit.signals) for hit in shown},
        misses=misses,
    )


def _recall_arguments(fields: Mapping[str, str | None]) -> dict[str, Any]:
    kind = fields["kind"]
    return {
        "limit": parse(int, fields["limit"], "limit") or 5,
        "kinds": None if kind is None else [kind],
        "tag": fields["tag"],
        "session": fields["session"],
        "min_similarity": parse(float, fields["min_similarity"], "min_similarity"),
        "min_confidence": parse(float, fields["min_confidence"], "min_confidence"),
        "min_importance": parse(float, fields["min_importance"], "min_importance") or 0.0,
        "min_trust": parse(float, fields["min_trust"], "min_trust"),
        "max_tokens": parse(int, fields["max_tokens"], "max_tokens"),
        "as_of": fields["as_of"],
        "known_at": fields["known_at"],
    }


def show_why(request: PageRequest) -> Response:
    """The explanation of one memory for one question."""
    query, id = request.http.param("query"), request.http.param("id")
    if query is None or id is None:
        raise ValidationError("an explanation needs a question and the id of a memory: enter both.")
    return request.page("why.html", explanation=_explain(request, query, id), query=query)


def _explain(request: PageRequest, query: str, id: str) -> Explanation:
    try:
        return request.memory.why(query, id)
    except NotFound:
        raise NotFound(f"memory {id!r:.80} does not exist in this scope: copy the id from its page.") from None


def show_context(request: PageRequest) -> Response:
    """What is known about a question, as the block for a prompt."""
    query, max_tokens = request.http.param("query"), parse(int, request.http.param("max_tokens"), "max_tokens")
    if query is None:
        raise ValidationError("the context needs a question: ask one on the recall page.")
    text = request.memory.context(query, max_tokens=_DEFAULT_CONTEXT_TOKENS if max_tokens is None else max_tokens)
    return request.page("block.html", query=query, block=text, tokens=estimate_tokens(text))


PAGES = (
    Page("/recall", get=show_recall),
    Page("/recall/why", get=show_why),
    Page("/recall/block", get=show_context),
)
