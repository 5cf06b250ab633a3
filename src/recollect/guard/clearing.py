"""The guard: what a write holds is looked through before anything else is done with it. Imports: parcels, words, rooms beside it.

Sensitive data is treated as the policy says, text that reads like instructions is put in quarantine where its channel is not
trusted, and what an untrusted channel says expires unless somebody confirms it. `write/flow.py` asks the guard before a text is
embedded; `guard/store.py` asks again for whatever has not passed it, so nothing reaches the file unseen.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from typing import Any

from recollect.guard.examination import Examination
from recollect.guard.policy import Policy
from recollect.guard.sensitive import Detector
from recollect.parcels import Archive, Draft, ImportRow, Revision, Verdict, Write
from recollect.types import MESSAGE, UNTRUSTED, Record, Version
from recollect.words import record_terms

Gist = Callable[[str, str, str | None], bytes | None]
_CLEAR = Verdict()
_NAMES = ("tag", "key", "source", "session", "role", "name")


@dataclass(frozen=True, slots=True)
class GuardRules:
    """What the guard goes by: the policy for each kind of sensitive data, further detectors, whether instructions of untrusted
    channels are put in quarantine, and how long what such a channel says is kept unconfirmed (None: for ever)."""

    policy: Policy = field(default_factory=lambda: Policy.of(None))
    detectors: tuple[Detector, ...] = ()
    quarantine: bool = True
    unconfirmed: timedelta | None = timedelta(days=30)


class Guard:
    """Looks through writes; `gist` is what near-duplicates are found by, made anew where a text is changed."""

    def __init__(self, rules: GuardRules, gist: Gist, clock: Callable[[], Any]) -> None:
        self._rules = rules
        self._gist = gist
        self._clock = clock
        treated = rules.policy.treatments.items()
        self._strict = Policy({kind: "redact" if treatment == "refuse" else treatment for kind, treatment in treated})
        self.name = lru_cache(maxsize=4096)(self._cleaned_name)
        self._harmless = lru_cache(maxsize=4096)(self._holds_nothing)

    @property
    def redacts(self) -> tuple[str, ...]:
        """The kinds of sensitive data that are not kept as they are."""
        return tuple(kind for kind, treatment in self._rules.policy.treatments.items() if treatment in ("redact", "refuse"))

    # -- writes ---------------------------------------------------------------------------------------------------
    def write(self, item: Write) -> Write:
        """A write as it may be stored; one the guard has seen before is left as it is."""
        if item.verdict is not None:
            return item
        draft, key, verdict = self.seen(item.draft, item.idempotency_key)
        return replace(item, draft=draft, idempotency_key=key, verdict=verdict)

    def seen(self, draft: Draft, key: str | None = None) -> tuple[Draft, str | None, Verdict]:
        """A draft and its idempotency key as they may be stored, and what the guard says of them."""
        look = self._look()
        draft = self._draft(look, draft)
        key = None if key is None else look.name(key, "idempotency key")
        if not look.found and draft.trust > UNTRUSTED:  # by far the commonest
            return draft, key, _CLEAR
        reasons = look.reasons()
        if not look.refused and draft.status == "active" and self._suspicious(draft.trust, draft.content):
            draft = replace(draft, status="quarantined")
            reasons = (*reasons, "it reads like instructions and its source is not trusted: it waits for a review")
        if self._rules.unconfirmed and draft.trust < UNTRUSTED and draft.kind != MESSAGE and draft.expires_at is None:
            draft = replace(draft, expires_at=self._clock() + self._rules.unconfirmed)
            if draft.status == "active":
                days = f"{self._rules.unconfirmed / timedelta(days=1):g} days"
                reasons = (*reasons, f"its source is not trusted: it expires in {days} unless confirmed")
        return draft, key, Verdict(reasons, bool(look.redacted), bool(look.refused))

    def revision(self, revision: Revision, kind: str, key: str | None, trust: float) -> Revision:
        """A change of a record (of this kind, key and trust) as it may be stored."""
        if revision.verdict is not None:
            return revision
        look = self._look()
        cleaned = revision
        if revision.content is not None:
            content = look.text(revision.content, "content")
            cleaned = replace(cleaned, sensitive=look.tagged)
            if content != revision.content:
                terms, gist = record_terms(content, key), self._gist(content, kind, key)
                cleaned = replace(cleaned, content=content, terms=terms, gist=gist, vector=None)
        if revision.metadata is not None:
            cleaned = replace(cleaned, metadata=look.data(revision.metadata, "metadata"))
        if revision.source is not None:
            cleaned = replace(cleaned, source=look.name(revision.source, "source"))
        reasons = look.reasons()
        refused = bool(look.refused)
        told = min(trust, 1.0 if revision.trust is None else revision.trust)
        if revision.content is not None and self._suspicious(told, revision.content):
            refused, reasons = True, (*reasons, "it reads like instructions and its source is not trusted")
        return replace(cleaned, verdict=Verdict(reasons, bool(look.redacted), refused))

    def row(self, row: ImportRow) -> ImportRow:
        """A record from elsewhere with all its past, as it may be stored."""
        if row.verdict is not None:
            return row
        look = self._look()
        record = row.archive.record
        past = tuple(self._version(look, version) for version in row.archive.versions)
        content = past[-1].content
        changes: dict[str, Any] = {
            "content": content,
            "metadata": past[-1].metadata,
            "sensitive": look.tagged,
            "blocks": self._blocks(look, record.blocks, content),
            **self._names(look, record),
        }
        if record.status == "active" and self._suspicious(record.trust, content):
            changes["status"] = "quarantined"
        cleared = record.with_(**changes)
        verdict = Verdict(look.reasons(), bool(look.redacted), bool(look.refused))
        row = replace(row, archive=Archive(cleared, past), verdict=verdict)
        if (content, cleared.key) != (record.content, record.key):
            terms = record_terms(content, cleared.key)
            row = replace(row, terms=terms, gist=self._gist(content, cleared.kind, cleared.key), vector=None)
        return row

    def text(self, text: str, where: str) -> str:
        """A text that is stored and is no memory (a state, what was wrong with a job): refused kinds are taken out too."""
        look = Examination(self._strict, self._rules.detectors)
        if text[:1] not in "[{":
            return look.text(text, where)
        try:  # a number that is taken out of JSON must leave JSON behind
            held = json.loads(text)
        except ValueError:
            return look.text(text, where)
        cleaned = look.data(held, where)
        return text if cleaned == held else json.dumps(cleaned, ensure_ascii=False)

    def _cleaned_name(self, name: str) -> str:
        """An identifier as it is stored, and so as it is looked up."""
        return Examination(self._strict, self._rules.detectors).name(name, "a name")

    # -- parts ----------------------------------------------------------------------------------------------------
    def _look(self) -> Examination:
        return Examination(self._rules.policy, self._rules.detectors)

    def _draft(self, look: Examination, draft: Draft) -> Draft:
        content = self._content(look, draft)
        metadata = look.data(draft.metadata, "metadata") if draft.metadata else draft.metadata
        names = self._names(look, draft)
        blocks = draft.blocks
        if blocks is not None:
            blocks = json.dumps(self._blocks(look, json.loads(blocks), content), ensure_ascii=False, separators=(",", ":"))
        if not look.found:
            return draft
        cleared = replace(draft, content=content, metadata=metadata, blocks=blocks, sensitive=look.tagged, **names)
        if (content, cleared.key) == (draft.content, draft.key):
            return cleared
        terms, gist = record_terms(content, cleared.key), self._gist(content, cleared.kind, cleared.key)
        return replace(cleared, terms=terms, gist=gist, vector=None)

    @staticmethod
    def _content(look: Examination, draft: Draft) -> str:
        """A content without what is taken out; a value that is kept as JSON stays JSON."""
        if draft.kind != "value" or draft.role != "json":
            return look.text(draft.content, "content")
        held = json.loads(draft.content)
        cleaned = look.data(held, "content")
        return draft.content if cleaned == held else json.dumps(cleaned, ensure_ascii=False)

    def _names(self, look: Examination, held: Draft | Record) -> dict[str, Any]:
        given = ((name, getattr(held, name)) for name in _NAMES)
        return {name: look.name(value, name) for name, value in given if value is not None and not self._harmless(value)}

    def _holds_nothing(self, name: str) -> bool:
        """Whether there is nothing in a name; the same few come again and again."""
        look = self._look()
        look.name(name, "a name")
        return not look.found

    def _version(self, look: Examination, version: Version) -> Version:
        content = look.text(version.content, "content")
        return replace(version, content=content, metadata=look.data(version.metadata, "metadata"))

    def _blocks(self, look: Examination, blocks: Any, content: str) -> Any:
        """The blocks of a message; where something was split between two of them, only what was said is kept, as one text."""
        if blocks is None:
            return None
        cleaned = look.data(list(blocks), "blocks")
        if content.count("[redacted:") > json.dumps(cleaned, ensure_ascii=False).count("[redacted:"):
            cleaned = [{"type": "text", "text": content}]
        return cleaned if isinstance(blocks, list) else tuple(cleaned)

    def _suspicious(self, trust: float, content: str) -> bool:
        if not self._rules.quarantine or trust > UNTRUSTED:
            return False
        from recollect.guard.instructions import instruction_like  # only what comes from outside needs its patterns

        return instruction_like(content)
