"""The import end to end: recognise the format, read, compare with what is stored, write, and report each entry.

It uses only the public verbs of a memory, so that it works with a Client too. A batch is stored whole or not at all, and stored
entries are found by their origin: an interrupted import is completed by running it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from keepstone.errors import ConfigurationError, KeepstoneError, ValidationError
from keepstone.importing import chatgpt, claude, coding_agents, markdown, plain, zep
from keepstone.importing.entries import Entry, Found, ImportSummary, Outcome, read_memories
from keepstone.importing.writer import Writer
from keepstone.maintenance.external_exports import langmem_parts, letta_parts, mem0_parts, recognise_rows
from keepstone.maintenance.external_files import Document, PathOrText, Unread, documents
from keepstone.types import MESSAGE, clean_name

if TYPE_CHECKING:
    from keepstone.importing.writer import Target

Progress = Callable[[int, int], None]
Read = Callable[[], Iterator[Found]]  # reads an export from its beginning
USERS = ("one", "each", "all")
_MAX_PROBLEMS = 100
_MAX_SHOWN_OWNERS = 3
_BATCH_ENTRIES = 100
_MAX_SESSION_MESSAGES = 2000  # of one session that are compared at once
_MAX_HELD_CHARS = 16 * 1024 * 1024  # of the entries that are held at once
_SAMPLE_ENTRIES, _MAX_SAMPLE_CHARS = 5, 200
_MAX_SNIFFED_FILES = 20
_MAX_SNIFFED_ROWS = 100


# -- formats ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class System:
    """One system: the function that reads its documents, the documents it reads, and what owns an entry in it."""

    name: str
    entries: Callable[[list[Document]], Iterator[Found]]
    wanted: Callable[[Document], bool] = lambda document: True
    owner: Literal["user", "agent"] = "user"
    users: str = "one"  # unless the caller says

    def read(self, path: PathOrText, fields: dict[str, str] | None = None) -> Iterator[Found]:
        """The entries of a path."""
        if self.name in plain.FORMATS:
            return plain.entries(self.name, path, fields or {})
        if self.name == "markdown":
            return markdown.entries(path)
        if self.name in coding_agents.CLIENTS:
            return coding_agents.entries(self.name, path)
        found = [document for document in documents(path) if self.wanted(document)]
        if not found:
            raise ConfigurationError(
                f"{str(path)!r:.100} holds no JSON file of such an export: check the path, or name its format."
            )
        return self.entries(found)


SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        System("mem0", partial(read_memories, "mem0", mem0_parts)),
        System("letta", partial(read_memories, "letta", letta_parts), owner="agent"),
        System("zep", zep.entries),
        System("langmem", partial(read_memories, "langmem", langmem_parts)),
        System("chatgpt", chatgpt.entries, chatgpt.wanted),
        System("claude", claude.entries, claude.wanted),
        *(System(name, lambda found: iter(())) for name in ("markdown", *plain.FORMATS)),
        *(System(name, lambda found: iter(()), owner="agent", users="each") for name in coding_agents.CLIENTS),
    )
}
FORMATS = (*SYSTEMS, "keepstone")


def recognise(path: PathOrText) -> str | None:
    """The format of an export, a folder or an archive; None if it is not known or cannot be read.

    >>> recognise("notes.csv")
    'csv'"""
    try:
        if Path(path).is_file() and markdown.is_markdown(path):
            return plain.recognise(path) or "markdown"
        found = sorted(documents(path), key=lambda document: not chatgpt.wanted(document))
        names = (_recognise_document(document) for document in found[:_MAX_SNIFFED_FILES])
        known = next(filter(None, names), None) or ("markdown" if Path(path).is_dir() and markdown.is_markdown(path) else None)
        return known or plain.recognise(path)
    except (KeepstoneError, OSError, ValueError, TypeError):
        return None


def _recognise_document(document: Document) -> str | None:
    """The format of a file, by its first valid entry."""
    for _, row in zip(range(_MAX_SNIFFED_ROWS), document.rows(), strict=False):
        if isinstance(row, Unread):
            continue
        for name, fits in (("chatgpt", chatgpt.is_chatgpt), ("claude", claude.is_claude), ("zep", zep.is_zep)):
            if fits(row[1]):
                return name
        return recognise_rows([row])
    return None


def format_of(path: PathOrText, format: str) -> str:
    """The named format, or that of the path. Raises ValidationError, ConfigurationError."""
    if format not in ("auto", *FORMATS):
        raise ValidationError(f"the format {format!r:.40} is unknown: use auto, {', '.join(FORMATS)}.")
    if format != "auto":
        return format
    if not Path(path).exists():
        raise ConfigurationError(f"there is no file or folder {str(path)!r:.100}: check the path.")
    documents(path)  # raises if there is nothing to read
    found = recognise(path)
    if found is None:
        raise ConfigurationError(
            f"{str(path)!r:.100} holds no memories that can be read: it is neither an export of a known system nor text, CSV or "
            f"JSON with a text in each entry. If it is, name its format: {', '.join(FORMATS)}."
        )
    return found


# -- imports ------------------------------------------------------------------------------------------------------------
def import_from(
    memory: Target,
    path: PathOrText,
    *,
    format: str = "auto",
    dry_run: bool = False,
    users: str | None = None,
    source: str | None = None,
    fields: Mapping[str, str] | None = None,
    learn: bool = False,
    each: Callable[[Outcome], None] | None = None,
    progress: Progress | None = None,
) -> ImportSummary:
    """Import an export of another system into a Memory or a Client.

    `format` is auto or one of FORMATS. The source of every entry is "import:<format>", unless `source` names another. `users`:
    "one" refuses a file with the memories of several users, "each" imports each user into a scope of its own (Letta: each
    agent, coding agents: each project), "all" imports all of them into this scope; None is "each" for coding agents and "one"
    for other systems. With `learn`, messages count as the user's own words and facts are learned from them. `each` is called
    with every outcome, `progress` with (done, total). `fields` maps fields of a memory to columns of CSV or JSON: {"content":
    "note"}. A second call adds only what is new.

    Raises ConfigurationError for a path that cannot be read, ValidationError for invalid options, and what the verbs of a memory
    raise; an invalid entry is in the summary.

    >>> import_from(memory, "notes.csv", fields={"content": "note"}).counts
    {'added': 2}"""
    found = format_of(path, format)
    if found == "keepstone":
        _check_users(users)
        outcomes = _import_own(memory, path, source, dry_run, progress)
    else:
        outcomes = import_each(
            memory, path, format=found, dry_run=dry_run, users=users, source=source, fields=fields, learn=learn, progress=progress
        )
    counts: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    problems: list[Outcome] = []
    for outcome in outcomes:
        counts[outcome.action] += 1
        if outcome.action == "refused" and len(problems) < _MAX_PROBLEMS:
            problems.append(outcome)
        if outcome.action == "skipped" and (outcome.reason in skipped or len(skipped) < _MAX_PROBLEMS):
            skipped[outcome.reason] += 1
        if each is not None:
            each(outcome)
    sample = _sample(found, path, fields) if dry_run and found != "keepstone" else ()
    return ImportSummary(found, counts.total(), dict(counts), tuple(problems), dry_run, sample, dict(skipped.most_common()))


def _sample(format: str, path: PathOrText, fields: Mapping[str, str] | None) -> tuple[str, ...]:
    """The first texts of an import, each in one line."""
    entries = (found for found in SYSTEMS[format].read(path, plain.check_fields(fields)) if isinstance(found, Entry))
    return tuple(" ".join(entry.content.split())[:_MAX_SAMPLE_CHARS] for entry in islice(entries, _SAMPLE_ENTRIES))


def import_each(
    memory: Target,
    path: PathOrText,
    *,
    format: str = "auto",
    dry_run: bool = False,
    users: str | None = None,
    source: str | None = None,
    fields: Mapping[str, str] | None = None,
    learn: bool = False,
    progress: Progress | None = None,
) -> Iterator[Outcome]:
    """Import an export of another system and yield the outcome of each entry once it is stored.

    >>> [outcome.action for outcome in import_each(memory, "notes.csv", fields={"content": "note"})]
    ['added', 'added']"""
    _check_users(users)
    name = format_of(path, format)
    if name == "keepstone":
        raise ValidationError("an export of keepstone is imported whole or not at all: use import_from or memory.import_.")
    if learn and source is not None:
        raise ValidationError("with learn, messages count as the words of those who said them: leave source out.")
    by = f"import:{name}" if source is None else clean_name(source, "source")
    system, columns = SYSTEMS[name], plain.check_fields(fields)
    read = partial(system.read, path, columns)
    make_writer = partial(Writer, system=name, by=by, dry_run=dry_run, learn=learn)
    return _import_batches(memory, system, read, make_writer, users or system.users, progress)


def _check_users(users: str | None) -> None:
    if users is not None and users not in USERS:
        raise ValidationError(f"users is {users!r:.40}: use {', '.join(USERS)}.")


def _import_batches(
    memory: Target, system: System, read: Read, make_writer: Callable[[Target], Writer], users: str, progress: Progress | None
) -> Iterator[Outcome]:
    total, done = _count_entries(system, read, users), 0
    writers: dict[str, Writer] = {}
    for (owner, session), batch in _batches(_with_owners(system, read) if users == "each" else read(), users):
        if owner not in writers:
            scope = {} if not owner else {system.owner: owner}
            writers[owner] = make_writer(memory.with_scope(**scope) if scope else memory)
        yield from _write_batch(writers[owner], session, batch)
        done += len(batch)
        if progress is not None:
            progress(min(done, total), total)
    if progress is not None:
        progress(total, total)


def _write_batch(writer: Writer, session: str | None, batch: list[Found]) -> Iterator[Outcome]:
    """The outcomes of a batch, in its order."""
    entries = [found for found in batch if isinstance(found, Entry)]
    outcomes = iter(writer.memories(entries) if session is None else writer.messages(session, entries))
    for found in batch:
        if isinstance(found, Entry):
            yield next(outcomes)
        else:
            yield Outcome(found.file, found.where, found.id, found.action, reason=found.reason)


def _count_entries(system: System, read: Read, users: str) -> int:
    """The number of entries. Raises ValidationError if they have several owners and `users` is "one"."""
    total = 0
    owners: dict[str, None] = {}
    for found in read():
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


def _with_owners(system: System, read: Read) -> Iterator[Found]:
    """The entries with the names of their owners as scopes have them; an invalid name is refused."""
    for found in read():
        if isinstance(found, Entry) and found.owner:
            try:
                yield replace(found, owner=clean_name(found.owner, f"the {system.owner} it belongs to"))
            except ValidationError as error:
                yield Unread(found.file, found.where, str(error), id=found.id)
        else:
            yield found


def _batches(found: Iterator[Found], users: str) -> Iterator[tuple[tuple[str, str | None], list[Found]]]:
    """Entries of one owner and one session, or without a session, in their order."""
    target: tuple[str, str | None] = ("", None)
    batch: list[Found] = []
    count = chars = 0
    for entry in found:
        if isinstance(entry, Entry):
            own = (entry.owner if users == "each" else "", entry.session if entry.kind == MESSAGE else None)
            limit = _BATCH_ENTRIES if own[1] is None else _MAX_SESSION_MESSAGES
            if count and (own != target or count >= limit or chars + len(entry.content) > _MAX_HELD_CHARS):
                yield target, batch
                batch, count, chars = [], 0, 0
            target, count, chars = own, count + 1, chars + len(entry.content)
        batch.append(entry)
        if len(batch) - count >= _MAX_SESSION_MESSAGES:  # a file with nothing but bad lines
            yield target, batch
            batch, count, chars = [], 0, 0
    if batch:
        yield target, batch


def _import_own(
    memory: Target, path: PathOrText, source: str | None, dry_run: bool, progress: Progress | None
) -> Iterator[Outcome]:
    """A keepstone export, which is imported whole or not at all; a dry run uses a temporary memory."""
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
