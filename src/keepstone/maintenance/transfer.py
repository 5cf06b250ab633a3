"""Records in and out as JSONL, backups, the doctor.

A line of an export is one record with all its versions; importing it into an empty scope gives the same export again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from keepstone.distribution import export_format
from keepstone.errors import ConfigurationError, Conflict, EmbedderError, KeepstoneError, NotFound, TooLarge, ValidationError
from keepstone.maintenance.files import check_writable, open_for_reading, whole
from keepstone.ports.caches import Buffer
from keepstone.ports.maintenance import ARCHIVE_REASONS, with_places
from keepstone.ports.stores import Embedder, Progress, Store
from keepstone.ports.values import ImportRow, RecordExport, Support
from keepstone.ports.vectors import embed_texts
from keepstone.recall.access import AccessCounter
from keepstone.recall.query import check_fraction, check_int, other_scopes
from keepstone.text.passages import embedding_texts, further_passages
from keepstone.text.times import parse_time
from keepstone.text.words import record_terms
from keepstone.types import MESSAGE, Diagnosis, Finding, ImportReport, Receipt, Record, Scope, Status, Version, clean_name
from keepstone.write.blocks import split_content
from keepstone.write.request import MAX_CONTENT, check_content, check_metadata, gist_of, trust_of

if TYPE_CHECKING:
    from keepstone.maintenance.forgetting import Eraser
    from keepstone.vector_sync.indexing import Indexing

FORMAT = 1
_INVALID = (KeepstoneError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
_LONGER = 2  # times the limit: markers in the place of what was redacted may have made a text longer
MAX_LINE = 64 * 1024 * 1024  # bytes: a record with a long text or history; a cut-off for hostile files
_MAX_BATCH_CHARS = 16 * 1024 * 1024  # of the contents that are embedded and stored together
_BATCH = 500
_MAX_ROWS = 1_000_000
_ERRORS = 100
_STATUSES_OF_0_1 = {"expired": "archived"}  # how exports of 0.1 spell a status
_RECORD = [field.name for field in fields(Record) if field.name not in ("scope", "embedded", "valid_to")]
_VERSION = [field.name for field in fields(Version)]


class Transfer:
    """export, import_, backup, doctor."""

    def __init__(
        self,
        target: str,
        store: Store,
        embedder: Embedder | None,
        accesses: AccessCounter,
        indexing: Indexing | None = None,
        buffer: Buffer | None = None,
        encrypted: bool = False,
    ) -> None:
        self._own = {Path(f"{Path(target).resolve()}{ending}") for ending in ("", "-wal", "-shm", "-journal")}
        self._store = store
        self.embedder = embedder
        self._accesses = accesses
        self._indexing = indexing
        self._buffer = buffer
        self._encrypted = encrypted

    def export(
        self, scope: Scope, path: str | PathLike[str], all_of_user: bool, plaintext: bool, progress: Progress | None
    ) -> int:
        """Write the scope, or everything stored about its user, to a file."""
        self._accesses.flush()
        if all_of_user:
            return self.write_lines(path, everything(self._store, scope), plaintext, 0, progress)
        return self.write_lines(
            path, map(line_of, self._store.export_records(scope)), plaintext, self._store.count(scope), progress
        )

    def check_plaintext(self, agreed: bool) -> None:
        """Refuse to write texts of an encrypted store in the clear unless that was asked for."""
        if self._encrypted and not agreed:
            raise ConfigurationError(
                "the store is encrypted, and this file would not be: ask for it with plaintext (plaintext=True, --plaintext), or "
                "copy the store with backup, which keeps the key."
            )

    def write_lines(
        self,
        path: str | PathLike[str],
        lines: Iterable[str],
        plaintext: bool,
        total: int = 0,
        progress: Progress | None = None,
    ) -> int:
        """Write lines to a file, all of them or none. How many."""
        self.check_plaintext(plaintext)
        target = check_writable(path)
        if target.resolve() in self._own:
            raise ConfigurationError(f"{target} belongs to the store itself: export to another file.")
        count = 0
        with whole(target) as file:
            for line in lines:
                file.write(f"{line}\n".encode())
                count += 1
                if progress is not None and count % _BATCH == 0:
                    progress(count, max(total, count))
        if progress is not None:
            progress(count, count)
        return count

    def import_(self, scope: Scope, path: str | PathLike[str], claimed: str | None, progress: Progress | None) -> ImportReport:
        """Read a file into the scope: every line is checked before the first is stored. `claimed`: whose word all of it is."""
        source = Path(path)
        by = None if claimed is None else clean_name(claimed, "source")
        errors: list[tuple[int, str]] = []
        total = 0
        for number, _, problem in _lines(source, scope):
            total += 1
            if problem is not None:
                errors.append((number, problem))
                if len(errors) >= _ERRORS:
                    break
        if errors:
            return ImportReport(0, 0, tuple(errors))
        added = skipped = 0
        batch: list[RecordExport] = []
        for number, archive, problem in _lines(source, scope):
            if archive is None:
                raise ConfigurationError(f"{source} changed while it was read (line {number}: {problem}): import it again.")
            batch.append(_trusted(archive, by))
            if len(batch) == _BATCH or sum(len(each.record.content) for each in batch) > _MAX_BATCH_CHARS:
                added, skipped, batch = self._stored(scope, batch, added, skipped, by is not None)
                if progress is not None:
                    progress(added + skipped, total)
        added, skipped, _ = self._stored(scope, batch, added, skipped, by is not None)
        if progress is not None:
            progress(total, total)
        return ImportReport(added, skipped)

    def _stored(
        self, scope: Scope, batch: list[RecordExport], added: int, skipped: int, vouched: bool
    ) -> tuple[int, int, list[RecordExport]]:
        rows = self.import_rows(batch, vouched)
        new, old = self._store.import_records(scope, rows) if rows else (0, 0)
        return added + new, skipped + old, []

    def import_rows(self, batch: Sequence[RecordExport], vouched: bool) -> list[ImportRow]:
        """Exported records with their words and vectors."""
        texts = [text for each in batch for text in embedding_texts(each.record.content, each.record.key)]
        vectors: Iterator[Any] = iter([None] * len(texts))
        if batch and self.embedder is not None and self.embedder.local:
            with contextlib.suppress(EmbedderError):  # without vectors they are stored and wait for them
                vectors = iter(embed_texts(self.embedder, texts))
        return [
            ImportRow(
                each,
                record_terms(each.record.content, each.record.key),
                next(vectors),
                gist_of(each.record.content, each.record.kind, each.record.key),
                passages=tuple(
                    passage._replace(vector=next(vectors)) for passage in further_passages(each.record.content, each.record.key)
                ),
                vouched=vouched,
            )
            for each in batch
        ]

    def move(self, scope: Scope, id: str, to: Scope | Mapping[str, str], eraser: Eraser) -> Receipt:
        """Move a memory with its history to another scope: it is stored there before it is erased here, so a kill loses nothing
        and the call can be repeated. Raises NotFound, Conflict, ValidationError."""
        if isinstance(to, (Scope, Mapping)):
            target = next(iter(other_scopes(scope, [to])), scope)
        else:
            raise ValidationError(f"to is {to!r:.60}: use a scope such as {{'agent': 'default'}} or {{'user': 'team'}}.")
        if target == scope:
            raise ValidationError("to names the scope that the memory is in: name another agent or user.")
        if target.tenant != scope.tenant:
            raise ValidationError("a memory stays in its tenant: name another agent or user.")
        id = clean_name(id, "id")
        record, versions = self._store.get(scope, id), self._store.history(scope, id)
        if record is None or not versions:
            raise NotFound(f"there is no record with the id {id!r:.80} in this scope: list shows its records.")
        if record.kind == MESSAGE or record.status != "active":
            what = "a message, which stays in its conversation" if record.kind == MESSAGE else f"{record.status}"
            raise ValidationError(f"{id!r:.80} is {what}: only an active fact, note or value can be moved.")
        there = self._store.get(target, id) or (self._store.by_key(target, record.key) if record.key is not None else None)
        if there is not None and (there.id, there.content) != (id, record.content):
            held = f"the key {record.key!r:.80}" if there.key is not None and there.key == record.key else "this id"
            raise Conflict(f"the other scope holds {held} already, as {there.id}: forget or update that one first.")
        moved = record.with_(scope=target, parents=())  # what it was learned from stays behind
        self._stored(target, [RecordExport(moved, tuple(versions))], 0, 0, True)
        eraser.forget(scope, id, None, None, None, False)
        return Receipt("updated", id, record.version, (f"it is in the scope agent={target.agent!r}, user={target.user!r} now",))

    def backup(self, path: str | PathLike[str], progress: Progress | None) -> None:
        """A consistent copy of the whole store."""
        self._accesses.flush()
        self._store.backup(os.fspath(path), progress)

    def doctor(self, progress: Progress | None) -> Diagnosis:
        """Check the whole store, its vector index and its buffer."""
        found = self._store.doctor(record_terms, progress)
        more = [] if self._indexing is None else self._indexing.examine(progress)
        if self._buffer is not None:
            self._buffer.window(Scope("local", "doctor", ""), None)  # a request, so that `problem` is current
            if self._buffer.problem is not None:
                remedy = "see that it runs and can be reached; until then everything is read from the store"
                more.append(Finding("buffer", f"{self._buffer.name}: {self._buffer.problem}", remedy))
        return replace(found, healthy=found.healthy and not more, findings=(*found.findings, *more))


def line_of(archive: RecordExport) -> str:
    """One line of an export."""
    record = {name: out(getattr(archive.record, name)) for name in ("scope", *_RECORD)}
    versions = [{name: out(getattr(version, name)) for name in _VERSION} for version in archive.versions]
    if archive.archived is not None:
        record |= {"aside_at": out(archive.archived[0]), "aside_why": archive.archived[1]}
    if archive.supports:
        record["supports"] = [[each.version, each.number, list(each.parents), each.session] for each in archive.supports]
    return json.dumps({"keepstone": FORMAT, **record, "versions": versions}, ensure_ascii=False, allow_nan=False)


def out(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Scope):
        return {"tenant": value.tenant, "agent": value.agent, "user": value.user}
    return list(value) if isinstance(value, tuple) else value


# -- subject access -------------------------------------------------------------------------------------------------------
def everything(store: Store, scope: Scope) -> Iterator[str]:
    """Everything stored about one user, for a subject access request: one JSON object a line for each memory with its history,
    state, job, review and audit entry, for every agent of the tenant."""
    scopes = [other for other in store.retention.scopes(scope.tenant) if other.user == scope.user]
    yield _item_line("request", scope, {"tenant": scope.tenant, "user": scope.user, "agents": [other.agent for other in scopes]})
    for each in scopes:
        for archive in store.export_records(each):
            yield _item_line("memory", each, json.loads(line_of(archive)))
        for name, value in store.states.all(each):
            yield _item_line("state", each, {"name": name, "value": value})
        for job in with_places(store.audit_log, each, store.jobs.list(each, limit=_MAX_ROWS)):
            yield _item_line("job", each, _item_fields(job))
        for state in ("open", "kept", "corrected", "retired"):
            for item in with_places(store.audit_log, each, store.reviews.list(each, state=state, limit=_MAX_ROWS)):
                yield _item_line("review", each, {name: value for name, value in _item_fields(item).items() if name != "record"})
        for row in with_places(store.audit_log, each, store.audit(each, limit=_MAX_ROWS)):
            yield _item_line("audit", each, _item_fields(row))


def _item_fields(value: Any) -> dict[str, Any]:
    return {each.name: out(getattr(value, each.name)) for each in fields(value) if each.name != "scope"}


def _item_line(what: str, scope: Scope, held: dict[str, Any]) -> str:
    return json.dumps({"what": what, "agent": scope.agent, **held}, ensure_ascii=False, allow_nan=False)


# -- reading an export ----------------------------------------------------------------------------------------------------
def _lines(path: Path, scope: Scope) -> Iterator[tuple[int, RecordExport | None, str | None]]:
    """(line number, archive, what is wrong) for every line that is not blank."""
    seen: set[str] = set()
    with open_for_reading(path) as (file, _):
        for number, raw in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b""), 1):
            if not raw.strip():
                continue
            try:
                archive = _archive(raw, scope)
                if archive.record.id in seen:
                    raise ValidationError(f"the id {archive.record.id} stands on an earlier line already.")
                seen.add(archive.record.id)
            except _INVALID as error:
                missing = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
                yield number, None, missing
            else:
                yield number, archive, None


def _archive(raw: bytes, scope: Scope) -> RecordExport:
    if len(raw) > MAX_LINE:
        raise TooLarge(f"the line is longer than {MAX_LINE} bytes.")
    data = json.loads(raw.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    if not isinstance(data, Mapping) or export_format(data) != FORMAT:
        raise ValidationError("this is not a line of a keepstone export (format 1).")
    if not isinstance(data["scope"], Mapping) or data["scope"].get("tenant") != scope.tenant:
        raise ValidationError("the record belongs to another tenant and cannot be imported here.")
    return read_record(data, scope)


def read_record(data: Mapping[str, Any], scope: Scope) -> RecordExport:
    """A record of a line, checked, as one of this scope."""
    versions = tuple(Version(**_read_fields(each, _VERSION)) for each in data["versions"])
    if [each.version for each in versions] != sorted({each.version for each in versions}) or not versions:
        raise ValidationError("the versions are not in order.")
    if (versions[-1].version, versions[-1].content) != (data["version"], data["content"]):
        raise ValidationError("the last version is not what the record says.")
    values = _read_fields({"blocks": None, "sensitive": [], **data}, _RECORD)  # exports of the first version have none of these
    record = Record(**values, scope=scope, valid_to=None)
    return RecordExport(record, versions, _archived_state(data), _supports(data, versions))


def _read_fields(data: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The fields of a record or a version after validation."""
    return {name: FIELDS[name](data[name], name) for name in names}


