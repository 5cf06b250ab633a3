"""Verification: memories are checked against newer messages, the calendar, their parents and their probes; what fails is flagged
for review.

Only the review list is changed. Messages are never flagged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from keepstone.errors import ModelError
from keepstone.learning.echo_guard import strip_fences
from keepstone.maintenance.contradictions import Claim, MessageIndex
from keepstone.maintenance.health import Item
from keepstone.maintenance.probes import PROBE, Handlers, check_handlers, run
from keepstone.maintenance.staleness import stale_reason
from keepstone.ports.chat import ChatModel
from keepstone.ports.maintenance import Flag, FlagKind
from keepstone.ports.stores import Clock, Embedder, Progress, Store
from keepstone.ports.values import ListQuery
from keepstone.ports.vectors import embed_texts
from keepstone.recall.supersession import PairReader
from keepstone.text.revisions import ReadPair, Told, find_replacements, load_model
from keepstone.text.times import lifetime
from keepstone.text.words import only_asks, stem, terms
from keepstone.types import MESSAGE, STEP, UNTRUSTED, Record, Scope, Usage

_PAGE = 500
_ALL = 2**31  # records of a feed
_VERIFIED_STATE = "upkeep:verified"  # the name of the state with the last message that was checked
_MAX_CHECKED = 10_000  # memories, the oldest
_MAX_MESSAGES = 50_000  # read, the newest
_MAX_PROBLEMS = 100
_STATING_KINDS = frozenset({"fact", "note", "value"})  # episodes and summaries describe the past
_GENERIC_TERMS = frozenset(stem(word) for word in ("user", "asks", "prefers", "likes"))
_HALF_YEAR = timedelta(days=180)
_MAX_ASKED_MESSAGES = 400  # the newest, that a model compares with memories
_MESSAGES_PER_PROMPT = 20
_MEMORIES_PER_PROMPT = 30
_MAX_COMPARED = 5000  # the newest memories, and the newest messages, that others are compared with by their vectors
_MIN_PROBABILITY = 0.1  # from which a later statement is taken to replace a memory


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """How many memories were checked, the flags, and how many of them are new on the review list (none after a dry run). `probed`
    counts the probes that were run; `problems` names those that could not be, and why the model gave no answer; `usage` is the
    model's."""

    checked: int
    flagged: int
    flags: tuple[Flag, ...]
    probed: int = 0
    problems: tuple[str, ...] = ()
    usage: Usage = Usage()


class Verifier:
    """Checks the memories of a scope."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        model: ChatModel | None = None,
        embedder: Embedder | None = None,
        pairs: PairReader | None = None,
    ) -> None:
        self._embedder = embedder
        self._read_pair = None if pairs is None else pairs.of()
        self._store = store
        self._clock = clock
        self._model = model

    def verify(
        self,
        scope: Scope,
        *,
        handlers: Mapping[str, Callable[..., Any]] | None = None,
        stale_after: timedelta | float = _HALF_YEAR,
        only_new: bool = False,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> VerifyReport:
        """Check at most 10,000 memories, the oldest first. Without `handlers` no probe is run. With `only_new`, memories are
        compared only with the messages since the last such check, and with each other only where one of the two has changed
        since."""
        probe_handlers = check_handlers(handlers)
        untouched = lifetime(stale_after, "stale_after", may_be_zero=True)
        verified = self._store.states.get(scope, _VERIFIED_STATE) if only_new else None
        message, _, change = (verified or "0").partition(" ")
        latest = self._store.audit_log.last(scope)
        changed = set(self._store.audit_log.feed(scope, int(change), _ALL).changed) if change else None
        memories, said, last = self._read(scope, int(message))
        check = _Check(self._store, scope, self._clock(), untouched, MessageIndex(said), probe_handlers)
        usage = Usage() if self._model is None else check.ask(self._model, memories, said)
        for done, record in enumerate(memories, 1):
            check.run(record)
            if progress is not None and (done % 100 == 0 or done == len(memories)):
                progress(done, len(memories))
        if self._embedder is not None and self._embedder.id in load_model().embedders:
            check.compare(self._embedder, memories, said, self._read_pair, changed)
        flags = tuple(check.flags.values())
        added = 0 if dry_run or not flags else self._store.reviews.add(scope, flags)
        seen = f"{last} {latest}"
        if only_new and not dry_run and seen != verified:
            self._store.states.put(scope, _VERIFIED_STATE, seen)
        return VerifyReport(len(memories), added, flags, check.probed, check.problems(), usage)

    def _read(self, scope: Scope, after: int) -> tuple[list[Record], list[Claim], int]:
        """The memories, oldest first; the users' messages after one, newest first; the number of the last message."""
        memories: deque[Record] = deque(maxlen=_MAX_CHECKED)
        before: int | None = None
        while page := self._store.list(scope, ListQuery(limit=_PAGE, before=before, exclude_kind=MESSAGE)):
            before = page[-1][0]
            memories.extend(record for _, record in page if record.status == "active")
        said: list[Claim] = []
        last, before = after, None
        while turns := self._store.message_log.page(scope, None, after=after, before=before, limit=_PAGE):
            last, before = max(last, turns[-1][0]), turns[0][0]
            for _, record in reversed(turns):
                if _is_user_statement(record):
                    said.append(Claim(record.id, strip_fences(record.content), record.occurred_at, record.name or "user"))
            if len(said) >= _MAX_MESSAGES:
                break
        return list(reversed(memories)), said[:_MAX_MESSAGES], last


