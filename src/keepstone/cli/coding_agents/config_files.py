"""Changes in the configuration files of clients: JSON with comments and TOML, edited in place; the rest of a file stays."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from keepstone.errors import ConfigurationError

Path = Sequence[str | int]  # keys of objects and places in arrays
_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_DECODER = json.JSONDecoder()
_SCALAR = re.compile(r"[-+.\w]+")
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)


@dataclass
class _Node:
    """A value and where it stands in the text."""

    start: int
    end: int
    value: Any = None
    # By the keys of an object or the places in an array: where the member begins, and its value.
    children: dict[str | int, tuple[int, _Node]] | None = None


@dataclass
class JsonFile:
    """The text of a JSON file, in which comments and trailing commas are allowed."""

    text: str
    _root: _Node = field(init=False)

    def __post_init__(self) -> None:
        if not self.text.strip():
            self.text = "{}\n"
        self._read()

    def _read(self) -> None:
        bom = 1 if self.text.startswith("\ufeff") else 0
        self._root = self._parse(bom)
        if not isinstance(self._root.value, dict) or self._skip(self._root.end) != len(self.text):
            raise ValueError("it is not one JSON object")

    @property
    def value(self) -> Any:
        """All of it."""
        return self._root.value

    def get(self, path: Path) -> Any:
        """The value at a path; None if there is none."""
        node = self._find(path)
        return None if node is None else node.value

    def put(self, path: Path, value: Any) -> None:
        """Set the value of a key; missing objects on the way are made."""
        node = self._find(path)
        if node is not None:
            self._splice(node.start, node.end, self._dump(value, len(path)))
            return
        known = next(depth for depth in range(len(path) - 1, -1, -1) if self._find(path[:depth]) is not None)
        for name in reversed(path[known + 1 :]):
            value = {name: value}
        self._insert(path[:known], f"{json.dumps(path[known])}: {self._dump(value, known + 1)}")

    def append(self, path: Path, value: Any) -> None:
        """Append an item to the array at a path, which is made if it is missing."""
        if self._find(path) is None:
            self.put(path, [value])
        else:
            self._insert(path, self._dump(value, len(path) + 1))

    def delete(self, path: Path) -> None:
        """Remove a member or an item; objects and arrays that become empty go too."""
        *holder, name = path
        container, spans = self._require(holder)
        index = list(container.children or ()).index(name)
        if len(spans) == 1:
            self._splice(container.start + 1, container.end - 1, "")
            if holder:
                self.delete(holder)
        elif index == 0:
            self._splice(spans[0][0], spans[1][0], "")
        else:
            self._splice(spans[index - 1][1], spans[index][1], "")

    def _find(self, path: Path) -> _Node | None:
        node = self._root
        for name in path:
            if node.children is None or name not in node.children:
                return None
            node = node.children[name][1]
        return node

    def _require(self, path: Path) -> tuple[_Node, list[tuple[int, int]]]:
        """An object or array, and where its members begin and end."""
        node = self._find(path)
        if node is None or node.children is None:
            raise ValueError(f"{'.'.join(map(str, path))} is neither an object nor an array")
        return node, [(start, child.end) for start, child in node.children.values()]

    def _insert(self, path: Path, new: str) -> None:
        """Insert a member or an item as the last one of an object or array."""
        container, spans = self._require(path)
        unit, depth = self._unit(), len(path)
        close = container.end - 1
        last = max((position for position in range(container.start, close) if not self.text[position].isspace()), default=0) + 1
        tail = self.text[last:close]
        end = tail if "\n" in tail else f"\n{unit * depth}"
        self._splice(last, close, f"\n{unit * (depth + 1)}{new}{end}", read=False)
        if spans and "," not in re.sub(r"//[^\n]*|/\*.*?\*/", "", self.text[spans[-1][1] : last], flags=re.DOTALL):
            self._splice(spans[-1][1], spans[-1][1], ",", read=False)
        self._read()

    def _splice(self, start: int, end: int, new: str, read: bool = True) -> None:
        self.text = self.text[:start] + new + self.text[end:]
        if read:
            self._read()

    def _unit(self) -> str:
        found = _INDENT.search(self.text)
        return found[1] if found else "  "

    def _dump(self, value: Any, depth: int) -> str:
        unit = self._unit()
        lines = json.dumps(value, ensure_ascii=False, indent=unit).split("\n")
        return f"\n{unit * depth}".join(lines)

    def _skip(self, at: int) -> int:
        found = _BLANK.match(self.text, at)
        return found.end() if found else at

    def _parse(self, at: int) -> _Node:
        start = self._skip(at)
        first = self.text[start : start + 1]
        if first == '"':
            value, end = _DECODER.raw_decode(self.text, start)
            return _Node(start, end, value)
        if first in ("{", "["):
            return self._parse_container(start, "}" if first == "{" else "]")
        found = _SCALAR.match(self.text, start)
        if found is None:
            raise ValueError(f"character {start} is not JSON")
        return _Node(start, found.end(), json.loads(found[0]))

    def _parse_container(self, start: int, close: str) -> _Node:
        children: dict[str | int, tuple[int, _Node]] = {}
        at = self._skip(start + 1)
        while self.text[at : at + 1] != close:
            begin, key, node = at, len(children), self._parse(at)
            if close == "}":
                key, at = node.value, self._skip(node.end)
                if not isinstance(key, str) or self.text[at : at + 1] != ":":
                    raise ValueError(f"character {begin} is not JSON")
                node = self._parse(at + 1)
            children[key] = (begin, node)
            at = self._skip(node.end)
            if self.text[at : at + 1] == ",":
                at = self._skip(at + 1)
            elif self.text[at : at + 1] != close:
                raise ValueError(f"character {at} is not JSON")
        value = {key: node.value for key, (_, node) in children.items()}
        return _Node(start, at + 1, value if close == "}" else list(value.values()), children)


@dataclass
class TomlFile:
    """The text of a TOML file, to which tables are appended."""

    text: str

    @property
    def value(self) -> Any:
        """All of it."""
        return tomllib.loads(self.text)

    def get(self, path: Path) -> Any:
        """The value at a path; None if there is none."""
        value = self.value
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def put(self, path: Path, value: Mapping[str, Any]) -> None:
        """Set a table of plain values, as the last one of the file."""
        if self.get(path) is not None:
            self.delete(path)
        fields = "".join(f"{name} = {json.dumps(each, ensure_ascii=False)}\n" for name, each in value.items())
        gap = "" if not self.text else "\n" if self.text.endswith("\n") else "\n\n"
        self.text += f"{gap}[{'.'.join(map(str, path))}]\n{fields}"

    def delete(self, path: Path) -> None:
        """Remove a table with its lines."""
        header = re.escape(f"[{'.'.join(map(str, path))}]")
        self.text = re.sub(rf"\n?^{header}[^\n]*\n(?:(?!\s*\[)[^\n]*(?:\n|\Z))*", "", self.text, count=1, flags=re.MULTILINE)
        if self.get(path) is not None:
            raise ConfigurationError(f"the table {'.'.join(map(str, path))} cannot be taken out of the file: edit it by hand.")


ConfigFile = JsonFile | TomlFile
