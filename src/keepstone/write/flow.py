"""The write path end to end: guard, embed, find what it repeats, commit, receipt.

An embedder that runs in this process is asked before the commit, so that text, words and vector go in together. Any other
is asked after it: the text is safe before a provider is called, and stays recallable by its words if the provider fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from keepstone.errors import EmbedderError, EmbedderMismatch, TooLarge, ValidationError
from keepstone.guard.guard import Guard
from keepstone.ports.queue import JobDraft
from keepstone.ports.stores import Clock, Embedder, Store
from keepstone.ports.values import Draft, Merge, Pending, Revision, Screening, Vector, Write
from keepstone.ports.vectors import embed_texts
from keepstone.text.times import parse_time
from keepstone.text.words import index_text, record_terms
from keepstone.types import MESSAGE, STEP, Message, Receipt, Record, Scope, clean_name
from keepstone.write.blocks import is_tool_only, split_content
from keepstone.write.limits import RateLimits
from keepstone.write.request import WriteRequest, check_content, check_importance, check_metadata, gist_of, trust_of

MAX_BATCH = 100
_MESSAGE_FIELDS = {"role", "content", "name", "at", "metadata", "id"}
_STORED = ("added", "superseded", "merged", "updated", "quarantined", "redacted")
# Of these a subject has one at a time, where metadata names the subject: a new one supersedes the old.
SINGLE_VALUED = frozenset(
    ("name", "birthday", "email", "phone", "address", "city", "country", "timezone", "employer", "job", "pronouns")
)


@dataclass(frozen=True, slots=True)
class WriteRules:
    """What the settings say of writes: the rate limits, and the tags of which a subject has one at a time."""

    limits: RateLimits = field(default_factory=RateLimits)
    single_valued: frozenset[str] = SINGLE_VALUED

    def settled(self, draft: Draft) -> Draft:
        """A draft under the key that its subject has for a single-valued tag, if it has no key of its own."""
        subject = draft.metadata.get("subject")
        if draft.key is not None or draft.kind != "fact" or draft.tag not in self.single_valued or not isinstance(subject, str):
            return draft
        owner = "_".join(subject.casefold().split())[:120]
        key = f"{owner}.{draft.tag}"
        return replace(draft, key=key, terms=record_terms(draft.content, key), dedup_key=None) if owner else draft


class WriteFlow:
    """remember, update: one scope's writes to a store."""

    def __init__(self, store: Store, embedder: Embedder | None, clock: Clock, guard: Guard, rules: WriteRules) -> None:
        self._store = store
        self.embedder = embedder
        self._clock = clock
        self._guard = guard
        self._rules = rules

    def remember_many(self, scope: Scope, items: Iterable[str | Mapping[str, Any]]) -> list[Receipt]:
        """A batch, all or none."""
        return self.remember(scope, [WriteRequest.of(item) for item in _bounded(items)])

    def remember(
        self,
        scope: Scope,
        requests: Sequence[WriteRequest],
        *,
        bulk: bool = False,
        job: JobDraft | None = None,
        limited: bool = True,
    ) -> list[Receipt]:
        """Settle some requests in one transaction (a bulk in several of 1,000) and say what became of each. A job is queued
        with them. Those that are derived from others are refused if these have gone."""
        now = self._clock()
        looked = [self._looked(request, now) for request in requests]
        vectors = self._vectors([index_text(draft.content, draft.key) for draft, _, _ in looked])
        drafts = [replace(draft, vector=vector) for (draft, _, _), vector in zip(looked, vectors, strict=True)]
        writes = [
            Write(
                draft,
                merge_check=None if draft.dedup_key is None else partial(_judged, draft),
                idempotency_key=key,
                fingerprint=request.fingerprint(draft) if key is not None else "",
                made_from=request.made_from,
                replaces=request.replaces,
                limits=self._rules.limits.of(draft.source) if limited and not request.made_from else (),
                screening=screening,
            )
            for request, draft, (_, key, screening) in zip(requests, drafts, looked, strict=True)
        ]
        step = 1000 if bulk else max(1, len(writes))
        receipts = [
            receipt for at in range(0, len(writes), step) for receipt in self._store.write(scope, writes[at : at + step], job)
        ]
        if self.embedder is not None and not all(draft.vector is not None for draft in drafts):
            return self._embed_late(scope, drafts, receipts)
        return receipts

    def _looked(self, request: WriteRequest, now: datetime) -> tuple[Draft, str | None, Screening]:
        """A request as the guard lets it through: its draft, its idempotency key, what the guard says."""
        draft = request.draft(now)
        if not request.replaces:
            draft = self._rules.settled(draft)
        return self._guard.screen(draft, request.clean_idempotency_key())

    def update(
        self,
        scope: Scope,
        id: str,
        content: str | None,
        importance: float | None,
        metadata: Mapping[str, Any] | None,
        expected_version: int | None,
        source: str | None = None,
        occurred_at: datetime | str | None = None,
    ) -> Receipt:
        """Change one record. `source`: whose words they are, if not those of whoever said it first; `occurred_at`: since when
        the new content holds, if not from now on."""
        id = clean_name(id, "id")
        if content is None and importance is None and metadata is None:
            raise ValidationError("nothing to update: give content, importance or metadata.")
        if expected_version is not None and (isinstance(expected_version, bool) or not isinstance(expected_version, int)):
            raise ValidationError(f"expected_version is {expected_version!r:.40}: use the version of the record you read.")
        revision = Revision(
            importance=None if importance is None else check_importance(importance),
            metadata=None if metadata is None else check_metadata(metadata),
            expected_version=expected_version,
            source=source,
            trust=None if source is None else trust_of(source),
            valid_from=None if occurred_at is None else parse_time(occurred_at, "occurred_at"),
        )
        present = self._store.get(scope, id)
        key, kind = (None, "") if present is None else (present.key, present.kind)
        by = source or (None if present is None else present.source)
        revision = replace(revision, limits=() if by is None else self._rules.limits.of(by))
        if content is not None:
            content = check_content(content)
            revision = replace(revision, content=content, terms=record_terms(content, key), dedup_key=gist_of(content, kind, key))
        revision = self._guard.screen_revision(revision, present)
        if revision.content is None:
            return self._store.revise(scope, id, revision)
        text = index_text(revision.content, key)
        vector = self._vectors([text])[0]
        receipt = self._store.revise(scope, id, replace(revision, vector=vector))
        if vector is None and self.embedder is not None and receipt.action in _STORED:
            return self._attach(scope, [(receipt, text)], [receipt])[0]
        return receipt

    # -- vectors --------------------------------------------------------------------------------------------------
    def _vectors(self, texts: Sequence[str]) -> Sequence[Vector | None]:
        """Vectors made before the commit; None where the embedder is asked after it, or fails."""
        if self.embedder is None or not self.embedder.local or not texts:
            return [None] * len(texts)
        try:
            return list(embed_texts(self.embedder, texts))
        except EmbedderError:
            return [None] * len(texts)

    def _embed_late(self, scope: Scope, drafts: Sequence[Draft], receipts: list[Receipt]) -> list[Receipt]:
        wanted = [
            (receipt, index_text(draft.content, draft.key))
            for draft, receipt in zip(drafts, receipts, strict=True)
            if draft.vector is None and receipt.action in _STORED and self._holds(scope, receipt, draft)
        ]
        return self._attach(scope, wanted, receipts)

    def _holds(self, scope: Scope, receipt: Receipt, draft: Draft) -> bool:
        """Whether the record has the draft's wording; one that was merged away needs no vector."""
        if receipt.action not in ("merged", "redacted"):
            return True
        record = self._store.get(scope, receipt.id or "")
        return record is not None and record.content == draft.content

    def _attach(self, scope: Scope, wanted: Sequence[tuple[Receipt, str]], receipts: list[Receipt]) -> list[Receipt]:
        """Give stored records their vectors; receipts of those that could not be embedded say so."""
        if not wanted:
            return receipts
        assert self.embedder is not None
        try:
            vectors = embed_texts(self.embedder, [text for _, text in wanted])
            self._store.bind_embedder(self.embedder.id, self.embedder.dimension)
            pairs: list[tuple[Pending, Vector]] = []
            for (receipt, text), vector in zip(wanted, vectors, strict=True):
                sequence = self._store.sequence_of(scope, receipt.id or "")
                if sequence is not None:
                    pairs.append((Pending(scope, sequence, receipt.version, text), vector))
            self._store.attach(pairs)
        except (EmbedderError, EmbedderMismatch) as error:
            waiting = {receipt.id for receipt, _ in wanted}
            reason = f"stored and recallable by its words, but not embedded yet: {error} Run upkeep.reembed() to try again."
            return [replace(each, reasons=(*each.reasons, reason)) if each.id in waiting else each for each in receipts]
        return receipts


