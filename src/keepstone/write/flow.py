"""The write path: screen, embed, find duplicates, commit, receipt.

A local embedder is called before the commit, so that text, words and vector are stored together. A hosted embedder is called
after it: the text is stored before the provider is called, and is recallable by its words if the provider fails.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

from keepstone.errors import EmbedderError, EmbedderMismatch, TooLarge, ValidationError
from keepstone.guard.guard import Guard
from keepstone.ports.queue import JobDraft
from keepstone.ports.stores import Clock, Embedder, Store
from keepstone.ports.values import Draft, Limit, Merge, MergeCheck, Pending, Revision, Screening, Vector, Write
from keepstone.ports.vectors import embed_texts
from keepstone.text.passages import Passage, embedding_texts, further_passages, passage_number
from keepstone.text.times import parse_time
from keepstone.text.words import record_terms
from keepstone.types import MESSAGE, STEP, Message, Receipt, Record, Scope, clean_name
from keepstone.write.blocks import is_tool_only, split_content
from keepstone.write.request import WriteRequest, check_content, check_importance, check_metadata, derive, gist_of, trust_of

MAX_BATCH = 100
_BULK_WRITES = 1000  # writes in one transaction of a bulk
_MESSAGE_FIELDS = {"role", "content", "name", "at", "metadata", "id"}
_STORED = ("added", "superseded", "merged", "updated", "quarantined", "redacted")
# Tags of which a subject has one value at a time, where metadata names the subject: a new value supersedes the old.
SINGLE_VALUED = frozenset(
    ("name", "birthday", "email", "phone", "address", "city", "country", "timezone", "employer", "job", "pronouns")
)


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Writes a minute in a scope and by source (or class of sources), and the least time between two; 0: no limit."""

    per_minute: int = 0
    by_source: Mapping[str, int] = field(default_factory=dict)
    interval: float = 0.0

    def of(self, source: str) -> tuple[Limit, ...]:
        """The buckets that a write of this source takes from.

        >>> [limit.name for limit in RateLimits(60, {"web": 10, "user": 5}).of("web:https://example.org")]
        ['writes', 'writes from web']
        """
        found = []
        if self.per_minute or self.interval:
            burst = float(self.per_minute or 1)
            found.append(Limit("writes", burst, self.per_minute / 60.0, self.interval))
        kind, sign, detail = source.partition(":")
        for name in dict.fromkeys((f"{kind.strip().lower()}{sign}{detail}", kind.strip().lower())):
            most = self.by_source.get(name, 0)
            if most:
                found.append(Limit(f"writes from {name}", float(most), most / 60.0))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class WriteRules:
    """The settings of writes: rate limits, and the tags of which a subject has one value at a time, the default time to live."""

    limits: RateLimits = field(default_factory=RateLimits)
    single_valued: frozenset[str] = SINGLE_VALUED
    default_ttl: timedelta = timedelta(0)  # of memories that name none; 0: they do not expire

    def has_default_ttl(self, draft: Draft) -> bool:
        """Whether a draft without a time to live gets the default one."""
        return bool(self.default_ttl) and draft.expires_at is None and draft.key is None and draft.kind != MESSAGE

    def with_subject_key(self, draft: Draft) -> Draft:
        """A draft with the key of its subject and single-valued tag, if it has no key of its own."""
        subject = draft.metadata.get("subject")
        if draft.key is not None or draft.kind != "fact" or draft.tag not in self.single_valued or not isinstance(subject, str):
            return draft
        owner = "_".join(subject.casefold().split())[:120]
        key = f"{owner}.{draft.tag}"
        return replace(draft, key=key) if owner else draft


