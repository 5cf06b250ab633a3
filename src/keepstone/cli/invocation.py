"""Invocation: the common options of one command: store, scope and output format."""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from keepstone.cli.output import Output, err, out, write_json
from keepstone.errors import ConfigurationError

if TYPE_CHECKING:
    from keepstone.memory import Memory
    from keepstone.types import Scope

T = TypeVar("T")
DEFAULTS = {"db": "keepstone.db", "tenant": "local", "agent": "default", "user": "", "embedder": None}
Missing = Literal["create", "empty", "refuse"]


@dataclass(frozen=True, slots=True)
class Invocation:
    """The common options, resolved. `embedder` is None if none was named. `named` holds the options set on the command line or by
    KEEPSTONE_*. `url` is the server in KEEPSTONE_URL, unless --db names a store."""

    db: str
    tenant: str
    agent: str
    user: str
    embedder: str | None
    json: bool
    reembed: bool = False
    named: frozenset[str] = frozenset()
    url: str | None = None

    @classmethod
    def of(cls, before: Mapping[str, Any], after: Mapping[str, Any]) -> Invocation:
        """Resolve options: those after the command, then those before it, then KEEPSTONE_*, then the defaults."""

        def resolve(name: str) -> Any:
            for value in (after.get(name), before.get(name), os.environ.get(f"KEEPSTONE_{name.upper()}") or None):
                if value is not None:
                    return value
            return None

        given = {name: value for name in DEFAULTS if (value := resolve(name)) is not None}
        named = frozenset(given)
        values: dict[str, Any] = DEFAULTS | given
        url = os.environ.get("KEEPSTONE_URL", "").strip() if (after.get("db"), before.get("db")) == (None, None) else ""
        return cls(
            **values,
            json=bool(after.get("json") or before.get("json")),
            reembed=bool(after.get("reembed") or before.get("reembed")),
            named=named,
            url=url or None,
        )

    def model(self, given: str | None) -> str | None:
        """The named model, or KEEPSTONE_MODEL; None without one. A server has its own model."""
        named = (os.environ.get("KEEPSTONE_MODEL", "") if given is None else given).strip()
        if self.url is not None:
            if given is not None and named not in ("", "none"):
                raise ConfigurationError(
                    f"the server at {self.shown} uses its own model: leave --model out, or name a store with --db."
                )
            return None
        return None if named in ("", "none") else named

    def require_store(self, command: str) -> None:
        """Raise ConfigurationError if KEEPSTONE_URL is set: this command needs a store."""
        if self.url is not None:
            raise ConfigurationError(
                f"'{command}' needs a store, and KEEPSTONE_URL names a server: unset it, or name the store with --db."
            )

    def open(
        self,
        *,
        missing: Missing = "create",
        embedder: str | None = None,
        model: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Memory:
        """Open the memory. `missing` says what happens without a store: it is created, an empty one in memory is used (so that
        reading creates no file), or ConfigurationError is raised."""
        log = logging.getLogger("keepstone")
        if not log.handlers:  # reports contain the same information
            log.addHandler(logging.NullHandler())
        if self.url is not None:
            if self.reembed:
                raise ConfigurationError(f"the server at {self.shown} has its own embedder: leave --reembed out, or use --db.")
            return self._client(self.url)
        from keepstone.memory import Memory

        target = self.db
        if missing != "create" and self._absent():
            if missing == "refuse":
                raise ConfigurationError(
                    f"there is no store at {target}: name another with --db, or create one with 'keepstone remember'."
                )
            target = ":memory:"
        chosen = embedder or self.embedder or "auto"
        return Memory.open(
            target, tenant=self.tenant, agent=self.agent, user=self.user, embedder=chosen, model=model, settings=settings,
            reembed=self.reembed,
        )  # fmt: skip

    def _client(self, url: str) -> Memory:
        """A client of the server, with the verbs of Memory. The key decides the scope unless options name it."""
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

    def show(
        self,
        verb: Callable[[Memory], T],
        render: Callable[[Output, T], None],
        *,
        field: str = "",
        missing: Missing = "empty",
        **options: Any,
    ) -> T:
        """Open the memory, call a verb and print its result, in JSON under the name `field` if there is one. `missing` and the
        options are those of `open`."""
        from keepstone.ports.serialize import document

        with self.open(missing=missing, **options) as memory:
            result = verb(memory)
        self.answer({field: document(result)} if field else document(result), lambda out: render(out, result))
        return result

    def answer(self, document: Any, show: Callable[[Output], None]) -> None:
        """Print the result: one JSON document, or what `show` writes."""
        if self.json:
            write_json(document, sys.stdout)
            return
        show(out())
        if self._absent():
            err().line((f"note: there is no store at {self.db} yet; 'keepstone remember' creates one.", "dim"))

    @property
    def shown(self) -> str:
        """The store or the server for output: a URL without its password."""
        shown = re.sub(r"(://[^:/@]*):.*@", r"\1:…@", self.db if self.url is None else self.url)
        return re.sub(r"([?&][^=&]*(?:password|passfile|key|token)[^=&]*=)[^&]*", r"\1…", shown, flags=re.IGNORECASE)

    @property
    def place(self) -> str:
        """The scope as text."""
        if self.url is not None:
            parts = [f"{name} {getattr(self, name)}" for name in ("tenant", "agent", "user") if name in self.named]
            return ", ".join([*parts, f"the key's scope at {self.shown}"])
        user = f", user {self.user}" if self.user else ""
        return f"tenant {self.tenant}, agent {self.agent}{user}"

    def undo_command(self, tickets: Sequence[int], scope: Scope | None = None) -> str:
        """The command that undoes a change, with the options for a store and a scope that are not the defaults."""
        usual = Invocation.of({}, {})
        where = {"db": self.shown, "tenant": self.tenant, "agent": self.agent, "user": self.user}
        if scope is not None:
            where |= {"tenant": scope.tenant, "agent": scope.agent, "user": scope.user}
        if self.url is not None:
            del where["db"]  # the environment names the server
        options = [f" --{name} {shlex.quote(value)}" for name, value in where.items() if value != getattr(usual, name)]
        return f"undo with: keepstone upkeep undo {' '.join(map(str, tickets))}{''.join(options)}"
