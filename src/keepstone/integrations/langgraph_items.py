"""Items of a LangGraph store as documents of a shelf: what they say, their vectors, filters and namespaces. Pure."""

from __future__ import annotations

import base64
import concurrent.futures
import logging
import math
import re
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from langgraph.store.base import Item, MatchCondition, SearchItem, get_text_at_path, tokenize_path

from keepstone.integrations.document_store import Document, DocumentStore
from keepstone.ports.values import Vector

Field = str | list[str]  # a path in an item, taken apart; "$" is the whole item
Filter = Mapping[str, Any]

_KEY = re.compile(r"[\w.-]+")
_OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
_BARE = frozenset({"content", "data", "memory", "message", "text", "value"})  # names that say nothing of what they hold
_NARROWED = 10  # conditions of a filter that the store itself looks at


# -- what is stored -----------------------------------------------------------------------------------------------------
def packed(value: Mapping[str, Any], vectors: Sequence[Sequence[float]]) -> dict[str, Any]:
    """An item as the value of its document."""
    if not vectors:
        return {"item": dict(value)}
    rows = np.asarray(vectors, dtype="<f4")
    return {"item": dict(value), "vectors": base64.b64encode(rows.tobytes()).decode("ascii"), "rows": len(rows)}


def item_of(document: Document, path: tuple[str, ...]) -> Item:
    """A document as LangGraph knows it, under the path that was asked for."""
    return Item(
        value=document.value["item"], key=path[-1], namespace=path[:-1],
        created_at=document.created_at, updated_at=document.updated_at,
    )  # fmt: skip


def search_item_of(document: Document, prefix: tuple[str, ...], score: float | None) -> SearchItem:
    """The same, as found below a namespace."""
    return SearchItem(
        namespace=(*prefix, *document.path[len(prefix) : -1]), key=document.path[-1], value=document.value["item"],
        created_at=document.created_at, updated_at=document.updated_at, score=score,
    )  # fmt: skip


def best_likeness(document: Document, query: Vector) -> float | None:
    """The cosine of a query with the most alike of an item's vectors; None where it has none of that size."""
    try:
        rows = np.frombuffer(base64.b64decode(document.value["vectors"]), dtype="<f4").reshape(document.value["rows"], -1)
    except (KeyError, TypeError, ValueError):
        return None
    if not len(rows) or rows.shape[1] != len(query):
        return None
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
    return float(np.max(np.divide(rows @ query, lengths, out=np.zeros(len(rows), dtype=np.float32), where=lengths > 0)))


# -- what it says -------------------------------------------------------------------------------------------------------
def fields_of(paths: Iterable[str]) -> list[Field]:
    """Paths in an item, taken apart."""
    return [path if path == "$" else tokenize_path(path) for path in paths]


def texts_of(value: Mapping[str, Any], fields: Iterable[Field]) -> list[str]:
    """The texts that a vector is made of each, as LangGraph's own stores take them."""
    return [text for field in fields for text in get_text_at_path(dict(value), field)]


def said_by(value: Mapping[str, Any], fields: Iterable[Field]) -> str:
    """What an item is found by in recall: the texts of its fields, the whole item as lines instead of JSON.

    >>> said_by({"content": "Dana likes tea.", "since": {"year": 2021}}, ["$"])
    'Dana likes tea.\\nsince year: 2021'
    """
    lines = (_lines(value, ()) if field == "$" else get_text_at_path(dict(value), field) for field in fields)
    return "\n".join(line for each in lines for line in each)


