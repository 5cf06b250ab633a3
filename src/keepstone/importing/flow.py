"""The import end to end: read, look at what is there, write, say what became of each entry.

It uses the public verbs of a memory alone, so a client of a server is as good. A batch is stored whole or not at all, and what is
stored is found again by its provenance: an import that was stopped anywhere is completed by running it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING

from keepstone.errors import ValidationError
from keepstone.importing.entries import Entry, Found, ImportSummary, Outcome, Passed
from keepstone.importing.registry import SYSTEMS, System, system_of
from keepstone.importing.writer import Writer
from keepstone.types import clean_name

if TYPE_CHECKING:
    from keepstone.importing.writer import Target

Progress = Callable[[int, int], None]
USERS = ("one", "each", "all")
_MAX_PROBLEMS = 100
_MAX_SHOWN_OWNERS = 3
_BATCH_ENTRIES = 100
_MAX_SESSION_MESSAGES = 2000  # messages of one conversation that are looked at together
_MAX_HELD_CHARS = 16 * 1024 * 1024  # of the entries that are held at once


@dataclass(frozen=True, slots=True)
class Batch:
    """Where entries go together: whose they are, and the conversation they belong to, if they were said in one."""

    owner: str
    session: str | None


def import_from(
    memory: Target,
    path: str | PathLike[str],
    *,
    format: str = "auto",
    dry_run: bool = False,
    users: str = "one",
    source: str | None = None,
    each: Callable[[Outcome], None] | None = None,
    progress: Progress | None = None,
) -> ImportSummary:
    """Bring what another system has kept into a memory (or what a Client stands for), and say what became of it.

    `format` is auto, mem0, letta, zep, langmem, chatgpt, claude, markdown or keepstone. Every entry counts as said by
    "import:<format>", unless `source` names something else. `users`: "one" refuses a file with the memories of several users,
    "each" brings each user's into the scope of that user (of Letta: of that agent), "all" brings all of them into this scope.
    `each` is told of every entry, `progress` of (done, total). Running it again adds only what is new.

    Raises ConfigurationError for a path that cannot be read, ValidationError for options that cannot be taken, and what the verbs
    of a memory raise; a bad entry raises nothing and is in the summary."""
    if users not in USERS:
        raise ValidationError(f"users is {users!r:.40}: use {', '.join(USERS)}.")
    found = system_of(path, format)
    counts: Counter[str] = Counter()
    problems: list[Outcome] = []
    outcomes = (
        _import_own(memory, path, source, dry_run, progress)
        if found == "keepstone"
        else import_each(memory, path, format=found, dry_run=dry_run, users=users, source=source, progress=progress)
    )
    for outcome in outcomes:
        counts[outcome.action] += 1
        if outcome.action == "refused" and len(problems) < _MAX_PROBLEMS:
            problems.append(outcome)
        if each is not None:
            each(outcome)
    return ImportSummary(found, counts.total(), dict(counts), tuple(problems), dry_run)


def import_each(
    memory: Target,
    path: str | PathLike[str],
    *,
    format: str = "auto",
    dry_run: bool = False,
    users: str = "one",
    source: str | None = None,
    progress: Progress | None = None,
) -> Iterator[Outcome]:
    """The same for exports of other systems, entry by entry: whatever was told of is stored."""
    if users not in USERS:
        raise ValidationError(f"users is {users!r:.40}: use {', '.join(USERS)}.")
    name = system_of(path, format)
    if name == "keepstone":
        raise ValidationError("an export of keepstone is imported whole or not at all: use import_from or memory.import_.")
    by = f"import:{name}" if source is None else clean_name(source, "source")
    return _import_batches(memory, SYSTEMS[name], path, by, dry_run, users, progress)


def _import_batches(
    memory: Target, system: System, path: str | PathLike[str], by: str, dry_run: bool, users: str, progress: Progress | None
) -> Iterator[Outcome]:
    total = _count_entries(system, path, users)
    writers: dict[str, Writer] = {}
    done = 0
    for lane, batch in _batches(_with_owners(system, path) if users == "each" else system.read(path), users):
        if lane.owner not in writers:
            writers[lane.owner] = Writer(_scope_of(memory, system, lane.owner), system.name, by, dry_run)
        yield from _write_batch(writers[lane.owner], lane, batch)
        done += len(batch)
        if progress is not None:
            progress(min(done, total), total)
    if progress is not None:
        progress(total, total)


def _write_batch(writer: Writer, lane: Batch, batch: list[Found]) -> Iterator[Outcome]:
    """What became of a batch, in its order."""
    entries = [each for each in batch if isinstance(each, Entry)]
    outcomes = iter(writer.memories(entries) if lane.session is None else writer.messages(lane.session, entries))
    for each in batch:
        if isinstance(each, Entry):
            yield next(outcomes)
        else:
            yield Outcome(each.file, each.where, each.id, each.action, reason=each.reason)


def _count_entries(system: System, path: str | PathLike[str], users: str) -> int:
    """How many entries there are; ValidationError if they belong to several where only one was expected."""
    total = 0
    owners: dict[str, None] = {}
    for found in system.read(path):
        total += 1
        if users == "one" and isinstance(found, Entry) and found.owner and len(owners) <= _MAX_SHOWN_OWNERS:
            owners[found.owner] = None
    if len(owners) > 1:
        some = ", ".join(f"{owner!r:.40}" for owner in list(owners)[:_MAX_SHOWN_OWNERS])
        more = " …" if len(owners) > _MAX_SHOWN_OWNERS else ""
        raise ValidationError(
            f"the memories belong to several {system.owner}s ({some}{more}): with users 'each' every {system.owner} gets a scope "
            "of its own, with 'all' everything goes into this one."
        )
    return total


def _with_owners(system: System, path: str | PathLike[str]) -> Iterator[Found]:
    """What is found, each entry under its owner's name as scopes have it; an owner that no scope can be of is refused."""
    for found in system.read(path):
        if isinstance(found, Entry) and found.owner:
            try:
                yield replace(found, owner=clean_name(found.owner, f"the {system.owner} it belongs to"))
            except ValidationError as error:
                yield Passed(found.file, found.where, str(error), id=found.id)
        else:
            yield found