class WriteFlow:
    """remember, update: writes to one scope."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        clock: Clock,
        guard: Guard,
        rules: WriteRules,
        find_replaced: Callable[[Scope, Draft], Mapping[str, float]] = lambda scope, draft: {},
    ) -> None:
        self._store = store
        self._find_replaced = find_replaced
        self.embedder = embedder
        self._clock = clock
        self._guard = guard
        self._rules = rules

    def remember_many(self, scope: Scope, items: Iterable[str | Mapping[str, Any]]) -> list[Receipt]:
        """A batch in one transaction. An item that cannot be taken has a receipt that says why; the others are stored."""
        return self.remember(scope, [WriteRequest.of(item) for item in _check_batch(items)], each=True)

    def remember(
        self,
        scope: Scope,
        requests: Sequence[WriteRequest],
        *,
        bulk: bool = False,
        job: JobDraft | None = None,
        limited: bool = True,
        each: bool = False,
    ) -> list[Receipt]:
        """Store some requests in one transaction (a bulk in several, of at most 1,000) and return a receipt for each. A job is
        queued with them. A request that is derived from a record which no longer exists is refused. `each`: a request that cannot
        be taken is refused by its receipt and does not stop the others; a request alone raises what is wrong with it."""
        if bulk and len(requests) > _BULK_WRITES:  # drafts and vectors of one transaction are in memory at a time
            half = len(requests) // 2
            parts = requests[:half], requests[half:]
            return [
                receipt
                for part in parts
                for receipt in self.remember(scope, part, bulk=True, job=job, limited=limited, each=each)
            ]
        now = self._clock()
        refused: dict[int, Receipt] = {}
        screened: list[tuple[Draft, str | None, Screening]] = []
        for at, request in enumerate(requests):
            try:
                screened.append(self._screen(request, now))
            except ValidationError as error:
                if not each or len(requests) == 1:
                    raise
                refused[at] = Receipt("refused", None, 0, (str(error),))
        if refused:
            requests = [request for at, request in enumerate(requests) if at not in refused]
        drafts = [draft for draft, _, _ in screened]
        derive(drafts)
        self._embed_drafts(drafts)
        writes = [
            Write(
                draft,
                merge_check=self._merge_check(request, draft),
                idempotency_key=key,
                fingerprint=request.fingerprint(draft) if key is not None else "",
                made_from=request.made_from,
                replaces=request.replaces,
                limits=self._rules.limits.of(draft.source) if limited and not request.made_from else (),
                screening=screening,
            )
            for request, (draft, key, screening) in zip(requests, screened, strict=True)
        ]
        receipts = list(self._store.write(scope, writes, job)) if writes else []
        if self.embedder is not None and not all(draft.vector is not None for draft in drafts):
            receipts = self._embed_late(scope, drafts, receipts)
        if len(drafts) == 1 and not bulk:
            receipts = [self._with_replaced(scope, draft, receipt) for draft, receipt in zip(drafts, receipts, strict=True)]
        for at, receipt in sorted(refused.items()):
            receipts.insert(at, receipt)
        return receipts

    def _with_replaced(self, scope: Scope, draft: Draft, receipt: Receipt) -> Receipt:
        """The receipt of a new statement with what it may replace."""
        if receipt.action != "added" or draft.kind == MESSAGE or draft.vector is None:
            return receipt
        return replace(receipt, may_replace=self._find_replaced(scope, draft))

    def _merge_check(self, request: WriteRequest, draft: Draft) -> MergeCheck | None:
        by_default = bool(self._rules.default_ttl) and request.ttl is None
        return None if draft.dedup_key is None else partial(_check_merge, draft, by_default)

    def _screen(self, request: WriteRequest, now: datetime) -> tuple[Draft, str | None, Screening]:
        """A request as the guard lets it through: its draft, its idempotency key, the outcome of the screening."""
        draft = request.draft(now)
        if not request.replaces:
            draft = self._rules.with_subject_key(draft)
        draft, key, screening = self._guard.screen(draft, request.clean_idempotency_key(), hold=not request.replaces)
        if self._rules.has_default_ttl(draft):  # what the guard lets expire sooner keeps that time
            draft = replace(draft, expires_at=now + self._rules.default_ttl)
        return draft, key, screening

    def on_store(self, store: Store) -> WriteFlow:
        """The same flow on another view of the store."""
        flow = copy.copy(self)
        flow._store = store
        return flow

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
        tag: str | None = None,
    ) -> Receipt:
        """Change one record. `source`: the source of the new content, if not that of the record; `occurred_at`: since when the
        new content holds, if not from now on."""
        id = clean_name(id, "id")
        if content is None and importance is None and metadata is None and tag is None:
            raise ValidationError("nothing to update: give content, importance, metadata or tag.")
        if expected_version is not None and (isinstance(expected_version, bool) or not isinstance(expected_version, int)):
            raise ValidationError(f"expected_version is {expected_version!r:.40}: use the version of the record you read.")
        revision = Revision(
            importance=None if importance is None else check_importance(importance),
            metadata=None if metadata is None else check_metadata(metadata),
            expected_version=expected_version,
            source=source,
            trust=None if source is None else trust_of(source),
            valid_from=None if occurred_at is None else parse_time(occurred_at, "occurred_at"),
            tag=None if tag is None else clean_name(tag, "tag"),
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
        vector, passages = self._embed_passages([(revision.content, key)])[0]
        receipt = self._store.revise(scope, id, replace(revision, vector=vector, passages=passages))
        if vector is None and self.embedder is not None and receipt.action in _STORED:
            return self._attach(scope, [(receipt, revision.content, key)], [receipt])[0]
        return receipt

    # -- vectors --------------------------------------------------------------------------------------------------
    def _embed_drafts(self, drafts: Sequence[Draft]) -> None:
        """Give drafts their vectors and passages."""
        embedded = self._embed_passages([(draft.content, draft.key) for draft in drafts])
        for draft, (vector, passages) in zip(drafts, embedded, strict=True):
            draft.vector, draft.passages = vector, passages

    def _embed_passages(self, texts: Sequence[tuple[str, str | None]]) -> list[tuple[Vector | None, tuple[Passage, ...]]]:
        """Of each (content, key) the vector of its first passage, and the further passages with theirs."""
        passages = [embedding_texts(content, key) for content, key in texts]
        vectors = iter(self._vectors([text for parts in passages for text in parts]))
        return [
            (next(vectors), self._further(content, key, vectors) if len(parts) > 1 else ())
            for (content, key), parts in zip(texts, passages, strict=True)
        ]

    @staticmethod
    def _further(content: str, key: str | None, vectors: Iterator[Vector | None]) -> tuple[Passage, ...]:
        return tuple(passage._replace(vector=next(vectors)) for passage in further_passages(content, key))

    def _vectors(self, texts: Sequence[str]) -> Sequence[Vector | None]:
        """Vectors made before the commit; None where the embedder is called after it, or fails."""
        if self.embedder is None or not self.embedder.local or not texts:
            return [None] * len(texts)
        try:
            return list(embed_texts(self.embedder, texts))
        except EmbedderError:
            return [None] * len(texts)

    def _embed_late(self, scope: Scope, drafts: Sequence[Draft], receipts: list[Receipt]) -> list[Receipt]:
        wanted = [
            (receipt, draft.content, draft.key)
            for draft, receipt in zip(drafts, receipts, strict=True)
            if draft.vector is None and receipt.action in _STORED and self._has_content(scope, receipt, draft)
        ]
        return self._attach(scope, wanted, receipts)

    def _has_content(self, scope: Scope, receipt: Receipt, draft: Draft) -> bool:
        """Whether the record has the draft's content; a draft that was merged into another needs no vector."""
        if receipt.action not in ("merged", "redacted"):
            return True
        record = self._store.get(scope, receipt.id or "")
        return record is not None and record.content == draft.content

    def _attach(self, scope: Scope, wanted: Sequence[tuple[Receipt, str, str | None]], receipts: list[Receipt]) -> list[Receipt]:
        """Embed stored records; the receipts of those that could not be embedded say so."""
        if not wanted:
            return receipts
        assert self.embedder is not None
        try:
            texts = [embedding_texts(content, key) for _, content, key in wanted]
            vectors = iter(embed_texts(self.embedder, [text for passages in texts for text in passages]))
            self._store.bind_embedder(self.embedder.id, self.embedder.dimension)
            pairs: list[tuple[Pending, Vector]] = []
            for (receipt, _, _), passages in zip(wanted, texts, strict=True):
                sequence = self._store.sequence_of(scope, receipt.id or "")
                for place, (text, vector) in enumerate(zip(passages, islice(vectors, len(passages)), strict=True)):
                    if sequence is not None:
                        pairs.append((Pending(scope, passage_number(sequence, place), receipt.version, text), vector))
            self._store.attach(pairs)
        except (EmbedderError, EmbedderMismatch) as error:
            unembedded = {receipt.id for receipt, _, _ in wanted}
            reason = f"stored and recallable by its words, but not embedded yet: {error} Run upkeep.reembed() to try again."
            return [
                replace(receipt, reasons=(*receipt.reasons, reason)) if receipt.id in unembedded else receipt
                for receipt in receipts
            ]
        return receipts


