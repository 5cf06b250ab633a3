"""What the server writes down about itself: one line an event, without anybody's content.

Lines go to stderr: JSON for a collector, plain words on a terminal. A traceback has the type of the error and the places it came
through, never the values there. The text of an error stands in it only where keepstone wrote it about its own affairs (a store, a
provider, a setting); what callers sent, or what a foreign library says, may quote somebody's words and is left out.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

from pydantic_core import to_json

from keepstone.errors import ConfigurationError, ProviderError, StoreError
from keepstone.guard.guard import redact_message

ACCESS = "keepstone.access"
FIELDS = ("method", "route", "status", "seconds", "key", "bytes")  # what a line about a request says beside the usual
LEVELS = ("debug", "info", "warning", "error")
request_id: ContextVar[str | None] = ContextVar(
    "keepstone_request_id", default=None
)  # of the request in hand, in its threads too

_OWN_AFFAIRS = (StoreError, ProviderError, ConfigurationError)
_DEEPEST = 10  # errors behind an error
_QUIET = ("uvicorn.access", "httpx2", "httpcore2", "mcp", "sse_starlette")  # they would say addresses with what stands in them


def configure(level: str = "info", json: bool | None = None, stream: TextIO | None = None) -> None:
    """Set up the log of a process that serves. `json` None: unless somebody looks on (a terminal). May be called again."""
    if level not in LEVELS:
        raise ConfigurationError(f"the log level is {level!r:.40}: use one of {', '.join(LEVELS)}.")
    stream = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Lines(not stream.isatty() if json is None else json))
    root = logging.getLogger()
    for each in [held for held in root.handlers if isinstance(held.formatter, Lines)]:
        root.removeHandler(each)
    root.addHandler(handler)
    logging.getLogger("keepstone").setLevel(level.upper())
    logging.getLogger("uvicorn").setLevel("WARNING" if level == "info" else level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel("WARNING")


class Lines(logging.Formatter):
    """One line for one event."""

    def __init__(self, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        access = record.name == ACCESS
        said: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage() if access else redact_message(record.getMessage()),
        }
        if (id := request_id.get()) is not None:
            said["request_id"] = id
        if access:
            held = record.__dict__
            for name in FIELDS:
                if (value := held.get(name)) is not None:
                    said[name] = value
            return to_json(said).decode() if self._as_json else _plain(said)
        if record.exc_info and record.exc_info[1] is not None:
            said["error"] = list(told(record.exc_info[1]))
        return json.dumps(said, ensure_ascii=False) if self._as_json else _plain(said)


def _plain(said: dict[str, Any]) -> str:
    line = f"{said['time'][11:19]} {said['level']:7} {said['message']}"
    if "seconds" in said:
        line += f" {said['seconds'] * 1000:.1f} ms"
    for name in ("key", "request_id"):
        if name in said:
            line += f" {name}={said[name]}"
    return "\n".join([line.replace("\n", " "), *(f"    {each}" for each in said.get("error", ()))])


def told(error: BaseException) -> Iterator[str]:
    """An error and those behind it, the last first: type, text where it may be shown, and where it came through."""
    seen: set[int] = set()
    behind: BaseException | None = error
    while behind is not None and id(behind) not in seen and len(seen) < _DEEPEST:
        seen.add(id(behind))
        kind = type(behind)
        text = f": {behind}" if isinstance(behind, _OWN_AFFAIRS) else ""
        yield f"{kind.__module__}.{kind.__qualname__}{text}"
        for frame in traceback.StackSummary.extract(traceback.walk_tb(behind.__traceback__), lookup_lines=False):
            yield f"  {frame.filename}:{frame.lineno} in {frame.name}"
        behind = behind.__cause__ or (None if behind.__suppress_context__ else behind.__context__)
