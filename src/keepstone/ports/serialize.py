"""Conversion of public values to JSON for the command line and the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from typing import Any

from keepstone.types import Hit, ImportReport, Recall


def document(value: Any) -> Any:
    """A value of keepstone as JSON: dataclasses by field, times as ISO 8601, tuples as lists."""
    shape = _shape(value)
    if shape is None and is_dataclass(value) and not isinstance(value, type):
        shape = _field_values(value)
    if shape is not None or isinstance(value, Mapping):
        return {str(name): document(item) for name, item in (value if shape is None else shape).items()}
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return [document(item) for item in value]
    return value


def outline(value: Any) -> Any:
    """`document` for a JSON encoder that knows dataclasses and times: only values that differ from their fields are converted.
    Ten times as fast."""
    shape = _shape(value)
    if shape is not None:
        return shape
    if isinstance(value, Sequence) and is_dataclass(value):
        return _field_values(value)
    if isinstance(value, dict):
        return {name: outline(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [outline(item) for item in value]
    return value


def _shape(value: Any) -> dict[str, Any] | None:
    """The JSON object of a value that has more than its fields, or other ones; None for any other value."""
    if isinstance(value, Hit):
        return {"id": value.id, "content": value.content, "reasons": because(value.signals), **_field_values(value)}
    if isinstance(value, Recall):
        return _field_values(value) | {"hits": [{"rank": rank, **(_shape(hit) or {})} for rank, hit in enumerate(value.hits, 1)]}
    if isinstance(value, ImportReport):
        return _field_values(value) | {"errors": [{"line": line, "problem": problem} for line, problem in value.errors]}
    return None


def _field_values(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def because(signals: Mapping[str, float]) -> list[str]:
    """Why a record was recalled, in a few words; the numbers are in its signals.

    >>> because({"cosine": 0.57, "coverage": 1.0})
    ['close in meaning (0.57)', 'holds every word asked for']
    """
    reasons = []
    meaning, coverage = signals.get("cosine", 0.0), signals.get("coverage", 0.0)
    if meaning >= 0.2:
        reasons.append(f"{'close' if meaning >= 0.5 else 'related'} in meaning ({meaning:.2f})")
    if coverage >= 0.995:
        reasons.append("holds every word asked for")
    elif coverage > 0:
        reasons.append(f"shares words ({coverage:.0%} of the question)")
    if signals.get("time", 0.0) >= 1:
        reasons.append("of the time asked about")
    if current := signals.get("current", 0.0):
        reasons.append("replaces an earlier statement" if current > 0 else "a later statement replaces it")
    return reasons or ["passed the filters; no closer match"]
