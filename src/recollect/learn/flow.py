"""Learning end to end: messages are committed first, then facts are looked for in them; by a model through the queue, or at once
by rules where there is none. Imports: ports, desk, write, rooms beside it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from recollect.chat import ChatModel
from recollect.desk import JobDraft
from recollect.errors import RecollectError
from recollect.learn.extraction import KIND
from recollect.learn.facts import from_rules
from recollect.ports import Clock, Store
from recollect.types import Message, Receipt, Record, Scope, clean_name
from recollect.write.flow import Writing, message_of, message_request
from recollect.write.request import WriteRequest

log = logging.getLogger("recollect.learn")
NOTE = "note"
STEP = "step"


class Learning:
    """ingest, learn: one scope's words, and the facts in them."""

    def __init__(
        self,
        store: Store,
        writing: Writing,
        model: ChatModel | None,
        clock: Clock,
        wake: Callable[[], None],
        delay: float,
        extract: bool,
    ) -> None:
        self._store = store
        self._writing = writing
        self.model = model
        self._clock = clock
        self._wake = wake
        self._delay = timedelta(seconds=delay)
        self._extract = extract

    def ingest(
        self,
        scope: Scope,
        messages: Iterable[Message | Mapping[str, Any]],
        session: str,
        *,
        extract: bool = True,
        whole: bool = False,
        tag: str = "general",
    ) -> list[Receipt]:
        """What was said in a session, in order; a receipt for each. `whole`: in one transaction, however many."""
        session = clean_name(session, "session")
        requests = [message_request(message_of(message), session, tag) for message in messages]
        return self._stored(scope, requests, session, extract and tag != STEP, bulk=not whole)

    def learn(
        self,
        scope: Scope,
        content: str,
        *,
        metadata: Mapping[str, Any] | None,
        source: str,
        session: str | None,
        occurred_at: datetime | str | None,
    ) -> Receipt:
        """A text kept as it is, as a note, and the facts in it."""
        request = WriteRequest(
            content, kind=NOTE, tag=NOTE, metadata=metadata, source=source, session=session, occurred_at=occurred_at
        )
        return self._stored(scope, [request], session, True)[0]

    def _stored(
        self, scope: Scope, requests: Sequence[WriteRequest], session: str | None, extract: bool, bulk: bool = False
    ) -> list[Receipt]:
        wanted = extract and self._extract and any(_telling(request) for request in requests)
        job = JobDraft(KIND, session, self._clock() + self._delay) if wanted and self.model is not None else None
        receipts = self._writing.remember(scope, requests, bulk=bulk, job=job)
        if job is not None:
            self._wake()
        elif wanted:
            return self._by_rules(scope, requests, receipts)
        return receipts

    def _by_rules(self, scope: Scope, requests: Sequence[WriteRequest], receipts: list[Receipt]) -> list[Receipt]:
        """Receipts that say which facts the rules have found. The words are safe already: whatever fails here is only said."""
        now = self._clock()
        found: list[tuple[int, WriteRequest]] = []
        try:
            for at, (request, receipt) in enumerate(zip(requests, receipts, strict=True)):
                if receipt.id is not None and receipt.action == "added" and _telling(request):
                    found += [(at, fact) for fact in from_rules(_written(scope, request, receipt, now))]
            facts = self._writing.remember(scope, [fact for _, fact in found], bulk=True) if found else []
        except RecollectError as error:
            log.warning("facts were found and could not be stored: %s", error)
            return receipts
        learned: dict[int, list[str]] = {}
        for (at, _), fact in zip(found, facts, strict=True):
            if fact.id is not None and fact.id not in learned.setdefault(at, []):
                learned[at].append(fact.id)
        return [
            replace(receipt, learned=tuple(learned[at])) if learned.get(at) else receipt for at, receipt in enumerate(receipts)
        ]


def _telling(request: WriteRequest) -> bool:
    """Whether facts about the user may stand in it: the user's own words."""
    return request.role in (None, "user") and request.source.partition(":")[0] == "user"


def _written(scope: Scope, request: WriteRequest, receipt: Receipt, now: datetime) -> Record:
    """The record a request has become, without reading it back."""
    draft = request.draft(now)
    return Record(
        id=receipt.id or "", scope=scope, kind=draft.kind, tag=draft.tag, key=None, content=draft.content, metadata={},
        importance=draft.importance, source=draft.source, trust=draft.trust, session=draft.session, role=draft.role,
        name=draft.name, occurred_at=draft.occurred_at, created_at=now, updated_at=now, valid_from=draft.occurred_at,
        valid_to=None, expires_at=None, last_accessed_at=None, access_count=0, version=1, status="active",
    )  # fmt: skip
