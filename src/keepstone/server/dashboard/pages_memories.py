"""The memory browser, and the page of one memory: history, derivation, explanation, editing, forgetting."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

from markupsafe import escape
from starlette.responses import Response

from keepstone.errors import Conflict, KeepstoneError, NotFound, ValidationError
from keepstone.ports.serialize import document
from keepstone.recall.query import RecallQuery
from keepstone.server.dashboard import sessions
from keepstone.server.dashboard.context import Page, PageRequest, memory_path
from keepstone.server.dashboard.formatting import TEXTS, difference, parse_number
from keepstone.server.identity import FORGET, WRITE
from keepstone.server.problems import status_of
from keepstone.types import BURIED, MESSAGE, PINNED, Record, Version

N = TypeVar("N", int, float)
KINDS = ("fact", "note", "message", "episode", "summary")
MAX_TAGS = 60
_PAGE_RECORDS, _MAX_HITS = 25, 30
_MAX_SCANNED_RECORDS = 5_000  # larger scopes are not searched for derived memories
_MAX_PARENTS, _MAX_CHILDREN = 20, 50
_COMPARED_FIELDS = ("importance", "metadata", "tag", "kind", "source", "trust", "expires_at")
_WEIGHTS = {"pin": PINNED, "bury": BURIED, "unpin": 0.5}
_CHANGED = {"tag": "Tagged", "pin": "Pinned", "bury": "Buried", "unpin": "Neither pinned nor buried"}


@dataclass(frozen=True, slots=True)
class Row:
    """A listed record, with its score and signals after a search."""

    record: Record
    score: float | None = None
    signals: Mapping[str, float] | None = None


# -- list and search -----------------------------------------------------------------------------------------------------
def list_memories(request: PageRequest, status: int = 200, problem: str | None = None) -> Response:
    http = request.http
    if http.param("id") is not None:
        return show_memory(request)
    fields = {name: http.param(name) for name in ("q", "kind", "tag", "session", "trust", "importance", "order")}
    fields["order"] = "occurred" if fields["order"] == "occurred" else None
    cursor = http.param("cursor")
    searching = any(fields[name] for name in ("q", "session", "trust", "importance"))  # a listing filters by kind and tag only
    rows, next_cursor = _search(request, fields) if searching else _list(request, fields, cursor)
    return request.page(
        "memories.html",
        status,
        rows=rows,
        cursor=next_cursor,
        fields=fields,
        kinds=KINDS,
        tags=() if http.fragment else request.backend.tags(request.caller.scope, MAX_TAGS),
        empty=not rows and not any(fields.values()) and cursor is None,
        counts=request.backend.kinds(request.caller.scope),
        problem=problem,
        form=http.form,
        undo=http.param("undo"),
        address=request.service.address,
    )


def _list(request: PageRequest, fields: Mapping[str, str | None], cursor: str | None) -> tuple[Sequence[Row], str | None]:
    order = fields["order"] or "stored"
    page = request.backend.list_page(request.caller.scope, fields["tag"], fields["kind"], _PAGE_RECORDS, cursor, order)
    return [Row(record) for record in page], page.cursor


def _search(request: PageRequest, fields: Mapping[str, str | None]) -> tuple[Sequence[Row], None]:
    """Search without counting reads: maintenance goes by the reads of agents."""
    text = fields["q"] or ""
    query = RecallQuery.parse(
        text,
        limit=_MAX_HITS,
        kinds=_searched_kinds(request, fields["kind"]),
        tag=fields["tag"],
        session=fields["session"],
        min_trust=parse(float, fields["trust"], "trust"),
        min_importance=parse(float, fields["importance"], "importance") or 0.0,
        min_similarity=None if text else 0.0,
    )
    hits = request.backend.search(request.caller.scope, query)
    return [Row(hit.record, hit.score if text else None, hit.signals) for hit in hits], None


def _searched_kinds(request: PageRequest, kind: str | None) -> list[str] | None:
    """The kinds that a search covers: all but messages unless one, or "any", is chosen."""
    if kind is None:
        return sorted(request.backend.kinds(request.caller.scope).keys() - {MESSAGE}) or list(KINDS[:1])
    return None if kind == "any" else [kind]


def parse(kind: type[N], text: str | None, name: str) -> N | None:
    """The number of a field, None where it is empty."""
    try:
        return None if text is None else kind(text)
    except ValueError:
        use = "a whole number" if kind is int else "a number from 0 to 1"
        raise ValidationError(f"{name} is {text!r:.40}: use {use}.") from None


# -- several memories ----------------------------------------------------------------------------------------------------
def change_several(request: PageRequest) -> Response:
    """Tag, pin, bury, archive, export or forget the selected memories, or undo the last such change."""
    form, memory = request.http.form, request.memory
    what, ids = form.get("do", ""), [name.removeprefix("pick-") for name in form if name.startswith("pick-")]
    if what == "undo":
        return _undo(request, form.get("undo", ""))
    if not ids:
        return request.redirect("/memories", "Not done: no memory is selected.", "bad")
    count = f"{len(ids)} {'memory' if len(ids) == 1 else 'memories'}"
    if what == "export":
        return _export(request, ids)
    if what == "forget":
        request.caller.require(FORGET)
        if form.get("typed", "").strip() != f"forget {len(ids)}":
            return request.redirect("/memories", f"Not done: type forget {len(ids)} to confirm.", "bad")
        forgotten = sum(memory.forget(id).forgotten for id in ids if memory.get(id) is not None)
        return request.redirect("/memories", f"Forgotten: {forgotten}, with what was derived from them alone.")
    request.caller.require(WRITE)
    if what == "archive":
        report = memory.upkeep.archive(ids)
        return request.redirect(f"/memories?undo=archive-{report.ticket}", f"Archived: {count}.")
    if what == "tag" and not form.get("tag", "").strip():
        return request.redirect("/memories", "Not done: type a tag first.", "bad")
    if what not in ("tag", *_WEIGHTS):
        raise ValidationError("the form names no action: load the page again.")
    before = {record.id: record for record in request.backend.get_many(request.caller.scope, ids)}
    changes: dict[str, Any] = {"tag": form["tag"].strip()} if what == "tag" else {"importance": _WEIGHTS[what]}
    problems = _update_several(request, dict.fromkeys(before, changes))
    former = {id: record.tag if what == "tag" else f"{record.importance:g}" for id, record in before.items()}
    undo = "" if problems else f"?{urlencode({'undo': f'{what}-' + json.dumps(former)})}"
    done = f"{_CHANGED[what]}: {len(before) - len(problems)} of {count}."
    return request.redirect(f"/memories{undo}", " ".join([done, *problems[:3]]), "bad" if problems else "good")


def _update_several(request: PageRequest, changes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Change memories. Returns what was refused."""
    problems = []
    for id, change in changes.items():
        try:
            receipt = request.backend.update(request.caller.scope, id, None, **change)
            problems += [*receipt.reasons] if receipt.action == "refused" else []
        except (Conflict, NotFound) as error:
            problems.append(str(error))
    return problems


