"""A store that is moved to another embedder, of the same and of another dimension, by processes that are killed in the middle of
it: words serve meanwhile, vectors of two models are never compared, and the next process goes on where the last one was.
"""

from __future__ import annotations

import functools
import json
import random
import signal
import subprocess
import sys
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.restarts import everything
from bench.torture.children import Lines, environment
from bench.torture.support import check_store
from bench.torture.targets import databases
from bench.torture.verdict import Options, Verdict
from keepstone import Memory
from keepstone.embedders.function import FunctionEmbedder
from keepstone.errors import EmbedderMismatch

RECORDS = 900  # several batches
WIDTHS = (64, 64, 96)  # a move to the same dimension, and one to another
SAMPLE = 8
ALIKE = 0.9  # what recall says of a text and itself, at the least; of two models' vectors of one text it says hardly anything
PATIENCE = 120.0
Model = tuple[str, int]


@functools.cache
def _direction(id: str, width: int, word: str) -> Any:
    return np.random.default_rng(zlib.crc32(f"{id} {word}".encode())).standard_normal(width)


def vectors(id: str, width: int, texts: list[str]) -> Any:
    """Words as directions, in which no two models agree."""
    return np.array([sum(_direction(id, width, word) for word in text.lower().split()) for text in texts])


def embedder(model: Model) -> FunctionEmbedder:
    return FunctionEmbedder(lambda texts: vectors(*model, texts), id=model[0], dimension=model[1])


