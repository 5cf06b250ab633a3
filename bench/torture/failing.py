"""The process whose reads and writes fail at random: it writes to one store and says over a pipe what it was told.

`begin` comes before each verb, `done` or `failed` after it. Faults come from libfiu, where this process was started by `fiu-run`,
or from a layer under SQLite that is written here. They are off while it speaks.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import apsw

from keepstone import KeepstoneError, Memory

POINTS = ("posix/io/rw/*", "posix/io/sync/*")
TRIES = 40  # of one write under one key, until it is given up


class Shim(apsw.VFS):
    """Files whose reads, writes, syncs and truncations fail at random; of a write that fails, half may have been done."""

    def __init__(self, chance: random.Random, share: float) -> None:
        self.chance, self.share, self.on, self.failed = chance, share, False, 0
        self.below = apsw.vfs_names()[0]
        super().__init__("failing", base=self.below, makedefault=True)

    def xOpen(self, name: Any, flags: Any) -> Any:
        return ShimFile(self, name, flags)

    def enable(self) -> None:
        self.on = True

    def disable(self) -> None:
        self.on = False

    def fails(self) -> bool:
        failing = self.on and self.chance.random() < self.share
        self.failed += failing
        return failing


def _error(code: int) -> apsw.IOError:
    error = apsw.IOError("disk I/O error, on purpose")
    error.extendedresult = code
    return error


class ShimFile(apsw.VFSFile):
    """One of its files."""

    def __init__(self, shim: Shim, name: Any, flags: Any) -> None:
        self._shim = shim
        super().__init__(shim.below, name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        if self._shim.fails():
            raise _error(apsw.SQLITE_IOERR_READ)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        if self._shim.fails():
            super().xWrite(data[: self._shim.chance.randrange(len(data) + 1)], offset)
            raise _error(apsw.SQLITE_IOERR_WRITE)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        if self._shim.fails():
            raise _error(apsw.SQLITE_IOERR_FSYNC)
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:
        if self._shim.fails():
            raise _error(apsw.SQLITE_IOERR_TRUNCATE)
        super().xTruncate(size)


class Fiu:
    """The C library's own calls fail at random, for all of the process."""

    def __init__(self, chance: random.Random, share: float) -> None:
        self._library = ctypes.CDLL("libfiu.so.0")
        self._library.fiu_enable_random.argtypes = [
            ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_float,
        ]  # fmt: skip
        self._library.fiu_set_prng_seed(chance.getrandbits(31))
        self._share = share
        self._errno = chance.choice((errno.EIO, errno.EIO, errno.ENOSPC, None))  # None: whichever a call may give

    def enable(self) -> None:
        for point in POINTS:
            self._library.fiu_enable_random(point.encode(), 1, self._errno, 0, self._share)

    def disable(self) -> None:
        for point in POINTS:
            self._library.fiu_disable(point.encode())