class _Check:
    """The state of one verification."""

    def __init__(
        self, store: Store, scope: Scope, now: datetime, untouched: timedelta, messages: MessageIndex, handlers: Handlers
    ) -> None:
        self._store = store
        self._scope = scope
        self._now = now
        self._untouched = untouched
        self._messages = messages
        self._handlers = handlers
        self._parents: dict[str, Record | None] = {}
        self._problems: list[str] = []
        self._distrusted = 0
        self.flags: dict[tuple[str, str], Flag] = {}
        self.probed = 0

    def run(self, record: Record) -> None:
        """Flag what no longer holds."""
        if _states(record):
            self._check_contradictions(record)
            self._check_staleness(record)
        if record.parents:
            self._check_parents(record)
        if PROBE in record.metadata and self._handlers:
            self._run_probe(record)

    def problems(self) -> tuple[str, ...]:
        """The probes that gave no answer."""
        problems = self._problems[:_MAX_PROBLEMS]
        if len(self._problems) > _MAX_PROBLEMS:
            problems.append(f"{len(self._problems) - _MAX_PROBLEMS} more probes gave no answer")
        if self._distrusted:
            problems.append(f"{self._distrusted} probes were not run: their memories come from sources that are not trusted")
        return tuple(problems)

    def _flag(self, id: str, kind: FlagKind, reason: str, *evidence: str) -> None:
        known = self.flags.get((id, kind))
        if known is not None:
            reason, evidence = f"{known.reason}; {reason}", (*known.evidence, *evidence)
        self.flags[id, kind] = Flag(id, kind, reason, evidence)

    # -- by a model -----------------------------------------------------------------------------------------------
    def ask(self, model: ChatModel, memories: Sequence[Record], said: Sequence[Claim]) -> Usage:
        """Flag the memories that a model finds contradicted by later messages about the same things."""
        usage = Usage()
        stating = [(record, set(terms(record.content)) - _GENERIC_TERMS) for record in memories if _states(record)]
        newest = [claim for claim in said[:_MAX_ASKED_MESSAGES] if not only_asks(claim.content)]
        for start in range(0, len(newest), _MESSAGES_PER_PROMPT):
            claims = newest[start : start + _MESSAGES_PER_PROMPT][::-1]
            words = set().union(*(terms(claim.content) for claim in claims))
            older = [(record, own) for record, own in stating if _stated_at(record) < claims[-1].said_at and own & words]
            ranked = [record for record, _ in sorted(older, key=lambda pair: -len(pair[1] & words))[:_MEMORIES_PER_PROMPT]]
            if not ranked:
                continue
            try:
                usage = usage + self._ask_about(model, ranked, claims)
            except ModelError as error:
                self._problems.append(f"the model could not be asked: {error}"[:200])
                break
        return usage

    def _ask_about(self, model: ChatModel, memories: Sequence[Record], claims: Sequence[Claim]) -> Usage:
        from keepstone.prompts import verification as prompt
        from keepstone.prompts.extraction import Line

        lines = [Line("user", claim.content, None, claim.said_at) for claim in claims]
        answer = model.ask(prompt.render([(each.content, _stated_at(each)) for each in memories], lines, now=self._now))
        pairs = prompt.read(answer.text, len(memories), len(lines))
        if pairs is None:
            self._problems.append(f"{model.id} did not answer with the JSON it was asked for")
        for at, turn in pairs or ():
            record, claim = memories[at], claims[turn]
            if claim.said_at > _stated_at(record) and claim.id not in record.parents:
                self._flag(record.id, "contradicted", f"a later message contradicts it, as {model.id} reads it", claim.id)
        return answer.usage

    # -- the checks -----------------------------------------------------------------------------------------------
    def _check_contradictions(self, record: Record) -> None:
        contradiction = self._messages.against(_claim(record), record.parents)
        if contradiction is not None and (record.id, "contradicted") not in self.flags:
            self._flag(record.id, "contradicted", contradiction.reason, contradiction.id)

    def compare(
        self,
        embedder: Embedder,
        memories: Sequence[Record],
        said: Sequence[Claim],
        read: ReadPair | None,
        changed: Collection[str] | None = None,
    ) -> None:
        """Flag what a later message or memory about the same thing probably replaces, whatever its words; `read` judges two
        texts. Of two memories one is among those that have `changed`, where these are known."""
        stating = [record for record in memories if _states(record)]
        new = [record for record in stating if changed is None or record.id in changed]
        known = [] if changed is None else [record for record in stating if record.id not in changed]
        messages = [claim for claim in said[:_MAX_COMPARED] if not only_asks(claim.content)]
        self._compare(embedder, stating, [*map(_claim, new[-_MAX_COMPARED:]), *messages], read)
        self._compare(embedder, new, [*map(_claim, known[-_MAX_COMPARED:])], read)  # what is new may tell of an earlier time

    def _compare(self, embedder: Embedder, stating: Sequence[Record], later: Sequence[Claim], read: ReadPair | None) -> None:
        if not stating or not later:
            return
        older, newer = (
            [Told(claim.content, claim.said_at.timestamp()) for claim in some] for some in (map(_claim, stating), later)
        )
        vectors = embed_texts(embedder, [each.text for each in (*older, *newer)])
        pairs = find_replacements(older, vectors[: len(older)], newer, vectors[len(older) :], _MIN_PROBABILITY, read)
        for old, new, probability in pairs:
            record, claim = stating[old], later[new]
            if None not in (record.key, claim.key) and record.key != claim.key:
                continue  # the values of two keys stand beside each other
            if (record.id, "contradicted") not in self.flags and claim.id not in record.parents:
                reason = f"what was said later probably replaces it (probability {probability:.2f})"
                self._flag(record.id, "contradicted", reason, claim.id)

    def _check_staleness(self, record: Record) -> None:
        reason = stale_reason(Item.of(record), self._now, self._untouched)
        if reason is not None:
            self._flag(record.id, "stale", reason)

    def _check_parents(self, record: Record) -> None:
        rests_on = [parent for parent in map(self._parent, record.parents) if parent is not None]
        if not rests_on:
            self._flag(record.id, "unsupported", "none of the records that it was derived from exists any more")
        elif (
            record.kind in _STATING_KINDS
            and any(parent.version > 1 for parent in rests_on)
            and self._is_reworded(record, rests_on)
        ):
            evidence = [parent.id for parent in rests_on if parent.version > 1]
            self._flag(
                record.id, "unsupported", "the records that it was derived from were reworded and no longer say it", *evidence
            )

    def _is_reworded(self, record: Record, parents: list[Record]) -> bool:
        """Whether the parents of a record stated it before they were reworded, and no longer do."""
        own = set(terms(record.content)) - _GENERIC_TERMS
        numbers = {word for word in own if word[0].isdigit()}
        now = {word for parent in parents for word in terms(parent.content)}
        lost = own if own.isdisjoint(now) else numbers if numbers and numbers.isdisjoint(now) else set()
        if not lost:
            return False
        pasts = (self._store.history(self._scope, parent.id) or () for parent in parents if parent.version > 1)
        return any(not lost.isdisjoint(terms(version.content)) for past in pasts for version in past[:-1])

    def _parent(self, id: str) -> Record | None:
        if id not in self._parents:
            self._parents[id] = self._store.get(self._scope, id)
        return self._parents[id]

    def _run_probe(self, record: Record) -> None:
        if record.trust < UNTRUSTED:  # untrusted text must not choose what is run
            self._distrusted += 1
            return
        outcome = run(record.metadata, self._handlers)
        if outcome is None:
            return
        self.probed += outcome.ran
        if outcome.problem is not None:
            self._problems.append(f"memory {record.id}: {outcome.problem}"[:200])
        elif not outcome.holds:
            self._flag(record.id, "stale", f"its probe {outcome.name:.60} answers something else")


def _claim(record: Record) -> Claim:
    return Claim(record.id, record.content, _stated_at(record), key=record.key)


def _states(record: Record) -> bool:
    """Whether a memory states something; a value with a role is a setting of the application."""
    return record.kind in _STATING_KINDS and not (record.kind == "value" and record.role is not None)


def _is_user_statement(record: Record) -> bool:
    """Whether a message is a user's own, trusted text."""
    return (
        record.role == "user"
        and record.tag != STEP
        and record.source.partition(":")[0] == "user"
        and record.trust >= UNTRUSTED
        and bool(record.content)
    )


def _stated_at(record: Record) -> datetime:
    """When a memory got its present wording."""
    return max(record.occurred_at, record.valid_from)
