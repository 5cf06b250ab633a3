"""Conversations, and the timeline of what was true or known at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from starlette.responses import Response

from keepstone.conversation.flow import Built
from keepstone.errors import NotFound, ValidationError
from keepstone.maintenance.audit import Change, Diff
from keepstone.ports.values import ListQuery
from keepstone.server.dashboard.context import Page, PageRequest, session_path
from keepstone.server.dashboard.formatting import message_text
from keepstone.text.times import EARLIEST, parse_time
from keepstone.types import MESSAGE, Message, Record

_MAX_SESSIONS, _PAGE_MESSAGES, _MAX_FOUND_MESSAGES, _OPENING_MESSAGES = 200, 100, 200, 6
_DEFAULT_WINDOW_TOKENS = 8000
_MAX_SLIDER_STEPS, _MIN_STEP_SECONDS = 120, 60.0
_MAX_TIMELINE_SCOPE = 20_000  # memories; the timeline reads each of them several times
_MAX_TIMELINE_RECORDS = 40
_MAX_SCALE = timedelta(days=7300)
_SPANS = {"day": timedelta(days=1), "week": timedelta(days=7), "month": timedelta(days=30), "all": None}


# -- conversations -------------------------------------------------------------------------------------------------------
def list_conversations(request: PageRequest) -> Response:
    if request.http.param("session") is not None:
        return show_conversation(request)
    sessions = request.memory.conversation.list(limit=_MAX_SESSIONS)
    summaries = dict.fromkeys((session.name for session in sessions), "")
    for record in islice(request.backend.records(request.caller.scope, ListQuery(kind="summary")), _MAX_SESSIONS):
        if record.session in summaries:
            summaries[record.session] = summaries[record.session] or record.content
    return request.page(
        "conversations.html",
        sessions=sessions,
        openings={session.name: _read_opening(request, session.name) for session in sessions},
        summaries=summaries,
    )


def _read_opening(request: PageRequest, session: str) -> dict[str, Any]:
    """How a conversation begins, and who takes part in its first messages."""
    rows = request.backend.messages(request.caller.scope, session, limit=_OPENING_MESSAGES, oldest=True)
    first = [record for _, record in rows]
    said = next((record.content for record in first if record.role == "user"), first[0].content if first else "")
    return {"text": said, "people": list(dict.fromkeys(record.name or record.role or "" for record in first))}


def show_conversation(request: PageRequest) -> Response:
    http = request.http
    name = http.path_params.get("session") or http.param("session") or ""
    conversation = request.memory.conversation(name)
    count = len(conversation)
    if not count:
        raise NotFound(f"conversation {name!r:.80} has no messages: choose one of the list.")
    words = http.param("words")
    view = "window" if http.query.get("view") == "window" else "messages"
    last = _parse_int(http.param("last"), "last", _PAGE_MESSAGES, 100_000)
    max_tokens = _parse_int(http.param("max_tokens"), "max_tokens", _DEFAULT_WINDOW_TOKENS, 10_000_000)
    messages: list[Message] = []
    window: Built | None = None
    if view == "window":
        window = conversation.build(max_tokens=max_tokens)
    elif words:
        messages = conversation.search(words, limit=_MAX_FOUND_MESSAGES)
    else:
        messages = conversation.last(last)
    return request.page(
        "conversation.html",
        name=name,
        count=count,
        messages=messages,
        window=window,
        words=words,
        view=view,
        max_tokens=max_tokens,
        earlier=min(last + _PAGE_MESSAGES, count) if not words and last < count else None,
        home=session_path(name),
        text_of=message_text,
    )


def _parse_int(text: str | None, name: str, default: int, maximum: int) -> int:
    if text is None:
        return default
    if not text.isdecimal() or not 1 <= int(text[:12]) <= maximum:
        raise ValidationError(f"{name} is {text!r:.40}: use a whole number from 1 to {maximum}.")
    return int(text)


# -- timeline ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Scale:
    """The slider's times: `first` and every `step` seconds after it; `counts` are the memories that begin in each step."""

    first: datetime
    step: float
    steps: int
    counts: tuple[int, ...]

    def position(self, at: datetime) -> int:
        return min(max(round((at - self.first).total_seconds() / self.step), 0), self.steps)