def _lines(value: Any, names: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _lines(each, names if name in _BARE else (*names, str(name)))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _lines(each, names)
    elif value is not None:
        yield f"{' '.join(names)}: {value}" if names else str(value)


# -- filters ------------------------------------------------------------------------------------------------------------
def check_filter(filter: Filter | None) -> None:
    """ValueError for a filter that LangGraph's stores refuse."""
    for key, wanted in (filter or {}).items():
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise ValueError(
                f"Invalid filter key: {key!r:.80}. Use letters, digits, underscores, hyphens, and dots between names."
            )
        for operator in wanted if isinstance(wanted, Mapping) else ():
            if str(operator).startswith("$") and operator not in _OPERATORS:
                raise ValueError(f"Unsupported operator: {operator!r:.40} on {key!r:.80}. Use one of {', '.join(_OPERATORS)}.")


def holds(filter: Filter | None, value: Mapping[str, Any]) -> bool:
    """Whether an item is what a filter asks for: a key is a name in the item, or with dots a path in it."""
    return all(_alike(_at(value, key), wanted) for key, wanted in (filter or {}).items())


def narrowed(filter: Filter | None) -> dict[str, Any] | None:
    """What keepstone's own filter can say of it; `holds` decides."""
    parts: list[dict[str, Any]] = []
    for key, wanted in (filter or {}).items():
        if "." in key or len(key) > 200:
            continue
        name = f"value.item.{key}"
        if _searchable(wanted):
            parts.append({name: wanted})
        for operator, bound in wanted.items() if isinstance(wanted, Mapping) else ():
            if operator == "$eq" and _searchable(bound):
                parts.append({name: bound})
            elif operator in _OPERATORS[2:] and _number(bound) and math.isfinite(bound) and abs(bound) < 2**62:
                other = [{name: {"gte": ""}}, {name: {"in": [True, False]}}]  # texts of numbers are compared as numbers
                parts.append({"or": [{name: {operator: bound}}, *other]})
    return {"and": parts[:_NARROWED]} if parts else None


def _searchable(wanted: Any) -> bool:
    """A value that only the same value is equal to; 1 and True are."""
    if isinstance(wanted, str):
        return len(wanted) < 1000 and "\0" not in wanted and not any("\ud800" <= each <= "\udfff" for each in wanted)
    return isinstance(wanted, int) and not isinstance(wanted, bool) and 1 < abs(wanted) < 2**62


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _at(value: Any, key: str) -> Any:
    if isinstance(value, Mapping) and key in value:
        return value[key]
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _alike(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if any(str(operator).startswith("$") for operator in wanted):
            return all(_compared(found, str(operator), bound) for operator, bound in wanted.items())
        return isinstance(found, Mapping) and all(_alike(found.get(name), each) for name, each in wanted.items())
    if isinstance(wanted, (list, tuple)):
        same = isinstance(found, (list, tuple)) and len(found) == len(wanted)
        return same and all(_alike(*pair) for pair in zip(found, wanted, strict=True))
    return bool(found == wanted)


def _compared(found: Any, operator: str, bound: Any) -> bool:
    if operator == "$eq":
        return bool(found == bound)
    if operator == "$ne":
        return bool(found != bound)
    if found is None or bound is None:
        return False
    left, right = _as_number(found), _as_number(bound)
    if left is None or right is None:
        if not (isinstance(found, str) and isinstance(bound, str)):
            return False
        left, right = found, bound
    return bool({"$gt": left > right, "$gte": left >= right, "$lt": left < right, "$lte": left <= right}[operator])  # type: ignore[operator]


def _as_number(value: Any) -> float | str | None:
    if not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)  # type: ignore[arg-type]
    except ValueError:
        return None


# -- namespaces ---------------------------------------------------------------------------------------------------------
def matched(namespace: tuple[str, ...], conditions: Iterable[MatchCondition]) -> bool:
    """Whether a namespace begins or ends so; a star stands for any one label."""
    return all(_matched(namespace, condition) for condition in conditions)


def _matched(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {condition.match_type!r:.40}. Use 'prefix' or 'suffix'.")
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(asked in ("*", label) for asked, label in zip(path, part, strict=True))


_log = logging.getLogger("keepstone.langgraph")


class Done:
    """Nothing, for who awaits it and who does not."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


class Count(int):
    """A number, for who awaits it and who does not."""

    def __await__(self) -> Generator[Any, None, int]:
        return int(self)
        yield


class Sweeper(concurrent.futures.Future[None]):
    """Ends with the sweeping; cancelling it stops it. Awaiting it gives itself at once, as LangGraph's task is given."""

    def __await__(self) -> Generator[Any, None, Sweeper]:
        return self
        yield


class Sweeping:
    """The thread that sweeps a shelf."""

    def __init__(self, shelf: DocumentStore) -> None:
        self._shelf = shelf
        self._thread: threading.Thread | None = None
        self.end = threading.Event()

    def start(self, minutes: float) -> Sweeper:
        sweeper = Sweeper()
        sweeper.add_done_callback(lambda future: self.end.set() if future.cancelled() else None)
        if self._thread is not None and self._thread.is_alive():
            return sweeper
        self.end.clear()
        self._thread = threading.Thread(target=self._run, args=(minutes * 60, sweeper), daemon=True, name="keepstone-ttl-sweeper")
        self._thread.start()
        return sweeper

    def stop(self, timeout: float | None) -> bool:
        self.end.set()
        if self._thread is None or not self._thread.is_alive():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self, seconds: float, sweeper: Sweeper) -> None:
        while not self.end.wait(seconds):
            try:
                self._shelf.sweep()
            except Exception:  # the next time may go better, and nobody waits for this one
                _log.warning("items that have expired could not be swept", exc_info=True)
        if not sweeper.cancelled():
            sweeper.set_result(None)
