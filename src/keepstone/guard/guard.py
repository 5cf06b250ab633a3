"""Screens every write before anything else is done with it.

The policy treats sensitive data, text that reads like instructions is quarantined where its source is not trusted, and what an
untrusted source says expires unless it is confirmed. `write/flow.py` screens drafts and revisions before they are embedded;
`guarded_store.py` screens imports, states and names, and refuses a write that was not screened.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from keepstone.guard.policy import Detector, Policy
from keepstone.ports.values import Draft, ImportRow, RecordExport, Revision, Screening, Support
from keepstone.text.words import record_terms
from keepstone.types import MESSAGE, STEP, UNTRUSTED, Record, Version

if TYPE_CHECKING:
    from keepstone.guard.examination import Examination

Gist = Callable[[str, str, str | None], bytes | None]
BlockText = Callable[[Any], str]
_CLEAR = Screening()
_NINE = re.compile(r"(?<!\d)\d{3}-\d{2}-\d{4}(?!\d)")
_ERRORS = Policy.of({"email": "allow", "phone": "allow", "ip": "allow"})
_NAMES = ("kind", "tag", "key", "source", "session", "role", "name")
_PAST_NAMES = ("kind", "tag", "source", "session", "role", "name", "action")
_HELD = "it is held until a person approves it in the review list"
_NO_REWORDING = "what agents write is held here: remember the new text as a memory of its own, and a person approves it"
_SCRYPT_COST = {"n": 2**13, "r": 8, "p": 1}  # of scrypt: some 20 ms, for the few names that hold something


@dataclass(frozen=True, slots=True)
class GuardRules:
    """The settings of the guard: the policy for each kind of sensitive data, further detectors, whether instructions of untrusted
    sources are quarantined, how long a record of such a source is kept unconfirmed (0: for ever), and whose writes are held until
    a person approves them ("none", "agents" or "all")."""

    policy: Policy = field(default_factory=lambda: Policy.of(None))
    detectors: tuple[Detector, ...] = ()
    quarantine: bool = True
    unconfirmed: timedelta = timedelta(days=30)
    hold: str = "none"

    def holds(self, source: str) -> bool:
        """Whether what a source writes waits for approval."""
        return self.hold == "all" or (self.hold == "agents" and _is_agent(source))


class Guard:
    """Looks through writes. `gist` is what near-duplicates are found by, computed again where a text changes; `block_text`
    renders blocks as text; `salt` makes one store's digests of names differ from another's."""

    def __init__(self, rules: GuardRules, gist: Gist, block_text: BlockText, clock: Callable[[], Any], salt: str) -> None:
        self._rules = rules
        self._gist = gist
        self._block_text = block_text
        self._clock = clock
        self._salt = salt.encode()
        self._digest = lru_cache(maxsize=4096)(self._slow_digest)
        treated = rules.policy.treatments.items()
        self._strict = Policy({kind: "redact" if treatment == "refuse" else treatment for kind, treatment in treated})
        self.clean_name = lru_cache(maxsize=4096)(self._clean_name)
        self._harmless = lru_cache(maxsize=4096)(self._holds_nothing)

    @property
    def redacts(self) -> tuple[str, ...]:
        """The kinds of sensitive data that are not kept as they are."""
        return tuple(kind for kind, treatment in self._rules.policy.treatments.items() if treatment in ("redact", "refuse"))

    # -- writes ---------------------------------------------------------------------------------------------------
    def screen(self, draft: Draft, key: str | None = None, *, hold: bool = True) -> tuple[Draft, str | None, Screening]:
        """A draft and its idempotency key as they may be stored, and what the guard says of them. Without `hold` it waits for no
        approval, as what maintenance makes of approved records."""
        look = self._look()
        draft = self._draft(look, draft)
        key = None if key is None else look.name(key, "idempotency key")
        held = hold and draft.kind != MESSAGE and draft.status == "active" and self._rules.holds(draft.source)
        if not look.found and draft.trust > UNTRUSTED and not _is_report(draft) and not held:  # by far the commonest
            return draft, key, _CLEAR
        reasons = look.reasons()
        if draft.kind != MESSAGE and look.took_all(draft.content):
            return draft, key, Screening(look.reasons(stored=False), refused=True)
        if not look.refused and draft.status == "active" and self._is_suspicious(draft, draft.content):
            draft = replace(draft, status="quarantined")
            reasons = (*reasons, "it reads like instructions and its source is not trusted: it waits for a review")
        elif held and not look.refused:
            draft = replace(draft, status="quarantined")
            reasons = (*reasons, _HELD)
        if self._needs_confirmation(draft):
            draft = replace(draft, expires_at=self._clock() + self._rules.unconfirmed)
            if draft.status == "active":
                days = f"{self._rules.unconfirmed / timedelta(days=1):g} days"
                reasons = (*reasons, f"its source is not trusted: it expires in {days} unless confirmed")
        if look.refused:
            draft = replace(draft, source=self.clean_name(draft.source))  # the audit log names it
        return draft, key, Screening(reasons, bool(look.redacted), bool(look.refused))

    def screen_revision(self, revision: Revision, present: Record | None) -> Revision:
        """A change of a record as it may be stored."""
        look = self._look()
        kind, key, trust = ("", None, 1.0) if present is None else (present.kind, present.key, present.trust)
        cleaned = revision
        if revision.content is not None:
            tag = "general" if present is None else present.tag
            content = look.text(revision.content, "content", _name_context(key, tag))
            if content != revision.content:
                cleaned = replace(cleaned, content=content, **self._derive(content, kind, key))
        if revision.metadata is not None:
            cleaned = replace(cleaned, metadata=look.data(revision.metadata, "metadata"))
        if revision.source is not None:
            cleaned = replace(cleaned, source=look.name(revision.source, "source"))
        if revision.tag is not None:
            cleaned = replace(cleaned, tag=look.name(revision.tag, "tag"))
        if revision.content is not None or revision.metadata is not None:
            unchanged = self._look()
            if present is not None and revision.content is None:
                unchanged.text(present.content, "content")
            if present is not None and revision.metadata is None:
                unchanged.data(present.metadata, "metadata")
            cleaned = replace(cleaned, sensitive=tuple(sorted({*look.tagged, *unchanged.tagged})))
        took_all = cleaned.content is not None and kind != MESSAGE and look.took_all(cleaned.content)
        reasons = look.reasons(stored=not took_all)
        refused = took_all or bool(look.refused)
        lowest = min(trust, 1.0 if revision.trust is None else revision.trust)
        if revision.content is not None and lowest <= UNTRUSTED and self._is_instruction(revision.content):
            refused, reasons = True, (*reasons, "it reads like instructions and its source is not trusted")
        if (
            revision.content is not None
            and kind != MESSAGE
            and self._rules.hold != "none"
            and _is_agent(revision.source or "user")
        ):
            refused, reasons = True, (*reasons, _NO_REWORDING)
        return replace(cleaned, screening=Screening(reasons, bool(look.redacted) and not took_all, refused))

    def screen_import(self, row: ImportRow) -> ImportRow:
        """An imported record with its history, as it may be stored."""
        look = self._look()
        record = row.archive.record
        blocks = record.blocks
        past = tuple(self._version(look, version, record.key) for version in row.archive.versions)
        content = past[-1].content
        if blocks is not None:
            content, cleaned = self._blocks(look, list(blocks), record.content)
            blocks, past = tuple(cleaned), (*past[:-1], replace(past[-1], content=content))
        changes: dict[str, Any] = {
            "id": self.clean_name(record.id),
            "parents": tuple(self.clean_name(parent) for parent in record.parents),
            "content": content,
            "metadata": past[-1].metadata,
            "blocks": blocks,
            **self._names(look, record),
            "sensitive": look.tagged,
        }
        screened = record if row.vouched else record.with_(trust=0.0)  # the source of a line is only a claim
        held = self._rules.hold == "all" and record.kind != MESSAGE and not row.vouched
        if record.status == "active" and (held or any(self._is_suspicious(screened, version.content) for version in past)):
            changes["status"] = "quarantined"
        if row.stamp is None and self._needs_confirmation(record):
            changes["expires_at"] = self._clock() + self._rules.unconfirmed
        cleared = record.with_(**changes)
        if look.refused:
            cleared = cleared.with_(source=self.clean_name(record.source))
        archive = RecordExport(cleared, past, row.archive.archived, self._supports(row.archive))
        screening = Screening(look.reasons(), bool(look.redacted), bool(look.refused))
        same = (content, cleared.key) == (record.content, record.key)
        derived = {} if same else self._derive(content, cleared.kind, cleared.key)
        stamp = row.stamp if row.stamp is None or not look.redacted else replace(row.stamp, erased=self._clock())
        return replace(row, archive=archive, screening=screening, stamp=stamp, **derived)

    def redact_text(self, text: str, where: str) -> str:
        """A stored text that is not a memory (a state, the error of a job): refused kinds are redacted too."""
        look = self._look(self._strict)
        if text[:1] in "[{":
            with suppress(ValueError):  # a number that is redacted in JSON must leave JSON behind
                return _clean_json(look, text, where)
        return look.text(text, where)

    def _clean_name(self, name: str) -> str:
        """A name as it is stored and looked up."""
        return self._look(self._strict).name(name, "a name")

    # -- parts ----------------------------------------------------------------------------------------------------
    def _look(self, policy: Policy | None = None) -> Examination:
        return _examination(policy or self._rules.policy, self._rules.detectors, self._digest)

    def _draft(self, look: Examination, draft: Draft) -> Draft:
        blocks = draft.blocks
        if blocks is None:
            content = self._content(look, draft)
        else:
            content, cleaned = self._blocks(look, json.loads(blocks), draft.content)
            blocks = json.dumps(cleaned, ensure_ascii=False, separators=(",", ":"))
        metadata = look.data(draft.metadata, "metadata") if draft.metadata else draft.metadata
        names = self._names(look, draft)
        if not look.found:
            return draft
        return replace(draft, content=content, metadata=metadata, blocks=blocks, sensitive=look.tagged, **names)

    @staticmethod
    def _content(look: Examination, draft: Draft) -> str:
        """A content without what is redacted; a value that is stored as JSON stays JSON."""
        context = _name_context(draft.key, draft.tag)
        if draft.kind != "value" or draft.role != "json":
            return look.text(draft.content, "content", context)
        return _clean_json(look, draft.content, "content", context)

    def _derive(self, content: str, kind: str, key: str | None) -> dict[str, Any]:
        """The fields that are made from a content, for a content that was changed; it is embedded later."""
        return {"terms": record_terms(content, key), "dedup_key": self._gist(content, kind, key), "vector": None, "passages": ()}

    def _needs_confirmation(self, record: Draft | Record) -> bool:
        """Whether a record expires unless it is confirmed."""
        untrusted = record.trust < UNTRUSTED and record.kind != MESSAGE
        return bool(self._rules.unconfirmed) and untrusted and record.expires_at is None

    def _names(self, look: Examination, record: Draft | Record | Version, names: Sequence[str] = _NAMES) -> dict[str, Any]:
        """The names of a record that hold something sensitive, cleaned."""
        found = {}
        for name in names:
            value = getattr(record, name)
            if value is not None and not self._harmless(value):
                found[name] = look.name(value, name)
        return found

    def _holds_nothing(self, name: str) -> bool:
        """Whether a name holds nothing sensitive; cached, because the same few names recur."""
        look = self._look()
        look.name(name, "a name")
        return not look.found

    def _supports(self, archive: RecordExport) -> tuple[Support, ...]:
        """What versions rest on, by the names that are stored."""
        return tuple(
            replace(
                each,
                parents=tuple(self.clean_name(parent) for parent in each.parents),
                session=None if each.session is None else self.clean_name(each.session),
            )
            for each in archive.supports
        )

    def _version(self, look: Examination, version: Version, key: str | None) -> Version:
        content = look.text(version.content, "content", _name_context(key, version.tag))
        metadata = look.data(version.metadata, "metadata")
        return replace(version, content=content, metadata=metadata, **self._names(look, version, _PAST_NAMES))

    def _blocks(self, look: Examination, blocks: list[Any], content: str) -> tuple[str, list[Any]]:
        """The text and the blocks of a message: the text is what the cleaned blocks say. Where something was split between two of
        them, only that text is kept."""
        cleaned = look.data(blocks, "blocks")
        said = content if cleaned == blocks else self._block_text(cleaned)
        whole = look.text(said, "content")
        if whole != said:  # the context hid something: examine each part alone
            cleaned = _map_texts(cleaned, lambda text: look.text(text, "blocks"))
            said = self._block_text(cleaned)
            whole = look.text(said, "content")
        return (whole, cleaned) if whole == said else (whole, [{"type": "text", "text": whole}])

    def _is_suspicious(self, record: Draft | Record, content: str) -> bool:
        """Whether a text reads like instructions and comes from a channel that is not trusted, or reports results of tools."""
        if record.trust > UNTRUSTED and not _is_report(record):
            return False
        return self._is_instruction(content) or self._is_instruction(
            " ".join(filter(None, (record.key, record.tag, record.name)))
        )

    def _is_instruction(self, content: str) -> bool:
        from keepstone.guard.instructions import is_instruction_like  # only what comes from outside needs its patterns

        return self._rules.quarantine and is_instruction_like(content)

    def _slow_digest(self, value: str) -> str:
        """A digest that tells names apart and is too slow for a search through all numbers."""
        bare = "".join(character for character in value.casefold() if character.isalnum())
        return hashlib.scrypt(bare.encode(), salt=self._salt, dklen=5, **_SCRYPT_COST).hex()


def _examination(policy: Policy, detectors: tuple[Detector, ...] = (), digest: Callable[[str], str] | None = None) -> Examination:
    """A fresh look; with its rules, which only writing needs."""
    from keepstone.guard.examination import Examination

    return Examination(policy, detectors, digest)


def _clean_json(look: Examination, text: str, where: str, context: str = "") -> str:
    """A JSON text without what is redacted."""
    data = json.loads(text)
    cleaned = look.data(data, where, context)
    return text if cleaned == data else json.dumps(cleaned, ensure_ascii=False)


def _name_context(key: str | None, tag: str) -> str:
    """The key and tag of a content: context for the detectors, as a field name is."""
    return " ".join(filter(None, (key, None if tag == "general" else tag)))


def redact_message(text: str) -> str:
    """An error message without anything that looks sensitive, in whatever context."""
    return _NINE.sub("[redacted:ssn]", _examination(_ERRORS).text(text, "error"))


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Data with every text changed by itself."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _map_texts(each, change) for key, each in value.items()}
    return [_map_texts(each, change) for each in value] if isinstance(value, list) else value


def _is_agent(source: str) -> bool:
    """Whether a source is not a person: an agent, a tool, a web page or an unknown one."""
    return source.partition(":")[0].strip().lower() not in ("system", "user", "import")


def _is_report(record: Draft | Record) -> bool:
    """Whether a record reports what was done, results of tools included."""
    return record.kind == "episode" or (record.kind == MESSAGE and record.tag == STEP)