def _archived_state(data: Mapping[str, Any]) -> tuple[datetime, str] | None:
    """When and why a record was archived; exports of earlier versions do not say."""
    at = _time(data.get("aside_at"), "aside_at")
    if at is None or data["status"] not in ("archived", *_STATUSES_OF_0_1):
        return None
    if data.get("aside_why") not in ARCHIVE_REASONS:
        raise ValidationError(f"aside_why {data.get('aside_why')!r:.40} is unknown.")
    return at, data["aside_why"]


def _supports(data: Mapping[str, Any], versions: Sequence[Version]) -> tuple[Support, ...]:
    """What the versions rest on; most lines do not say, as the record does."""
    known = {version.version for version in versions}
    found = []
    for version, number, parents, session in data.get("supports", ()):
        if version not in known or type(number) is not int or not 0 <= number < 2**31 or not isinstance(parents, list):
            raise ValidationError("supports names a version that is not there, or is not as an export has it.")
        named = None if session is None else clean_name(session, "session")
        found.append(Support(version, number, tuple(clean_name(each, "parents") for each in parents), named))
    return tuple(found)


def _trusted(archive: RecordExport, source: str | None) -> RecordExport:
    """An archive as far as its channel is trusted: a file may not say that its sources are trusted more than their class, nor
    speak for the system."""

    def of(held: str, trust: float) -> dict[str, Any]:
        named = source or (held if held.partition(":")[0].strip().lower() != "system" else f"import:{held}"[:256])
        return {"source": named, "trust": min(trust, trust_of(named))}

    record = archive.record.with_(**of(archive.record.source, archive.record.trust))
    versions = tuple(replace(each, **of(each.source, each.trust)) for each in archive.versions)
    return RecordExport(record, versions, archive.archived, archive.supports)