def show_timeline(request: PageRequest) -> Response:
    http, backend, scope = request.http, request.backend, request.caller.scope
    now = backend.now()
    count = backend.count(scope)
    if count > _MAX_TIMELINE_SCOPE:
        return request.page("timeline.html", large=count, empty=False)
    mode = "known" if http.query.get("mode") == "known" else "true"
    with_messages = http.query.get("talk") == "yes"
    span = http.query.get("span", "week")
    span = span if span in _SPANS else "week"
    chosen = http.param("at")
    at = now if chosen is None else min(parse_time(chosen, "at"), now)
    past = backend.snapshot(scope, as_of=at if mode == "true" else None, known_at=at if mode == "known" else None)
    records = [record for record in past if _is_active(record, at) and (with_messages or record.kind != MESSAGE)]
    records.sort(key=lambda record: record.valid_from if mode == "true" else record.updated_at, reverse=True)
    length = _SPANS[span]
    since = EARLIEST if length is None else max(at - length, EARLIEST)
    kinds = (
        None if with_messages else sorted((backend.kinds(scope).keys() | {record.kind for record in past}) - {MESSAGE}) or [""]
    )
    values: dict[str, Any] = {
        "at": at,
        "mode": mode,
        "records": records[:_MAX_TIMELINE_RECORDS],
        "total": len(records),
        "diff": _compare(request, since, at, records, with_messages)
        if mode == "true"
        else request.memory.audit.diff(since, at, kinds=kinds),
        "is_now": chosen is None or at >= now,
        "by_kind": Counter(record.kind for record in records).most_common(),
        "since": None if length is None else since,
    }
    if http.fragment:
        return request.part("timeline.html", **values)
    stored = [record for record in backend.snapshot(scope) if record.status != "quarantined"]
    scale = _make_scale([record for record in stored if with_messages or record.kind != MESSAGE], mode, now)
    return request.page(
        "timeline.html",
        **values,
        span=span,
        spans=list(_SPANS),
        scale=scale,
        position=scale.position(at),
        empty=not stored,
        with_messages=with_messages,
        now=now,
    )


def _compare(request: PageRequest, since: datetime, at: datetime, records: Sequence[Record], with_messages: bool) -> Diff:
    """What began to be true, changed and ended between two times, by when it was valid: imported history is at its own time."""
    past = request.backend.snapshot(request.caller.scope, as_of=since) if since > EARLIEST else ()
    before = {record.id: record for record in past if _is_active(record, since) and (with_messages or record.kind != MESSAGE)}
    now = {record.id for record in records}
    added = [record for record in records if record.id not in before]
    changed = [Change(before[record.id], record) for record in records if before.get(record.id, record).content != record.content]
    removed = [record for id, record in before.items() if id not in now]
    return Diff(since, at, tuple(added[::-1]), tuple(changed), tuple(removed))


def _is_active(record: Record, at: datetime) -> bool:
    expired = record.expires_at is not None and record.expires_at <= at
    return record.status == "active" and not expired


def _make_scale(records: Sequence[Record], mode: str, now: datetime) -> Scale:
    times = [record.valid_from if mode == "true" else record.created_at for record in records]
    first = min([time for time in times if time > now - _MAX_SCALE], default=now - timedelta(days=30))
    first = min(first, now - timedelta(hours=1)).astimezone(UTC)
    seconds = (now - first).total_seconds()
    step = max(seconds / _MAX_SLIDER_STEPS, _MIN_STEP_SECONDS)
    steps = max(int(seconds / step + 0.999), 1)
    counts = [0] * (steps + 1)
    for time in times:
        if time >= first:
            counts[min(int((time - first).total_seconds() / step), steps)] += 1
    return Scale(first, step, steps, tuple(counts))


PAGES = (
    Page("/conversations", get=list_conversations),
    Page("/conversations/{session:path}", get=show_conversation),
    Page("/timeline", get=show_timeline),
)