class Writer:
    """Random verbs on one store under faults, each announced, each answered."""

    def __init__(self, path: str, seed: int, faults: Shim | Fiu) -> None:
        self._path = path
        self._random = random.Random(seed)
        self._faults = faults
        self._seed = seed
        self._count = 0
        self._live: list[str] = []
        self._memory: Memory | None = None
        self._quiet = 0

    def run(self, verbs: int) -> None:
        if self._random.random() < 0.25:
            self._faults.enable()  # from the first byte on
        if not self._opened():
            return
        assert self._memory is not None
        with self._quietly():
            self._live = [record.id for record in self._memory.list(kind="fact", limit=100) if record.key is None]
        self._faults.enable()
        choices = [self._remember] * 5 + [self._many] * 2 + [self._say] * 2 + [self._update] * 3 + [self._forget] * 2
        choices += [self._set, self._read, self._read, self._find]
        for _ in range(verbs):
            self._random.choice(choices)()
            if self._random.random() < 0.03 and not self._reopened():
                return
        self._well_again()
        if self._random.random() < 0.5:
            self._say_line({"event": "end"})
            os.kill(os.getpid(), signal.SIGKILL)  # what a log holds is left to the next
        self._close()
        self._say_line({"event": "end"})

    def _well_again(self) -> None:
        """The disk is well again: the same open store works, and is whole."""
        assert self._memory is not None
        with self._quietly():
            for _ in range(3):
                text = self._text()
                if self._call(lambda memory: memory.remember(text), verb="remember", contents=[text]) is None:  # noqa: B023
                    self._say_line({"event": "still failing"})
            try:
                findings = self._memory.upkeep.doctor().findings
            except KeepstoneError as error:
                self._say_line({"event": "still failing", "said": f"{type(error).__name__}: {error}"})
            else:
                self._say_line({"event": "examined", "findings": [f"{each.check}: {each.problem}" for each in findings]})

    @contextlib.contextmanager
    def _quietly(self) -> Iterator[None]:
        self._faults.disable()
        self._quiet += 1
        try:
            yield
        finally:
            self._quiet -= 1
            if not self._quiet:
                self._faults.enable()

    def _say_line(self, line: dict[str, Any]) -> None:
        with self._quietly():
            os.write(1, json.dumps(line).encode() + b"\n")

    def _opened(self) -> bool:
        """Open, however often that fails; False if it never works."""
        for _ in range(TRIES):
            try:
                self._memory = Memory.open(self._path)
                return True
            except KeepstoneError as error:
                self._say_line({"event": "not opened", "error": type(error).__name__, "said": str(error)})
        return False

    def _close(self) -> None:
        assert self._memory is not None
        try:
            self._memory.close()
        except KeepstoneError as error:
            self._say_line({"event": "not closed", "error": type(error).__name__, "said": str(error)})

    def _reopened(self) -> bool:
        self._close()
        return self._opened()

    def _text(self) -> str:
        self._count += 1
        return f"Crate zq{self._seed}n{self._count}q went to dock {self._random.randrange(10**6)}." + " Heavy." * (
            self._random.randrange(300) if self._random.random() < 0.2 else 0
        )

    def _call(self, call: Callable[[Memory], Any], **what: Any) -> Any:
        """One verb, announced and answered; None if it failed."""
        assert self._memory is not None
        self._say_line({"event": "begin", **what})
        try:
            given = call(self._memory)
        except KeepstoneError as error:
            self._say_line({"event": "failed", "error": type(error).__name__, "said": str(error)})
            return None
        receipts = given if isinstance(given, list) else [given]
        self._say_line({"event": "done", "ids": [getattr(each, "id", None) for each in receipts]})
        return given

    def _remember(self) -> None:
        """Said again under the same key until it is taken: it must be there once."""
        text, key = self._text(), f"{self._seed} {self._count}"
        for _ in range(TRIES):
            given = self._call(lambda memory: memory.remember(text, idempotency_key=key), verb="remember", contents=[text])
            if given is not None:
                self._live.append(given.id)
                return

    def _many(self) -> None:
        texts = [self._text() for _ in range(self._random.randint(2, 8))]
        self._call(lambda memory: memory.remember_many(texts), verb="remember_many", contents=texts)

    def _say(self) -> None:
        texts = [self._text() for _ in range(self._random.randint(1, 5))]
        said = [{"role": "user", "content": text} for text in texts]
        self._call(lambda memory: memory.ingest(said, session="dock"), verb="ingest", contents=texts)

    def _update(self) -> None:
        if self._live:
            text, id = self._text(), self._random.choice(self._live)
            self._call(lambda memory: memory.update(id, text), verb="update", id=id, contents=[text])

    def _set(self) -> None:
        text = self._text()
        self._call(lambda memory: memory.set("dock in use", text), verb="set", contents=[text])

    def _forget(self) -> None:
        if len(self._live) > 5:
            id = self._live.pop(self._random.randrange(len(self._live)))
            self._call(lambda memory: memory.forget(id), verb="forget", id=id, contents=[])

    def _read(self) -> None:
        """What a read gives goes to the ledger, which knows what it may be."""
        assert self._memory is not None
        if self._live:
            id = self._random.choice(self._live)
            with contextlib.suppress(KeepstoneError):
                record = self._memory.get(id)
                self._say_line({"event": "read", "id": id, "content": record and record.content})

    def _find(self) -> None:
        assert self._memory is not None
        with contextlib.suppress(KeepstoneError):
            for hit in self._memory.recall("Which crate went to the dock?", limit=3):
                self._say_line({"event": "read", "id": hit.id, "content": hit.content})


def main(path: str, seed: str, verbs: str, way: str, share: str) -> None:
    """Be the process."""
    with Memory.open(":memory:") as warm:  # every module and the embedder's pages are in memory from here on
        warm.remember("Warming up.")
        warm.ingest([{"role": "user", "content": "My name is Warm."}], session="warm")
        warm.recall("warm")
        warm.upkeep.doctor()
    faults = (Shim if way == "shim" else Fiu)(random.Random(int(seed) + 1), float(share))
    try:
        Writer(path, int(seed), faults).run(int(verbs))
    except Exception as error:
        faults.disable()
        line = {"event": "raised", "error": type(error).__name__, "said": f"{type(error).__name__}: {error}"}
        os.write(1, json.dumps(line).encode() + b"\n")
        raise


if __name__ == "__main__":
    main(*sys.argv[1:])
