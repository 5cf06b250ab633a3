"""The statements of the .sql files made ready for PostgreSQL: values by number, the tenant added.

In the files a value is `$1` (by position) or `:name` (by name); `:tenant` is the tenant, added by the transaction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from keepstone.stores.common.transaction import Values
from keepstone.stores.queries import Queries

sql = Queries(Path(__file__).parent, "queries.sql", "queue.sql", "maintenance.sql", "engine.sql", "store_copy.sql")
_NAMED = re.compile(r"(?<![:\w]):([a-z]\w*)")
_NUMBERED = re.compile(r"\$(\d+)")


@dataclass(frozen=True, slots=True)
class Statement:
    """A text with numbered values. `names`: which they are, in order; None where the caller gives them by position. `tenant`:
    whether the tenant comes after those."""

    text: str
    names: tuple[str, ...] | None
    tenant: bool

    def values(self, given: Values, tenant: str) -> Sequence[Any]:
        """The values as the text numbers them."""
        if self.names is not None:
            assert isinstance(given, Mapping)
            return [tenant if name == "tenant" else given[name] for name in self.names]
        assert isinstance(given, Sequence)
        return (*given, tenant) if self.tenant else given


@lru_cache(maxsize=512)
def statement(name: str, parts: tuple[tuple[str, str], ...] = ()) -> Statement:
    """A named statement; `parts` take the places that its text names in braces."""
    text = sql.texts[name]
    for part, value in parts:
        text = text.replace("{" + part + "}", value)
    names: list[str] = []
    for match in _NAMED.finditer(text):
        if match[1] not in names:
            names.append(match[1])
    if names in ([], ["tenant"]):
        last = max((int(match[1]) for match in _NUMBERED.finditer(text)), default=0) + 1
        return Statement(_NAMED.sub(f"${last}", text), None, bool(names))
    return Statement(_NAMED.sub(lambda match: f"${names.index(match[1]) + 1}", text), tuple(names), False)
