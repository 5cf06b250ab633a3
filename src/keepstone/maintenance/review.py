"""The review list of a scope: flagged memories and a person's decisions.

A decision is carried out first and its item closed last, so an interruption leaves the item open. No decision raises the trust
of a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

from keepstone.errors import Conflict, NotFound, ValidationError
from keepstone.ports.maintenance import REVIEW_STATES, ReviewItem, ReviewState, with_places
from keepstone.ports.stores import Store
from keepstone.recall.query import check_int
from keepstone.types import UNTRUSTED, Receipt, Record, Scope, clean_name

if TYPE_CHECKING:
    from keepstone.write.flow import WriteFlow

Decision = Literal["keep", "correct", "retire"]
DECISIONS: tuple[str, ...] = get_args(Decision)
SOURCE = "user:review"
_PAGE = 500
_MAX_DECISIONS = 1000  # of one call
_STATES: dict[str, ReviewState] = {"keep": "kept", "correct": "corrected", "retire": "retired"}


class ReviewList:
    """`memory.review`: the review list of one scope."""

    def __init__(self, store: Store, writing: WriteFlow, scope: Scope) -> None:
        self._store = store
        self._writing = writing
        self._scope = scope

    def list(self, *, state: ReviewState = "open", limit: int = 100, after: int = 0) -> Sequence[ReviewItem]:
        """The items that wait for a decision, oldest first; `state` lists decided ones ("kept", "corrected", "retired").
        `after` is the number of the last item that was listed.

        >>> [(item.number, item.flag, item.record.content) for item in memory.review.list()]
        []"""
        if state not in REVIEW_STATES:
            raise ValidationError(f"state is {state!r:.40}: use {', '.join(REVIEW_STATES)}.")
        limit, after = check_int(limit, "limit", 1, 10_000), check_int(after, "after", 0, 2**62)
        return self._page(state, limit, self._store.audit_log.number_at(self._scope, after))[0]

    def _page(self, state: ReviewState, limit: int, after: int) -> tuple[Sequence[ReviewItem], int]:
        """Items after a number of the store, with the numbers that callers see, and the store's number of the last."""
        items = self._store.reviews.list(self._scope, state=state, limit=limit, after=after)
        return with_places(self._store.audit_log, self._scope, items), items[-1].number if items else 0

    def __iter__(self) -> Iterator[ReviewItem]:
        page, after = self._page("open", _PAGE, 0)
        while page:
            yield from page
            page, after = self._page("open", _PAGE, after)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def resolve(self, number: int, decision: Decision, *, content: str | None = None, by: str = "user") -> Receipt:
        """Decide about one item: "keep" (the memory is right; its quarantine and its expiry end), "correct" (it gets the new
        `content`; the old wording stays in the history) or "retire" (it is archived; upkeep.restore undoes that).

        Raises NotFound for a number that is not open, Conflict if the memory was reworded since it was flagged.

        >>> for item in memory.review:
        ...     memory.review.resolve(item.number, "keep")"""
        number, by = check_int(number, "number", 1, 2**62), clean_name(by, "by")
        if decision not in DECISIONS:
            raise ValidationError(f"decision is {decision!r:.40}: use {', '.join(DECISIONS)}.")
        if (content is None) is (decision == "correct"):
            raise ValidationError("correct needs content: what the memory should say." if content is None else
                                  f"content goes with correct, not with {decision}.")  # fmt: skip
        stored = self._store.audit_log.number_at(self._scope, number)
        item = self._store.reviews.get(self._scope, stored)
        if item is None or item.state != "open":
            raise NotFound(f"there is no open review {number} in this scope: review.list shows the open items.")
        if item.record is None:
            raise NotFound(f"memory {item.id} was forgotten since it was flagged: there is nothing left to decide.")
        receipt = self._carry_out(item, item.record, decision, content, by)
        if receipt.action != "refused":
            self._store.reviews.settle(self._scope, stored, _STATES[decision], by)  # release may have done so already
        return receipt

    def resolve_many(self, numbers: Sequence[int], decision: Decision, *, by: str = "user") -> Sequence[Receipt]:
        """Decide about several items in the same way, "keep" or "retire". Returns a receipt for each; it is refused, with the
        reason, if the item was decided, reworded or forgotten meanwhile.

        >>> memory.review.resolve_many([item.number for item in memory.review], "retire")
        []"""
        if isinstance(numbers, (int, str, bytes)) or not isinstance(numbers, Sequence) or len(numbers) > _MAX_DECISIONS:
            raise ValidationError(f"numbers must be a list of at most {_MAX_DECISIONS} review numbers, got {numbers!r:.60}.")
        if decision not in ("keep", "retire"):
            raise ValidationError(f"decision is {decision!r:.40}: use keep or retire for several items.")
        receipts = []
        for number in dict.fromkeys(numbers):
            try:
                receipts.append(self.resolve(number, decision, by=by))
            except (Conflict, NotFound) as error:
                receipts.append(Receipt("refused", None, 0, (str(error),)))
        return receipts

    def _carry_out(self, item: ReviewItem, record: Record, decision: Decision, content: str | None, by: str) -> Receipt:
        if decision == "correct":
            return self._correct(item, record, content or "", by)
        if decision == "keep":
            return self._keep(item, record, by)
        if self._is_reworded(item, record) and record.status == "active":
            raise Conflict(f"{_reworded_message(item)} keep it to close the review, or forget it.")
        archived, _ = self._store.retention.archive(self._scope, [record.id], "retired")
        reason = "it is archived: upkeep.restore undoes that" if archived else "it is not recalled and stays that way"
        return Receipt("updated", record.id, record.version, (reason,))

    def _keep(self, item: ReviewItem, record: Record, by: str) -> Receipt:
        reason = "it stays as it is"
        if record.status == "quarantined":
            if self._is_reworded(item, record):
                raise Conflict(f"{_reworded_message(item)} correct it with what it should say, or retire it.")
            self._store.reviews.release(self._scope, record.id, by)
            reason, record = "it is out of quarantine and can be recalled", self._read_released(record)
        elif record.status == "active" and record.trust < UNTRUSTED and record.expires_at is not None:
            self._store.reviews.confirm(self._scope, record.id, by)
            reason = "it is confirmed and does not expire any more"
        return Receipt("updated", record.id, record.version, (reason,))

    def _correct(self, item: ReviewItem, record: Record, content: str, by: str) -> Receipt:
        quarantined = record.status == "quarantined"
        if record.status == "archived":
            raise Conflict(f"memory {item.id} was archived since it was flagged: restore it first, or retire it.")
        if not quarantined and record.content != content and self._is_reworded(item, record):
            raise Conflict(f"{_reworded_message(item)} keep it to close the review, or update it.")
        receipt = self._writing.update(self._scope, record.id, content, None, None, record.version, source=SOURCE)
        if receipt.action != "refused":
            if quarantined:
                self._store.reviews.release(self._scope, record.id, by, "corrected")
                held = self._read_released(record)
                receipt = replace(receipt, id=held.id, version=held.version)
            elif record.trust < UNTRUSTED and record.expires_at is not None:
                self._store.reviews.confirm(self._scope, record.id, by)
        return receipt

    def _read_released(self, record: Record) -> Record:
        """The record after its quarantine; a record with the same key may have absorbed it."""
        key = record.key
        return self._store.get(self._scope, record.id) or (key and self._store.by_key(self._scope, key)) or record

    def _is_reworded(self, item: ReviewItem, record: Record) -> bool:
        """Whether the wording changed since the record was flagged."""
        if record.version == item.version:
            return False
        past = self._store.history(self._scope, record.id) or ()
        return all(version.content != record.content for version in past if version.version == item.version)


def _reworded_message(item: ReviewItem) -> str:
    return f"memory {item.id} was reworded since it was flagged (version {item.version}): read it again, then"