def _undo(request: PageRequest, undo: str) -> Response:
    """Undo a change of several memories: by the ticket of what was archived, or by the former tags or importances."""
    request.caller.require(WRITE)
    what, _, former = undo.partition("-")
    if what == "archive":
        restored = () if (ticket := parse_number(former)) is None else request.memory.upkeep.undo(ticket)
        return request.redirect("/memories", f"Restored: {len(restored)}.", "good" if restored else "bad")
    try:
        values = dict(json.loads(former))
        name = "tag" if what == "tag" else "importance"
        changes = {str(id): {name: str(value) if name == "tag" else float(value)} for id, value in values.items()}
    except (TypeError, ValueError):
        raise ValidationError("there is nothing to undo: load the page again.") from None
    problems = _update_several(request, changes)
    done = f"Undone: {len(changes) - len(problems)}."
    return request.redirect("/memories", " ".join([done, *problems[:3]]), "bad" if problems else "good")


def _export(request: PageRequest, ids: Sequence[str]) -> Response:
    """The selected memories as lines of JSON."""
    records = request.backend.get_many(request.caller.scope, ids)
    lines = "".join(json.dumps(document(record), ensure_ascii=False) + "\n" for record in records)
    headers = {**sessions.HEADERS, "content-disposition": 'attachment; filename="memories.jsonl"'}
    return Response(lines, 200, headers, "application/x-ndjson")


def add_memory(request: PageRequest) -> Response:
    if "do" in request.http.form:
        return change_several(request)
    request.caller.require(WRITE)
    form = request.http.form
    try:
        arguments: dict[str, Any] = {name: form[name].strip() for name in ("kind", "tag", "key") if form.get(name, "").strip()}
        importance = parse(float, form.get("importance", "").strip() or None, "importance")
        if importance is not None:
            arguments["importance"] = importance
        receipt = request.memory.remember(form.get("content", ""), **arguments, source=request.caller.source(None))
    except KeepstoneError as error:
        return list_memories(request, status_of(error), str(error))
    if receipt.action == "refused":
        return list_memories(request, 422, "; ".join(receipt.reasons) or "The write was refused; nothing was stored.")
    message = " ".join([TEXTS["saved"].get(receipt.action, "Remembered."), *receipt.reasons])
    return request.redirect(memory_path(receipt.id) if receipt.id else "/memories", message)


