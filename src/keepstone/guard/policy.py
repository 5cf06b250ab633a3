"""The kinds of sensitive data, and how the policy treats each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, cast, get_args

from keepstone.errors import ConfigurationError

KINDS = ("secret", "card", "ssn", "national_id", "iban", "email", "phone", "ip")
EXTRA_KINDS = ("person", "location", "organization", "group", "medical", "document", "bank", "crypto", "personal")


@dataclass(frozen=True, slots=True)
class SensitiveSpan:
    """A span of sensitive text: its kind and position; `detail` says what it is, never the value."""

    kind: str
    start: int
    end: int
    detail: str = ""


Detector = Callable[[str], Sequence[SensitiveSpan]]
Treatment = Literal["redact", "tag", "refuse", "allow"]
TREATMENTS: tuple[str, ...] = get_args(Treatment)
_REDACTED, _TAGGED = ("secret", "card", "ssn", "national_id", "iban"), ("email", "phone", "ip")
DEFAULT: Mapping[str, Treatment] = MappingProxyType(
    {kind: "redact" if kind in _REDACTED else "tag" for kind in (*_REDACTED, *_TAGGED)}
)


@dataclass(frozen=True, slots=True)
class Policy:
    """The treatment of each kind: redact it, tag the record, refuse the write, allow it. A kind that is not named is tagged."""

    treatments: Mapping[str, Treatment] = field(default_factory=lambda: DEFAULT)

    @classmethod
    def of(cls, given: Mapping[str, str] | None) -> Policy:
        """The defaults with what is given in their place.

        >>> Policy.of({"email": "redact"}).treatment("email")
        'redact'
        """
        treatments = dict(DEFAULT)
        for kind, treatment in (given or {}).items():
            if kind not in KINDS and kind not in EXTRA_KINDS:
                raise ConfigurationError(
                    f"{kind!r:.60} is not a kind of sensitive data: use {', '.join(KINDS)}, or with a detector "
                    f"{', '.join(EXTRA_KINDS)}."
                )
            if treatment not in TREATMENTS:
                raise ConfigurationError(f"{treatment!r:.60} is not a treatment for {kind}: use one of {', '.join(TREATMENTS)}.")
            treatments[kind] = cast(Treatment, treatment)
        return cls(MappingProxyType(treatments))

    def treatment(self, kind: str) -> Treatment:
        """What becomes of this kind."""
        return self.treatments.get(kind, "tag")


def marker(kind: str) -> str:
    """The text that replaces redacted data; no detector matches it."""
    return f"[redacted:{kind}]"
