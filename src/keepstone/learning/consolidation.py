"""What a session came to, as one memory that names its parents.

With a model: facts about the user, decisions, open tasks. Without one: the sentences that carry them. A session consolidated
again supersedes what it was; the messages stay.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace

from keepstone.errors import ModelError
from keepstone.ports.chat import ChatModel
from keepstone.ports.stores import Clock, Store
from keepstone.text.token_count import estimate_tokens
from keepstone.types import NAME_LIMIT, Receipt, Record, Scope, Usage, clean_name
from keepstone.write.flow import WriteFlow
from keepstone.write.request import WriteRequest

log = logging.getLogger("keepstone.learning")
KIND = "summary"
FEWEST = 4  # messages: a shorter session is left alone
_MOST = 2000  # the newest so many messages are read
_TOKENS = 400
_PIECE = 8000  # tokens of turns that a model reads


class ConversationConsolidator:
    """consolidate: a session's turns to a short list."""

    def __init__(self, store: Store, writing: WriteFlow, model: ChatModel | None, clock: Clock) -> None:
        self._store = store
        self._writing = writing
        self.model = model
        self._clock = clock

    def consolidate(self, scope: Scope, session: str, model: ChatModel | None = None) -> Receipt | None:
        """Store what a session came to; None if too little was said, or nothing that outlasts it."""
        session = clean_name(session, "session")
        turns = [record for _, record in self._store.message_log.page(scope, session, limit=_MOST)]
        spoken = [record for record in turns if record.source in ("user", "agent") and record.role in ("user", "assistant")]
        spoken = [record for record in spoken if record.tag != "step"]
        if len(spoken) < FEWEST:
            return None
        text, usage = self._text(spoken, model or self.model)
        if not text:
            return None
        least = min(spoken, key=lambda record: record.trust)
        request = WriteRequest(
            text,
            kind=KIND,
            tag="session",
            key=_key(session),
            importance=0.6,
            metadata={"messages": len(spoken)},
            source=f"{least.source.partition(':')[0]}:summary",
            session=session,
            occurred_at=spoken[-1].occurred_at,
            parents=tuple(record.id for record in spoken),
            made_from=tuple((record.id, record.version) for record in spoken),
            trust=least.trust,
        )
        receipt = self._writing.remember(scope, [request])[0]
        return replace(receipt, usage=usage) if usage.calls else receipt

    def _text(self, spoken: list[Record], model: ChatModel | None) -> tuple[str, Usage]:
        if model is not None:
            try:
                return self._by_model(model, spoken)
            except ModelError as error:
                log.warning("no consolidation from the model, sentences are picked out instead: %s", error)
        from keepstone.conversation import extractive_summary

        turns = [
            extractive_summary.Turn(record.role or "user", record.content, record.name, record.occurred_at) for record in spoken
        ]
        return extractive_summary.summarise(turns, max_tokens=_TOKENS, count=estimate_tokens), Usage()

    def _by_model(self, model: ChatModel, spoken: list[Record]) -> tuple[str, Usage]:
        from keepstone.prompts import consolidation as prompt
        from keepstone.prompts.extraction import Line

        lines: list[Line] = []
        spent = 0
        for record in reversed(spoken):
            spent += estimate_tokens(record.content[:4000])
            if lines and spent > _PIECE:
                break
            lines.append(Line(record.role or "user", record.content, record.name, record.occurred_at))
        lines.reverse()
        answer = model.ask(prompt.render(lines, now=self._clock(), max_tokens=4096))
        found = prompt.read(answer.text, lines)
        if found is None:
            raise ModelError(f"{model.id} answered with something that is not the JSON it was asked for.")
        return prompt.as_text(found), answer.usage


def _key(session: str) -> str:
    """What a session's summary is kept under; a name that is too long for a key is there by its hash."""
    key = f"session:{session}"
    return key if len(key) <= NAME_LIMIT else f"session:{hashlib.blake2b(session.encode(), digest_size=16).hexdigest()}"
