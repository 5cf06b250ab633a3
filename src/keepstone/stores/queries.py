"""Reads a store's .sql files: named, described statements, so that no SQL stands in Python.

A query starts with `-- name: the_name`, may go on with comment lines that describe it, and ends at the next name.
"""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_SHARED = re.compile(r"^\{(\w+)\}", re.MULTILINE)  # at the start of a line; anything else in braces is left alone


class Queries:
    """The statements of some files by name: `queries.texts["record_by_id"]`.

    A statement may begin with another's text, named in braces: `{record}` is the query called record."""

    def __init__(self, folder: Path, *files: str) -> None:
        self._folder, self._files = folder, files

    @cached_property
    def texts(self) -> dict[str, str]:
        """Every statement by its name."""
        texts = [(self._folder / file).read_text(encoding="utf-8") for file in self._files]
        parts = _NAME.split("\n".join(texts))
        raw = {
            name: "\n".join(line for line in body.splitlines() if not line.startswith("--")).strip()
            for name, body in zip(parts[1::2], parts[2::2], strict=True)
        }
        return {name: _SHARED.sub(lambda found: raw[found[1]], text) for name, text in raw.items()}
