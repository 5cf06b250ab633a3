"""The key-value tier: values under keys, as records like any other.

A text is stored as it is, any other JSON value as JSON, which its role says; both keep their history by key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from keepstone.errors import ValidationError
from keepstone.ports.stores import Store
from keepstone.ports.values import ListQuery
from keepstone.text.words import has_visible_text
from keepstone.types import MESSAGE, Receipt, Record, Scope, clean_name
from keepstone.write.flow import WriteFlow
from keepstone.write.request import WriteRequest

KIND = "value"
_JSON = "json"
_PAGE = 500


class KeyValues:
    """Saves and reads values under keys."""

    def __init__(self, store: Store, writing: WriteFlow, count_reads: Callable[[Scope, Iterable[str]], None]) -> None:
        self._store = store
        self._writing = writing
        self._count_reads = count_reads

    def set(self, scope: Scope, key: str, value: Any, tag: str, source: str = "user") -> Receipt:
        """Save a value under a key; `source` says whose word it is."""
        key = clean_name(key, "key")
        plain = isinstance(value, str) and has_visible_text(value)
        if not plain:
            try:
                content = json.dumps(value, ensure_ascii=False, allow_nan=False)
                if json.loads(content) != value:
                    raise ValueError("it would come back as something else: keys must be text, sequences lists")
            except (TypeError, ValueError, RecursionError) as error:
                raise ValidationError(
                    f"the value of {key!r:.60} is not JSON ({error}): use text, numbers, lists, dictionaries."
                ) from None
        text, role = (value, None) if plain else (content, _JSON)
        request = WriteRequest(text, kind=KIND, tag=tag, key=key, role=role, source=source)
        return self._writing.remember(scope, [request])[0]

    def value(self, scope: Scope, key: str, default: Any) -> Any:
        """The current value of a key."""
        record = self._store.by_key(scope, clean_name(key, "key"))
        if record is None:
            return default
        self._count_reads(scope, [record.id])
        return _value_of(record)

    def values(self, scope: Scope, tag: str) -> dict[str, Any]:
        """The current value of every key with a tag, the last updated first."""
        keyed = {record.key: record for record in self.records(scope, tag) if record.key is not None}
        self._count_reads(scope, [record.id for record in keyed.values()])
        return {key: _value_of(record) for key, record in keyed.items()}

    def records(self, scope: Scope, tag: str) -> Sequence[Record]:
        """Every record with a tag but messages, the last updated first."""
        tag = clean_name(tag, "tag")
        records: list[Record] = []
        before: int | None = None
        while page := self._store.list(scope, ListQuery(tag=tag, limit=_PAGE, before=before)):
            records.extend(record for _, record in page if record.kind != MESSAGE)
            before = page[-1][0]
        return tuple(sorted(records, key=lambda record: record.updated_at, reverse=True))


def _value_of(record: Record) -> Any:
    """A record's content as the value that was set."""
    if record.kind != KIND or record.role != _JSON:
        return record.content
    try:
        return json.loads(record.content)
    except (ValueError, RecursionError):  # an update has made it plain text
        return record.content
