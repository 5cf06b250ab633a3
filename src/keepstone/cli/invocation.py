"""Invocation: one run of a command. Which store, whose memory, and how to answer."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from keepstone.cli.output import Output, err, out, write_json
from keepstone.errors import ConfigurationError

if TYPE_CHECKING:
    from keepstone.memory import Memory

DEFAULTS = {"db": "keepstone.db", "tenant": "local", "agent": "default", "user": "", "embedder": None}
Missing = Literal["create", "empty", "refuse"]


@dataclass(frozen=True, slots=True)
class Invocation:
    """The options that every command takes, settled; `embedder` is None where nobody named one. `named` are those that were
    given at all, on the command line or by KEEPSTONE_*. `url` is the server that KEEPSTONE_URL names, where --db names no
    store."""

    db: str
    tenant: str
    agent: str
    user: str
    embedder: str | None
    json: bool
    named: frozenset[str] = frozenset()
    url: str | None = None

    @classmethod
    def of(cls, before: Mapping[str, Any], after: Mapping[str, Any]) -> Invocation:
        """From the options after the command, else those before it, else KEEPSTONE_*, else the defaults."""

        def settled(name: str) -> Any:
            for value in (after.get(name), before.get(name), os.environ.get(f"KEEPSTONE_{name.upper()}") or None):
                if value is not None:
                    return value
            return None

        found = {name: settled(name) for name in DEFAULTS}
        named = frozenset(name for name, value in found.items() if value is not None)
        whole: dict[str, Any] = {name: default if found[name] is None else found[name] for name, default in DEFAULTS.items()}
        url = os.environ.get("KEEPSTONE_URL", "").strip() if (after.get("db"), before.get("db")) == (None, None) else ""
        return cls(**whole, json=bool(after.get("json") or before.get("json")), named=named, url=url or None)

    def model(self, given: str | None) -> str | None:
        """The model that was named, else KEEPSTONE_MODEL; None for none, or where that is the name. A server has its own."""
        named = (os.environ.get("KEEPSTONE_MODEL", "") if given is None else given).strip()
        if self.url is not None:
            if given is not None and named not in ("", "none"):
                raise ConfigurationError(
                    f"the server at {self.shown} has a model of its own: leave --model out, or name a store with --db."
                )
            return None
        return None if named in ("", "none") else named

    def here(self, command: str) -> None:
        """ConfigurationError where a command that works on the store itself would go to a server."""
        if self.url is not None:
            raise ConfigurationError(
                f"'{command}' works on a store, and KEEPSTONE_URL names a server: unset it, or name the store with --db."
            )

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
        _quiet_log()
        if self.url is not None:
            return self._client(self.url)
        from keepstone.memory import Memory

        target = self.db
        if missing != "create" and self._absent():
            if missing == "refuse":
                raise ConfigurationError(
                    f"there is no store at {target}: name another with --db; 'keepstone remember' makes one."
                )
            target = ":memory:"
        chosen = embedder or self.embedder or "auto"
        return Memory.open(
            target, tenant=self.tenant, agent=self.agent, user=self.user, embedder=chosen, model=model, settings=settings
        )

    def _client(self, url: str) -> Memory:
        """A client of the server, which has the verbs of Memory; the key says whose memory it is, unless that was named."""
        from keepstone.client.client import Client

        agent, user = (getattr(self, name) if name in self.named else None for name in ("agent", "user"))
        client = Client(url, agent=agent, user=user)
        if "tenant" in self.named:
            client.with_scope(tenant=self.tenant)
        return cast("Memory", client)

    def _absent(self) -> bool:
        if self.url is not None or self.db == ":memory:" or "://" in self.db or "\0" in self.db:
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
            err().line((f"note: there is no store at {self.db} yet; 'keepstone remember' makes one.", "dim"))

    @property
    def shown(self) -> str:
        """The store, or the server, as it is printed: a URL without its password."""
        shown = re.sub(r"(://[^:/@]*):.*@", r"\1:…@", self.db if self.url is None else self.url)
        return re.sub(r"([?&][^=&]*(?:password|passfile|key|token)[^=&]*=)[^&]*", r"\1…", shown, flags=re.IGNORECASE)

    @property
    def place(self) -> str:
        """The scope in words."""
        if self.url is not None:
            told = [f"{name} {getattr(self, name)}" for name in ("tenant", "agent", "user") if name in self.named]
            return ", ".join([*told, f"the key's scope at {self.shown}"])
        user = f", user {self.user}" if self.user else ""
        return f"tenant {self.tenant}, agent {self.agent}{user}"


def _quiet_log() -> None:
    """What is logged is also answered or in a report; without a handler Python would print it between the lines."""
    import logging

    log = logging.getLogger("keepstone")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
