"""Logging of the server: one line for each event, without any content of memories.

Lines go to stderr, as JSON, or as text on a terminal. A traceback has the types of errors and the code locations, no values.
It has an error's message only if keepstone wrote it about a store, a provider or a setting: messages about requests, or of
other libraries, may quote personal data.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from pydantic_core import to_json

from keepstone.errors import ConfigurationError, ProviderError, StoreError
from keepstone.guard.guard import redact_message

ACCESS = "keepstone.access"
FIELDS = ("method", "route", "status", "seconds", "key", "bytes")  # of a line about a request
request_id: ContextVar[str | None] = ContextVar("keepstone_request_id", default=None)

_LOGGED_MESSAGES = (StoreError, ProviderError, ConfigurationError)
_MAX_CAUSES = 10
_QUIET = ("uvicorn", "uvicorn.access", "httpx2", "httpcore2", "mcp", "sse_starlette")  # their info lines hold addresses


def configure() -> None:
    """Set up logging of a server process, in JSON unless stderr is a terminal. May be called again."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(as_json=not sys.stderr.isatty()))
    root = logging.getLogger()
    for earlier in [known for known in root.handlers if isinstance(known.formatter, LineFormatter)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    logging.getLogger("keepstone").setLevel("INFO")
    for name in _QUIET:
        logging.getLogger(name).setLevel("WARNING")


class LineFormatter(logging.Formatter):
    """Formats an event as one line."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        access = record.name == ACCESS
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage() if access else redact_message(record.getMessage()),
        }
        if (id := request_id.get()) is not None:
            fields["request_id"] = id
        if access:
            for name in FIELDS:
                if (value := record.__dict__.get(name)) is not None:
                    fields[name] = value
            return to_json(fields).decode() if self._as_json else _plain(fields)
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = list(describe_error(record.exc_info[1]))
        return json.dumps(fields, ensure_ascii=False) if self._as_json else _plain(fields)


def _plain(fields: dict[str, Any]) -> str:
    line = f"{fields['time'][11:19]} {fields['level']:7} {fields['message']}"
    if "seconds" in fields:
        line += f" {fields['seconds'] * 1000:.1f} ms"
    for name in ("key", "request_id"):
        if name in fields:
            line += f" {name}={fields[name]}"
    return "\n".join([line.replace("\n", " "), *(f"    {entry}" for entry in fields.get("error", ()))])


def describe_error(error: BaseException) -> Iterator[str]:
    """The lines of an error and its causes: type, message if it may be logged, code locations."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen and len(seen) < _MAX_CAUSES:
        seen.add(id(cause))
        kind = type(cause)
        text = f": {cause}" if isinstance(cause, _LOGGED_MESSAGES) else ""
        yield f"{kind.__module__}.{kind.__qualname__}{text}"
        for frame in traceback.StackSummary.extract(traceback.walk_tb(cause.__traceback__), lookup_lines=False):
            yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
