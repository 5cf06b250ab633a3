"""Facts by a model, through the queue: read the messages of a job, ask, check each proposal, store what stands.

The model only proposes. A proposal is added, merged or supersedes by the store's own rules; nothing it says can delete, name
another's record or another scope. What cannot be used is counted and logged without its text; the messages stay as they are.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from keepstone.errors import KeepstoneError, StoreError
from keepstone.learning.echo_guard import invented, is_echo, parts, without_fences
from keepstone.learning.facts import LEAST_CONFIDENCE, from_proposal
from keepstone.ports.chat import ChatModel
from keepstone.ports.queue import Job
from keepstone.ports.stores import Clock, Store
from keepstone.recall.flow import RecallFlow
from keepstone.recall.query import RecallQuery
from keepstone.types import MESSAGE, STEP, Record, Scope, Usage
from keepstone.write.flow import WriteFlow
from keepstone.write.request import WriteRequest, trust_of

if TYPE_CHECKING:
    from keepstone.prompts.extraction import Line, Proposal

log = logging.getLogger("keepstone.learning")
KIND = "extract"
TRIES = 5
_FIRST_WAIT = timedelta(seconds=30)
_ANSWER = 4096  # tokens a model may take, its thinking included
_BEFORE = 4  # earlier turns that are shown for context
_KNOWN = 12  # facts that are shown as known
_FACTS = frozenset({"fact", "value"})
_SPAN = 200  # turns between the first and the last of a job that are read, beside the job's own
_AGREED = r"yes|yeah|yep|yup|ja|oui|si|sí|correct|right|exactly|indeed|true|sure|of course|absolutely|definitely|agreed"
_AGREED += r"|that's (?:right|it|true|correct)|i do|i am|i did|it is|please do|sounds good"
_YES = re.compile(rf"\W*(?:{_AGREED})(?:\W+(?:{_AGREED}|please|thanks|thank you|that))*\W*", re.IGNORECASE)  # and nothing else


@dataclass(frozen=True, slots=True)
class JobReport:
    """What came of one job: ids of the facts, a sentence for each proposal that was not taken, what the model took."""

    learned: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    usage: Usage = Usage()
    problem: str | None = None


class FactExtractor:
    """Works on one job at a time."""

    def __init__(self, store: Store, writing: WriteFlow, recalling: RecallFlow, model: ChatModel | None, clock: Clock) -> None:
        self._store = store
        self._writing = writing
        self._recalling = recalling
        self.model = model
        self._clock = clock

    def work(self, job: Job) -> JobReport:
        """Do a job that has been claimed, and settle it: done, later, or given up."""
        if self.model is None:
            self._store.jobs.put_back(job, "no model was set", self._clock())
            return JobReport(problem="no model was set")
        if job.attempts > TRIES:  # each time its worker vanished with it
            return self._failed(job, "whoever worked on it was killed, or stopped, again and again")
        try:
            report = self._done(job, self.model)
        except StoreError:
            raise  # nothing can be settled now; the lease frees the job
        except KeepstoneError as error:
            return self._failed(job, str(error))
        except Exception as error:  # a model adapter of the caller's own may raise anything
            return self._failed(job, f"{type(error).__name__} while extracting")
        if report.problem is not None:
            return self._failed(job, report.problem, report.usage)
        self._store.jobs.finish(job)
        took = report.usage
        log.info("job %d: %d facts, %d tokens in, %d out", job.number, len(report.learned), took.input_tokens, took.output_tokens)
        for sentence in report.refused:
            log.info("job %d: %s", job.number, sentence)
        return report

    def _failed(self, job: Job, problem: str, usage: Usage = Usage()) -> JobReport:
        if job.attempts >= TRIES:
            self._store.jobs.give_up(job, problem)
            log.error("job %d was given up after %d tries: %s", job.number, job.attempts, problem)
        else:
            self._store.jobs.put_back(job, problem, self._clock() + _FIRST_WAIT * 4 ** (job.attempts - 1))
            log.warning("job %d will be tried again: %s", job.number, problem)
        return JobReport(usage=usage, problem=problem)

    def _done(self, job: Job, model: ChatModel) -> JobReport:
        from keepstone.prompts import extraction as prompt  # only who has a model pays for it

        records = [record for record in (self._store.get(job.scope, id) for id in job.ids) if record is not None]
        if not any(_own(record) for record in records):
            return JobReport()
        shown = self._around(job.scope, records)
        new = {record.id for record in records}
        lines = [_line(record, record.id in new) for record in shown]
        known = self._known(job.scope, records)
        answer = model.ask(prompt.render(lines, known=known, now=self._clock(), max_tokens=_ANSWER))
        reading = prompt.read(answer.text, lines)
        if reading is None:
            return JobReport(
                usage=answer.usage, problem=f"{model.id} answered with something that is not the JSON it was asked for."
            )
        learned, refused = self._reconciled(job.scope, shown, reading.proposals, [content for _, content in known])
        return JobReport(tuple(learned), (*reading.refused, *refused), answer.usage)

    def _around(self, scope: Scope, records: Sequence[Record]) -> list[Record]:
        """The records of a job with what was said between them, some turns before, and the answer to the last."""
        session = records[0].session
        if session is None or records[0].kind != MESSAGE:
            return list(records)
        first = self._store.sequence_of(scope, records[0].id) or 0
        last = self._store.sequence_of(scope, records[-1].id) or first
        turns = self._store.message_log
        before = turns.page(scope, session, before=first, limit=_BEFORE)
        between = turns.page(scope, session, after=first - 1, before=last + 1, limit=_SPAN, oldest=True)
        after = [each for each in turns.page(scope, session, after=last, limit=_BEFORE, oldest=True) if each[1].tag != STEP]
        reply = [each for each in after[:1] if each[1].role == "assistant"]
        found = {record.id: record for _, record in (*before, *between) if record.tag != STEP and record.status == "active"}
        ordered = [*found.values(), *(record for record in records if record.id not in found)]
        return [*ordered, *(record for _, record in reply)]

    def _known(self, scope: Scope, records: Sequence[Record]) -> list[tuple[str, str]]:
        """Facts that may be meant: those the turns are about."""
        text = " ".join(without_fences(record.content)[:500] for record in records if _own(record))[:4000]
        query = RecallQuery.parse(text, limit=_KNOWN, kinds=_FACTS, min_similarity=0)
        return [(record.key or "-", record.content) for record in self._recalling.search_records(scope, query)]

    # -- reconciling ----------------------------------------------------------------------------------------------
    def _reconciled(
        self, scope: Scope, shown: Sequence[Record], proposals: Sequence[Proposal], known: Sequence[str]
    ) -> tuple[list[str], list[str]]:
        """Store the proposals that stand; (ids, why the others do not)."""
        from keepstone.prompts.extraction import EXAMPLES

        learned: list[str] = []
        refused: list[str] = []
        recalled = self._recalled(scope, shown)
        for number, proposal in enumerate(proposals, 1):
            rests_on = [shown[turn - 1] for turn in proposal.turns]
            problem = self._objection(scope, proposal, rests_on, shown, recalled)
            if problem is None and invented(proposal.content, [*known, *map(_text, shown)], EXAMPLES):
                problem = "has a name or a number that nobody said"
            if problem is not None:
                refused.append(f"Proposal {number} {problem}.")
                continue
            receipt = self._writing.remember(scope, [from_proposal(proposal, rests_on)])[0]
            if receipt.action == "refused":
                refused.append(f"Proposal {number} was refused: {receipt.reasons[0].partition(' ')[0]} …")
            elif receipt.id is not None and receipt.id not in learned:
                learned.append(receipt.id)
        return learned, refused

    def _objection(
        self, scope: Scope, proposal: Proposal, rests_on: Sequence[Record], shown: Sequence[Record], recalled: Sequence[str]
    ) -> str | None:
        if proposal.confidence < LEAST_CONFIDENCE:
            return f"has a confidence of {proposal.confidence:.2f}, less than {LEAST_CONFIDENCE}"
        own = [record for record in rests_on if _own(record)]
        if not own:
            return "rests on nothing that the user said"
        said, others = _sides(own, shown)
        if is_echo(proposal.content, said, [*recalled, *others]):
            return "repeats what memory or the assistant had said"
        if self._known_already(scope, from_proposal(proposal, rests_on)):
            return "is known already"
        return None

    def _recalled(self, scope: Scope, shown: Sequence[Record]) -> list[str]:
        """What memory had put into the prompts of the assistant's turns."""
        ids: list[str] = []
        for record in shown:
            named = record.metadata.get("recalled")
            ids += [each for each in named if isinstance(each, str)] if isinstance(named, list) else []
        found = (self._store.get(scope, id) for id in dict.fromkeys(ids))
        return [record.content for record in found if record is not None]

    def _known_already(self, scope: Scope, fact: WriteRequest) -> bool:
        """Whether a memory says this already, under another key or none; its own key is the store's to settle."""
        from keepstone.text.near_duplicates import compare  # 20 ms of word lists that only writing needs

        query = RecallQuery.parse(fact.content, limit=3, kinds=_FACTS, min_similarity=0)
        others = [
            record
            for record in self._recalling.search_records(scope, query)
            if (fact.key is None or record.key != fact.key) and record.trust >= trust_of(fact.source)
        ]  # what is trusted less is worth saying again
        return any(compare(fact.content, record.content).same for record in others)


