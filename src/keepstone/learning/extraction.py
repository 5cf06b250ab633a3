"""Fact extraction by a model: read the messages of a job, ask the model, check each proposal, store the valid ones.

The model only proposes. A proposal is added, merged or supersedes by the store's own rules; it cannot delete anything or name
another record or scope. Rejected proposals are counted and logged without their text; the messages stay unchanged.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from keepstone.errors import KeepstoneError, StoreError
from keepstone.learning.echo_guard import is_echo, is_invented, split_questions, strip_fences
from keepstone.learning.facts import MIN_CONFIDENCE, Parent, request, request_from_proposal
from keepstone.ports.chat import ChatModel
from keepstone.ports.queue import Job
from keepstone.ports.stores import Clock, Store
from keepstone.recall.flow import RecallFlow
from keepstone.recall.query import RecallQuery
from keepstone.types import MESSAGE, STEP, Record, Scope, Usage
from keepstone.write.flow import WriteFlow
from keepstone.write.request import WriteRequest, trust_of

if TYPE_CHECKING:
    from keepstone.prompts.extraction import Proposal

log = logging.getLogger("keepstone.learning")
KIND = "extract"
MAX_ATTEMPTS = 5
_FIRST_RETRY_DELAY = timedelta(seconds=30)
_MAX_ANSWER_TOKENS = 4096  # the model's thinking included
_CONTEXT_MESSAGES = 4  # earlier messages shown for context
_MAX_KNOWN_FACTS = 12  # shown to the model
_FACT_KINDS = frozenset({"fact", "value"})
_MAX_SPAN_MESSAGES = 200  # read between the first and the last message of a job
_AGREED = r"yes|yeah|yep|yup|ja|oui|si|sí|correct|right|exactly|indeed|true|sure|of course|absolutely|definitely|agreed"
_AGREED += r"|that's (?:right|it|true|correct)|i do|i am|i did|it is|please do|sounds good"
_YES = re.compile(rf"\W*(?:{_AGREED})(?:\W+(?:{_AGREED}|please|thanks|thank you|that))*\W*", re.IGNORECASE)  # and nothing else


@dataclass(frozen=True, slots=True)
class JobReport:
    """The result of one job: ids of the learned facts, a reason for each rejected proposal, the model's usage."""

    learned: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    usage: Usage = Usage()
    problem: str | None = None