def _batches(found: Iterator[Found], users: str) -> Iterator[tuple[Batch, list[Found]]]:
    """Entries that go together, in their order: a hundred memories, or what was said in one conversation."""
    lane: Batch | None = None
    batch: list[Found] = []
    count = letters = 0
    for each in found:
        if isinstance(each, Entry):
            own = Batch(each.owner if users == "each" else "", each.session if each.said else None)
            full = (
                count >= (_BATCH_ENTRIES if own.session is None else _MAX_SESSION_MESSAGES)
                or letters + len(each.content) > _MAX_HELD_CHARS
            )
            if lane is not None and (own != lane or full):
                yield lane, batch
                batch, count, letters = [], 0, 0
            lane, count, letters = own, count + 1, letters + len(each.content)
        batch.append(each)
        if len(batch) - count >= _MAX_SESSION_MESSAGES:  # a file with nothing but bad lines
            yield lane or Batch("", None), batch
            batch, count, letters = [], 0, 0
    if batch:
        yield lane or Batch("", None), batch


def _scope_of(memory: Target, system: System, owner: str) -> Target:
    """The memory of whoever an entry belongs to."""
    if not owner:
        return memory
    return memory.with_scope(agent=owner) if system.owner == "agent" else memory.with_scope(user=owner)


def _import_own(
    memory: Target, path: str | PathLike[str], source: str | None, dry_run: bool, progress: Progress | None
) -> Iterator[Outcome]:
    """Our own export, which goes in whole or not at all; a dry run goes into a memory that is thrown away."""
    file = str(path)
    if dry_run:
        from keepstone.memory import Memory

        with Memory.open(":memory:", tenant=memory.scope.tenant, embedder="none") as scratch:
            report = scratch.import_(path, source=source, progress=progress)
    else:
        report = memory.import_(path, source=source, progress=progress)
    yield from (Outcome(file, f"line {line}", "", "refused", reason=problem) for line, problem in report.errors)
    yield from (Outcome(file, "", "", "new" if dry_run else "added") for _ in range(report.added))
    yield from (Outcome(file, "", "", "duplicate", reason="it is there already") for _ in range(report.skipped))
