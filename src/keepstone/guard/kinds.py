"""The kinds of sensitive data, and what was found of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

KINDS = ("secret", "card", "ssn", "iban", "email", "phone", "ip")
EXTRA_KINDS = ("person", "location", "organization", "group", "medical", "document", "bank", "crypto", "personal")


@dataclass(frozen=True, slots=True)
class SensitiveSpan:
    """Something sensitive: its kind and where it stands; `detail` says what it is, never the value itself."""

    kind: str
    start: int
    end: int
    detail: str = ""


Detector = Callable[[str], Sequence[SensitiveSpan]]
