"""A file as cells: each value with its place in the file, so that what is wrong with it can be said."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Mapping
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError, ValidationError
from keepstone.text.times import parse_time

MAX_BYTES = 4 * 1024 * 1024
_MAX_CELLS = 200_000  # a few lines of anchors can stand for billions of values
_MAX_DEPTH = 30
Place = tuple[str | int, ...]


class Cell:
    """One value of a file and where it stands."""

    def __init__(self, file: str, value: Any, lines: Mapping[Place, int], path: Place = ()) -> None:
        self.file, self.value, self.path = file, value, path
        self._lines = lines

    @property
    def line(self) -> int | None:
        """The line it begins on; None in JSON, whose reader does not tell."""
        return self._lines.get(self.path)

    @property
    def name(self) -> str:
        """Where it stands in the document: tests[2].limit."""
        return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path).lstrip(".")

    def wrong(self, problem: str) -> ValidationError:
        """The error that says where something is wrong, and what."""
        line = "" if self.line is None else f":{self.line}"
        return ValidationError(f"{self.file}{line}: {self.name + ' ' if self.path else 'the file '}{problem}")

    def unlike(self, use: str) -> ValidationError:
        """The error for a value of the wrong kind."""
        return self.wrong(f"is {self.value!r:.60}: use {use}.")

    # -- inside -----------------------------------------------------------------------------------------------------
    def fields(self, known: Collection[str], example: str) -> dict[str, Cell]:
        """The fields of a table; one that is not known is refused."""
        if not isinstance(self.value, dict):
            raise self.unlike(f"fields, such as {example}")
        for name in self.value:
            if name not in known:
                near = difflib.get_close_matches(str(name), known, 1)
                meant = f"did you mean {near[0]}? " if near else ""
                raise self._at(name).wrong(f"is not known: {meant}use {', '.join(known)}.")
        return {name: self._at(name) for name in self.value}

    def items(self, use: str) -> list[Cell]:
        """The items of a list."""
        if not isinstance(self.value, list):
            raise self.unlike(use)
        return [self._at(number) for number in range(len(self.value))]

    def _at(self, part: Any) -> Cell:
        return Cell(self.file, self.value[part], self._lines, (*self.path, part))

    # -- kinds of values --------------------------------------------------------------------------------------------
    def text(self, *, empty: bool = False) -> str:
        """A text."""
        if isinstance(self.value, str) and (empty or self.value.strip()):
            return self.value
        if isinstance(self.value, (bool, int, float, date)):
            raise self.unlike(f'text; what YAML reads otherwise goes into quotes: "{self.value}"')
        raise self.unlike("text")

    def whole(self, least: int, most: int) -> int:
        """A whole number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not least <= self.value <= most:
            raise self.unlike(f"a whole number from {least} to {most}")
        return self.value

    def fraction(self) -> float:
        """A number from 0 to 1."""
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)) or not 0 <= self.value <= 1:
            raise self.unlike("a number from 0 to 1")
        return float(self.value)

    def truth(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            raise self.unlike("true or false")
        return self.value

    def moment(self) -> datetime:
        """A time; a day is its first moment in UTC."""
        value = self.value
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime.combine(value, time())
        if not isinstance(value, (str, datetime)):
            raise self.unlike("a time such as 2026-03-01 or 2026-03-01T09:30:00+00:00")
        try:
            return parse_time(value, "it")
        except ValidationError:
            raise self.unlike("a time such as 2026-03-01 or 2026-03-01T09:30:00+00:00") from None

    def plain(self) -> Any:
        """Any JSON value; times, which YAML knows and JSON does not, as text."""
        return _plain(self.value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.isoformat() if isinstance(value, date) else value


# -- from files -----------------------------------------------------------------------------------------------------
def open_cells(path: Path) -> Cell:
    """The whole of a file: YAML, or JSON where its name says so."""
    file = str(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read ({error.strerror}): name a memtest file.") from None
    if len(raw) > MAX_BYTES:
        raise ValidationError(f"{file} has {len(raw)} bytes, the limit is {MAX_BYTES}: split it.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValidationError(f"{file} is not UTF-8 (byte {error.start}): save it as UTF-8.") from None
    return _json(file, text) if path.suffix.lower() == ".json" else _yaml(file, text)


def _json(file: str, text: str) -> Cell:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise ValueError(f"the field {name!r:.60} stands twice")
            found[name] = value
        return found

    def never(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    try:
        value = json.loads(text, object_pairs_hook=once, parse_constant=never)
        if _is_deeper(value, _MAX_DEPTH):
            raise ValueError(f"it is nested deeper than {_MAX_DEPTH} levels")
        return Cell(file, value, {})
    except json.JSONDecodeError as error:
        raise ValidationError(f"{file}:{error.lineno}: not JSON ({error.msg}): mend it there.") from None
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"{file}: not JSON as it is read here ({error}): mend it.") from None


def _is_deeper(value: Any, most: int) -> bool:
    """Whether lists and tables stand in each other more than so many times."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return most < 0 or any(_is_deeper(each, most - 1) for each in inside)


def _yaml(file: str, text: str) -> Cell:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise ConfigurationError(
            f"{file} is YAML, and PyYAML is not installed: {install_command('test')}, or write it as JSON (memtest.json)."
        ) from None
    try:
        loader = yaml.SafeLoader(text)
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise ValidationError(f"{file}: not YAML ({str(error).splitlines()[0]}): mend it.") from None
    try:
        node = loader.get_single_node()
        if node is None:
            raise ValidationError(f"{file} is empty: begin with 'version: 1' and a list of tests.")
        lines: dict[Place, int] = {}
        return Cell(file, _value(file, loader, node, (), lines), lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f":{mark.line + 1}"
        raise ValidationError(f"{file}{line}: not YAML ({error.problem or error.context}): mend it there.") from None
    except yaml.YAMLError as error:
        raise ValidationError(f"{file}: not YAML ({str(error).splitlines()[0]}): mend it.") from None
    except RecursionError:
        raise ValidationError(f"{file} is nested too deeply: use at most {_MAX_DEPTH} levels.") from None
    finally:
        loader.dispose()


def _value(file: str, loader: Any, node: Any, path: Place, lines: dict[Place, int]) -> Any:
    """The value of a node, noting the line of each value within it."""
    line = node.start_mark.line + 1
    lines.setdefault(path, line)
    if len(lines) > _MAX_CELLS or len(path) > _MAX_DEPTH:
        raise ValidationError(
            f"{file}:{line}: more than {_MAX_CELLS} values or {_MAX_DEPTH} levels: do not use anchors to repeat so much."
        )
    if node.id == "sequence":
        return [_value(file, loader, each, (*path, at), lines) for at, each in enumerate(node.value)]
    if node.id == "mapping":
        found: dict[str, Any] = {}
        for key, value in node.value:
            name, at = key.value, key.start_mark.line + 1
            if key.id != "scalar":
                raise ValidationError(f"{file}:{at}: the name of a field is not text: use a word.")
            if name in found:
                raise ValidationError(f"{file}:{at}: the field {name!r:.60} stands twice: keep one.")
            lines[(*path, name)] = at
            found[name] = _value(file, loader, value, (*path, name), lines)
        return found
    try:
        return loader.construct_object(node, deep=True)
    except (ValueError, OverflowError) as error:  # 2026-02-30
        raise ValidationError(
            f"{file}:{line}: {node.value!r:.60} cannot be read ({error}): mend it, or put it in quotes."
        ) from None
