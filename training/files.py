"""Opens data files that may be compressed."""

import gzip
import json
import lzma
from pathlib import Path
from typing import Any, TextIO, cast


def open_text(path: Path) -> TextIO:
    """A UTF-8 text file, plain, .gz or .xz, opened for reading."""
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    return cast(TextIO, opener(path, "rt", encoding="utf-8"))


def read_json(path: Path) -> Any:
    with open_text(path) as file:
        return json.load(file)


def read_lines(path: Path) -> list[str]:
    """The lines of a file, stripped, without the empty ones."""
    with open_text(path) as file:
        return [stripped for line in file if (stripped := line.strip())]
