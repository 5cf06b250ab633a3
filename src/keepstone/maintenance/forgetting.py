"""Erasure of records on request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from keepstone.errors import KeepstoneError, NotFound, ValidationError
from keepstone.ports.stores import Store
from keepstone.ports.values import Selector
from keepstone.recall.access import drop_feedback
from keepstone.types import ForgetReceipt, Scope, clean_name


class Eraser:
    """Erases records of a scope."""

    def __init__(self, store: Store, summarise: Callable[[Scope, str], object]) -> None:
        self._store = store
        self._summarise = summarise

    def forget(
        self, scope: Scope, id: str | None, key: str | None, source: str | None, session: str | None, everything: bool
    ) -> ForgetReceipt:
        """Erase what exactly one of the arguments names."""
        if everything not in (True, False):
            raise ValidationError(f"everything is {everything!r:.40}: use True or leave it out.")
        named = {"id": id, "key": key, "source": source, "session": session}
        for name, value in named.items():
            named[name] = None if value is None else clean_name(value, name)
        selector = Selector(named["id"], None, named["key"], named["source"], named["session"], everything)
        selector.check()
        receipt = self._store.forget(scope, selector)
        if not receipt.forgotten and (id is not None or key is not None):
            what = "id" if id is not None else "key"
            raise NotFound(f"there is no record with the {what} {named[what]!r:.80} in this scope: list shows its records.")
        if not everything:  # that drops every state
            drop_feedback(self._store, scope, receipt.ids)
        return self._renew_summaries(scope, receipt)

    def _renew_summaries(self, scope: Scope, receipt: ForgetReceipt) -> ForgetReceipt:
        """Summarise again the sessions whose summary was erased with one of its messages."""
        reasons = list(receipt.reasons)
        for session in dict.fromkeys(receipt.summarised):
            try:
                self._summarise(scope, session)
            except KeepstoneError as error:  # the records are erased; the summary can be made at any time
                reasons.append(f"the summary of a session could not be renewed: {error}")
        return replace(receipt, reasons=tuple(reasons))
