"""The timeline: what was true, or known, at a time, and what came, changed and went before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.responses import Response

from keepstone.ports.stores import Store
from keepstone.server.dashboard.places import Place
from keepstone.server.dashboard.visit import Visit
from keepstone.text.times import EARLIEST, LATEST, parse_time
from keepstone.types import MESSAGE, Record, Scope

_STEPS = 120  # places of the slider, at most
_SHOWN = 60
_SPANS = {"day": timedelta(days=1), "week": timedelta(days=7), "month": timedelta(days=30), "all": None}


@dataclass(frozen=True, slots=True)
class Scale:
    """The times that the slider can stand at: `first` and then every so many seconds; `counts` is what came in each step."""

    first: datetime
    step: float
    steps: int
    counts: tuple[int, ...]

    def place(self, at: datetime) -> int:
        return min(max(round((at - self.first).total_seconds() / self.step), 0), self.steps)


def show(visit: Visit) -> Response:
    store, scope, now = visit.desk.service.engine.store, visit.caller.scope, visit.desk.service.engine.clock()
    mode = "known" if visit.asked.query.get("mode") == "known" else "true"
    talk = visit.asked.query.get("talk") == "yes"
    span = visit.asked.query.get("span", "week")
    span = span if span in _SPANS else "week"
    given = visit.asked.word("at")
    at = now if given is None else min(parse_time(given, "at"), now)
    past = store.snapshot(scope, at if mode == "true" else None, at if mode == "known" else None).records
    held = [record for record in past if _held(record, at) and (talk or record.kind != MESSAGE)]
    length = _SPANS[span]
    since = EARLIEST if length is None else max(at - length, EARLIEST)
    diff = visit.memory.audit.diff(since, at, kinds=None if talk else _kinds(store, scope, past))
    held.sort(key=lambda record: record.valid_from if mode == "true" else record.updated_at, reverse=True)
    values: dict[str, Any] = {
        "at": at, "mode": mode, "held": held[:_SHOWN], "total": len(held), "diff": diff, "is_now": given is None or at >= now,
        "by_kind": Counter(record.kind for record in held).most_common(), "since": None if length is None else since,
    }  # fmt: skip
    if visit.asked.fragment:
        return visit.part("timeline.html", **values)
    every = [each for each in store.snapshot(scope, None, None).records if each.status != "quarantined"]
    scale = _scale([each for each in every if talk or each.kind != MESSAGE], mode, now)
    return visit.page(
        "timeline.html", **values, span=span, spans=list(_SPANS), scale=scale, place=scale.place(at), empty=not every, talk=talk,
        now_=now,
    )  # fmt: skip


def _kinds(store: Store, scope: Scope, past: Sequence[Record]) -> list[str]:
    """The kinds there are and were, messages apart."""
    now = {kind for kind, _ in store.retention.stats(scope, LATEST).kinds}
    return sorted((now | {record.kind for record in past}) - {MESSAGE}) or [""]


def _held(record: Record, at: datetime) -> bool:
    ended = record.expires_at is not None and record.expires_at <= at
    return record.status == "active" and not ended


def _scale(every: Sequence[Record], mode: str, now: datetime) -> Scale:
    times = [record.valid_from if mode == "true" else record.created_at for record in every]
    first = min([each for each in times if each > now - timedelta(days=3650)], default=now - timedelta(days=30))
    first = min(first, now - timedelta(hours=1)).astimezone(UTC)
    length = (now - first).total_seconds()
    size = max(length / _STEPS, 60.0)
    steps = max(int(length / size + 0.999), 1)
    counts = [0] * (steps + 1)
    for each in times:
        if each >= first:
            counts[min(int((each - first).total_seconds() / size), steps)] += 1
    return Scale(first, size, steps, tuple(counts))


PLACES = (Place("/timeline", get=show),)
