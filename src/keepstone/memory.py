"""Memory: the facade. Each verb is one short method; the flows do the work."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any

from keepstone.errors import ValidationError
from keepstone.recall.query import ContextQuery, RecallQuery, check_int, other_scopes
from keepstone.types import (
    Context,
    Entity,
    Explanation,
    ForgetReceipt,
    ImportReport,
    Message,
    Page,
    Recall,
    Receipt,
    Record,
    Scope,
    ScopeSummary,
    SessionCost,
    Version,
)

if TYPE_CHECKING:  # imported when a verb first needs them
    from keepstone.agent.strategies import AgentAccess
    from keepstone.conversation.conversation import Conversations
    from keepstone.engine import Engine
    from keepstone.learning.jobs import ScopeJobs
    from keepstone.maintenance.audit import Audit
    from keepstone.maintenance.review import ReviewList
    from keepstone.maintenance.upkeep import Upkeep
    from keepstone.ports.stores import Progress, Reranker, Store
    from keepstone.settings import Settings
    from keepstone.tasks.flow import Tasks
    from keepstone.tasks.working_memory import WorkingMemory

Path = str | PathLike[str]
Time = datetime | str


class Memory:
    """The memory of one scope: a tenant, an agent and a user.

    >>> from keepstone import Memory
    >>> with Memory.open(":memory:") as memory:
    ...     receipt = memory.remember("Dana prefers dark mode.")
    ...     memory.recall("Which theme does Dana like?")[0].content
    'Dana prefers dark mode.'
    """

    def __init__(self, engine: Engine, scope: Scope, opened: weakref.ref[Memory] | None = None) -> None:
        self._engine = engine
        self._scope = scope
        self._opened = opened  # the Memory that opened the store, if this is only a view of it from another scope
        self._working: WorkingMemory | None = None
        self._may_forget = False

    @classmethod
    def open(
        cls, target: Path | Store = "keepstone.db", *, tenant: str = "local", agent: str = "default", user: str = "",
        embedder: Any = "auto", model: Any = None, buffer: Any = None, index: Any = None,
        settings: Settings | Mapping[str, Any] | None = None, reranker: Reranker | None = None, reembed: bool = False,
    ) -> Memory:  # fmt: skip
        """Open a store, which is created on first use, in one scope.

        `target` is a file path, ":memory:", a postgresql:// URL or a store of your own. `tenant` is a customer, `agent` the
        program that remembers, `user` the person it is about. `embedder` is a name ("auto", "static", "none"), an Embedder or a
        function, also an async one, from texts to vectors. If the store has vectors of another embedder, they are computed again
        with `reembed`; without it EmbedderMismatch is raised. `model` extracts facts and writes summaries: "anthropic:NAME",
        "openai:NAME", "openai:NAME@URL", "ollama:NAME", a ChatModel or a function; the default is rules. `buffer` (a redis://
        URL) caches the newest messages, `index` holds vectors in another engine. `reranker` is a function from (query, texts) to
        scores from 0 to 1 that reorders the best hits. Raises ConfigurationError, StoreDamaged, EmbedderMismatch.

        >>> with Memory.open("agent.db", agent="helper", user="dana") as memory:
        ...     memory.scope.user
        'dana'"""
        from keepstone.open import open_engine

        scope = Scope(tenant, agent, user)
        engine = open_engine(
            target, embedder=embedder, model=model, buffer=buffer, index=index, settings=settings, reranker=reranker,
            reembed=reembed,
        )  # fmt: skip
        return cls(engine, scope)

    @property
    def scope(self) -> Scope:
        """Whose memory this is."""
        return self._scope

    def with_scope(self, *, tenant: str | None = None, agent: str | None = None, user: str | None = None) -> Memory:
        """The same store in another scope. Connections and caches are shared, so this is cheap. A part of the scope that is
        None stays as it is. Closing the returned Memory leaves the store open for this one.

        >>> memory.with_scope(user="lee").get(receipt.id) is None
        True"""
        return Memory(self._engine, self._scope.narrowed(tenant, agent, user), self._opened or weakref.ref(self))

    def scopes(self) -> Sequence[ScopeSummary]:
        """The scopes of this tenant, each with its counts, size and last activity. `resembles` names scopes whose names differ
        only in case or spaces.

        >>> [(each.scope.user, each.memories) for each in memory.scopes()]
        [('dana', 1)]"""
        return self._engine.reading.scopes(self._scope.tenant)

    # -- writing --------------------------------------------------------------------------------------------------
    def remember(
        self, content: str, *, kind: str = "fact", tag: str = "general", key: str | None = None, importance: float = 0.5,
        metadata: Mapping[str, Any] | None = None, ttl: timedelta | float | None = None, source: str = "user",
        session: str | None = None, occurred_at: Time | None = None, idempotency_key: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Store one memory. When this returns, the content is on disk; `action` of the receipt says what was done with it.

        `key` names a value that later writes replace. `source` is the channel it came from, which decides its trust. After
        `ttl`, in seconds or a timedelta, it is not recalled. `occurred_at` is when it happened, or since when it is true (None:
        now). With the same `idempotency_key` a retry gives the same receipt.

        Raises ValidationError for content that cannot be stored, Conflict for an idempotency key that was used with other
        content, StoreError if the store cannot write.

        >>> memory.remember("Dana is allergic to nuts.", tag="health", importance=0.9).action
        'added'"""
        from keepstone.write.request import WriteRequest

        request = WriteRequest(content, kind, tag, key, importance, metadata, ttl, source, session, occurred_at, idempotency_key)
        return self._engine.writing.remember(self._scope, [request])[0]

    def remember_many(self, items: Iterable[str | Mapping[str, Any]]) -> list[Receipt]:
        """Store up to 100 memories in one transaction. An item is a text or a dictionary of arguments of `remember`. An item
        that cannot be stored is refused in its own receipt; the others are stored.

        >>> [each.action for each in memory.remember_many(["Dana has a dog.", {"content": "Lyon", "key": "user.city"}])]
        ['added', 'added']"""
        return self._engine.writing.remember_many(self._scope, items)

    def update(
        self, id: str, content: str | None = None, *, importance: float | None = None,
        metadata: Mapping[str, Any] | None = None, expected_version: int | None = None, occurred_at: Time | None = None,
        tag: str | None = None,
    ) -> Receipt:  # fmt: skip
        """Change a record; the previous version stays in its history. `occurred_at` is the time since which the new content is
        true (None: now). `recall(as_of=…)` uses it; `recall(known_at=…)` still returns what was known then. A memory of
        importance 1 is pinned: it is never archived for its age and comes first in a context. One of importance 0 is buried: it
        ranks after all others. Raises NotFound, Conflict, ValidationError.

        >>> memory.update(receipt.id, "Dana prefers light mode.").version
        2"""
        return self._engine.writing.update(
            self._scope, id, content, importance, metadata, expected_version, occurred_at=occurred_at, tag=tag
        )

    def forget(
        self, id: str | None = None, *, key: str | None = None, source: str | None = None, session: str | None = None,
        everything: bool = False,
    ) -> ForgetReceipt:  # fmt: skip
        """Erase one record, a key, all that came from a source or a session, or everything in this scope.

        Text, words, vector and history are erased, with everything that was derived from them alone. No byte of the text stays
        in the file. The receipt counts what was erased. Exactly one of the arguments is needed. Raises NotFound for an unknown
        id or key, ValidationError for none or several arguments.

        >>> memory.forget(receipt.id).forgotten
        1"""
        return self._engine.eraser.forget(self._scope, id, key, source, session, everything)

    def feedback(self, id: str, *, helped: bool) -> Receipt:
        """Rate a recalled memory. Each call raises or lowers its importance by 0.1, at most by 0.4 in all, so a memory that
        helped ranks a little higher and is kept longer. `why` shows the effect. Raises NotFound.

        >>> memory.feedback(receipt.id, helped=True).action
        'updated'"""
        return self._engine.feedback.give(self._scope, id, helped)

    def promote(self, id: str, *, to: Scope | Mapping[str, str]) -> Receipt:
        """Move a fact, note or value with its history to a wider scope, such as from a project to the user (`to={"agent":
        "default"}`) or to a team (`to={"user": "team"}`). After that, forgetting what it was learned from does not erase it.
        Raises NotFound, and Conflict if the other scope has a value under the same key.

        >>> memory.promote(receipt.id, to={"user": "team"}).action
        'updated'"""
        return self._engine.transfer.move(self._scope, id, to, self._engine.eraser)

    def demote(self, id: str, *, to: Scope | Mapping[str, str]) -> Receipt:
        """Move a memory to a narrower scope, as `promote` does to a wider one.

        >>> memory.demote(receipt.id, to={"agent": "website"}).action
        'updated'"""
        return self._engine.transfer.move(self._scope, id, to, self._engine.eraser)

    # -- conversations and tasks ----------------------------------------------------------------------------------
    @property
    def conversation(self) -> Conversations:
        """The conversations of this scope. `conversation("session")` is one of them; `conversation.list()`, `.recent()` and
        `.export_chats()` work on all."""
        from keepstone.conversation.conversation import Conversations

        return Conversations(self._scope, self._engine.sessions)

    def ingest(
        self, messages: Iterable[Message | Mapping[str, Any]], *, session: str, extract: bool = True,
        source: str | None = None,
    ) -> list[Receipt]:  # fmt: skip
        """Append the messages of a session, in order, as records of kind "message". Returns a receipt for each.

        Facts are then extracted from the user's messages: by the model in the background, if there is one, else at once by
        rules (`learned` in the receipt). With `extract=False` the messages are only stored. `source` limits the trust of the
        messages, whatever their roles: use "import:…" for messages from another product.

        >>> [each.action for each in memory.ingest([{"role": "user", "content": "I live in Lyon."}], session="monday")]
        ['added']"""
        most = "user" if source is None else source
        return self._engine.learner.ingest(self._scope, messages, session, extract=extract, most=most)

    def learn(
        self, content: str, *, metadata: Mapping[str, Any] | None = None, source: str = "user", session: str | None = None,
        occurred_at: Time | None = None,
    ) -> Receipt:  # fmt: skip
        """Store a text as it is, as a note, and extract facts from it as `ingest` does.

        >>> [memory.get(id).content for id in memory.learn("I live in Lyon.").learned]
        ['The user lives in Lyon.']"""
        return self._engine.learner.learn(
            self._scope, content, metadata=metadata, source=source, session=session, occurred_at=occurred_at
        )

    @property
    def working(self) -> WorkingMemory:
        """The working memory: task, goals, results, thoughts, variables. One for each Memory."""
        if self._working is None:
            from keepstone.tasks.flow import open_working_memory

            self._working = open_working_memory(self._engine.store, self._scope)
        return self._working

    @property
    def tasks(self) -> Tasks:
        """The current task: `tasks.start()`, `tasks.record()`, `tasks.end()`."""
        from keepstone.tasks.flow import Tasks

        engine = self._engine
        return Tasks(self._scope, engine.store, self.working, engine.learner, engine.recalling, engine.writing, engine.clock)

    def context(
        self, query: str, *, max_tokens: int = 1500, limit: int | None = None, kinds: Iterable[str] | None = None,
        tag: str | None = None, min_trust: float | None = None,
    ) -> Context:  # fmt: skip
        """A block of text for a prompt, within a token budget: memories about a query, lessons of similar tasks, and the
        working memory. The block is marked as data and escaped. Each line has its date and source; the order is that of
        storing. `tokens` of the result is its size, `ids` are the memories in it. `limit` is their maximum number; `kinds`,
        `tag` and `min_trust` select them as in recall().

        >>> "dark mode" in memory.context("Which theme does Dana like?", max_tokens=200)
        True"""
        narrowed = ContextQuery(limit, kinds, tag, min_trust)
        return self._engine.contexts.block(self._scope, query, max_tokens, self.working, narrowed)

    def _agent_access(self) -> AgentAccess:
        """What a MemoryAgent works with."""
        from keepstone.agent.strategies import LocalAccess

        return LocalAccess(self)

    @property
    def jobs(self) -> ScopeJobs:
        """Work on this scope's messages that waits for a model, or has failed."""
        from keepstone.learning.jobs import ScopeJobs

        return ScopeJobs(self._engine.queue, self._engine.store, self._scope)

    # -- for a model ----------------------------------------------------------------------------------------------
    def tools(self, *, allow_forget: bool = False, format: str = "anthropic") -> list[dict[str, Any]]:
        """The schemas of the memory tools for a model: recall_memory, write_memory, update_memory, and forget_memory if it is
        allowed. `format` is "anthropic" or "openai".

        >>> [tool["name"] for tool in memory.tools()]
        ['recall_memory', 'write_memory', 'update_memory']"""
        from keepstone.agent.tools import schemas

        self._may_forget = allow_forget
        return schemas(allow_forget, format)

    def call_tool(self, name: str, input: Mapping[str, Any], *, allow_forget: bool | None = None) -> dict[str, Any]:
        """Run a memory tool that a model called, always in the scope of this Memory. For invalid input the result has an
        "error". With `allow_forget` None the value of the last call of `tools` applies.

        >>> [hit["content"] for hit in memory.call_tool("recall_memory", {"query": "Which theme does Dana like?"})["memories"]]
        ['Dana prefers dark mode.']"""
        may = self._may_forget if allow_forget is None else allow_forget
        return self._engine.toolbox.call(self._scope, name, input, may)

    def system_prompt(self, query: str = "", *, max_tokens: int = 1500) -> str:
        """Instructions for a model that has the memory tools, with examples and the tags in use. With a query, or while a task
        runs, they are followed by the context: task, goal, steps done, memories.

        >>> "dark mode" in memory.system_prompt("Which theme does Dana like?")
        True"""
        from keepstone.agent.tools import compose_rules

        max_tokens = check_int(max_tokens, "max_tokens", 1, 10_000_000)
        asked = RecallQuery.parse(query).text  # refuses what is not text
        topic = query if asked.strip() else self.working.task or ""
        context = self._engine.contexts.block(self._scope, topic[:4000], max_tokens, self.working) if topic else ""
        return "\n\n".join(filter(None, (compose_rules(self._engine.store, self._scope), context)))

    # -- reading --------------------------------------------------------------------------------------------------
    def recall(
        self, query: str, *, limit: int = 5, kinds: Iterable[str] | None = None, tag: str | None = None,
        filter: Mapping[str, Any] | None = None, min_similarity: float | None = None, min_importance: float = 0.0,
        max_tokens: int | None = None, as_of: Time | None = None, known_at: Time | None = None,
        min_trust: float | None = None, session: str | None = None, asked_at: Time | None = None,
        min_confidence: float | None = None, also: Iterable[Scope | Mapping[str, str]] | None = None,
    ) -> Recall:  # fmt: skip
        """The memories that answer a query, best first, each with the parts of its score.

        If the confidence that any memory answers is below `min_confidence`, the result is empty (None: the setting, 0: the
        closest memories are returned). `min_similarity` is the minimum relevance of each hit (None: the default, 0: no minimum,
        whatever the confidence). `as_of` recalls what was true then, `known_at` what was known then. Times in the query such as
        "last week" are relative to `asked_at` (None: now). `also` names further scopes that are ranked together with this one,
        such as {"user": "team"}; a part that is left out is as in this scope, and `hit.record.scope` says where a hit is from.
        `filter` holds conditions on metadata, `max_tokens` is a budget for all hits together. Raises ValidationError.

        >>> [hit.content for hit in memory.recall("Which theme does Dana like?", limit=3)]
        ['Dana prefers dark mode.']"""
        asked = RecallQuery.parse(
            query, limit, kinds, tag, filter, min_similarity, min_importance, max_tokens, as_of, known_at,
            min_trust, session, asked_at, min_confidence,
        )  # fmt: skip
        if also is None:
            return self._engine.recalling.recall(self._scope, asked)
        from keepstone.recall.selection import recall_together

        return recall_together(self._engine.recalling, (self._scope, *other_scopes(self._scope, also)), asked)

    def get(self, id: str | None = None, *, key: str | None = None) -> Record | None:
        """One record by its id, or the current record of a key; None if there is none.

        >>> memory.get(receipt.id).content
        'Dana prefers dark mode.'"""
        return self._engine.reading.get(self._scope, id, key)

    def list(
        self, *, tag: str | None = None, kind: str | None = None, filter: Mapping[str, Any] | None = None, limit: int = 20,
        cursor: str | None = None, prefix: str | None = None, order: str = "stored",
    ) -> Page:  # fmt: skip
        """A page of records, the last stored first, or with order="occurred" the last that happened first. With `prefix`, only
        ids that begin with it. Raises ValidationError for a cursor of another query or scope.

        >>> [record.content for record in memory.list(kind="fact", limit=10)]
        ['Dana prefers dark mode.']"""
        return self._engine.reading.list(self._scope, tag, kind, filter, limit, cursor, prefix, order=order)

    def history(self, id: str) -> Sequence[Version]:
        """Every version of a record, oldest first. Raises NotFound.

        >>> [version.action for version in memory.history(receipt.id)]
        ['added']"""
        return self._engine.reading.history(self._scope, id)

    def why(self, query: str, id: str) -> Explanation:
        """Explain the score of a record for a query, or why it is not recalled. Raises NotFound.

        >>> memory.why("Which theme does Dana like?", receipt.id).rank
        1"""
        RecallQuery.parse(query)  # refuses what is not text before the id is looked up
        return self._engine.recalling.explain(self._scope, query, id, self._engine.reading.sequence(self._scope, id))

    def entities(self, *, kind: str | None = None, limit: int = 100) -> Sequence[Entity]:
        """The people, places, projects and topics that the memories name, the most named first, each with its memories and the
        names it is named together with. `kind` selects one of person, place, project, topic. The newest 5,000 memories and
        messages are read.

        >>> [(each.name, each.memories) for each in memory.entities()]
        [('Dana', 1)]"""
        from keepstone.recall.lookups import find_entities

        return find_entities(self._engine.store, self._scope, kind, limit)

    def costs(self, *, days: int = 30) -> Sequence[SessionCost]:
        """The tokens that memories took in prompts, by session and day, the newest day first: injected by hooks, and recalled
        over MCP or counted with `add_cost`. `days` includes today (UTC).

        >>> sum(each.injected + each.recalled for each in memory.costs(days=7))
        0"""
        from keepstone.recall.cost import read_costs

        return read_costs(self._engine.store, self._engine.clock, self._scope, days)

    def add_cost(self, session: str, *, injected: int = 0, recalled: int = 0) -> None:
        """Count tokens that memories took in the prompts of a session. Hooks and the MCP server do this themselves.

        >>> memory.add_cost("monday", injected=350)"""
        from keepstone.recall.cost import add_cost

        add_cost(self._engine.store, self._engine.clock, self._scope, session, injected, recalled)

    @property
    def audit(self) -> Audit:
        """The audit log of this scope: `audit()` lists it, `audit.verify()` checks it, `audit.diff()` compares two times."""
        from keepstone.maintenance.audit import Audit

        return Audit(self._engine.store, self._engine.reading, self._scope, self._engine.clock)

    @property
    def review(self) -> ReviewList:
        """The review list: memories that are quarantined, stale, contradicted or unsupported, for a person to decide about."""
        from keepstone.maintenance.review import ReviewList

        return ReviewList(self._engine.store, self._engine.writing, self._scope)

    # -- the key-value tier ---------------------------------------------------------------------------------------
    def set(self, key: str, value: Any, *, tag: str = "general") -> Receipt:
        """Save any JSON value under a key; the old value stays in the history.

        >>> memory.set("user.languages", ["French", "English"]).action
        'added'"""
        return self._engine.values.set(self._scope, key, value, tag)

    def value(self, key: str | None = None, default: Any = None, *, tag: str | None = None) -> Any:
        """The current value of a key, or the default. With `tag` in place of a key: a dictionary of all keys with this tag and
        their values, the last updated first.

        >>> memory.value("user.languages", default=[])
        []"""
        if (key is None) == (tag is None):
            raise ValidationError("value needs either a key or a tag: pass exactly one of them.")
        if tag is not None:
            return self._engine.values.values(self._scope, tag)
        return self._engine.values.value(self._scope, key or "", default)

    # -- moving and keeping ---------------------------------------------------------------------------------------
    @property
    def upkeep(self) -> Upkeep:
        """Jobs that keep the store in order."""
        from keepstone.maintenance.upkeep import Upkeep

        return Upkeep(self._scope, self._engine.upkeep_jobs)

    def export(self, path: Path, *, everything: bool = False, plaintext: bool = False, progress: Progress | None = None) -> int:
        """Write the scope as JSONL, a record with its history on each line. Returns the number of lines.

        With `everything`: all that is stored about this user in this tenant, with every agent: memories and their history,
        states, jobs, reviews, audit entries. Such a file is for access requests and cannot be imported. The file is not
        encrypted; for an encrypted store it is written only with `plaintext`.

        >>> memory.export("dana.jsonl")
        1"""
        return self._engine.transfer.export(self._scope, path, everything, plaintext, progress)

    def import_(self, path: Path, *, source: str | None = None, progress: Progress | None = None) -> ImportReport:
        """Import an export into this scope: all lines, or none if one is invalid. Records that exist are skipped. Sources are
        those of the file, with the trust of their channel at most. Text that reads like instructions is quarantined, whatever
        source the file names. `source` replaces the sources of the file: use it for a file that you trust.

        >>> lines = memory.export("dana.jsonl")
        >>> memory.with_scope(user="lee").import_("dana.jsonl").added
        1"""
        return self._engine.transfer.import_(self._scope, path, source, progress)

    def backup(self, path: Path, *, progress: Progress | None = None) -> None:
        """Write a consistent copy of the whole store while it is in use.

        >>> memory.backup("copy.db")"""
        self._engine.transfer.backup(path, progress)

    def close(self) -> None:
        """Write what is buffered and close the store; a view made by with_scope() leaves it open. Safe to call twice.

        >>> memory.close()"""
        if self._opened is None or self._opened() is None:
            self._engine.close()
        else:
            self._engine.flush()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Memory({self._engine.target!r}, {self._scope})"


def list_all(memory: Any, **query: Any) -> Iterator[Record]:
    """Every record that the verb `list` of a memory or a client gives, page by page."""
    cursor: str | None = None
    while True:
        page = memory.list(**query, limit=100, cursor=cursor)
        yield from page
        cursor = page.cursor
        if cursor is None:
            return
