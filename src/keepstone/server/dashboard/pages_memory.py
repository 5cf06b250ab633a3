"""One memory: what it says and said, where it comes from, why it is or is not recalled; changing and forgetting it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup
from starlette.responses import Response

from keepstone.errors import Conflict, KeepstoneError, NotFound, ValidationError
from keepstone.server.dashboard import wording
from keepstone.server.dashboard.places import Place
from keepstone.server.dashboard.visit import Visit, memory_path
from keepstone.server.identity import FORGET, WRITE
from keepstone.server.problems import status_of
from keepstone.server.routes.memories import readable
from keepstone.types import Explanation, Record, Version

_LARGE = 5_000  # memories of a scope beyond which nobody looks through all of them for what was made from one
_TRUSTED = {
    "system": "set up by whoever runs the server", "user": "said by the user", "agent": "said by an agent",
    "import": "came with an import", "tool": "came from a tool's output", "web": "came from a web page",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Past:
    """A version, and how it differs from the one before."""

    version: Version
    text: Markup
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a memory was made from, and what was made from it; `looked` is False where the scope is too large to tell."""

    parents: Sequence[tuple[str, Record | None]]
    children: Sequence[Record]
    looked: bool


def one(visit: Visit, status: int = 200, problem: str | None = None) -> Response:
    id = visit.asked.parts.get("id") or visit.asked.word("id") or ""
    record = readable(visit.caller, visit.memory.get(id), id)
    query = visit.asked.word("query")
    if visit.asked.fragment:
        return visit.part("why.html", explanation=explained(visit, query, id), query=query, linked=False)
    return visit.page(
        "memory.html", status, record=record, past=_past(visit.memory.history(id)), lineage=_lineage(visit, record),
        trusted=_TRUSTED.get(record.source.partition(":")[0], "of a source that is not known here"), query=query,
        explanation=explained(visit, query, id), problem=problem, given=visit.asked.form, home=memory_path(id),
    )  # fmt: skip


def explained(visit: Visit, query: str | None, id: str) -> Explanation | None:
    """How a memory fares for a question, if one is asked."""
    if query is None:
        return None
    if visit.identity.bound_to_agent:
        readable(visit.caller, visit.memory.get(id), id)
    return visit.memory.why(query, id)


def _past(versions: Sequence[Version]) -> list[Past]:
    """The versions, newest first."""
    made: list[Past] = []
    for at, version in enumerate(versions):
        before = versions[at - 1] if at else None
        text = Markup("{}").format(version.content) if before is None else wording.difference(before.content, version.content)
        fields = ("importance", "metadata", "tag", "kind", "source", "trust", "expires_at")
        changed = tuple(name for name in fields if before is not None and getattr(before, name) != getattr(version, name))
        made.append(Past(version, text, changed))
    return made[::-1]


def _lineage(visit: Visit, record: Record) -> Lineage:
    store, scope = visit.desk.service.engine.store, visit.caller.scope
    parents = [(id, _shown(visit, visit.memory.get(id))) for id in record.parents[:20]]
    if store.count(scope) > _LARGE:
        return Lineage(parents, (), False)
    found = store.snapshot(scope, None, None).records
    return Lineage(parents, [each for each in found if record.id in each.parents and each.status == "active"][:50], True)


def _shown(visit: Visit, record: Record | None) -> Record | None:
    return None if record is not None and record.status == "quarantined" and visit.identity.bound_to_agent else record


def change(visit: Visit) -> Response:
    """Update or forget, as the form says."""
    id, form = visit.asked.parts["id"], visit.asked.form
    if form.get("do") == "forget":
        return _forget(visit, id)
    if form.get("do") != "update":
        raise ValidationError("the form does not say what to do: load the page again.")
    visit.caller.need(WRITE)
    readable(visit.caller, visit.memory.get(id), id)
    try:
        version, importance = int(form.get("version", "")), float(form.get("importance", ""))
    except ValueError:
        raise ValidationError("importance must be a number from 0 to 1, and version a whole one.") from None
    try:
        receipt = visit.memory.update(id, form.get("content"), importance=importance, expected_version=version)
    except Conflict:
        said = (
            "Somebody has changed it since you opened this page. What you wrote is still in the form: compare, then save again."
        )
        return one(visit, 409, said)
    except KeepstoneError as error:
        return one(visit, status_of(error), str(error))
    if receipt.action == "refused":
        return one(visit, 422, "; ".join(receipt.reasons) or "It was refused: nothing was changed.")
    said = "Nothing was new, so nothing was changed." if receipt.action == "duplicate" else f"Saved as version {receipt.version}."
    return visit.to(memory_path(receipt.id or id), " ".join([said, *receipt.reasons]))


def _forget(visit: Visit, id: str) -> Response:
    visit.caller.need(FORGET)
    if visit.asked.form.get("sure") != "yes":
        raise ValidationError("tick the box to say that it may go for good, then send the form again.")
    readable(visit.caller, visit.memory.get(id), id)
    receipt = visit.memory.forget(id)
    if not receipt.forgotten:
        raise NotFound(f"there is no memory {id!r:.80} in this scope: it may have been forgotten already.")
    places = ", ".join(f"{name} {count}" for name, count in receipt.places.items() if count)
    return visit.to("/memories", " ".join([f"Forgotten: {places or receipt.forgotten}.", *receipt.reasons]))


PLACES = (Place("/memories/{id:path}", get=one, post=change),)
