"""One write's look at everything it would store: what is found is replaced, noticed, or speaks against the write."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from keepstone.guard.policy import Policy, Treatment, marker
from keepstone.guard.sensitive import Detector, SensitiveSpan, drop_overlaps, find_sensitive
from keepstone.types import NAME_LIMIT

_NOUNS = {
    "secret": "a secret", "card": "a card number", "ssn": "a social security number",
    "national_id": "a national number", "iban": "an IBAN",
    "email": "an e-mail address", "phone": "a phone number", "ip": "an IP address", "person": "a person's name",
    "location": "a place", "organization": "an organization", "group": "a nationality, religion or political group",
    "medical": "a medical number", "document": "the number of a document", "bank": "a bank account",
    "crypto": "a wallet address", "personal": "personal data",
}  # fmt: skip
_MARKER = re.compile(r"\[redacted:\w+(?: [0-9a-f]{10})?\]")
_NUMBERS = re.compile(r"[0-9](?:[ .\-]?[0-9]){8,18}")
_LONG_CHARS, _KEPT_CHARS = 16_384, 4_096  # characters
_MIN_CROWD_NUMBERS, _MIN_CROWD_SPANS = 600, 100
_MAX_PASSES = 5  # a marker changes the context of other numbers, so a cleaned text is examined again
_MAX_NUMBER = 10**25  # no number that is sensitive has as many digits


class Examination:
    """Collects what was found in a write; `reasons` tells it without ever naming a value."""

    __slots__ = ("_detectors", "_digest", "_noted", "_policy")

    def __init__(self, policy: Policy, detectors: Sequence[Detector] = (), digest: Callable[[str], str] | None = None) -> None:
        self._policy = policy
        self._detectors = tuple(detectors)
        self._digest = digest
        self._noted: dict[tuple[str, str, str, Treatment], None] = {}

    def text(self, text: str, where: str, context: str = "") -> str:
        """The text with every redacted part replaced by its marker; `where` is named in the reasons ("content"). Of a long text
        that is little else than such parts only the beginning is kept: to look for each of thousands would take too long."""
        kind = self._crowding_kind(text, context) if len(text) > _LONG_CHARS else None
        if kind is not None:
            inside = [
                each.start
                for each in find_sensitive(text[: 2 * _KEPT_CHARS], context=context)
                if each.start < _KEPT_CHARS < each.end
            ]
            text = f"{text[: min(inside, default=_KEPT_CHARS)]} {marker(kind)} [cut here: the rest was little else]"
            self._noted[kind, "", where, self._policy.treatment(kind)] = None
        for _ in range(_MAX_PASSES):
            cleaned = self._clean(text, where, context)
            if cleaned == text:
                break
            text = cleaned
        return text

    def name(self, name: str, where: str) -> str:
        """An identifier, cleaned like a text and kept within the length that identifiers may have. Its marker holds a digest, so
        that two names do not become one."""
        cleaned = name
        for _ in range(_MAX_PASSES):
            before, cleaned = cleaned, self._clean(cleaned, where, "", named=True)
            if cleaned == before:
                break
        if len(cleaned) <= NAME_LIMIT or self._digest is None:
            return name if cleaned == name else cleaned[:NAME_LIMIT].rstrip()
        mark = f" {self._digest(name)}"
        return cleaned[: NAME_LIMIT - len(mark)].rstrip() + mark

    def data(self, value: Any, where: str, context: str = "") -> Any:
        """JSON data with every text, number and key of a dictionary cleaned; the name of a field is context for its value."""
        return self._data(value, where, context)

    @property
    def found(self) -> bool:
        """Whether there was anything at all."""
        return bool(self._noted)

    @property
    def redacted(self) -> tuple[str, ...]:
        """The kinds that were replaced."""
        return self._kinds("redact")

    @property
    def tagged(self) -> tuple[str, ...]:
        """The kinds that were noticed and kept."""
        return self._kinds("tag")

    @property
    def refused(self) -> tuple[str, ...]:
        """The kinds that the policy does not let in: if there are any, nothing may be stored."""
        return self._kinds("refuse")

    def took_all(self, cleaned: str) -> bool:
        """Whether redaction left nothing of a text: no letter or digit stands outside the markers."""
        return bool(self.redacted) and not any(character.isalnum() for character in _MARKER.sub("", cleaned))

    def reasons(self, *, stored: bool = True) -> tuple[str, ...]:
        """What was found, where, and what became of it, in sentences for a receipt. If the text is not stored because there is
        nothing else in it, they say how to allow it."""
        reasons = tuple(dict.fromkeys(_sentence(*noted, stored) for noted in self._noted))
        allow = ",".join(f"{kind}=allow" for kind in self.redacted)
        return reasons if stored else (*reasons, f"to keep such data, set sensitive (KEEPSTONE_SENSITIVE) to {allow}")

    def _kinds(self, treatment: Treatment) -> tuple[str, ...]:
        return tuple(sorted({kind for kind, _, _, noted in self._noted if noted == treatment}))

    def _crowding_kind(self, text: str, context: str) -> str | None:
        """The kind that a long text is full of, and that may not be kept."""
        numbers = [each.start() for each in _NUMBERS.finditer(text)]
        if len(numbers) < _MIN_CROWD_NUMBERS:
            return None
        middle = numbers[len(numbers) // 2]
        around = find_sensitive(text[max(0, middle - _KEPT_CHARS) : middle + _KEPT_CHARS], context=context)
        kinds = Counter(each.kind for each in around if self._policy.treatment(each.kind) in ("redact", "refuse"))
        kind, count = kinds.most_common(1)[0] if kinds else ("", 0)
        return kind if count >= _MIN_CROWD_SPANS else None

    def _find(self, text: str, context: str) -> list[SensitiveSpan]:
        found = find_sensitive(text, context=context)
        if not self._detectors:
            return found
        for detector in self._detectors:
            found.extend(each for each in detector(text) if 0 <= each.start < each.end <= len(text))
        return drop_overlaps(found)

    def _clean(self, text: str, where: str, context: str, named: bool = False) -> str:
        parts: list[str] = []
        kept = 0
        for found in self._find(text, context):
            treatment = self._policy.treatment(found.kind)
            piece = text[found.start : found.end]
            if treatment == "allow":
                continue
            self._noted[found.kind, found.detail, where, treatment] = None
            if treatment == "redact" and not _MARKER.fullmatch(piece):
                mark = marker(found.kind)
                if named and self._digest is not None:
                    mark = f"{mark[:-1]} {self._digest(piece)}]"
                parts += (text[kept : found.start], mark)
                kept = found.end
        return "".join((*parts, text[kept:])) if parts else text

    def _data(self, value: Any, where: str, context: str) -> Any:
        if isinstance(value, str):
            cleaned = self.text(value, where, context)
            return cleaned if cleaned == value else self._still_json(value, where, context) or cleaned
        if isinstance(value, dict):
            return self._fields(value, where, context)
        if isinstance(value, (list, tuple)):
            return type(value)([self._data(each, where, context) for each in value])
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return self._number(value, where, context)
        return value

    def _still_json(self, text: str, where: str, context: str) -> str | None:
        """A text that is JSON (a tool's arguments, say) as JSON without what is taken out; None where it is none, or where only
        the whole text shows what has to go."""
        if text[:1] not in ("[", "{"):
            return None
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return None
        made = json.dumps(self._data(data, where, context), ensure_ascii=False)
        return made if self.text(made, where, context) == made else None

    def _fields(self, value: dict[Any, Any], where: str, context: str) -> dict[Any, Any]:
        names = {key: self.text(key, where) if isinstance(key, str) else key for key in value}
        taken = {key for key, name in names.items() if key == name}
        fields = {}
        for key, each in value.items():
            name, count = names[key], 1
            inner = f"{context} {name}"[-120:] if isinstance(key, str) else context
            if name != key:
                while name in taken:
                    count += 1
                    name = f"{names[key]} {count}"
                taken.add(name)
            fields[name] = self._data(each, where, inner)
        return fields

    def _number(self, value: int | float, where: str, context: str) -> int | float | str:
        if not abs(value) < _MAX_NUMBER or value != int(value):
            return value
        digits = str(abs(int(value)))
        if len(digits) < 7:
            return value
        cleaned = self.text(digits, where, context)
        if (
            cleaned == digits
            and len(digits) < 9
            and any(found.kind == "ssn" for found in find_sensitive(digits.zfill(9), context=context))
        ):
            cleaned = self.text(digits.zfill(9), where, context)
            return value if cleaned == digits.zfill(9) else cleaned
        return value if cleaned == digits else cleaned


def _sentence(kind: str, detail: str, where: str, treatment: Treatment, stored: bool) -> str:
    what = _NOUNS.get(kind, f"something of the kind {kind}") + (f" ({detail})" if detail else "") + f" in the {where}"
    if treatment == "redact":
        return f"{what} was replaced by {marker(kind)}" if stored else f"{what} is not kept, and there is nothing else in it"
    if treatment == "refuse":
        return f"{what} is refused by the policy"
    return f"{what} was noticed and kept"
