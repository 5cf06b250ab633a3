"""Client: a memory on a server, with the verbs of Memory."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from keepstone.client.agent_verbs import Doing
from keepstone.client.codec import read
from keepstone.client.responses import shown_url
from keepstone.client.transport import Transport
from keepstone.client.verbs import Verbs
from keepstone.client.working_memory import working_over
from keepstone.errors import Forbidden
from keepstone.settings import provider_variable
from keepstone.types import Scope, clean_name

if TYPE_CHECKING:
    import httpx2

    from keepstone.tasks.working_memory import WorkingMemory


class Client(Verbs, Doing):
    """What one agent remembers for one scope, kept by a server: the verbs of Memory over HTTP.

        with Client("http://127.0.0.1:8700", "ks_…") as memory:
            memory.remember("Dana prefers dark mode.")

    Whose memory it is, the key says. A key that is bound to no agent may name one; a service key names the user it acts for.
    The same values come back and the same errors are raised as by the library; beside them AccessError where the key may not do
    something, and ServerError where the server cannot be reached. What may be repeated without harm is sent again by itself."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        agent: str | None = None,
        user: str | None = None,
        timeout: float = 30.0,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """`url` and `key` default to KEEPSTONE_URL and KEEPSTONE_KEY. Nothing is sent yet. Raises ConfigurationError."""
        chosen = provider_variable("KEEPSTONE_URL") if url is None else url
        made = Transport(chosen, provider_variable("KEEPSTONE_KEY") if key is None else key, timeout, transport)
        self._agent, self._user = agent, user or None
        self._root = made
        self._wire = made.seen_as(self._agent, self._user)
        self._view = False
        self._scope: Scope | None = None
        self._working = None
        self._may_forget = False

    @property
    def scope(self) -> Scope:
        """Whose memory this is, as the server sees it; it is asked once."""
        if self._scope is None:
            self._scope = read(Scope, self._wire.get("/v1/me")["scope"])
        return self._scope

    def with_scope(self, *, tenant: str | None = None, agent: str | None = None, user: str | None = None) -> Client:
        """The same server seen from another scope, as far as the key may; connections are shared, so this is cheap. None keeps a
        part of the scope as it is. Closing the view leaves the connections open. Raises Forbidden for another tenant."""
        if tenant is not None and clean_name(tenant, "tenant") != self.scope.tenant:
            raise Forbidden(f"a key belongs to one tenant, and this one is not of {tenant!r:.60}: use a key of that tenant.")
        view = object.__new__(type(self))
        view._agent = self._agent if agent is None else agent
        view._user = self._user if user is None else user or None
        view._root, view._view, view._scope = self._root, True, None
        view._wire = self._root.seen_as(view._agent, view._user)
        view._working, view._may_forget = None, False
        if user == "" and view.scope.user:
            raise Forbidden(f"this key is bound to the user {view.scope.user!r:.60}: it cannot act for nobody.")
        return view

    @property
    def working(self) -> WorkingMemory:
        """What is in hand: task, goals, results, thoughts, variables. One for each client; `save`, `restore` and `drop` go to
        the server."""
        if self._working is None:
            self._working = working_over(lambda: self._wire)
        return self._working

    def close(self) -> None:
        """Let go of the connections; a view made by with_scope() leaves them open. Safe to call twice."""
        if not self._view:
            self._root.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        named = [f", {name}={value!r}" for name, value in (("agent", self._agent), ("user", self._user)) if value is not None]
        return f"Client({shown_url(self._root.url)!r}{''.join(named)})"
