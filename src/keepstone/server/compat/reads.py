"""The reading verbs of mem0's client: search, get_all, get, history, entities.

A fact stands for the messages it was learned from: a message is shown only if no fact learned from it is.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import urlencode

from keepstone.ports.filters import Filter, matches
from keepstone.ports.values import ListQuery
from keepstone.recall.query import MAX_LIMIT, RecallQuery, check_int
from keepstone.server.compat.callers import Mem0Caller
from keepstone.server.compat.entries import (
    DEFAULT_AGENT,
    DEFAULT_SESSION,
    FACT,
    filter_document,
    format_time,
    make_entry,
    make_history,
)
from keepstone.server.compat.filters import join, matched_names, metadata_filter, required_value, store_decides, translate
from keepstone.server.compat.requests import GetAllBody, NamedBody, SearchBody, parse_time_value
from keepstone.server.service import Caller
from keepstone.types import MESSAGE, STEP, Hit, Record

PATH = "/compat/mem0"
_DEFAULT_HITS = 10
_MAX_PAGE_SIZE = 1000
_MAX_SOURCE_MESSAGES = 20  # whose metadata is shown with a fact
_MAX_SESSIONS = 1000
_ENTITY_ORDER = ("user", "agent", "run")


def _parse_filters(body: NamedBody, *conditions: dict[str, Any]) -> Filter | None:
    return join(translate(condition) for condition in (*body.conditions(), *conditions))


def search(mem0: Mem0Caller, body: SearchBody) -> dict[str, Any]:
    """The memories that answer a query, best first."""
    conditions: list[dict[str, Any]] = [{"metadata": body.metadata}] if body.metadata else []
    if body.categories:
        conditions.append({"categories": list(body.categories)})
    tree = _parse_filters(body, *conditions)
    top_k = next((limit for limit in (body.top_k, body.limit) if limit is not None), _DEFAULT_HITS)
    top_k = min(check_int(top_k, "top_k", 1, 10**9), MAX_LIMIT)
    query = RecallQuery.parse(
        body.query,
        limit=min(MAX_LIMIT, 2 * top_k) if store_decides(tree) else MAX_LIMIT,  # of a message and its fact one is shown
        tag=required_value(tree, "categories", "contains"),
        filter=metadata_filter(tree),  # type: ignore[arg-type]  # a parsed filter is accepted too
        min_similarity=body.threshold,
        session=required_value(tree, "run_id"),
        asked_at=parse_time_value(body.reference_date, "reference_date"),
    )
    hits: list[tuple[Caller, Hit, list[str]]] = []
    for caller in mem0.callers_for(matched_names(tree, "user_id"), matched_names(tree, "agent_id")):
        matching = [hit for hit in caller.backend.recall(caller.scope, query) if _matches(hit.record, tree)]
        sources = caller.backend.grounds(caller.scope, [hit.id for hit in matching if hit.record.kind == FACT])
        hits += [(caller, hit, list(sources.get(hit.id, ()))) for hit in _without_repeats(caller, matching, sources)]
    hits.sort(key=lambda found: -found[1].score)
    results = [
        make_entry(
            hit.record,
            _source_metadata(caller, sources),
            score=hit.score,
            similarity=round(hit.signals.get("similarity", 0.0), 4),
        )
        for caller, hit, sources in hits[:top_k]
    ]
    if body.fields:
        results = [{name: entry[name] for name in ("id", *body.fields) if name in entry} for entry in results]
    return {"results": results}


def _matches(record: Record, tree: Filter | None) -> bool:
    return record.tag != STEP and (tree is None or matches(tree, filter_document(record)))


def _without_repeats(caller: Caller, hits: list[Hit], sources: dict[str, dict[str, bool]]) -> Iterator[Hit]:
    """Of a fact and its messages the better hit, and of equal messages one. A message that its fact no longer agrees with is
    left out."""
    shown: set[str] = set()  # ids and texts of messages
    covered: set[str] = set()  # messages whose facts are shown, or that are outdated
    current: dict[str, set[str]] = {}
    for hit in hits:
        messages = sources.get(hit.id, {})
        outdated = bool(messages) and _was_rewritten(caller, hit.record)
        current[hit.id] = set() if outdated else {id for id, present in messages.items() if present}
        covered |= messages.keys() - current[hit.id]
    for hit in hits:
        if hit.record.kind == MESSAGE:
            if hit.id not in covered and hit.content not in shown:
                shown |= {hit.id, hit.content}
                yield hit
        elif shown.isdisjoint(current[hit.id]):
            covered |= current[hit.id]
            yield hit


def _was_rewritten(caller: Caller, record: Record) -> bool:
    """Whether the last change of the content was an update, not something learned."""
    versions = () if record.version == 1 else caller.backend.history(caller.scope, record.id)
    actions = [version.action for before, version in pairwise(versions) if version.content != before.content]
    return actions[-1:] == ["updated"]


def _source_metadata(caller: Caller, ids: list[str]) -> dict[str, Any]:
    """The metadata of the messages that a fact was learned from; the newest wins."""
    records = caller.backend.get_many(caller.scope, ids[:_MAX_SOURCE_MESSAGES])
    messages = sorted((record for record in records if record.kind == MESSAGE), key=lambda record: record.created_at)
    return {name: value for message in messages for name, value in message.metadata.items()}


def get_all(mem0: Mem0Caller, body: GetAllBody, page: int, page_size: int) -> dict[str, Any]:
    """All memories, newest first, in pages."""
    page, size = check_int(page, "page", 1, 10**9), min(check_int(page_size, "page_size", 1, 10**9), _MAX_PAGE_SIZE)
    days = {name: day for name, day in (("gte", body.start_date), ("lte", body.end_date)) if day is not None}
    conditions: list[dict[str, Any]] = [{"created_at": days}] if days else []
    if body.categories:
        conditions.append({"categories": list(body.categories)})
    tree = _parse_filters(body, *conditions)
    first, count = (page - 1) * size, 0
    shown: list[tuple[Caller, Record, list[str]]] = []
    callers = mem0.callers_for(matched_names(tree, "user_id"), matched_names(tree, "agent_id"))
    streams = [_list(caller, tree) for caller in callers]
    for row in heapq.merge(*streams, key=lambda row: row[1].created_at, reverse=True):
        if first <= count < first + size:
            shown.append(row)
        count += 1
    last_page = -(-count // size)
    return {
        "count": count,
        "next": _page_address(mem0, page + 1, size) if first + size < count else None,
        "previous": _page_address(mem0, min(page - 1, last_page), size) if min(page - 1, last_page) > 0 else None,
        "results": [make_entry(record, _source_metadata(caller, sources)) for caller, record, sources in shown],
    }


def _page_address(mem0: Mem0Caller, page: int, size: int) -> str:
    query = urlencode({"page": page, "page_size": size})
    return f"{mem0.caller.service.address}{PATH}/v3/memories/?{query}"


def _list(caller: Caller, tree: Filter | None) -> Iterator[tuple[Caller, Record, list[str]]]:
    """The matching records of a scope, newest first, each with its source messages; without messages that a matching fact was
    learned from."""
    sources = caller.backend.grounds(caller.scope)
    covered = {id for fact in _matching_records(caller, tree, FACT) for id in sources.get(fact.id, ())} if sources else set()
    for record in _matching_records(caller, tree):
        if record.id not in covered:
            yield caller, record, list(sources.get(record.id, ()))


def _matching_records(caller: Caller, tree: Filter | None, kind: str | None = None) -> Iterator[Record]:
    query = ListQuery(session=required_value(tree, "run_id"), filter=metadata_filter(tree), kind=kind)
    return (record for record in caller.backend.records(caller.scope, query) if _matches(record, tree))


def get(mem0: Mem0Caller, id: str) -> dict[str, Any]:
    """One memory."""
    caller = mem0.holding(id)
    record = caller.find(id)
    sources = caller.backend.grounds(caller.scope, [record.id]).get(record.id, {})
    return make_entry(record, _source_metadata(caller, list(sources)))


def history(mem0: Mem0Caller, id: str) -> list[dict[str, Any]]:
    """The changes of a memory, oldest first."""
    caller = mem0.holding(id)
    record = caller.find(id)
    return make_history(id, caller.memory.history(id), record)


def entities(mem0: Mem0Caller) -> dict[str, Any]:
    """The users, agents and runs with memories that the key reaches."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}

    def add(kind: str, name: str, count: int, first: str | None = None, last: str | None = None) -> None:
        row = rows.setdefault((kind, name), {"id": f"{kind}:{name}", "name": name, "type": kind, "total_memories": 0})
        row["total_memories"] += count
        row["created_at"], row["updated_at"] = first, last

    for scope in mem0.all_scopes():
        backend = mem0.looking_into(scope).backend
        count = backend.count(scope)
        if not count:
            continue
        if scope.user:
            add("user", scope.user, count)
        if scope.agent != DEFAULT_AGENT:
            add("agent", scope.agent, count)
        for session in backend.sessions(scope, _MAX_SESSIONS):
            if session.name != DEFAULT_SESSION:
                add("run", session.name, session.messages, format_time(session.first), format_time(session.last))
    results = [rows[entity] for entity in sorted(rows, key=lambda entity: (_ENTITY_ORDER.index(entity[0]), entity[1]))]
    return {"count": len(results), "next": None, "previous": None, "results": results}
