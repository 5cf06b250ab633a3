"""The memory browser: search while typing, listing page by page, adding by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from keepstone.errors import KeepstoneError, ValidationError
from keepstone.recall.query import RecallQuery
from keepstone.server.dashboard.pages_memory import one
from keepstone.server.dashboard.places import Place
from keepstone.server.dashboard.visit import Visit, memory_path
from keepstone.server.identity import WRITE
from keepstone.server.problems import status_of
from keepstone.types import Record

KINDS = ("fact", "note", "message", "episode", "summary")
_PAGE, _FOUND = 25, 30
_MADE = {
    "added": "Remembered.", "merged": "Taken into a memory that says the same.", "updated": "It replaces what was there.",
    "superseded": "It replaces what was there.", "duplicate": "That was remembered already.",
    "redacted": "Remembered, without what is too sensitive to keep.", "quarantined": "It waits for a review first.",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A record as it is listed; with its score and why, where it was looked for."""

    record: Record
    score: float | None = None
    signals: Mapping[str, float] | None = None


def listing(visit: Visit, status: int = 200, problem: str | None = None) -> Response:
    if visit.asked.word("id") is not None:
        return one(visit)
    fields = {name: visit.asked.word(name) for name in ("q", "kind", "tag", "session", "trust", "importance")}
    rows, cursor = _found(visit, fields) if _looks(fields) else _listed(visit, fields, visit.asked.word("cursor"))
    tags = () if visit.asked.fragment else [tag for tag, _ in visit.desk.service.engine.store.tags(visit.caller.scope, 60)]
    empty = not rows and not any(fields.values()) and visit.asked.word("cursor") is None
    return visit.page(
        "memories.html", status, rows=rows, cursor=cursor, fields=fields, kinds=KINDS, tags=tags, empty=empty, problem=problem,
        given=visit.asked.form, address=visit.desk.service.address, more=visit.asked.word("cursor") is not None,
    )  # fmt: skip


def _looks(fields: Mapping[str, str | None]) -> bool:
    """Whether ranking has to answer: a listing knows kinds and tags only."""
    return any(fields[name] for name in ("q", "session", "trust", "importance"))


def _listed(visit: Visit, fields: Mapping[str, str | None], cursor: str | None) -> tuple[Sequence[Row], str | None]:
    page = visit.memory.list(kind=fields["kind"], tag=fields["tag"], limit=_PAGE, cursor=cursor)
    return [Row(record) for record in page], page.cursor


def _found(visit: Visit, fields: Mapping[str, str | None]) -> tuple[Sequence[Row], None]:
    """What answers a search. Looking around here counts as no read: agents' reads are what upkeep goes by."""
    text = fields["q"] or ""
    query = RecallQuery.parse(
        text, limit=_FOUND, kinds=None if fields["kind"] is None else [fields["kind"]], tag=fields["tag"],
        session=fields["session"], min_trust=fraction(fields["trust"], "trust"),
        min_importance=fraction(fields["importance"], "importance") or 0.0, min_similarity=None if text else 0.0,
    )  # fmt: skip
    hits = visit.desk.service.engine.recalling.search(visit.caller.scope, query)
    return [Row(hit.record, hit.score if text else None, hit.signals) for hit in hits], None


def fraction(text: str | None, what: str) -> float | None:
    """A number of a form; ValidationError where it is none."""
    try:
        return None if text is None else float(text)
    except ValueError:
        raise ValidationError(f"{what} is {text!r:.40}: use a number from 0 to 1.") from None


def add(visit: Visit) -> Response:
    """Remember what was written into the box."""
    visit.caller.need(WRITE)
    form = visit.asked.form
    try:
        receipt = visit.memory.remember(form.get("content", ""), **_arguments(visit, form))
    except KeepstoneError as error:
        return listing(visit, status_of(error), str(error))
    if receipt.action == "refused":
        return listing(visit, 422, "; ".join(receipt.reasons) or "It was refused: nothing was stored.")
    said = " ".join([_MADE.get(receipt.action, "Remembered."), *receipt.reasons])
    return visit.to(memory_path(receipt.id) if receipt.id else "/memories", said)


def _arguments(visit: Visit, form: Mapping[str, str]) -> dict[str, Any]:
    given: dict[str, Any] = {name: form[name].strip() for name in ("kind", "tag", "key") if form.get(name, "").strip()}
    importance = fraction(form.get("importance", "").strip() or None, "importance")
    if importance is not None:
        given["importance"] = importance
    return given | {"source": visit.caller.source(None)}


PLACES = (Place("/memories", get=listing, post=add),)
