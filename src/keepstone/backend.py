"""Backend: the operations of an open store that the public Memory does not offer.

Agents, the server with its dashboard, and commands use Memory, or this. Nothing else reaches the engine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from keepstone.errors import KeepstoneError, ValidationError
from keepstone.memory import Memory
from keepstone.ports.chat import ChatModel
from keepstone.ports.maintenance import ScopeStats
from keepstone.ports.queue import Session, StateStore
from keepstone.ports.values import ListQuery, Selector
from keepstone.recall.query import RecallQuery
from keepstone.tasks.context import is_instruction
from keepstone.text.times import LATEST
from keepstone.types import MESSAGE, Hit, Page, Recall, Receipt, Record, Scope, Version
from keepstone.write.request import trust_of

if TYPE_CHECKING:
    from keepstone.conversation.conversation import Conversation
    from keepstone.conversation.flow import Built
    from keepstone.engine import Engine
    from keepstone.maintenance.policy import RunReport, UpkeepPolicy
    from keepstone.tasks.working_memory import WorkingMemory

_PAGE_RECORDS = 500
_SIMILAR = 0.6  # cosine, or share of the words, from which a memory is shown next to a held one


def open_backend(target: str | PathLike[str], **options: Any) -> Backend:
    """Open a store, with the options of `open_engine`."""
    from keepstone.open import open_engine

    return Backend(open_engine(target, **options))


def make_model(spec: Any) -> ChatModel | None:
    """A chat model by its name, with the default settings; or the model that was passed."""
    from keepstone.open import make_chat_model

    return make_chat_model(spec)


def backend_of(memory: Memory) -> Backend:
    """The store that a Memory works on."""
    return Backend(memory._engine)


class Backend:
    """One open store. Every method but the properties reads or writes it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._store = engine.store
        self.settings = engine.settings
        self.now = engine.clock
        self.model = engine.model
        self.make_model = engine.makers.model
        self.memory = partial(Memory, engine)  # the public facade in a scope

    def close(self) -> None:
        self._engine.close()

    @cached_property
    def withholding(self) -> Backend:
        """The same store without quarantined text, as an agent's key sees it."""
        return Backend(self._engine.withholding)

    @property
    def store_kind(self) -> str:
        return "postgres" if self._engine.target.startswith(("postgres:", "postgresql:")) else "sqlite"

    @property
    def target(self) -> str:
        """The path or the name of the store."""
        return self._engine.target

    def check_plaintext(self, agreed: bool) -> None:
        """ConfigurationError if the store is encrypted, and it was not agreed to write its texts in the clear."""
        self._engine.transfer.check_plaintext(agreed)

    @property
    def store_id(self) -> str:
        return self._store.id

    @property
    def is_embedded(self) -> bool:
        """Whether the store is a file in this process, so that a read takes microseconds."""
        return self._store.is_embedded

    @property
    def key_states(self) -> StateStore:
        """The states that hold keys; the guard does not screen them."""
        return self._store.unguarded_states

    def audit(self, scope: Scope, action: str, text: str) -> None:
        """Add an entry about a key to a scope's audit log."""
        self._store.audit_log.note(scope, "key", action, "system", (text,))

    # -- a scope ---------------------------------------------------------------------------------------------------------
    def count(self, scope: Scope) -> int:
        return self._store.count(scope)

    def tags(self, scope: Scope, limit: int) -> Sequence[tuple[str, int]]:
        return self._store.tags(scope, limit)

    def stats(self, scope: Scope, since: datetime) -> ScopeStats:
        return self._store.retention.stats(scope, since)

    def kinds(self, scope: Scope) -> dict[str, int]:
        """How many records there are of each kind."""
        return dict(self.stats(scope, LATEST).kinds)

    def snapshot(self, scope: Scope, as_of: datetime | None = None, known_at: datetime | None = None) -> Sequence[Record]:
        """Every record as it was at a time; without a time, as it is now."""
        return self._store.snapshot(scope, as_of, known_at).records

    def list_page(
        self, scope: Scope, tag: str | None, kind: str | None, limit: int, cursor: str | None, order: str = "stored"
    ) -> Page:
        """A page of records; without a kind, of all but messages, and of all with the kind "any"."""
        exclude, kind = (MESSAGE, None) if kind is None else (None, None if kind == "any" else kind)
        return self._engine.reading.list(scope, tag, kind, None, limit, cursor, exclude_kind=exclude, order=order)

    def records(self, scope: Scope, query: ListQuery) -> Iterator[Record]:
        """Every record that matches, newest first. The query's limit and position are ignored."""
        before = None
        while rows := self._store.list(scope, replace(query, limit=_PAGE_RECORDS, before=before)):
            before = rows[-1][0]
            yield from (record for _, record in rows)

    def history(self, scope: Scope, id: str) -> Sequence[Version]:
        return self._store.history(scope, id) or ()

    def get_many(self, scope: Scope, ids: Sequence[str]) -> list[Record]:
        """The records of these ids that exist, without counting them as read."""
        return [record for id in ids if (record := self._store.get(scope, id)) is not None]

    def kind_of(self, scope: Scope, id: str) -> str | None:
        """The kind of a record; None if there is none."""
        record = self._store.get(scope, id)
        return None if record is None else record.kind

    def holds_session(self, scope: Scope, session: str) -> bool:
        return next(self.records(scope, ListQuery(session=session)), None) is not None

    def grounds(self, scope: Scope, ids: list[str] | None = None) -> dict[str, dict[str, bool]]:
        """For each derived record, the records it was derived from and whether they still say the same."""
        grounds: dict[str, dict[str, bool]] = {}
        for id, parent, present in self._store.retention.lineage(scope, ids):
            grounds.setdefault(id, {})[parent] = present
        return grounds

    # -- scopes of a tenant ----------------------------------------------------------------------------------------------
    def scopes(self, tenant: str, user: str | None = None) -> Sequence[Scope]:
        return self._store.retention.scopes(tenant, user)

    def scopes_with(self, tenant: str, id: str) -> Sequence[Scope]:
        """The scopes that hold a record with this id."""
        return self._store.retention.scopes_with_record(tenant, id)

    # -- recall ----------------------------------------------------------------------------------------------------------
    def recall(self, scope: Scope, query: RecallQuery) -> Recall:
        return self._engine.recalling.recall(scope, query)

    def search(self, scope: Scope, query: RecallQuery) -> Sequence[Hit]:
        """The hits of a query, without counting them as read."""
        return list(self._engine.recalling.search(scope, query))

    def similar(self, scope: Scope, record: Record) -> Record | None:
        """The memory that a held one would stand next to: the value of its key, else one that says nearly the same."""
        if record.key is not None:
            return self._store.by_key(scope, record.key)
        kinds = sorted(self.kinds(scope).keys() - {MESSAGE})
        hits = self.search(scope, RecallQuery.parse(record.content[:2000], limit=2, kinds=kinds)) if kinds else ()
        like = (hit for hit in hits if max(hit.signals.get("cosine", 0.0), hit.signals.get("coverage", 0.0)) >= _SIMILAR)
        return next((hit.record for hit in like if hit.id != record.id), None)

    # -- writes ----------------------------------------------------------------------------------------------------------
    def ingest(
        self, scope: Scope, messages: list[dict[str, Any]], session: str, max_source: str, extract: bool = True
    ) -> list[Receipt]:
        """Append messages to a session; no message is trusted more than `max_source`."""
        return self._engine.learner.ingest(scope, messages, session, extract=extract, most=max_source)

    def update(
        self,
        scope: Scope,
        id: str,
        content: str | None,
        *,
        importance: float | None = None,
        metadata: dict[str, Any] | None = None,
        expected_version: int | None = None,
        max_source: str | None = None,
        occurred_at: datetime | str | None = None,
        tag: str | None = None,
    ) -> Receipt:
        """Change a record. With `max_source`, new content counts as that source's word, and so does a record that was trusted
        more."""
        record = None if max_source is None else self._store.get(scope, id)
        demoted = record is not None and trust_of(max_source or "") < record.trust
        source = max_source if content is not None or demoted else None
        return self._engine.writing.update(scope, id, content, importance, metadata, expected_version, source, occurred_at, tag)

    def set_value(self, scope: Scope, key: str, value: Any, tag: str, source: str) -> Receipt:
        return self._engine.values.set(scope, key, value, tag, source)

    def forget(self, scope: Scope, selector: Selector) -> int:
        """Erase what a selector names, and renew the summaries of the sessions it was in; the number of erased records."""
        receipt = self._store.forget(scope, selector)
        for session in receipt.summarised:
            with contextlib.suppress(KeepstoneError):  # the records are erased; a summary can be made again at any time
                self._engine.consolidator.consolidate(scope, session)
        return receipt.forgotten

    def forget_matching(self, scope: Scope, query: ListQuery) -> int:
        """Erase every record that matches; the number of erased records."""
        ids = tuple(record.id for record in self.records(scope, query))
        return self.forget(scope, Selector(ids=ids)) if ids else 0

    # -- conversations ---------------------------------------------------------------------------------------------------
    def messages(
        self, scope: Scope, session: str, *, limit: int, after: int = 0, oldest: bool = False
    ) -> Sequence[tuple[int, Record]]:
        """(sequence number, message) of a session: the last ones, or with `oldest` the first ones after a number."""
        return self._store.message_log.page(scope, session, after=after, limit=limit, oldest=oldest)

    def close_cursor(self, scope: Scope, session: str, sequence: int) -> str:
        """The cursor of a page of messages."""
        return self._engine.reading.close_cursor(scope, session, sequence)

    def open_cursor(self, scope: Scope, session: str, cursor: str) -> int:
        """The sequence number that a cursor stands for."""
        return self._engine.reading.open_cursor(scope, session, cursor)

    # -- sync -----------------------------------------------------------------------------------------------------
    def sync_changes(self, scope: Scope, cursor: str | None = None, limit: int = 500) -> dict[str, Any]:
        """A page of what changed in the scope after a cursor, for another store; from the beginning for a cursor that is not of
        this store."""
        from keepstone.maintenance.sync import read_changes

        after = 0
        with contextlib.suppress(ValidationError):
            after = self.open_cursor(scope, "sync", cursor) if cursor else 0
        if after > self._store.audit_log.last(scope):
            after = 0  # a restored backup
        latest, page = read_changes(self._store, scope, after, limit)
        return {**page, "cursor": self.close_cursor(scope, "sync", latest)}

    def sync_apply(self, scope: Scope, records: Sequence[Mapping[str, Any]], forgotten: Sequence[str]) -> dict[str, Any]:
        """Merge such a page of another store. Returns a page with what this store has instead."""
        from keepstone.maintenance.sync import apply_changes

        return apply_changes(self._store, self._engine.transfer, scope, records, forgotten)

    def sessions(self, scope: Scope, limit: int) -> Sequence[Session]:
        return self._store.message_log.sessions(scope, limit=limit)

    def conversation(self, scope: Scope, session: str, limits: dict[str, Any]) -> Conversation:
        return self._engine.sessions.open(scope, session, limits)

    def window(
        self,
        scope: Scope,
        session: str | None,
        limits: Mapping[str, Any],
        model: ChatModel | None,
        until: str | None,
    ) -> Built:
        """What a model is given of a session, or of all sessions, up to the message with the id `until`."""
        chosen = replace(self._engine.sessions.limits(limits), model=model)
        last = None if until is None else self._store.sequence_of(scope, until)
        return self._engine.window_builder.build(scope, session, chosen, until=last)

    def consolidate(self, scope: Scope, session: str, model: ChatModel | None) -> Receipt | None:
        """Store what a session came to."""
        return self._engine.consolidator.consolidate(scope, session, model)

    # -- an agent's model ------------------------------------------------------------------------------------------------
    def tool_rules(self, scope: Scope) -> str:
        """What a model with the memory tools is told about them."""
        from keepstone.agent.tools import compose_rules

        return compose_rules(self._store, scope)

    def records_with_tag(self, scope: Scope, tag: str) -> Sequence[Record]:
        """Every record with a tag but messages, the last updated first."""
        return self._engine.values.records(scope, tag)

    def standing(self, scope: Scope) -> list[Record]:
        """The standing instructions of a scope that hold, the newest first."""
        found, _ = self._engine.recalling.find_standing(scope, RecallQuery(""))
        return sorted(filter(is_instruction, found), key=lambda record: record.occurred_at, reverse=True)

    def count_reads(self, scope: Scope, ids: Iterable[str]) -> None:
        """Count a read of records that a prompt shows."""
        self._engine.recalling.count_reads(scope, ids)

    def context(
        self, scope: Scope, query: str, max_tokens: int, working: WorkingMemory, leave_out: Collection[str], said_only: bool
    ) -> tuple[str, list[str]]:
        """The block of a prompt about a query, and the ids of the memories in it."""
        return self._engine.contexts.gathered(scope, query, max_tokens, working, leave_out, said_only)

    def call_tool(self, scope: Scope, name: str, input: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        """The result of a memory tool; the options are those of `Toolbox.call`."""
        return self._engine.toolbox.call(scope, name, input, **options)

    # -- maintenance -----------------------------------------------------------------------------------------------------
    def run_upkeep(self, tenant: str, policy: UpkeepPolicy, dry_run: bool) -> RunReport:
        """Run a maintenance policy in every scope of one tenant."""
        return self._engine.upkeep_jobs.policy_runner.run(policy, dry_run, None, tenant)
