"""Erasing records on request. Imports: ports, types, errors."""

from __future__ import annotations

from recollect.errors import NotFound, ValidationError
from recollect.ports import Selector, Store
from recollect.types import ForgetReceipt, Scope, clean_name


class Forgetting:
    """forget: one scope's erasures."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def forget(
        self, scope: Scope, id: str | None, key: str | None, source: str | None, session: str | None, everything: bool
    ) -> ForgetReceipt:
        """Erase what exactly one of the arguments names."""
        if everything not in (True, False):
            raise ValidationError(f"everything is {everything!r:.40}: use True or leave it out.")
        named = {"id": id, "key": key, "source": source, "session": session}
        for name, value in named.items():
            named[name] = None if value is None else clean_name(value, name)
        selector = Selector(**named, everything=everything)
        selector.check()
        receipt = self._store.forget(scope, selector)
        if not receipt.forgotten and (id is not None or key is not None):
            what = "id" if id is not None else "key"
            raise NotFound(f"there is no record with the {what} {named[what]!r:.80} in this scope.")
        return receipt