# -- one memory ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Derivation:
    """The memories that a memory was made from and that were made from it; `complete` is False in a scope too large to scan."""

    parents: Sequence[tuple[str, Record | None]]
    children: Sequence[Record]
    complete: bool


def show_memory(request: PageRequest, status: int = 200, problem: str | None = None) -> Response:
    http = request.http
    id = http.path_params.get("id") or http.param("id") or ""
    record = request.caller.find(id)
    query = http.param("query")
    explanation = None if query is None else request.memory.why(query, id)
    if http.fragment:
        return request.part("why.html", explanation=explanation, query=query, linked=False)
    return request.page(
        "memory.html",
        status,
        record=record,
        history=_changes(request.memory.history(id)),
        derivation=_derivation(request, record),
        source=TEXTS["sources"].get(record.source.partition(":")[0], "Unknown source"),
        query=query,
        explanation=explanation,
        problem=problem,
        form=http.form,
        home=memory_path(id),
    )


def _changes(versions: Sequence[Version]) -> list[dict[str, Any]]:
    """The versions, newest first, each with its text with the changes marked, and the other fields that changed."""
    changes: list[dict[str, Any]] = []
    for before, version in zip([None, *versions], versions, strict=False):
        text = escape(version.content) if before is None else difference(before.content, version.content)
        changed = [name for name in _COMPARED_FIELDS if before and getattr(before, name) != getattr(version, name)]
        changes.append({"version": version, "text": text, "changed": changed})
    return changes[::-1]


def _derivation(request: PageRequest, record: Record) -> Derivation:
    scope, backend = request.caller.scope, request.backend
    parents = [(id, request.memory.get(id)) for id in record.parents[:_MAX_PARENTS]]
    if backend.count(scope) > _MAX_SCANNED_RECORDS:
        return Derivation(parents, (), False)
    children = [child for child in backend.snapshot(scope) if record.id in child.parents and child.status == "active"]
    return Derivation(parents, children[:_MAX_CHILDREN], True)


def change_memory(request: PageRequest) -> Response:
    """Update or forget a memory."""
    id, form = request.http.path_params["id"], request.http.form
    if form.get("do") == "forget":
        return _forget(request, id)
    if form.get("do") != "update":
        raise ValidationError("the form names no action: load the page again.")
    request.caller.require(WRITE)
    request.caller.find(id)
    try:
        version, importance = int(form.get("version", "")), float(form.get("importance", ""))
    except ValueError:
        raise ValidationError("importance must be a number from 0 to 1, and version a whole number.") from None
    try:
        changes: dict[str, Any] = {"importance": importance, "expected_version": version}
        receipt = request.backend.update(request.caller.scope, id, form.get("content"), **changes)
    except Conflict:
        message = "This memory was changed after you opened this page. The form still holds your text: compare, then save again."
        return show_memory(request, 409, message)
    except KeepstoneError as error:
        return show_memory(request, status_of(error), str(error))
    if receipt.action == "refused":
        return show_memory(request, 422, "; ".join(receipt.reasons) or "The change was refused; nothing was stored.")
    saved = f"Saved as version {receipt.version}. Version {version} is kept in the history."
    message = "Nothing has changed." if receipt.action == "duplicate" else saved
    reasons = [reason for reason in receipt.reasons if "is kept" not in reason]  # the message says that already
    return request.redirect(memory_path(receipt.id or id), " ".join([message, *reasons]))


def _forget(request: PageRequest, id: str) -> Response:
    request.caller.require(FORGET)
    if request.http.form.get("sure") != "yes":
        raise ValidationError("permanent deletion is not allowed yet: tick the box, then send the form again.")
    request.caller.find(id)
    receipt = request.memory.forget(id)
    if not receipt.forgotten:
        raise NotFound(f"memory {id!r:.80} does not exist in this scope: it may have been forgotten already.")
    places = ", ".join(f"{name} {count}" for name, count in receipt.places.items() if count)
    return request.redirect("/memories", " ".join([f"Forgotten: {places or receipt.forgotten}.", *receipt.reasons]))


PAGES = (
    Page("/memories", get=list_memories, post=add_memory),
    Page("/memories/{id:path}", get=show_memory, post=change_memory),
)
