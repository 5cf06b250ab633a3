"""Invocation: one run of a command. Which store, whose memory, and how to answer. Imports: output, errors; the facade late."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from recollect.cli.output import Output, err, out, write_json
from recollect.errors import ConfigurationError

if TYPE_CHECKING:
    from recollect.memory import Memory

DEFAULTS = {"db": "recollect.db", "tenant": "local", "agent": "default", "user": "", "embedder": None}
Missing = Literal["create", "empty", "refuse"]


@dataclass(frozen=True, slots=True)
class Invocation:
    """The options that every command takes, settled; `embedder` is None where nobody named one."""

    db: str
    tenant: str
    agent: str
    user: str
    embedder: str | None
    json: bool

    @classmethod
    def of(cls, before: Mapping[str, Any], after: Mapping[str, Any]) -> Invocation:
        """From the options after the command, else those before it, else RECOLLECT_*, else the defaults."""

        def settled(name: str, default: str | None) -> Any:
            for value in (after.get(name), before.get(name), os.environ.get(f"RECOLLECT_{name.upper()}") or None):
                if value is not None:
                    return value
            return default

        named = {name: settled(name, default) for name, default in DEFAULTS.items()}
        return cls(**named, json=bool(after.get("json") or before.get("json")))

    @staticmethod
    def model(given: str | None) -> str | None:
        """The model that was named, else RECOLLECT_MODEL; None for none, or where that is the name."""
        named = os.environ.get("RECOLLECT_MODEL", "") if given is None else given
        return None if named.strip() in ("", "none") else named.strip()

    def open(
        self,
        *,
        missing: Missing = "create",
        embedder: str | None = None,
        model: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Memory:
        """The memory. Where there is no store yet, one is created, or an empty one stands in for it, so that a
        question leaves no file behind, or it is refused."""
        from recollect.memory import Memory

        _quiet_log()
        target = self.db
        if missing != "create" and self._absent():
            if missing == "refuse":
                raise ConfigurationError(
                    f"there is no store at {target}: name another with --db; 'recollect remember' makes one."
                )
            target = ":memory:"
        chosen = embedder or self.embedder or "auto"
        return Memory.open(
            target, tenant=self.tenant, agent=self.agent, user=self.user, embedder=chosen, model=model, settings=settings
        )

    def _absent(self) -> bool:
        if self.db == ":memory:" or "://" in self.db or "\0" in self.db:
            return False
        folder = os.path.dirname(self.db) or "."
        return bool(self.db) and os.path.isdir(folder) and not os.path.lexists(self.db)

    def answer(self, document: Any, show: Callable[[Output], None]) -> None:
        """Print the answer: one JSON document, or what `show` writes for a person."""
        if self.json:
            write_json(document, sys.stdout)
            return
        show(out())
        if self._absent():
            err().line((f"note: there is no store at {self.db} yet; 'recollect remember' makes one.", "dim"))

    @property
    def place(self) -> str:
        """The scope in words."""
        user = f", user {self.user}" if self.user else ""
        return f"tenant {self.tenant}, agent {self.agent}{user}"


def _quiet_log() -> None:
    """What is logged is also answered or in a report; without a handler Python would print it between the lines."""
    import logging

    log = logging.getLogger("recollect")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
