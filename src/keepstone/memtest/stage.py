"""The memory under test: opened, fresh or on a copy, and told what is given, by a clock that stands where the file says."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keepstone.errors import ConfigurationError, KeepstoneError, StoreBusy, StoreDamaged, StoreError
from keepstone.memtest.cases import Given, Opening, Suite, Who
from keepstone.text import times
from keepstone.types import Receipt, Scope

if TYPE_CHECKING:
    from keepstone.memory import Memory

# Nothing that the environment names may be written to by a test, and a copy need not outlive a power cut.
_OWN = {"buffer": "", "index": "", "durable": False, "worker": False}
_TICK = timedelta(milliseconds=1)


class Clock:
    """A clock that stands where it is put; as long as it was put nowhere, the real one."""

    def __init__(self) -> None:
        self.at: datetime | None = None

    def __call__(self) -> datetime:
        return self.at or times.now()


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one thing that was given: the scope, and a receipt for each text."""

    given: Given
    scope: Scope
    texts: tuple[str, ...] = ()
    receipts: tuple[Receipt, ...] = ()


class Stage:
    """An open memory that was told what a suite gives. Used as a context manager, or closed."""

    def __init__(self, suite: Suite, opening: Opening | None = None) -> None:
        """`opening` takes the place of the file's own. Raises what cannot be opened or told."""
        self.suite = suite
        self.opening = opening or suite.opening
        self.clock = Clock()
        self.told: list[Told] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if self.opening.shared and suite.given:
            raise ConfigurationError(
                f"{suite.path}: 'given' would be written into a store that others use: take it out, or test a file, of which a "
                "copy is made."
            )
        self._memory = self._opened()
        try:
            self._tell()
        except BaseException:
            self.close()
            raise

    @property
    def labels(self) -> Mapping[str, str]:
        """The ids of records by the names that the file has for them."""
        return {each.given.label: each.receipts[0].id or "" for each in self.told if each.given.label and each.receipts}

    @property
    def described(self) -> str:
        """What is tested, in a few words; a URL is not shown, as it may hold a password."""
        if self.opening.store is None:
            return "a fresh memory"
        return "a store on a server" if self.opening.shared else f"a copy of {Path(self.opening.store).name}"

    def memory(self, who: Who = Who()) -> Memory:
        """The memory in a person's scope."""
        return self.seen(who.of(self.opening.scope))

    def seen(self, scope: Scope) -> Memory:
        """The memory from a scope."""
        return self._memory.with_scope(tenant=scope.tenant, agent=scope.agent, user=scope.user)

    def ask_at(self, at: datetime | None) -> None:
        """Put the clock where a question is asked: there, or where the last that was given left it, and never before that. In a
        store that others use it stays: when something was read is noted there."""
        if self.opening.shared:
            return
        self.clock.at = max((each for each in (at, self._end) if each is not None), default=None)

    def _opened(self) -> Memory:
        from keepstone.backend import open_backend

        opening = self.opening
        target: str | Path = opening.store or ":memory:"
        if opening.store is not None and not opening.shared:
            self._folder = tempfile.TemporaryDirectory(prefix="keepstone-test-", ignore_cleanup_errors=True)
            target = Path(self._folder.name) / "copy.db"
        try:
            if opening.store is not None and isinstance(target, Path):
                copy_store(opening.store, target)
            settings = {**opening.settings, **_OWN}
            backend = open_backend(target, embedder=opening.embedder, settings=settings, clock=self.clock)
        except KeepstoneError as error:
            self._clean()
            raise type(error)(str(error).replace(str(target), str(opening.store))) from None  # the user does not know the copy
        except BaseException:
            self._clean()
            raise
        return backend.memory(opening.scope)

    # -- what is given ----------------------------------------------------------------------------------------------
    def _tell(self) -> None:
        """Each entry at its own time; without one right after the entry before. The first are told at the first time that the
        file has, and now where it has none."""
        asked = min((each.asked_at for each in self.suite.cases if each.asked_at is not None), default=None)
        first = next((each.at for each in self.suite.given if each.at is not None), asked)
        for given in self.suite.given:
            after = first if self.clock.at is None else self.clock.at + _TICK
            self.clock.at = after if given.at is None or after is None else max(given.at, after)
            memory = self.memory(given.who)
            try:
                self.told.append(self._done(memory, given))
            except KeepstoneError as error:
                raise type(error)(f"{self.suite.path}: {given.place} ({given.verb}) cannot be done: {error}") from None
        self._end = None if self.clock.at is None else self.clock.at + _TICK

    def _done(self, memory: Memory, given: Given) -> Told:
        options: dict[str, Any] = dict(given.options)
        texts: Sequence[str] = ()
        receipts: Sequence[Receipt] = ()
        if given.verb in ("remember", "learn"):
            texts, receipts = [given.what], [getattr(memory, given.verb)(given.what, **options)]
        elif given.verb == "say":
            messages = [each | {"at": self.clock()} for each in given.what]
            texts, receipts = [each["content"] for each in given.what], memory.ingest(messages, **options)
        elif given.verb == "set":
            receipts = [memory.set(given.what, options.pop("value"), **options)]
        elif given.verb == "update":
            receipts = [memory.update(self.labels[given.what], **options)]
            texts = [options["content"]] if "content" in options else []
        else:
            chosen: dict[str, Any] = {name: self.labels[value] if name == "id" else value for name, value in given.what.items()}
            memory.forget(**chosen)
        return Told(given, memory.scope, tuple(texts), tuple(receipts))

    # -- the end ----------------------------------------------------------------------------------------------------
    def close(self) -> None:
        """Close the memory and take the copy away."""
        self._memory.close()
        self._clean()

    def _clean(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_MAX_ATTEMPTS = 5
State = tuple[tuple[int, int] | None, ...]


def copy_store(store: str, target: Path) -> None:
    """Copy the store, as it is at this moment, to a new file; others may be using it meanwhile."""
    path = Path(store).resolve()  # its log lies beside the file itself, not beside a link to it
    if not path.is_file():
        raise ConfigurationError(f"there is no store at {store}: check the path; without a store the tests have a fresh memory.")
    try:
        for _ in range(_MAX_ATTEMPTS):
            before = _file_state(path)
            if before[2] is not None:
                # A process has the store open: SQLite reads it with its write-ahead log.
                source = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
                with closing(source), closing(sqlite3.connect(target)) as copy:
                    return source.backup(copy)
            _copy_files(path, target)
            if _file_state(path) == before:
                return None
    except sqlite3.Error as error:
        raise StoreDamaged(
            f"{store} cannot be copied ({error}): is it a keepstone store? 'keepstone doctor' checks it."
        ) from None
    except OSError as error:
        raise StoreError(
            f"{store} cannot be copied ({error.strerror}): check its mode, and the space for temporary files."
        ) from None
    raise StoreBusy(f"{store} was changed while it was copied, {_MAX_ATTEMPTS} times: try again, or test a backup of it.")


def _copy_files(path: Path, target: Path) -> None:
    """No process has it open: SQLite would create files next to it even to read, so the files are copied."""
    shutil.copyfile(path, target)
    log, beside = Path(f"{path}-wal"), Path(f"{target}-wal")
    beside.unlink(missing_ok=True)
    if log.exists():  # left by a process that was killed
        shutil.copyfile(log, beside)


def _file_state(path: Path) -> State:
    """What tells that a store was written to: of its file, its log, and of what exists while a process has it open."""
    found = []
    for each in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        held = each.stat() if each.exists() else None
        found.append(None if held is None else (held.st_mtime_ns, held.st_size))
    return tuple(found)
