"""Probes: checks of a memory against files, queries, pages or functions, by handlers that the caller of verify supplies.

A probe is data in a record's metadata and runs nothing by itself. A handler runs in the caller's thread and has to limit its own
time; an exception is reported by the name of its type, without its message.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from keepstone.errors import ValidationError
from keepstone.types import Metadata, clean_name

PROBE = "probe"  # the field of the metadata
KINDS = ("callable", "file", "sql", "url")
Handlers = Mapping[str, Callable[..., Any] | str | os.PathLike[str]]
_SHA256_DIGITS = 64
_MAX_TARGET_CHARS = 4000  # of a path, query or URL


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a probe. `name` is the handler's; `problem` says why there is no answer, without any value."""

    name: str
    ran: bool = False
    holds: bool = True
    problem: str | None = None


class _InvalidAnswer(Exception):
    """A handler's answer cannot be compared."""


# -- probes ---------------------------------------------------------------------------------------------------------------
def callable_probe(name: str, expect: Any) -> dict[str, Any]:
    """Metadata for a memory that holds as long as the handler of this name answers `expect`.

    >>> callable_probe("db_version", 17)
    {'probe': {'kind': 'callable', 'name': 'db_version', 'expect': 17}}
    """
    name = clean_name(name, "name")
    if name in KINDS:
        raise ValidationError(f"name is {name!r}, which is a kind of probe: choose another name for the handler.")
    return {PROBE: {"kind": "callable", "name": name, "expect": _json(expect)}}


def file_probe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Metadata for a memory that holds as long as a file is what it is now. A relative path is looked for under the folder that
    verify is given."""
    said = os.fspath(path)
    try:
        with open(said, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ValidationError(
            f"the file {said!r:.200} cannot be read ({type(error).__name__}): probe one that is there."
        ) from None
    return {PROBE: {"kind": "file", "path": str(said), "sha256": digest}}


def sql_probe(query: str, expect: Any) -> dict[str, Any]:
    """Metadata for a memory that holds as long as a query answers `expect`."""
    return {PROBE: {"kind": "sql", "query": _text(query, "query"), "expect": _json(expect)}}


def url_probe(url: str, expect: str | Mapping[str, int]) -> dict[str, Any]:
    """Metadata for a memory that holds as long as a page has a text in it, or answers with {"status": 200}."""
    wanted: Any = dict(expect) if isinstance(expect, Mapping) else expect
    if not _is_page_expectation(wanted):
        raise ValidationError(f"expect is {type(expect).__name__}: use a text that must be in the page, or {{'status': 200}}.")
    return {PROBE: {"kind": "url", "url": _text(url, "url"), "expect": wanted}}


def _json(value: Any) -> Any:
    try:
        return json.loads(json.dumps(_to_json(value), allow_nan=False))
    except (_InvalidAnswer, TypeError, ValueError):
        raise ValidationError(f"expect is a {type(value).__name__}: use what JSON can hold.") from None


def _text(value: str, what: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_TARGET_CHARS:
        raise ValidationError(f"{what} must be text of 1 to {_MAX_TARGET_CHARS} characters.")
    return value


def _is_page_expectation(expect: Any) -> bool:
    if isinstance(expect, str):
        return bool(expect)
    return isinstance(expect, dict) and set(expect) == {"status"} and type(expect["status"]) is int


# -- handlers -------------------------------------------------------------------------------------------------------------
def check_handlers(handlers: Handlers | None) -> Handlers:
    """The handlers after validation; ValidationError names an invalid one."""
    if handlers is None:
        return {}
    if not isinstance(handlers, Mapping):
        raise ValidationError(f"handlers is a {type(handlers).__name__}: use a dictionary from names to functions.")
    for name, handler in handlers.items():
        if name == "file" and isinstance(handler, (str, os.PathLike)):
            if not Path(handler).is_dir():
                raise ValidationError(f"handlers['file'] is {os.fspath(handler)!r:.200}, which is no folder.")
        elif not callable(handler):
            raise ValidationError(f"handlers[{name!r:.60}] is a {type(handler).__name__}: use a function.")
        if name == "callable":
            raise ValidationError("handlers['callable'] names a kind of probe: give each function under its own name.")
    return handlers


def run(metadata: Metadata, handlers: Handlers) -> Outcome | None:
    """Run a record's probe; None where it has no probe or there is no handler for it."""
    probe = metadata.get(PROBE)
    if probe is None:
        return None
    if not isinstance(probe, Mapping) or not _is_valid(probe):
        return Outcome("", problem="its probe cannot be read: make it with the functions of keepstone.maintenance.probes")
    name = probe["name"] if probe["kind"] == "callable" else probe["kind"]
    handler = handlers.get(name)
    if handler is None or (probe["kind"] == "callable" and name in KINDS):
        return None
    try:
        holds = _check_probe(probe, handler)
    except _InvalidAnswer as error:
        return Outcome(name, True, problem=f"its probe {name:.60} has no usable answer: {error}")
    except Exception as error:  # whatever a caller's function raises
        return Outcome(name, True, problem=f"its probe {name:.60} failed with {type(error).__name__:.60}")
    return Outcome(name, True, holds)