class FactExtractor:
    """Processes one extraction job at a time."""

    def __init__(self, store: Store, writing: WriteFlow, recalling: RecallFlow, model: ChatModel | None, clock: Clock) -> None:
        self._store = store
        self._writing = writing
        self._recalling = recalling
        self.model = model
        self._clock = clock

    def work(self, job: Job) -> JobReport:
        """Process a claimed job, then finish it, put it back or give it up."""
        if self.model is None:
            self._store.jobs.put_back(job, "no model was set", self._clock())
            return JobReport(problem="no model was set")
        if job.attempts > MAX_ATTEMPTS:  # each worker died with it
            return self._fail(job, "every worker that claimed it was killed or stopped")
        try:
            report = self._extract(job, self.model)
        except StoreError:
            raise  # the job cannot be updated now; its lease expires
        except KeepstoneError as error:
            return self._fail(job, str(error))
        except Exception as error:  # a custom model adapter may raise anything
            return self._fail(job, f"{type(error).__name__} while extracting")
        if report.problem is not None:
            return self._fail(job, report.problem, report.usage)
        self._store.jobs.finish(job)
        usage = report.usage
        log.info(
            "job %d: %d facts, %d tokens in, %d out", job.number, len(report.learned), usage.input_tokens, usage.output_tokens
        )
        for reason in report.refused:
            log.info("job %d: %s", job.number, reason)
        return report

    def _fail(self, job: Job, problem: str, usage: Usage = Usage()) -> JobReport:
        if job.attempts >= MAX_ATTEMPTS:
            self._store.jobs.give_up(job, problem)
            log.error("job %d was given up after %d attempts: %s", job.number, job.attempts, problem)
        else:
            self._store.jobs.put_back(job, problem, self._clock() + _FIRST_RETRY_DELAY * 4 ** (job.attempts - 1))
            log.warning("job %d will be retried: %s", job.number, problem)
        return JobReport(usage=usage, problem=problem)

    def _extract(self, job: Job, model: ChatModel) -> JobReport:
        from keepstone.prompts import extraction as prompt  # imported only where a model is used

        records = [record for record in (self._store.get(job.scope, id) for id in job.ids) if record is not None]
        if not any(_is_users(record) for record in records):
            return JobReport()
        shown = self._read_context(job.scope, records)
        new = {record.id for record in records}
        lines = [replace(prompt.Line.of(record), new=record.id in new) for record in shown]
        lines = [replace(line, text=strip_fences(line.text)) if line.role == "user" else line for line in lines]
        text = " ".join(strip_fences(record.content)[:500] for record in records if _is_users(record))[:4000]
        query = RecallQuery.parse(text, limit=_MAX_KNOWN_FACTS, kinds=_FACT_KINDS, min_similarity=0)
        known = [(record.key or "-", record.content) for record in self._recalling.search_records(job.scope, query)]
        answer = model.ask(prompt.render(lines, known=known, now=self._clock(), max_tokens=_MAX_ANSWER_TOKENS))
        reading = prompt.read(answer.text, lines)
        if reading is None:
            return JobReport(
                usage=answer.usage, problem=f"{model.id} answered with something that is not the JSON it was asked for."
            )
        learned, refused = self._store_proposals(job.scope, shown, reading.proposals, [content for _, content in known])
        learned += self._store_exact_values(job.scope, records, learned)
        return JobReport(tuple(learned), (*reading.refused, *refused), answer.usage)

    def _read_context(self, scope: Scope, records: Sequence[Record]) -> list[Record]:
        """The records of a job with the messages between them, some before, and the reply to the last."""
        session = records[0].session
        if session is None or records[0].kind != MESSAGE:
            return list(records)
        first = self._store.sequence_of(scope, records[0].id) or 0
        last = self._store.sequence_of(scope, records[-1].id) or first
        message_log = self._store.message_log
        before = message_log.page(scope, session, before=first, limit=_CONTEXT_MESSAGES)
        between = message_log.page(scope, session, after=first - 1, before=last + 1, limit=_MAX_SPAN_MESSAGES, oldest=True)
        after = message_log.page(scope, session, after=last, limit=_CONTEXT_MESSAGES, oldest=True)
        reply = [row for row in [row for row in after if row[1].tag != STEP][:1] if row[1].role == "assistant"]
        shown = {record.id: record for _, record in (*before, *between) if record.tag != STEP and record.status == "active"}
        ordered = [*shown.values(), *(record for record in records if record.id not in shown)]
        return [*ordered, *(record for _, record in reply)]

    # -- proposals ------------------------------------------------------------------------------------------------
    def _store_proposals(
        self, scope: Scope, shown: Sequence[Record], proposals: Sequence[Proposal], known: Sequence[str]
    ) -> tuple[list[str], list[str]]:
        """Store the valid proposals. Returns their ids and the reasons for the others."""
        from keepstone.prompts.extraction import EXAMPLES

        learned: list[str] = []
        refused: list[str] = []
        recalled = self._read_recalled(scope, shown)
        for number, proposal in enumerate(proposals, 1):
            rests_on = [shown[turn - 1] for turn in proposal.turns]
            problem = self._find_objection(scope, proposal, rests_on, shown, recalled)
            if problem is None and is_invented(proposal.content, [*known, *map(_text, shown)], EXAMPLES):
                problem = "has a name or a number that was not said"
            if problem is not None:
                refused.append(f"Proposal {number} {problem}.")
                continue
            receipt = self._writing.remember(scope, [request_from_proposal(proposal, rests_on)])[0]
            if receipt.action == "refused":
                refused.append(f"Proposal {number} was refused: {receipt.reasons[0].partition(' ')[0]} …")
            elif receipt.id is not None and receipt.id not in learned:
                learned.append(receipt.id)
        return learned, refused

    def _store_exact_values(self, scope: Scope, records: Sequence[Record], learned: Sequence[str]) -> list[str]:
        """Store the exact values that the user stated and no learned fact has; the guard's policy holds for them too."""
        from keepstone.learning.exact_values import find_exact_values

        facts = " ".join(fact.content for fact in (self._store.get(scope, id) for id in learned) if fact is not None)
        added: list[str] = []
        for record in records:
            for exact in find_exact_values(strip_fences(record.content)) if _is_users(record) else ():
                if exact.value not in facts:
                    fact = request(exact.content, "profile", exact.key, 1.0, [Parent.of(record)], "values")
                    receipt = self._writing.remember(scope, [fact])[0]
                    added += [receipt.id] if receipt.id is not None and receipt.action != "refused" else []
        return added

    def _find_objection(
        self, scope: Scope, proposal: Proposal, rests_on: Sequence[Record], shown: Sequence[Record], recalled: Sequence[str]
    ) -> str | None:
        if proposal.confidence < MIN_CONFIDENCE:
            return f"has a confidence of {proposal.confidence:.2f}, less than {MIN_CONFIDENCE}"
        own = [record for record in rests_on if _is_users(record)]
        if not own:
            return "rests on nothing that the user said"
        said, others = _split_speakers(own, shown)
        if is_echo(proposal.content, said, [*recalled, *others]):
            return "repeats what memory or the assistant had said"
        if self._is_known(scope, request_from_proposal(proposal, rests_on)):
            return "is known already"
        return None

    def _read_recalled(self, scope: Scope, shown: Sequence[Record]) -> list[str]:
        """The memories that were recalled into the prompts of the assistant's turns."""
        ids: list[str] = []
        for record in shown:
            named = record.metadata.get("recalled")
            ids += [id for id in named if isinstance(id, str)] if isinstance(named, list) else []
        records = (self._store.get(scope, id) for id in dict.fromkeys(ids))
        return [record.content for record in records if record is not None]

    def _is_known(self, scope: Scope, fact: WriteRequest) -> bool:
        """Whether a memory under another key or none says the same; the store compares values of one key itself."""
        from keepstone.text.near_duplicates import compare  # loading its word lists takes 20 ms

        query = RecallQuery.parse(fact.content, limit=3, kinds=_FACT_KINDS, min_similarity=0)
        others = [
            record
            for record in self._recalling.search_records(scope, query)
            if (fact.key is None or record.key != fact.key) and record.trust >= trust_of(fact.source)
        ]  # a less trusted memory does not count
        return any(compare(fact.content, record.content).same for record in others)


def _is_users(record: Record) -> bool:
    """Whether a record holds the user's own words."""
    return record.role in (None, "user") and record.source.partition(":")[0] == "user"


def _text(record: Record) -> str:
    return f"{record.name or ''} {record.content}"


def _split_speakers(own: Sequence[Record], shown: Sequence[Record]) -> tuple[list[str], list[str]]:
    """The user's statements, and what others stated before them. A question states nothing, but before a plain yes it counts as
    the user's statement."""
    ids = {record.id for record in own}
    newest = max(at for at, record in enumerate(shown) if record.id in ids)
    said = [split_questions(strip_fences(record.content))[0] for record in own]
    for before, record in pairwise(shown):
        if record.id in ids and before.role == "assistant" and _YES.fullmatch(record.content):
            said.append(split_questions(before.content)[1])
    has_statement = any(text.strip() for text in said)
    others = []
    for at, record in enumerate(shown):
        if record.role != "assistant" and not _is_users(record):
            others.append(record.content)  # a tool's words are never the user's
        elif record.role == "assistant" and (at < newest or not has_statement):
            others.append(split_questions(record.content)[0])
    return said, others
