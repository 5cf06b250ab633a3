"""Stores with the same texts for every memory: where they are, and how they are filled."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import progress
from bench.peers.environments import MAIN, ROOT
from bench.peers.turns import Child, PeerFailed
from bench.texts import Text

if TYPE_CHECKING:
    from bench.peers.speed import Run

SCOPES = 1000  # of the store with many
CALL = 1000  # texts in one message to a child
FACTS = 2000  # up to here keepstone holds facts, near-duplicate check and all; above, messages
QUICK = Path("/dev/shm")  # in memory: no wait for a disk
ROOM = 6e9  # bytes that must be free there
AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is to do."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    rounds: int
    folder: Path
    kinds: tuple[str, ...] = ("same",)
    parts: tuple[str, ...] = ("add", "recall", "many", "start")
    fill_seconds: float = 900
    recall_seconds: float = 60

    @property
    def log(self) -> Path:
        """What the memories print."""
        return self.folder / "peers.log"

    def fresh(self, stage: str, name: str) -> Path:
        """An empty folder."""
        path = self.folder / stage / name
        shutil.rmtree(path, ignore_errors=True)
        return path


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """One store to prepare: a memory's, with texts in scopes."""

    name: str
    path: Path
    shares: dict[str, list[Text]]
    embedder: str
    vectors_file: str | None

    @property
    def total(self) -> int:
        return sum(map(len, self.shares.values()))

    @property
    def stamp(self) -> Path:
        return self.path.with_suffix(".filled.json")

    @property
    def digest(self) -> str:
        """A hash of the texts, the adapter and its requirements; another hash means another store."""
        hashed = hashlib.sha256(repr((self.total, len(self.shares))).encode())
        for scope in (next(iter(self.shares)), list(self.shares)[-1]):
            hashed.update(self.shares[scope][-1].content.encode())
        for path in sorted((ROOT / "bench" / "peers").glob(f"*{self.name}.*")):
            hashed.update(path.read_bytes())
        return hashed.hexdigest()

    @property
    def is_current(self) -> bool:
        try:
            return bool(json.loads(self.stamp.read_text("utf-8"))["digest"] == self.digest)
        except (OSError, ValueError, KeyError):
            return False

    def batches(self) -> Iterator[tuple[str, list[str], list[str]]]:
        """Scope, texts and keys, a message at a time."""
        number = 0
        for scope, share in self.shares.items():
            for at in range(0, len(share), CALL):
                part = share[at : at + CALL]
                yield scope, [text.content for text in part], [f"t{number + each}" for each in range(len(part))]
                number += len(part)


def prepare_stores(run: Run, kind: str, stage: str, shares: dict[str, list[Text]]) -> dict[str, Path]:
    """The folders of the stores, by memory. A store from an earlier run is used again."""
    wanted = []
    for name in run.environments:
        its = "same" if name in ("keepstone", "fts5") else kind  # their embedder is the same in both
        wanted.append(StoreSpec(name, run.plan.folder / its / stage / name, shares, run.embedders[its], None))
    missing = [each for each in wanted if not each.is_current]
    if kind == "usual" and missing:
        vectors_file = _vectors(run, stage, shares)
        missing = [StoreSpec(each.name, each.path, shares, each.embedder, vectors_file) for each in missing]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        why = dict(zip((each.name for each in missing), pool.map(lambda each: _prepare_store(run, each), missing), strict=True))
    for name, reason in why.items():
        if reason:
            run.leave_out(name, stage, reason)
    return {each.name: each.path for each in wanted if each.is_current}


def _prepare_store(run: Run, spec: StoreSpec) -> str | None:
    """Fill one store. Returns the reason if it could not be done in time."""
    shutil.rmtree(spec.path, ignore_errors=True)
    spec.path.parent.mkdir(parents=True, exist_ok=True)
    place = QUICK if QUICK.is_dir() and shutil.disk_usage(QUICK).free > ROOM else spec.path.parent
    work = Path(tempfile.mkdtemp(prefix=f"keepstone-peers-{spec.name}-", dir=place))
    begun, done = time.monotonic(), 0
    child = Child(run.environments[spec.name], run.plan.log)
    try:
        child.ask("open", path=str(work / "store"), embedder=spec.embedder, vectors_file=spec.vectors_file)
        for scope, contents, keys in spec.batches():
            child.ask("preload", scope=scope, texts=contents, keys=keys, facts=spec.total <= FACTS)
            done += len(contents)
            taken = time.monotonic() - begun
            if taken > run.plan.fill_seconds:
                return f"filling {done} of {spec.total} texts took {taken:.0f} s (--fill-seconds {run.plan.fill_seconds:g})"
        child.close()
        shutil.copytree(work / "store", spec.path)
        if hasattr(os, "sync"):
            os.sync()
    except (PeerFailed, OSError) as error:
        return f"filling stopped after {done} texts: {error}"
    finally:
        child.kill()
        shutil.rmtree(work, ignore_errors=True)
    seconds = round(time.monotonic() - begun, 1)
    progress(f"  {spec.name}: {spec.total} texts stored in {seconds} s")
    spec.stamp.write_text(json.dumps({"digest": spec.digest, "texts": spec.total, "seconds": seconds}), "utf-8")
    return None


def _vectors(run: Run, stage: str, shares: dict[str, list[Text]]) -> str | None:
    """A file with the usual embedder's vectors of the texts, so that not every memory has to wait for them."""
    able = next((name for name in run.environments if name != "keepstone" and name not in MAIN), None)
    if able is None:
        return None
    path = run.plan.folder / "vectors" / f"{stage}.npy"
    if not path.exists():
        progress(f"  embedding {sum(map(len, shares.values()))} texts")
        path.parent.mkdir(parents=True, exist_ok=True)
        contents = [text.content for share in shares.values() for text in share]
        with Child(run.environments[able], run.plan.log) as child:
            child.ask("vectors", embedder=run.embedders["usual"], texts=contents, vectors_file=str(path))
    return str(path)


def disk_mb(folder: Path) -> float:
    """Megabytes of every file of a store."""
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6, 2)