def run(options: Options) -> Verdict:
    """A kill a round, half of them on each store."""
    verdict = Verdict("model-change", "both")
    begun = time.monotonic()
    chance = random.Random(options.seed)
    with databases(options) as there:
        for store in ("sqlite", "postgres"):
            where = there.fresh("models") if store == "postgres" else options.folder / "models.db"
            moves = Moves(verdict, store, where, chance)
            while moves.kills < max(1, options.rounds // 2):
                if options.seconds is not None and time.monotonic() - begun > options.seconds:
                    break
                moves.move()
            verdict.figures[store] = {"kills": moves.kills, "moves": moves.moves, "killed before the switch": moves.early}
            check_store(verdict, where, store)
    verdict.seconds = time.monotonic() - begun
    return verdict


@dataclass(slots=True)
class Heard:
    """What a mover said until it was killed, or was through."""

    batches: list[int] = field(default_factory=list)  # texts in each; the last one may not have been kept
    waiting: int | None = None  # records without a vector of the new model when it began
    report: list[Any] | None = None


class Moves:
    """Moves one store from model to model."""

    def __init__(self, verdict: Verdict, store: str, where: str | Path, chance: random.Random) -> None:
        self._verdict, self._store, self._where, self._random = verdict, store, where, chance
        self.kills = self.moves = self.early = 0
        self._model: Model = ("model-0", WIDTHS[0])
        self._contents: dict[str, str] = {}
        with Memory.open(where, embedder=embedder(self._model)) as memory:
            for at in range(0, RECORDS, 100):
                texts = [f"Crate zq{n}q came from depot {n * 13} by lorry {n * 7}." for n in range(at, at + 100)]
                receipts = memory.remember_many(texts)
                self._contents |= {str(each.id): text for each, text in zip(receipts, texts, strict=True)}
        verdict.acknowledged += len(self._contents)

    def _wrong(self, what: str) -> None:
        self._verdict.errors += 1
        self._verdict.problems.append(f"{self._store}, move {self.moves}: {what}")

    def move(self) -> None:
        """To the next model: killed up to three times on the way, then through."""
        self.moves += 1
        coming = (f"model-{self.moves}", WIDTHS[self.moves % len(WIDTHS)])
        kept = 0  # texts that are known to have the new vector
        for _ in range(self._random.randint(1, 3)):
            heard = self._moved(coming, self._random.randint(1, 4))
            self._resumed(heard, kept)
            kept += sum(heard.batches[:-1])
            if self._between(coming):
                kept = 0  # it is the store's own now, and what waits is what was written since
                break
        heard = self._moved(coming, None)
        self._resumed(heard, kept)
        if heard.report is None or heard.report[1:] != [0, True]:
            self._wrong(f"the move that was not killed ended with {heard.report}")
        self._model = coming
        self._after(coming)

    def _moved(self, coming: Model, batches: int | None) -> Heard:
        """A process that moves the store, killed at a random instant of so many batches."""
        command = [sys.executable, "-m", "bench.torture.model_change", str(self._where), coming[0], str(coming[1])]
        heard = Heard()
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as child:
            assert child.stdout is not None
            lines = Lines(child.stdout.fileno())
            deadline = time.monotonic() + PATIENCE
            while (line := lines.next(deadline)) is not None:
                if "texts" in line:
                    heard.batches.append(line["texts"])
                heard.waiting = line.get("waiting", heard.waiting)
                heard.report = line.get("report", heard.report)
                if batches is not None and len(heard.batches) >= batches and deadline > time.monotonic() + 1:
                    deadline = time.monotonic() + self._random.uniform(0.0, 0.08)
            if heard.report is None:
                child.kill()
        if batches is None and child.returncode:
            self._wrong(f"the process ended with {child.returncode}")
        if child.returncode == -signal.SIGKILL:
            self.kills += 1
            self._verdict.tries += 1
        return heard

    def _resumed(self, heard: Heard, kept: int) -> None:
        """It did not begin anew: what was kept is not asked for again."""
        if heard.waiting is not None and heard.waiting > len(self._contents) - kept:
            self._wrong(f"{heard.waiting} records waited, though {kept} of {len(self._contents)} had their vectors")

    def _between(self, coming: Model) -> bool:
        """Words serve; one of the two models opens the store, and only its vectors are there. Whether that is the new one."""
        sample = self._random.sample(sorted(self._contents), SAMPLE)
        with Memory.open(self._where, embedder="none") as memory:
            for id in sample:
                found = memory.recall(self._contents[id].split()[1], limit=1, min_similarity=0)
                if not found or found[0].id != id:
                    self._wrong("words do not find a record in the middle of a move")
        opens = [model for model in (self._model, coming) if self._opens(model)]
        if len(opens) != 1:
            self._wrong(f"the store opens with {[model[0] for model in opens]}, and must with one of two")
            return False
        self._pure(opens[0], sample)
        self.early += opens[0] == self._model
        return opens[0] == coming

    def _opens(self, model: Model) -> bool:
        try:
            Memory.open(self._where, embedder=embedder(model)).close()
            return True
        except EmbedderMismatch:
            return False

    def _pure(self, model: Model, sample: list[str]) -> None:
        """A text's own vector is the one that the store compares it with; something is written meanwhile."""
        with Memory.open(self._where, embedder=embedder(model)) as memory:
            for id in sample:
                hits = [hit for hit in memory.recall(self._contents[id], limit=3, min_similarity=0) if hit.id == id]
                if not hits or hits[0].signals["cosine"] < ALIKE:
                    self._wrong(f"a text is {hits[0].signals['cosine'] if hits else 'not'} like itself: models are mixed")
            text = f"Crate zqlate{self.moves}x{self.kills}q came in the middle of a move."
            self._contents[str(memory.remember(text).id)] = text
            self._verdict.acknowledged += 1

    def _after(self, model: Model) -> None:
        self._pure(model, self._random.sample(sorted(self._contents), SAMPLE))
        with Memory.open(self._where, embedder=embedder(model)) as memory:
            records = {record.id: record for record in everything(memory)}
        lost = [id for id, text in self._contents.items() if id not in records or records[id].content != text]
        self._verdict.lost += len(lost)
        self._verdict.problems += [f"{self._store}: {id} is gone" for id in lost]
        waiting = sum(not record.embedded for record in records.values())
        if waiting or len(records) != len(self._contents):
            self._wrong(
                f"{len(records)} records are there, of which {waiting} have no vector; there must be {len(self._contents)}"
            )


def be_the_mover(where: str, id: str, width: int) -> None:
    """Move a store, saying how far it is."""

    def say(**line: Any) -> None:
        print(json.dumps(line), flush=True)

    def embed(texts: list[str]) -> Any:
        say(texts=len(texts))
        return vectors(id, width, texts)

    first: list[int] = []

    def progress(done: int, total: int) -> None:
        if not first:
            first.append(total)
            say(waiting=total)

    with Memory.open(where, embedder="none") as memory:
        report = memory.upkeep.reembed(embedder=FunctionEmbedder(embed, id=id, dimension=width), progress=progress)
    say(report=[report.embedded, report.failed, report.moved])


if __name__ == "__main__":
    be_the_mover(sys.argv[1], sys.argv[2], int(sys.argv[3]))