def _check_merge(draft: Draft, default_expiry: bool, record: Record) -> Merge | None:
    """How a draft is merged into a record with the same statement in other words; None if the statements differ. With
    `default_expiry` the draft expires when settings say, which is no difference to a record that expires too."""
    from keepstone.text.near_duplicates import compare  # with its word lists: only writing needs it

    if (
        _comparable(record.metadata) != _comparable(draft.metadata)
        or not _same_expiry(record, draft, default_expiry)
        or record.trust > draft.trust
    ):
        return None  # metadata or expiry differ, or a less trusted source would reword it
    verdict = compare(draft.content, record.content)
    return Merge(verdict.replace, verdict.reason) if verdict.same else None


def _same_expiry(record: Record, draft: Draft, default_expiry: bool) -> bool:
    both = record.expires_at is not None and draft.expires_at is not None
    return record.expires_at == draft.expires_at or (default_expiry and both)


def _comparable(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata without the confidence and the origin of an import."""
    return {name: value for name, value in metadata.items() if name not in ("confidence", "imported")}


def _check_batch(items: Iterable[Any]) -> list[Any]:
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise ValidationError("items must be a list of texts or dictionaries, not a single one: use remember() for that.")
    listed = list(items)
    if len(listed) > MAX_BATCH:
        raise TooLarge(f"a batch has {len(listed)} items, the limit is {MAX_BATCH}: send several batches.")
    return listed


def parse_message(message: Message | Mapping[str, Any]) -> Message:
    """A message from a message or a dictionary of its fields."""
    if isinstance(message, Mapping):
        unknown = sorted(set(message) - _MESSAGE_FIELDS)
        if unknown or "role" not in message or "content" not in message:
            problem = f"has the unknown field {unknown[0]!r:.60}" if unknown else "needs 'role' and 'content'"
            raise ValidationError(f"a message {problem}: use role, content, name, at, metadata.")
        message = Message(**message)
    if not isinstance(message, Message):
        raise ValidationError(f"a message must be a Message or a dictionary, got {type(message).__name__}.")
    return message


def message_request(message: Message, session: str, tag: str = "general", most: str = "user") -> WriteRequest:
    """A message as a write request. Its source follows its role, and is trusted no more than the source `most`."""
    problem: ValidationError | None = None
    try:
        text, blocks = split_content(message.content)
    except ValidationError as error:
        text, blocks, problem, message = "", None, error, replace(message, content="")
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
        problem=problem,
    )


def _source(message: Message) -> str:
    """The source of a message: tool results come from the tool, in whichever role they are sent."""
    if message.role == "assistant":
        return "agent"
    if message.role == "tool" or (not isinstance(message.content, str) and _has_tool_result(message.content)):
        return "tool"
    return "user"


def _has_tool_result(blocks: Sequence[Mapping[str, Any]]) -> bool:
    return any(block.get("type") == "tool_result" for block in blocks)