def _own(record: Record) -> bool:
    """Whether a record is what the user said."""
    return record.role in (None, "user") and record.source.partition(":")[0] == "user"


def _line(record: Record, new: bool) -> Line:
    from keepstone.prompts.extraction import Line

    role = record.role or "user"
    return Line(role, without_fences(record.content) if role == "user" else record.content, record.name, record.occurred_at, new)


def _text(record: Record) -> str:
    return f"{record.name or ''} {record.content}"


def _sides(own: Sequence[Record], shown: Sequence[Record]) -> tuple[list[str], list[str]]:
    """(what the user stated, what others had stated before): the question before an answer is nobody's statement, but before a
    plain yes it is the user's."""
    ids = {record.id for record in own}
    newest = max(at for at, record in enumerate(shown) if record.id in ids)
    said = [parts(without_fences(record.content))[0] for record in own]
    for before, record in pairwise(shown):
        if record.id in ids and before.role == "assistant" and _YES.fullmatch(record.content):
            said.append(parts(before.content)[1])
    stated = any(each.strip() for each in said)
    others = []
    for at, record in enumerate(shown):
        if record.role != "assistant" and not _own(record):
            others.append(record.content)  # a tool's words are never the user's, whenever they came
        elif record.role == "assistant" and (at < newest or not stated):
            others.append(parts(record.content)[0])
    return said, others
