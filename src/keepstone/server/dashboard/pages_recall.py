"""The playground: a question, its hits with every part of their scores, and why others are not among them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from keepstone.errors import NotFound, ValidationError
from keepstone.ports.serialize import because
from keepstone.recall.query import RecallQuery
from keepstone.server.dashboard.pages_memories import KINDS, fraction
from keepstone.server.dashboard.pages_memory import explained
from keepstone.server.dashboard.places import Place
from keepstone.server.dashboard.plots import GROUPS
from keepstone.server.dashboard.visit import Visit
from keepstone.text.token_count import estimate_tokens
from keepstone.types import Explanation, Hit, Recall

_FIELDS = (
    "query", "limit", "kind", "tag", "session", "min_similarity", "min_importance", "min_trust", "max_tokens", "as_of",
    "known_at",
)  # fmt: skip
_NEAR = 8  # memories that are shown beside the hits


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question came to. `most` are the points that the longest bar stands for; `near` is what came close."""

    recall: Recall
    milliseconds: float
    tokens: int
    most: float
    reasons: Mapping[str, Sequence[str]]
    near: Sequence[Hit]


def play(visit: Visit) -> Response:
    fields = {name: visit.asked.word(name) for name in _FIELDS}
    answer = None if fields["query"] is None else _answer(visit, fields)
    id = visit.asked.word("why")
    return visit.page(
        "recall.html", fields=fields, answer=answer, kinds=KINDS, groups=GROUPS, why=id, problem=None,
        tags=[tag for tag, _ in visit.desk.service.engine.store.tags(visit.caller.scope, 60)],
        explanation=None if id is None or fields["query"] is None else _why(visit, fields["query"], id),
    )  # fmt: skip


def _answer(visit: Visit, fields: Mapping[str, str | None]) -> Answer:
    given = _arguments(fields)
    text = fields["query"] or ""
    began = time.perf_counter()
    recall = visit.memory.recall(text, **given)
    took = time.perf_counter() - began
    if visit.desk.service.meter is not None:
        visit.desk.service.meter.verb("recall", 200, took)
    hits = {hit.id for hit in recall}
    wider = RecallQuery.parse(text, **given | {"limit": len(hits) + _NEAR, "min_similarity": 0.0, "max_tokens": None})
    near = [hit for hit in visit.desk.service.engine.recalling.search(visit.caller.scope, wider) if hit.id not in hits][:_NEAR]
    most = max((sum(max(hit.signals.get(group, 0.0), 0.0) for group in GROUPS) for hit in [*recall, *near]), default=1.0)
    return Answer(
        recall, took * 1000, sum(estimate_tokens(hit.content) for hit in recall), most,
        {hit.id: because(hit.signals) for hit in [*recall, *near]}, near,
    )  # fmt: skip


def _arguments(fields: Mapping[str, str | None]) -> dict[str, Any]:
    kind = fields["kind"]
    return {
        "limit": _whole(fields["limit"], "limit") or 5,
        "kinds": None if kind is None else [kind],
        "tag": fields["tag"],
        "session": fields["session"],
        "min_similarity": fraction(fields["min_similarity"], "min_similarity"),
        "min_importance": fraction(fields["min_importance"], "min_importance") or 0.0,
        "min_trust": fraction(fields["min_trust"], "min_trust"),
        "max_tokens": _whole(fields["max_tokens"], "max_tokens"),
        "as_of": fields["as_of"],
        "known_at": fields["known_at"],
    }


def _whole(text: str | None, what: str) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        raise ValidationError(f"{what} is {text!r:.40}: use a whole number.") from None


def why(visit: Visit) -> Response:
    """The explanation of one memory for one question, as a part of the page."""
    query, id = visit.asked.word("query"), visit.asked.word("id")
    if query is None or id is None:
        raise ValidationError("why needs a question and the id of a memory.")
    return visit.page("why.html", explanation=_why(visit, query, id), query=query)


def _why(visit: Visit, query: str, id: str) -> Explanation | None:
    try:
        return explained(visit, query, id)
    except NotFound:
        raise NotFound(f"there is no memory {id!r:.80} in this scope: copy the id from its page.") from None


def block(visit: Visit) -> Response:
    """What is known about a question, as it stands in a prompt."""
    query, most = visit.asked.word("query"), _whole(visit.asked.word("max_tokens"), "max_tokens")
    if query is None:
        raise ValidationError("a block needs a question: ask one on the page of recall.")
    text = visit.memory.context(query, max_tokens=1500 if most is None else most)
    return visit.page("block.html", query=query, block=text, tokens=estimate_tokens(text))


PLACES = (Place("/recall", get=play), Place("/recall/why", get=why), Place("/recall/block", get=block))