def _blocks(given: Any, name: str) -> tuple[Mapping[str, Any], ...] | None:
    packed = None if given is None else split_content(given)[1]
    return None if packed is None else tuple(json.loads(packed))


def _names(given: Any, name: str) -> tuple[str, ...]:
    if not isinstance(given, list):
        raise ValidationError(f"{name} is not a list.")
    return tuple(clean_name(each, name) for each in given)


def _status(given: Any, name: str) -> str:
    status: str = _STATUSES_OF_0_1.get(given, given)
    if status not in get_args(Status):
        raise ValidationError(f"status {given!r:.40} is unknown.")
    return status


def _name(given: Any, name: str) -> str | None:
    return None if given is None else clean_name(given, name)


def _time(given: Any, name: str) -> datetime | None:
    return None if given is None else parse_time(given, name)


def _set_time(given: Any, name: str) -> datetime:
    if given is None:
        raise ValidationError(f"{name} is not set.")
    return parse_time(given, name)


FIELDS: dict[str, Callable[[Any, str], Any]] = {
    **dict.fromkeys(("id", "kind", "tag", "source", "action"), clean_name),
    **dict.fromkeys(("key", "session", "role", "name"), _name),
    **dict.fromkeys(("occurred_at", "created_at", "updated_at", "valid_from", "known_from"), _set_time),
    **dict.fromkeys(("expires_at", "last_accessed_at", "valid_to"), _time),
    **dict.fromkeys(("importance", "trust"), check_fraction),
    **dict.fromkeys(("parents", "sensitive"), _names),
    "content": lambda given, name: check_content(given, _LONGER * MAX_CONTENT),
    "metadata": lambda given, name: check_metadata(given),
    "version": lambda given, name: check_int(given, name, 1, 2**31 - 1),
    "access_count": lambda given, name: check_int(given, name, 0, 2**53 - 1),
    "status": _status,
    "blocks": _blocks,
}


def _no_constant(name: str) -> Any:
    raise ValidationError(f"{name} is not JSON.")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValidationError("a field stands twice in one object.")
    return found
