"""The dashboard's own files: each has a hash of its content in its address, so browsers may keep it for ever."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HERE = Path(__file__).parent / "static"


@dataclass(frozen=True, slots=True)
class Asset:
    """One file: what is sent, as which type."""

    content: bytes
    type: str


class Assets:
    """Every file by the name it has in addresses: `app.css` is `/static/app.1f3c9a….css`."""

    def __init__(self) -> None:
        self._held: dict[str, Asset] = {}
        self._named: dict[str, str] = {}
        for path in sorted(_HERE.iterdir()):
            if path.suffix in TYPES:
                content = path.read_bytes()
                name = f"{path.stem}.{hashlib.sha256(content).hexdigest()[:12]}{path.suffix}"
                self._held[name] = Asset(content, TYPES[path.suffix])
                self._named[path.name] = f"/static/{name}"

    def address(self, name: str) -> str:
        """Where a file is found."""
        return self._named[name]

    def get(self, name: str) -> Asset | None:
        return self._held.get(name)
