"""What mem0's client asks for: search, get_all, get, history, entities.

Words that were said are shown where no fact that was learned from them is: a fact stands for the message it was found in.
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
from keepstone.server.compat.filters import every, exact, names, only, stored, translated
from keepstone.server.compat.requests import GetAll, Named, Search, instant
from keepstone.server.compat.shapes import FACT, NO_AGENT, SESSION, document, entry, history, learned, moment, said
from keepstone.server.compat.visiting import Visitor
from keepstone.server.routes.memories import readable
from keepstone.server.service import Caller
from keepstone.types import STEP, Hit, Record

PATH = "/compat/mem0"
_USUAL = 10
_STEP = 500  # records that are read at a time
_LARGEST = 1000  # memories on a page
_FEW = 20  # messages whose notes are shown with a fact


def _tree(given: Named, *more: dict[str, Any]) -> Filter | None:
    return every(translated(each) for each in (*given.conditions(), *more))


def search(visitor: Visitor, given: Search) -> dict[str, Any]:
    """The memories that answer a query, best first."""
    more: list[dict[str, Any]] = [{"metadata": given.metadata}] if given.metadata else []
    tree = _tree(given, *more, *([{"categories": list(given.categories)}] if given.categories else []))
    wanted = next((each for each in (given.top_k, given.limit) if each is not None), _USUAL)
    wanted = min(check_int(wanted, "top_k", 1, 10**9), MAX_LIMIT)
    query = RecallQuery.parse(
        given.query,
        limit=min(MAX_LIMIT, 2 * wanted) if exact(tree) else MAX_LIMIT,  # a message and its facts are shown once
        tag=only(tree, "categories", "contains"),
        filter=stored(tree),  # type: ignore[arg-type]  # a tree is a filter that was read already
        min_similarity=given.threshold,
        session=only(tree, "run_id"),
        asked_at=instant(given.reference_date, "reference_date"),
    )
    hits: list[tuple[Caller, Hit, list[str]]] = []
    for there in visitor.reach(names(tree, "user_id"), names(tree, "agent_id")):
        found = [hit for hit in there.service.engine.recalling.recall(there.scope, query) if _fits(hit.record, tree)]
        rests = grounds(there, [hit.id for hit in found if learned(hit.record)])
        hits += [(there, hit, list(rests.get(hit.id, ()))) for hit in _once(there, found, rests)]
    hits.sort(key=lambda each: -each[1].score)
    results = [
        entry(hit.record, _beneath(there, rests), score=hit.score, similarity=_rounded(hit))
        for there, hit, rests in hits[:wanted]
    ]
    if given.fields:
        results = [{name: each[name] for name in ("id", *given.fields) if name in each} for each in results]
    return {"results": results}


def _rounded(hit: Hit) -> float:
    return round(hit.signals.get("similarity", 0.0), 4)


def _fits(record: Record, tree: Filter | None) -> bool:
    return record.tag != STEP and (tree is None or matches(tree, document(record)))


def grounds(there: Caller, ids: list[str] | None = None) -> dict[str, dict[str, bool]]:
    """What records were learned from, by their ids, and whether that is what they say now."""
    found: dict[str, dict[str, bool]] = {}
    for id, parent, present in there.service.engine.store.retention.lineage(there.scope, ids):
        found.setdefault(id, {})[parent] = present
    return found


def _once(there: Caller, hits: list[Hit], rests: dict[str, dict[str, bool]]) -> Iterator[Hit]:
    """Of messages and a fact in them, whichever answers best; but never words that a fact says otherwise by now, in its place. Of
    messages that say the same, one."""
    shown: set[str] = set()  # messages, and what they say
    told: set[str] = set()  # messages whose facts are shown
    current: dict[str, set[str]] = {}
    for hit in hits:
        of = rests.get(hit.id, {})
        current[hit.id] = set() if of and _reworded(there, hit.record) else {id for id, present in of.items() if present}
        told |= of.keys() - current[hit.id]
    for hit in hits:
        if said(hit.record):
            if hit.id not in told and hit.content not in shown:
                shown |= {hit.id, hit.content}
                yield hit
        elif shown.isdisjoint(current[hit.id]):
            told |= current[hit.id]
            yield hit


def _reworded(there: Caller, record: Record) -> bool:
    """Whether what a record says was written by hand, after what it was learned from."""
    versions = () if record.version == 1 else there.service.engine.store.history(there.scope, record.id) or ()
    changed = [now.action for before, now in pairwise(versions) if now.content != before.content]
    return changed[-1:] == ["updated"]


def _beneath(there: Caller, ids: list[str]) -> dict[str, Any]:
    """What is noted beside the messages that a fact was learned from; the newest counts."""
    parents = [there.service.engine.store.get(there.scope, id) for id in ids[:_FEW]]
    words = sorted((each for each in parents if each is not None and said(each)), key=lambda each: each.created_at)
    return {name: value for each in words for name, value in each.metadata.items()}


def get_all(visitor: Visitor, given: GetAll, page: int, size: int) -> dict[str, Any]:
    """All memories, the newest first, a page at a time."""
    page, size = check_int(page, "page", 1, 10**9), min(check_int(size, "page_size", 1, 10**9), _LARGEST)
    days = {name: each for name, each in (("gte", given.start_date), ("lte", given.end_date)) if each is not None}
    more: list[dict[str, Any]] = [{"created_at": days}] if days else []
    tree = _tree(given, *more, *([{"categories": list(given.categories)}] if given.categories else []))
    first, count = (page - 1) * size, 0
    shown: list[tuple[Caller, Record, list[str]]] = []
    streams = [_listed(there, tree) for there in visitor.reach(names(tree, "user_id"), names(tree, "agent_id"))]
    for each in heapq.merge(*streams, key=lambda each: each[1].created_at, reverse=True):
        if first <= count < first + size:
            shown.append(each)
        count += 1
    results = [entry(record, _beneath(there, rests)) for there, record, rests in shown]
    before = min(page - 1, -(-count // size))
    after = _page(visitor, page + 1, size) if first + size < count else None
    return {"count": count, "next": after, "previous": _page(visitor, before, size) if before > 0 else None, "results": results}


def _page(visitor: Visitor, page: int, size: int) -> str:
    query = urlencode({"page": page, "page_size": size})
    return f"{visitor.caller.service.address}{PATH}/v3/memories/?{query}"


def _listed(there: Caller, tree: Filter | None) -> Iterator[tuple[Caller, Record, list[str]]]:
    """The records of a scope that fit, the newest first, each with what it was learned from: facts, and such messages as none of
    these were learned from."""
    rests = grounds(there)
    told = {parent for record in _all(there, tree, FACT) for parent in rests.get(record.id, ())} if rests else set()
    for record in _all(there, tree):
        if record.id not in told:
            yield there, record, list(rests.get(record.id, ()))


def _all(there: Caller, tree: Filter | None, kind: str | None = None) -> Iterator[Record]:
    before = None
    session, filter = only(tree, "run_id"), stored(tree)
    while rows := there.service.engine.store.list(
        there.scope, ListQuery(session=session, filter=filter, limit=_STEP, before=before, kind=kind)
    ):
        before = rows[-1][0]
        yield from (record for _, record in rows if _fits(record, tree))


def get(visitor: Visitor, id: str) -> dict[str, Any]:
    """One memory."""
    there = visitor.holder(id)
    record = readable(there, there.memory.get(id), id)
    return entry(record, _beneath(there, list(grounds(there, [record.id]).get(record.id, ()))))


def changes(visitor: Visitor, id: str) -> list[dict[str, Any]]:
    """What a memory has been, oldest first."""
    there = visitor.holder(id)
    record = readable(there, there.memory.get(id), id)
    return history(id, there.memory.history(id), record)


def entities(visitor: Visitor) -> dict[str, Any]:
    """The users, agents and runs that the key reaches and that have memories."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    store = visitor.caller.service.engine.store

    def add(kind: str, name: str, many: int, first: str | None = None, last: str | None = None) -> None:
        row = found.setdefault((kind, name), {"id": f"{kind}:{name}", "name": name, "type": kind, "total_memories": 0})
        row["total_memories"] += many
        row["created_at"], row["updated_at"] = first, last

    for scope in visitor.everything():
        many = store.count(scope)
        if not many:
            continue
        if scope.user:
            add("user", scope.user, many)
        if scope.agent != NO_AGENT:
            add("agent", scope.agent, many)
        for run in store.message_log.sessions(scope, limit=1000):
            if run.name != SESSION:
                add("run", run.name, run.messages, moment(run.first), moment(run.last))
    rows = [found[each] for each in sorted(found, key=lambda each: (("user", "agent", "run").index(each[0]), each[1]))]
    return {"count": len(rows), "next": None, "previous": None, "results": rows}