def _judged(draft: Draft, record: Record) -> Merge | None:
    """How a draft goes into a record that says the same in other words; None if it does not say the same."""
    from keepstone.text.near_duplicates import compare  # with its word lists: only writing needs it

    if _said(record.metadata) != _said(draft.metadata) or record.expires_at != draft.expires_at or record.trust > draft.trust:
        return None  # it differs in what it says or how long, or would let a less trusted source reword it
    verdict = compare(draft.content, record.content)
    return Merge(verdict.replace, verdict.reason) if verdict.same else None


def _said(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of a record, but for how sure somebody was and where it was imported from."""
    return {name: value for name, value in metadata.items() if name not in ("confidence", "imported")}


def _bounded(items: Iterable[Any]) -> list[Any]:
    if isinstance(items, (str, bytes, Mapping)):
        raise ValidationError("items must be a list of texts or dictionaries, not a single one: use remember() for that.")
    listed = list(items)
    if len(listed) > MAX_BATCH:
        raise TooLarge(f"a batch has {len(listed)} items, the limit is {MAX_BATCH}: send several batches.")
    return listed


def parse_message(given: Message | Mapping[str, Any]) -> Message:
    """A message from a message or a dictionary of its fields."""
    if isinstance(given, Mapping):
        unknown = sorted(set(given) - _MESSAGE_FIELDS)
        if unknown or "role" not in given or "content" not in given:
            problem = f"has the unknown field {unknown[0]!r:.60}" if unknown else "needs 'role' and 'content'"
            raise ValidationError(f"a message {problem}: use role, content, name, at, metadata.")
        given = Message(**given)
    if not isinstance(given, Message):
        raise ValidationError(f"a message must be a Message or a dictionary, got {type(given).__name__}.")
    return given


def message_request(message: Message, session: str, tag: str = "general", most: str = "user") -> WriteRequest:
    """A message as a write; its role says whose words they are, as far as whoever brings it is trusted (`most`)."""
    text, blocks = split_content(message.content)
    return WriteRequest(
        text,
        kind=MESSAGE,
        tag=STEP if blocks is not None and is_tool_only(message.content) else tag,
        metadata=message.metadata,
        source=_source(message) if trust_of(_source(message)) <= trust_of(most) else most,
        session=session,
        occurred_at=message.at,
        role=message.role,
        name=message.name,
        blocks=blocks,
    )


def _source(message: Message) -> str:
    """The channel a message came by: tool results are the tool's words, whoever hands them over."""
    if message.role == "assistant":
        return "agent"
    if message.role == "tool" or (not isinstance(message.content, str) and _results(message.content)):
        return "tool"
    return "user"


def _results(blocks: Sequence[Mapping[str, Any]]) -> bool:
    return any(block.get("type") == "tool_result" for block in blocks)
