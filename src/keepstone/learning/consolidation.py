"""Consolidation of a session into one summary memory that names its parents.

With a model it lists facts about the user, decisions and open tasks; without one, the sentences that carry them. A later
consolidation supersedes an earlier one; the messages stay.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from keepstone.errors import ModelError
from keepstone.ports.chat import ChatModel
from keepstone.ports.stores import Clock, Store
from keepstone.text.token_count import estimate_tokens
from keepstone.types import NAME_LIMIT, Receipt, Record, Scope, Usage, clean_name
from keepstone.write.flow import WriteFlow
from keepstone.write.request import WriteRequest

if TYPE_CHECKING:
    from keepstone.prompts.extraction import Line

log = logging.getLogger("keepstone.learning")
KIND = "summary"
MIN_MESSAGES = 4  # shorter sessions are not consolidated
_MAX_MESSAGES = 2000  # read, the newest
_MAX_SUMMARY_TOKENS = 400
_MAX_PROMPT_TOKENS = 8000  # of messages


class ConversationConsolidator:
    """Condenses a session to a short list."""

    def __init__(self, store: Store, writing: WriteFlow, model: ChatModel | None, clock: Clock) -> None:
        self._store = store
        self._writing = writing
        self.model = model
        self._clock = clock

    def consolidate(self, scope: Scope, session: str, model: ChatModel | None = None) -> Receipt | None:
        """Store the summary of a session; None if it is too short or has no lasting content."""
        session = clean_name(session, "session")
        turns = [record for _, record in self._store.message_log.page(scope, session, limit=_MAX_MESSAGES)]
        spoken = [record for record in turns if record.source in ("user", "agent") and record.role in ("user", "assistant")]
        spoken = [record for record in spoken if record.tag != "step"]
        if len(spoken) < MIN_MESSAGES:
            return None
        text, usage, reasons = self._summarise(spoken, model or self.model)
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
        return replace(receipt, usage=usage if usage.calls else receipt.usage, reasons=(*receipt.reasons, *reasons))

    def _summarise(self, spoken: list[Record], model: ChatModel | None) -> tuple[str, Usage, tuple[str, ...]]:
        """The summary, the model's usage, and why sentences were picked although there is a model."""
        from keepstone.conversation.extractive_summary import summarise
        from keepstone.prompts.extraction import Line

        lines = [Line.of(record) for record in spoken]
        usage, reasons = Usage(), tuple[str, ...]()
        if model is not None:
            try:
                text, usage = self._summarise_by_model(model, lines)
                if text is not None:
                    return text, usage, ()
                reasons = (f"{model.id} did not answer with the JSON it was asked for: sentences were picked instead",)
            except ModelError as error:
                reasons = (f"the model failed, sentences were picked instead: {error}",)
            log.warning("consolidation: %s", reasons[0])
        return summarise(lines, max_tokens=_MAX_SUMMARY_TOKENS, count=estimate_tokens), usage, reasons

    def _summarise_by_model(self, model: ChatModel, lines: list[Line]) -> tuple[str | None, Usage]:
        """The model's summary, None where it answered in another form, and its usage."""
        from keepstone.prompts import consolidation as prompt

        spent = 0
        newest: list[Line] = []
        for line in reversed(lines):
            spent += estimate_tokens(line.text[:4000])
            if newest and spent > _MAX_PROMPT_TOKENS:
                break
            newest.insert(0, line)
        answer = model.ask(prompt.render(newest, now=self._clock(), max_tokens=4096))
        consolidation = prompt.read(answer.text, newest)
        return None if consolidation is None else _with_exact_values(prompt.as_text(consolidation), lines), answer.usage


def _with_exact_values(summary: str, lines: list[Line]) -> str:
    """A model's summary with the exact values that the user stated and the model left out."""
    from keepstone.learning.exact_values import find_exact_values

    stated = [exact for line in lines if line.role == "user" for exact in find_exact_values(line.text)]
    missing = {exact.key: f"- {exact.content}" for exact in stated if exact.value not in summary}  # the last under each key
    return "\n\n".join(filter(None, (summary, "\n".join(["Exact values:", *missing.values()]) if missing else "")))


def _key(session: str) -> str:
    """The key of a session's summary; a session name that is too long for a key is hashed."""
    key = f"session:{session}"
    return key if len(key) <= NAME_LIMIT else f"session:{hashlib.blake2b(session.encode(), digest_size=16).hexdigest()}"
