"""Learning: messages are committed first, then facts are extracted from them by a model through the queue, or at once by rules
where there is no model."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from keepstone.errors import KeepstoneError
from keepstone.learning.extraction import KIND
from keepstone.learning.facts import Parent, find_user_facts, request_from_rule
from keepstone.ports.chat import ChatModel
from keepstone.ports.queue import JobDraft
from keepstone.ports.stores import Clock, Store
from keepstone.text.times import parse_time
from keepstone.types import STEP, Message, Receipt, Scope, clean_name
from keepstone.write.flow import WriteFlow, message_request, parse_message
from keepstone.write.request import WriteRequest, trust_of

log = logging.getLogger("keepstone.learning")
NOTE = "note"


class Learner:
    """Stores messages and notes, and the facts in them."""

    def __init__(
        self,
        store: Store,
        writing: WriteFlow,
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
        most: str = "user",
    ) -> list[Receipt]:
        """Store the messages of a session in order; one receipt each. `whole`: in one transaction and without write limits, for
        imports. `most`: the most trusted source that they may count as, whatever their roles say."""
        session, most = clean_name(session, "session"), clean_name(most, "source")
        requests = [message_request(parse_message(message), session, tag, most) for message in messages]
        return self._remember(scope, requests, session, extract and tag != STEP, bulk=not whole, limited=not whole)

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
        """Store a text unchanged as a note, and the facts in it."""
        source = clean_name(source, "source")
        request = WriteRequest(
            content, kind=NOTE, tag=NOTE, metadata=metadata, source=source, session=session, occurred_at=occurred_at
        )
        return self._remember(scope, [request], session, True)[0]

    def _remember(
        self,
        scope: Scope,
        requests: Sequence[WriteRequest],
        session: str | None,
        extract: bool,
        bulk: bool = False,
        limited: bool = True,
    ) -> list[Receipt]:
        wanted = extract and self._extract and any(_is_user_text(request) for request in requests)
        job = JobDraft(KIND, session, self._clock() + self._delay) if wanted and self.model is not None else None
        receipts = self._writing.remember(scope, requests, bulk=bulk, job=job, limited=limited, each=bulk)
        if job is not None:
            self._wake()
        elif wanted:
            return self._learn_by_rules(scope, requests, receipts)
        return receipts

    def _learn_by_rules(self, scope: Scope, requests: Sequence[WriteRequest], receipts: list[Receipt]) -> list[Receipt]:
        """The receipts with the facts that rules found. The messages are committed already, so a failure here is only logged."""
        now = self._clock()
        requested: list[tuple[int, WriteRequest]] = []
        try:
            for at, (request, receipt) in enumerate(zip(requests, receipts, strict=True)):
                if receipt.action in ("added", "redacted") and _is_user_text(request):
                    redacted = self._store.get(scope, receipt.id or "") if receipt.action == "redacted" else None
                    facts = find_user_facts(request.content if redacted is None else redacted.content, request.name)
                    facts = [fact for fact in facts if "[redacted:" not in fact.content]
                    requested += [(at, request_from_rule(fact, request.name, _parent(request, receipt, now))) for fact in facts]
            stored = self._writing.remember(scope, [fact for _, fact in requested], bulk=True) if requested else []
        except KeepstoneError as error:
            log.warning("the learned facts could not be stored: %s", error)
            return receipts
        learned: dict[int, list[str]] = {}
        for (at, _), fact in zip(requested, stored, strict=True):
            if fact.id is not None and fact.action != "refused" and fact.id not in learned.setdefault(at, []):
                learned[at].append(fact.id)
        return [
            replace(receipt, learned=tuple(learned[at])) if learned.get(at) else receipt for at, receipt in enumerate(receipts)
        ]


def _is_user_text(request: WriteRequest) -> bool:
    """Whether a request holds the user's own words."""
    return request.role in (None, "user") and request.source.partition(":")[0] == "user"


def _parent(request: WriteRequest, receipt: Receipt, now: datetime) -> Parent:
    """The parent of a fact, without reading back the new record."""
    at = now if request.occurred_at is None else parse_time(request.occurred_at, "occurred_at")
    return Parent(receipt.id or "", request.source, trust_of(request.source), request.session, at)