def _is_valid(probe: Mapping[str, Any]) -> bool:
    def text(field: str) -> bool:
        return isinstance(probe.get(field), str) and 0 < len(probe[field]) <= _MAX_TARGET_CHARS

    match probe.get("kind"):
        case "callable":
            return text("name") and "expect" in probe
        case "file":
            return text("path") and text("sha256") and len(probe["sha256"]) == _SHA256_DIGITS
        case "sql":
            return text("query") and "expect" in probe
        case "url":
            return text("url") and _is_page_expectation(probe.get("expect"))
    return False


def _check_probe(probe: Mapping[str, Any], handler: Any) -> bool:
    kind = probe["kind"]
    if kind == "callable":
        return _json_equal(_to_json(handler()), probe["expect"])
    if kind == "sql":
        return _json_equal(_to_json(handler(probe["query"])), probe["expect"])
    if kind == "url":
        return _matches_page(handler(probe["url"]), probe["expect"])
    answer = _hash_file(Path(handler), probe["path"]) if isinstance(handler, (str, os.PathLike)) else handler(probe["path"])
    if isinstance(answer, bytes):
        answer = hashlib.sha256(answer).hexdigest()
    if answer is not None and not (isinstance(answer, str) and len(answer) == _SHA256_DIGITS):
        raise _InvalidAnswer("it must be the file's bytes, their SHA-256 in hexadecimal, or None where there is no file")
    return bool(answer is not None and answer.lower() == probe["sha256"].lower())


def _matches_page(answer: Any, expect: Any) -> bool:
    status, text = answer if isinstance(answer, tuple) and len(answer) == 2 else (None, answer)
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if isinstance(expect, str):
        if not isinstance(text, str):
            raise _InvalidAnswer("it must be the page's text, or (status, text)")
        return expect in text
    if type(status) is not int:
        raise _InvalidAnswer("a status is expected: answer (status, text)")
    return bool(status == expect["status"])


def _hash_file(folder: Path, said: str) -> str | None:
    """The hash of a file under a folder, wherever links lead; None if there is none."""
    root = folder.resolve(strict=True)
    try:
        path = (root / said).resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError):
        path = (root / said).resolve()
        if path.is_relative_to(root):
            return None
    if not path.is_relative_to(root):
        raise _InvalidAnswer("its path leads out of the folder that is allowed")
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _InvalidAnswer("its path is no plain file")
        return hashlib.file_digest(file, "sha256").hexdigest()


def _to_json(value: Any) -> Any:
    """An answer as JSON would hold it: rows of tuples are lists, a decimal is a number."""
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, (float, Decimal)):
        if value != value or value in (float("inf"), float("-inf")):
            raise _InvalidAnswer("it is not a number")
        return value if isinstance(value, float) else int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: _to_json(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(each) for each in value]
    raise _InvalidAnswer(f"a {type(value).__name__:.60} is nothing that JSON holds")


def _json_equal(answer: Any, expect: Any) -> bool:
    """Equality as JSON has it: true is not 1, and 17 is 17.0."""
    if isinstance(answer, bool) or isinstance(expect, bool):
        return answer is expect
    if isinstance(answer, list) and isinstance(expect, (list, tuple)):
        return len(answer) == len(expect) and all(map(_json_equal, answer, expect))
    if isinstance(answer, dict) and isinstance(expect, Mapping):
        return answer.keys() == expect.keys() and all(_json_equal(answer[name], expect[name]) for name in answer)
    return bool(answer == expect)
