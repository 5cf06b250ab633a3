"""What a client gives out beside its verbs: upkeep, reviews, jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any

from keepstone.client.codec import read, read_all, seconds, when
from keepstone.client.request_args import check_int, job, names, told
from keepstone.client.transport import Transport
from keepstone.errors import ConfigurationError
from keepstone.ports.maintenance import ArchivedRecord, ArchiveReason, ChainReport, ReviewItem, ReviewState
from keepstone.ports.queue import Job, JobState
from keepstone.ports.stores import Progress
from keepstone.types import AuditRow, Diagnosis, Receipt

if TYPE_CHECKING:
    from keepstone.learning.jobs import WorkReport
    from keepstone.maintenance.checkup import FixReport
    from keepstone.maintenance.compaction import CompactReport
    from keepstone.maintenance.diff import Diff
    from keepstone.maintenance.health import HealthReport
    from keepstone.maintenance.policy_run import RunReport
    from keepstone.maintenance.reembedding import ReembedReport
    from keepstone.maintenance.retention import ArchiveReport, PurgeReport
    from keepstone.maintenance.review import Decision
    from keepstone.maintenance.scheduler import Scheduler
    from keepstone.maintenance.upkeep import Policy
    from keepstone.maintenance.verification import VerifyReport
    from keepstone.vector_sync.drift import Repaired

Time = datetime | str
YEAR = 31_536_000.0  # seconds
MONTH = 2_592_000.0
_PAGE = 500


class RemoteUpkeep:
    """What `client.upkeep` offers. What is put aside is no longer recalled and keeps its text; `undo(report.ticket)` or
    `restore(ids)` take it back until `purge` erases it. A `dry_run` only says what would happen."""

    def __init__(self, wire: Transport) -> None:
        self._wire = wire

    # -- the whole store: a key with the right operator ------------------------------------------------------------
    def repair_index(self, *, progress: Progress | None = None) -> Repaired:
        """Put into the server's index of vectors what is missing there, and take out what should not be. IndexUnavailable."""
        from keepstone.vector_sync.drift import Repaired

        report = read(Repaired, self._wire.post("/v1/upkeep/repair_index", long=True))
        told(progress, report.put + report.dropped)
        return report

    def rebuild_index(self, *, progress: Progress | None = None) -> int:
        """Empty the server's index of vectors and put every memory in again. How many. IndexUnavailable."""
        found = self._wire.post("/v1/upkeep/rebuild_index", long=True)
        told(progress, int(found["count"]))
        return int(found["count"])

    def reembed(self, *, embedder: Any = None, progress: Progress | None = None) -> ReembedReport:
        """Embed every record of the store that waits for its vector; with the name of an embedder, move the store to that one."""
        from keepstone.maintenance.reembedding import ReembedReport

        if embedder is not None and not isinstance(embedder, str):
            raise ConfigurationError("an embedder that is no name cannot travel to a server: name one, such as 'static'.")
        report = read(ReembedReport, self._wire.post("/v1/upkeep/reembed", {"embedder": embedder}, long=True))
        told(progress, report.embedded)
        return report

    # -- by a policy: a key with the right admin -------------------------------------------------------------------
    def run(self, policy: Policy = None, *, dry_run: bool = False, progress: Progress | None = None) -> RunReport:
        """Do what a policy says in every scope of the key's tenant, and work on what waits for a model there. The policy is a
        dictionary, a TOML file (of this machine), or None for the default."""
        from keepstone.maintenance.policy import UpkeepPolicy
        from keepstone.maintenance.policy_run import RunReport

        given = {"policy": None if policy is None else asdict(UpkeepPolicy.of(policy)), "dry_run": dry_run}
        report = read(RunReport, self._wire.post("/v1/upkeep/run", given, long=True))
        told(progress, report.scopes)
        return report

    def schedule(self, policy: Policy = None, *, every: timedelta | float = 86_400) -> Scheduler:
        """Not over HTTP: ConfigurationError says what to do instead."""
        raise ConfigurationError(
            "a schedule needs a process beside the store: run 'keepstone upkeep run --every 24h --db …' on the server's machine, "
            "or call upkeep.run now and then."
        )

    # -- retention ------------------------------------------------------------------------------------------------
    def age(
        self,
        *,
        older_than: timedelta | float = YEAR,
        kinds: Iterable[str] | None = None,
        keyed: bool = False,
        dry_run: bool = False,
    ) -> ArchiveReport:
        """Put aside what was neither changed nor read for `older_than` (a timedelta or seconds; a year): of these kinds, or of
        all but messages; values under keys only where `keyed` is set."""
        from keepstone.maintenance.retention import ArchiveReport

        given = {"older_than": seconds(older_than), "kinds": names(kinds, "kinds"), "keyed": keyed, "dry_run": dry_run}
        return read(ArchiveReport, self._wire.post("/v1/upkeep/age", given, long=True))

    def lapse(self, *, dry_run: bool = False) -> ArchiveReport:
        """Put aside what has outlived its time to live, so that `purge` can erase it in time."""
        from keepstone.maintenance.retention import ArchiveReport

        return read(ArchiveReport, self._wire.post("/v1/upkeep/lapse", {"dry_run": dry_run}, long=True))

    def fade(
        self, *, importance: float = 0.3, reads: int = 1, older_than: timedelta | float = MONTH, dry_run: bool = False
    ) -> ArchiveReport:
        """Put aside this scope's facts that matter less than `importance`, were read at most `reads` times, and were neither
        changed nor read for `older_than` (a timedelta or seconds; 30 days)."""
        from keepstone.maintenance.retention import ArchiveReport

        given = {"importance": importance, "reads": reads, "older_than": seconds(older_than), "dry_run": dry_run}
        return read(ArchiveReport, self._wire.post("/v1/upkeep/fade", given, long=True))

    def cap(self, most: int, *, kinds: Iterable[str] | None = None, dry_run: bool = False) -> ArchiveReport:
        """Put aside what is over where the scope may have `most` memories of these kinds (facts, notes, episodes, summaries): the
        least important, least read, longest untouched first. Values under keys stay."""
        from keepstone.maintenance.retention import ArchiveReport

        given = {"most": most, "kinds": names(kinds, "kinds"), "dry_run": dry_run}
        return read(ArchiveReport, self._wire.post("/v1/upkeep/cap", given, long=True))

    def archived(self, *, limit: int = 1000) -> Sequence[ArchivedRecord]:
        """What is put aside at present, the longest first, with why and since when."""
        found = self._wire.get("/v1/upkeep/aside", limit=check_int(limit, "the limit", 1, 1_000_000))
        return read_all(ArchivedRecord, found["aside"])

    def undo(self, ticket: int) -> tuple[str, ...]:
        """Take back what one job has put aside, by the `ticket` of its report. The ids that came back."""
        found = self._wire.post("/v1/upkeep/undo", {"ticket": ticket}, long=True)
        return tuple(read_all(str, found["ids"]))

    def restore(self, ids: Iterable[str]) -> int:
        """Bring back these records, unless the same has been remembered anew. How many came back."""
        found = self._wire.post("/v1/upkeep/restore", {"ids": names(ids, "ids")}, long=True)
        return int(found["count"])

    def purge(
        self,
        *,
        after: timedelta | float = MONTH,
        why: Collection[ArchiveReason] | None = None,
        dry_run: bool = False,
        trust_clock: bool = False,
    ) -> PurgeReport:
        """Erase what has been aside for longer than `after` (a timedelta or seconds; 30 days); what was compacted stays. A clock
        that has jumped ahead is not believed unless `trust_clock` is set."""
        from keepstone.maintenance.retention import PurgeReport

        given = {"after": seconds(after), "why": names(why, "why"), "dry_run": dry_run, "trust_clock": trust_clock}
        return read(PurgeReport, self._wire.post("/v1/upkeep/purge", given, long=True))

    # -- content --------------------------------------------------------------------------------------------------
    def compact(
        self,
        *,
        older_than: timedelta | float = MONTH,
        kinds: Collection[str] = ("fact", "note"),
        tag: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> CompactReport:
        """Condense related memories that were not changed for `older_than` into fewer: by the server's model, or by their own
        sentences where it has none. The originals are put aside for good, as parents of what replaces them."""
        from keepstone.maintenance.compaction import CompactReport

        given = {"older_than": seconds(older_than), "kinds": names(kinds, "kinds"), "tag": tag, "dry_run": dry_run}
        report = read(CompactReport, self._wire.post("/v1/upkeep/compact", given, long=True))
        told(progress, report.before)
        return report

    def verify(
        self,
        *,
        handlers: Mapping[str, Callable[..., Any]] | None = None,
        stale_after: timedelta | float = 15_552_000,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> VerifyReport:
        """Check memories against newer messages. What is stale, contradicted or unsupported goes on the review list. `handlers`
        are functions and cannot travel."""
        from keepstone.maintenance.verification import VerifyReport

        if handlers is not None:
            raise ConfigurationError(
                "handlers are functions of this process and cannot travel to a server: leave them out, or open the store with "
                "Memory.open where it lies and verify there."
            )
        given = {"stale_after": seconds(stale_after), "dry_run": dry_run}
        report = read(VerifyReport, self._wire.post("/v1/upkeep/verify", given, long=True))
        told(progress, report.checked)
        return report

    # -- health ---------------------------------------------------------------------------------------------------
    def doctor(self, *, progress: Progress | None = None) -> Diagnosis:
        """Check the server's whole store. Needs a key with the right operator."""
        report = read(Diagnosis, self._wire.get("/v1/store/doctor", long=True))
        told(progress, report.records)
        return report

    def health(self, path: str | PathLike[str] | None = None, *, format: str = "auto", most: int = 100) -> HealthReport:
        """Look for duplicates, echoes, junk, secrets, what is stale, contradicted, orphaned or never recalled, without any model.
        The report's plan says what `fix` would do. A file is not examined over HTTP."""
        from keepstone.maintenance.health import HealthReport

        if path is not None:
            raise ConfigurationError(
                "a file is examined where it lies, not by a server: use Memory.open(':memory:').upkeep.health(path), or "
                "'keepstone health FILE'."
            )
        return read(HealthReport, self._wire.get("/v1/upkeep/health", long=True, most=check_int(most, "the limit", 1, 1_000_000)))

    def fix(self, *, checks: Collection[str] | None = None, dry_run: bool = False) -> FixReport:
        """Carry out the health report's plan, for these checks or all: put aside (can be undone), redact, flag for review."""
        from keepstone.maintenance.checkup import FixReport

        return read(
            FixReport, self._wire.post("/v1/upkeep/fix", {"checks": names(checks, "checks"), "dry_run": dry_run}, long=True)
        )


class RemoteReview:
    """What `client.review` offers."""

    def __init__(self, wire: Transport) -> None:
        self._wire = wire

    def list(self, *, state: ReviewState = "open", limit: int = 100, after: int = 0) -> Sequence[ReviewItem]:
        """What waits for a decision, oldest first; `state` shows what was decided ("kept", "corrected", "retired"). `after` is
        the number of the last item that was seen."""
        found = self._wire.get(
            "/v1/review", state=state, limit=check_int(limit, "limit", 1, 10_000), after=check_int(after, "after", 0, 2**62)
        )
        return read_all(ReviewItem, found["items"])

    def __iter__(self) -> Iterator[ReviewItem]:
        after = 0
        while True:
            page = self.list(limit=_PAGE, after=after)
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1].number

    def __len__(self) -> int:
        number, after = 0, 0
        while True:
            page = self.list(limit=_PAGE, after=after)
            number += len(page)
            if len(page) < _PAGE:
                return number
            after = page[-1].number

    def resolve(self, number: int, decision: Decision, *, content: str | None = None, by: str = "user") -> Receipt:
        """Decide about one item: "keep" (it is right: quarantine ends, and what would have expired unconfirmed stays), "correct"
        (it says `content` from now on, the old wording stays in its history) or "retire" (archived; upkeep.restore undoes it).

        Raises NotFound for a number that is not open, Conflict if the memory was reworded since it was flagged."""
        given = {"decision": decision, "content": content, "by": by}
        return read(Receipt, self._wire.post(f"/v1/review/{check_int(number, 'number', 1, 2**62)}", given))


class RemoteJobs:
    """What `client.jobs` offers: the queued work of one scope."""

    def __init__(self, wire: Transport) -> None:
        self._wire = wire

    def list(self, *, state: JobState | None = None, limit: int = 100) -> Sequence[Job]:
        """Jobs, oldest first: those that wait, run, or have been given up ("failed")."""
        found = self._wire.get("/v1/jobs", state=state, limit=check_int(limit, "limit", 1, 10_000))
        return read_all(Job, found["jobs"])

    def run(self, *, progress: Progress | None = None) -> WorkReport:
        """Work on everything that waits, now and in the server's process."""
        from keepstone.learning.jobs import WorkReport

        report = read(WorkReport, self._wire.post("/v1/jobs/run", long=True))
        told(progress, report.done + report.failed)
        return report

    def retry(self, number: int | None = None) -> int:
        """Let one failed job, or all, wait again. How many. Raises NotFound."""
        found = self._wire.post("/v1/jobs/retry", {"number": job(number)})
        return int(found["count"])

    def drop(self, number: int) -> None:
        """Take a job out of the queue; its messages stay. Raises NotFound."""
        self._wire.delete(f"/v1/jobs/{job(number)}")


class RemoteAudit:
    """What `client.audit` offers. Calling it lists the entries."""

    def __init__(self, wire: Transport) -> None:
        self._wire = wire

    def __call__(self, *, since: Time | None = None, limit: int = 100) -> Sequence[AuditRow]:
        """List what was done in this scope, newest first. The log holds no content."""
        found = self._wire.get("/v1/audit", since=when(since), limit=check_int(limit, "limit", 1, 10_000))
        return read_all(AuditRow, found["rows"])

    def verify(self, *, head: str | None = None) -> ChainReport:
        """Check that the tenant's audit log is what was written. Needs a key with the right admin."""
        return read(ChainReport, self._wire.get("/v1/audit/chain", long=True, head=head))

    def diff(self, since: Time, until: Time | None = None, *, kinds: Sequence[str] | None = None) -> Diff:
        """Compare what was known at two times: what was added, changed and removed. `until` None means now."""
        from keepstone.maintenance.diff import Diff

        return read(Diff, self._wire.get("/v1/diff", since=when(since), until=when(until), kinds=names(kinds, "kinds")))
