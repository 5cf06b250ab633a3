"""AsyncVerbs: the half of a client that is Memory's own verbs, each one request.

Made by tools/make_client_aio.py from verbs.py; do not edit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any

from keepstone.client.aio_parts import AsyncRemoteAudit, AsyncRemoteReview, AsyncRemoteUpkeep
from keepstone.client.aio_transport import AsyncTransport
from keepstone.client.codec import read, read_all, seconds, when
from keepstone.client.request_args import check_int, conditions_of, items_of, named, names, once, told, usual
from keepstone.client.responses import part
from keepstone.errors import NotFound, ValidationError
from keepstone.types import (
    Explanation,
    ForgetReceipt,
    ImportReport,
    Page,
    Recall,
    Receipt,
    Record,
    Version,
)

if TYPE_CHECKING:
    from keepstone.ports.stores import Progress

Path = str | PathLike[str]
Time = datetime | str


class AsyncVerbs:
    """Remembering, recalling, forgetting, moving, over HTTP."""

    _wire: AsyncTransport

    # -- writing --------------------------------------------------------------------------------------------------
    async def remember(
        self,
        content: str,
        *,
        kind: str = "fact",
        tag: str = "general",
        key: str | None = None,
        importance: float = 0.5,
        metadata: Mapping[str, Any] | None = None,
        ttl: timedelta | float | None = None,
        source: str = "user",
        session: str | None = None,
        occurred_at: Time | None = None,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Store one memory and say what became of it. When this returns, the content is on the server's disk.

        Without an idempotency key the client gives the write one of its own, a random one, so that it can be sent again where
        the answer to the first try was lost, and is stored once. Raises what Memory.remember raises, AccessError where the key
        may not do this, ServerError where the server cannot be reached."""
        given = {
            "content": content, "kind": kind, "tag": tag, "key": key, "importance": importance, "metadata": metadata,
            "ttl": seconds(ttl), "source": usual(source), "session": session, "occurred_at": when(occurred_at),
            "idempotency_key": once() if idempotency_key is None else idempotency_key,
        }  # fmt: skip
        return read(Receipt, await self._wire.post("/v1/memories", given, again=True))

    async def remember_many(self, items: Iterable[str | Mapping[str, Any]]) -> list[Receipt]:
        """Store up to 100 memories in one transaction, all or none; an item is text or remember()'s arguments. Items without an
        idempotency key are given one of the client's own, as in `remember`."""
        found = await self._wire.post("/v1/memories/batch", {"items": items_of(items)}, again=True)
        return read_all(Receipt, found["receipts"])

    async def update(
        self,
        id: str,
        content: str | None = None,
        *,
        importance: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        expected_version: int | None = None,
        occurred_at: Time | None = None,
    ) -> Receipt:
        """Change a record; what it was stays in its history. Raises NotFound, Conflict, ValidationError."""
        given = {
            "content": content, "importance": importance, "metadata": metadata, "expected_version": expected_version,
            "occurred_at": when(occurred_at),
        }  # fmt: skip
        return read(Receipt, await self._wire.patch(f"/v1/memories/{part(id)}", given))

    async def forget(
        self,
        id: str | None = None,
        *,
        key: str | None = None,
        source: str | None = None,
        session: str | None = None,
        everything: bool = False,
    ) -> ForgetReceipt:
        """Erase one record, a key, all that came from a source or a session, or everything in this scope. Raises NotFound for an
        unknown id or key, ValidationError for none or several arguments."""
        given = {"id": id, "key": key, "source": source, "session": session, "everything": everything}
        return read(ForgetReceipt, await self._wire.post("/v1/forget", given, long=True))

    # -- reading --------------------------------------------------------------------------------------------------
    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        kinds: Iterable[str] | None = None,
        tag: str | None = None,
        filter: Mapping[str, Any] | None = None,
        min_similarity: float | None = None,
        min_importance: float = 0.0,
        max_tokens: int | None = None,
        as_of: Time | None = None,
        known_at: Time | None = None,
        min_trust: float | None = None,
        session: str | None = None,
        asked_at: Time | None = None,
    ) -> Recall:
        """The memories that answer a query, best first, each with the parts of its score. Raises ValidationError."""
        given = {
            "query": query, "limit": limit, "kinds": names(kinds, "kinds", one=True), "tag": tag, "filter": filter,
            "min_similarity": min_similarity, "min_importance": min_importance, "max_tokens": max_tokens, "as_of": when(as_of),
            "known_at": when(known_at), "min_trust": min_trust, "session": session, "asked_at": when(asked_at),
        }  # fmt: skip
        return read(Recall, await self._wire.post("/v1/recall", given, again=True))

    async def get(self, id: str | None = None, *, key: str | None = None) -> Record | None:
        """One record by its id, or the one that stands under a key now; None where there is none."""
        if (id is None) == (key is None):
            raise ValidationError("get needs either an id or a key: name exactly one of them.")
        if id is None:
            found = read(Page, await self._wire.get("/v1/memories", key=key))
            return next(iter(found), None)
        try:
            return read(Record, await self._wire.get(f"/v1/memories/{part(id)}"))
        except NotFound:
            return None

    async def list(
        self,
        *,
        tag: str | None = None,
        kind: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page:
        """Records, newest first, a page at a time. Raises ValidationError for a cursor of another query or scope."""
        conditions = None if filter is None else conditions_of(filter)
        limit = check_int(limit, "limit", 1, 100)
        return read(
            Page,
            await self._wire.get(
                "/v1/memories", tag=named(tag, "tag"), kind=named(kind, "kind"), filter=conditions, limit=limit, cursor=cursor
            ),
        )

    async def history(self, id: str) -> Sequence[Version]:
        """Every version of a record, oldest first. Raises NotFound."""
        found = await self._wire.get(f"/v1/memories/{part(id)}/history")
        return read_all(Version, found["versions"])

    async def why(self, query: str, id: str) -> Explanation:
        """Explain a record's score for a query, feature by feature, and what kept it out where it is no hit. Raises NotFound."""
        return read(Explanation, await self._wire.post(f"/v1/memories/{part(id)}/why", {"query": query}, again=True))

    @property
    def audit(self) -> AsyncRemoteAudit:
        """The audit log of this scope: `audit()` lists it, `audit.verify()` checks it, `audit.diff()` compares two times."""
        return AsyncRemoteAudit(self._wire)

    @property
    def review(self) -> AsyncRemoteReview:
        """What a person should look at: quarantined, stale, contradicted, unsupported; `list()` and `resolve()` work through."""
        return AsyncRemoteReview(self._wire)

    # -- the key-value tier ---------------------------------------------------------------------------------------
    async def set(self, key: str, value: Any, *, tag: str = "general") -> Receipt:
        """Save a value under a key; the old value stays in history. Any JSON value can be saved."""
        return read(Receipt, await self._wire.put(f"/v1/values/{part(key, 'key')}", {"value": value, "tag": tag}))

    async def value(self, key: str | None = None, default: Any = None, *, tag: str | None = None) -> Any:
        """The current value of a key, or the default. With `tag` instead of a key: a dictionary of the values of every key with
        this tag, the last updated first."""
        if (key is None) == (tag is None):
            raise ValidationError("value needs either a key or a tag: pass exactly one of them.")
        if key is None:
            found = await self._wire.get("/v1/values", tag=named(tag, "tag"))
            return found["values"]
        try:
            found = await self._wire.get(f"/v1/values/{part(key, 'key')}")
        except NotFound:
            return default
        return found["value"]

    # -- moving and keeping ---------------------------------------------------------------------------------------
    @property
    def upkeep(self) -> AsyncRemoteUpkeep:
        """Jobs that keep what is remembered in order."""
        return AsyncRemoteUpkeep(self._wire)

    async def export(self, path: Path, *, everything: bool = False, progress: Progress | None = None) -> int:
        """Write the scope as JSONL, a record with its history on each line. Returns the number of lines. With `everything`: all
        that is stored about this user in this tenant, with every agent."""
        lines, _ = await self._wire.fetch("/v1/export", path, everything=True if everything else None)
        return told(progress, lines)

    async def import_(self, path: Path, *, source: str | None = None, progress: Progress | None = None) -> ImportReport:
        """Read an export into this scope: all lines or, if any is bad, none. Records that exist are skipped."""
        report = read(ImportReport, await self._wire.push("/v1/import", path, source=source))
        told(progress, report.added + report.skipped)
        return report

    async def backup(self, path: Path, *, progress: Progress | None = None) -> None:
        """A consistent copy of the server's whole store in a new file here; takes a key with the right operator."""
        _, size = await self._wire.fetch("/v1/store/backup", path, new=True)
        told(progress, size)
