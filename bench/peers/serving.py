"""The child process: one memory, which gets its commands as JSON lines on standard input.

The child measures its own times, so the pipe is not counted. `load` imports the packages of a memory, so that importing them can
be timed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

ONLY_SCOPE = "all"  # the scope of a store that has only one
Hits = list[tuple[str, str]]
Vectors = Callable[[Sequence[str], str], Any]  # texts and "document" or "query", to an array of unit vectors


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls that are measured, as text: to add one text, to add many, to recall; and to fill a store, if that differs."""

    add: str
    bulk: str
    recall: str
    preload: str = ""


class Peer(ABC):
    """One memory as the benchmarks use it. Everything happens in a scope: a user, a namespace, a collection."""

    ways: ClassVar[Calls]
    embeds_itself: ClassVar[bool] = False  # creates its own embedder, or needs none
    folder: Path  # where the store is; known before `load`, since some packages read settings when they are imported

    @abstractmethod
    def load(self) -> str:
        """Import the packages. Returns their version."""

    @abstractmethod
    def open(self, embed: Vectors | None, dimension: int) -> None:
        """Open the store in `folder`, or make one. With no `embed` it makes its own embedder, or has no vectors."""

    @abstractmethod
    def add(self, scope: str, text: str, key: str) -> None:
        """Store one text, as durably as this memory does. `key` identifies the text in the results."""

    @abstractmethod
    def fill(self, scope: str, texts: list[str], keys: list[str]) -> None:
        """Store many texts the way this memory offers for it."""

    def preload(self, scope: str, texts: list[str], keys: list[str], facts: bool) -> None:
        """Store many texts before anything is timed, the quickest way that leaves the same store. `facts`: there are few."""
        self.fill(scope, texts, keys)

    @abstractmethod
    def recall(self, scope: str, question: str, limit: int) -> Hits:
        """What answers, best first: the key, empty where it is not kept, and the text."""

    def durable(self) -> str:
        """What is on disk when `add` has returned."""
        return "nothing is kept on disk"

    @abstractmethod
    def close(self) -> None:
        """Leave the store whole on disk."""


class Embedding:
    """The embedder of a run: keepstone's, by its name in the registry. Texts in `vectors_file` are not embedded again,
    because filling a store is not measured."""

    def __init__(self, name: str, vectors_file: str | None = None) -> None:
        from keepstone.embedders.registry import make_embedder

        self._embedder = make_embedder(name)
        self._cached: dict[str, int] = {}
        self._rows: Any = None
        if vectors_file and Path(vectors_file).exists():
            import numpy as np

            self._cached = {
                text: at for at, text in enumerate(json.loads(Path(vectors_file).with_suffix(".json").read_text("utf-8")))
            }
            self._rows = np.load(vectors_file, mmap_mode="r")

    @property
    def dimension(self) -> int:
        return self._embedder.dimension if self._embedder else 0

    def __call__(self, texts: Sequence[str], purpose: str = "document") -> Any:
        if self._cached and purpose == "document" and all(text in self._cached for text in texts):
            return self._rows[[self._cached[text] for text in texts]]
        assert self._embedder is not None
        return self._embedder.embed(texts, purpose="query" if purpose == "query" else "document")

    def embed_all(self) -> None:
        """Use the file no more: embed every text."""
        self._cached = {}


def resident_mb() -> float:
    """Megabytes of memory that this process holds."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
    except OSError:  # not Linux: the most it ever held
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return round(most / (1e6 if sys.platform == "darwin" else 1e3), 1)


class Worker:
    """Runs one command after the other."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.embedding: Embedding | None = None
        self.opened = False

    def open(self, path: str, embedder: str | None = None, vectors_file: str | None = None) -> dict[str, Any]:
        self.peer.folder = Path(path)
        self.peer.folder.mkdir(parents=True, exist_ok=True)
        begun = time.perf_counter()
        version = self.peer.load()
        loaded = time.perf_counter()
        self.embedding = None if embedder is None or self.peer.embeds_itself else Embedding(embedder, vectors_file)
        ready = time.perf_counter()
        self.peer.open(self.embedding, self.embedding.dimension if self.embedding else 0)
        self.opened, opened = True, time.perf_counter()
        return {"version": version, "ways": asdict(self.peer.ways), "import_ms": (loaded - begun) * 1e3,
                "embedder_ms": (ready - loaded) * 1e3, "open_ms": (opened - ready) * 1e3}  # fmt: skip

    def add(self, scope: str, texts: list[str], keys: list[str]) -> dict[str, Any]:
        if self.embedding:
            self.embedding.embed_all()
        return _timed([lambda each=each: self.peer.add(scope, *each) for each in zip(texts, keys, strict=True)])

    def fill(self, scope: str, texts: list[str], keys: list[str]) -> dict[str, Any]:
        return _timed([lambda: self.peer.fill(scope, texts, keys)])

    def preload(self, scope: str, texts: list[str], keys: list[str], facts: bool = False) -> dict[str, Any]:
        return _timed([lambda: self.peer.preload(scope, texts, keys, facts)])

    def recall(self, scope: str, questions: list[str], limit: int) -> dict[str, Any]:
        return _timed([lambda asked=asked: self.peer.recall(scope, asked, limit) for asked in questions])

    def vectors(self, embedder: str, texts: list[str], vectors_file: str) -> dict[str, Any]:
        """Write the vectors of texts to a file for `open`."""
        import numpy as np

        np.save(vectors_file, Embedding(embedder)(texts))
        Path(vectors_file).with_suffix(".json").write_text(json.dumps(texts), "utf-8")
        return {}

    def resident(self) -> dict[str, Any]:
        return {"mb": resident_mb()}

    def durable(self) -> dict[str, Any]:
        return {"durable": self.peer.durable()}

    def close(self) -> dict[str, Any]:
        if self.opened:
            self.peer.close()
        return {}


def _timed(works: list[Callable[[], Any]]) -> dict[str, Any]:
    wall, cpu, results = [], [], []
    for work in works:
        cpu_begun, begun = time.process_time(), time.perf_counter()
        results.append(work())
        wall.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - cpu_begun)
    return {"wall": wall, "cpu": cpu, "found": results}


def serve(peer: Peer) -> None:
    """Answer until the input ends. What packages print goes to standard error: standard output carries the answers."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serving = Worker(peer)
    for line in sys.stdin:
        asked = json.loads(line)
        do = asked.pop("do")
        try:
            answer = getattr(serving, do)(**asked)
        except Exception as error:  # passed on; the parent decides
            answer = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        print(json.dumps(answer), file=out, flush=True)
        if do == "close":
            break
    out.close()
    os._exit(0)  # some packages leave threads that never end
