"""The table of rights: what each verb of the library needs of a credential, and what an agent's credential may not do.

The server enforces it below every surface (`keepstone.server.facade`), the clients declare their routes from it, and the
documentation shows it. A verb that has no row is closed to every credential.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

READ, WRITE, FORGET, ADMIN, OPERATOR = "read", "write", "forget", "admin", "operator"
RIGHTS = (READ, WRITE, FORGET, ADMIN, OPERATOR)
Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Effects:
    """What a verb does: the `rights` it needs, and those that some arguments need in addition (`more`). `person` names what is
    closed to agents' credentials, always or with the arguments that `decides` accepts. `speaks` is the argument that says whose
    word is stored, `provider` the one that names an embedder: of those that are allowed, `reaches` the one that names further
    scopes. `every_agent`: with these arguments it covers all agents of the user. `hide` removes what a credential without the
    right to read may not see of the result."""

    rights: tuple[str, ...] = ()
    person: str = ""
    decides: Callable[[Arguments], bool] | None = None
    more: Callable[[Arguments], tuple[str, ...]] | None = None
    speaks: str = ""
    every_agent: Callable[[Arguments], bool] | None = None
    provider: str = ""
    reaches: str = ""
    hide: Callable[[Any], Any] | None = None
    closed: bool = False  # to every surface of the server, which has another verb for it

    @property
    def is_plain(self) -> bool:
        """Whether the arguments do not matter."""
        return not (self.decides or self.more or self.speaks or self.every_agent or self.provider or self.reaches)


def _without_memory(result: Any) -> Any:
    """The result of a writing tool without the memory that it wrote or found."""
    return {name: value for name, value in result.items() if name != "memory"} if isinstance(result, dict) else result


_TOOL_RIGHTS = {"recall_memory": (READ,), "write_memory": (WRITE,), "update_memory": (WRITE,), "forget_memory": (FORGET,)}
TOOLS = {name: rights[0] for name, rights in _TOOL_RIGHTS.items()}
_FREE = Effects()
_READS, _WRITES, _ERASES, _OPERATES = Effects((READ,)), Effects((WRITE,)), Effects((FORGET,)), Effects((OPERATOR,))
_SPEAKS = Effects((WRITE,), speaks="source")
_AS_USER = Effects((WRITE,), "writing as the user", decides=lambda given: True)  # for agents there are verbs with a source
_MAINTAINS = Effects((WRITE,), "maintenance")
_REPORTS = Effects((READ, WRITE), "maintenance")  # the report holds the records
_MOVES = Effects((READ, WRITE, FORGET), "moving a memory between scopes", reaches="to")
_REVIEW, _JOBS = "the review list", "the job queue"
_TOOL = Effects(more=lambda given: _TOOL_RIGHTS.get(given["name"], (READ,)), hide=_without_memory)
_RUNS = Effects((ADMIN,), more=lambda given: (FORGET,) if given["policy"].purge_days and not given["dry_run"] else ())

VERBS: dict[str, Effects] = {
    # -- memories ---------------------------------------------------------------------------------------------------
    "Memory.remember": _SPEAKS,
    "Memory.remember_many": replace(_SPEAKS, speaks="items"),
    "Memory.learn": _SPEAKS,
    "Memory.ingest": _SPEAKS,
    "Memory.update": _AS_USER,
    "Memory.set": _AS_USER,
    "Memory.feedback": _WRITES,
    "Memory.forget": replace(
        _ERASES, person="erasing more than a single memory",
        decides=lambda given: any(given[name] for name in ("source", "session", "everything")),
    ),
    "Memory.promote": _MOVES,
    "Memory.demote": _MOVES,
    "Memory.recall": replace(_READS, reaches="also"),
    "Memory.get": _READS,
    "Memory.list": _READS,
    "Memory.history": _READS,
    "Memory.why": _READS,
    "Memory.entities": _READS,
    "Memory.costs": _READS,
    "Memory.add_cost": _WRITES,
    "Memory.scopes": _OPERATES,
    "Memory.value": _READS,
    "Memory.context": _READS,
    "Memory.system_prompt": _READS,
    "Memory.tools": _READS,
    "Memory.call_tool": _TOOL,
    "Memory._agent_access": _READS,
    "Memory.export": Effects((READ,), "an export", every_agent=lambda given: bool(given["everything"])),
    "Memory.import_": Effects((WRITE,), "an import", speaks="source"),
    "Memory.backup": _OPERATES,
    "Memory.scope": _FREE,
    # -- conversations ----------------------------------------------------------------------------------------------
    "Conversations.__call__": _FREE,
    "Conversations.list": _READS,
    "Conversations.recent": _READS,
    "Conversations.export_chats": Effects((READ,), "exporting conversations"),
    "Conversation.session": _FREE,
    "Conversation.add": _AS_USER,
    "Conversation.import_": Effects((WRITE,), "importing a conversation"),
    "Conversation.clear": Effects((FORGET,), "erasing a session"),
    "Conversation.consolidate": _WRITES,
    **{f"Conversation.{name}": _READS for name in (
        "messages", "build", "tokens", "summary", "last", "search", "export", "__len__", "__iter__",
    )},
    # -- tasks: a task answers with lessons and with what is in hand -------------------------------------------------
    "Tasks.start": Effects((READ, WRITE)),
    "Tasks.record": Effects((READ, WRITE)),
    "Tasks.end": Effects((READ, WRITE)),
    "WorkingMemory.restore": _READS,
    "WorkingMemory.save": _WRITES,
    "WorkingMemory.drop": _WRITES,
    **{f"WorkingMemory.{name}": _FREE for name in ("load", "document", "lines", "saved_as", "task_id", "task", "lock")},
    # -- maintenance ------------------------------------------------------------------------------------------------
    **{f"Retention.{name}": _REPORTS for name in ("age", "lapse", "fade", "cap", "archive")},
    "Retention.archived": replace(_REPORTS, rights=(READ,)),
    "Retention.undo": _MAINTAINS,
    "Retention.restore": _MAINTAINS,
    "Retention.purge": replace(_MAINTAINS, rights=(WRITE, FORGET)),
    "Upkeep.compact": _REPORTS,
    "Upkeep.verify": _REPORTS,
    "HealthChecker.health": replace(_REPORTS, rights=(READ,)),
    "HealthChecker.fix": _REPORTS,
    "Upkeep.repair_index": _OPERATES,
    "Upkeep.rebuild_index": _OPERATES,
    "Upkeep.reembed": replace(_OPERATES, provider="embedder"),
    "Upkeep.doctor": _OPERATES,
    "Upkeep.run": replace(_RUNS, closed=True),  # it runs on the whole store; Backend.run_upkeep on one tenant
    "ReviewList.list": Effects((READ,), _REVIEW),
    "ReviewList.__iter__": Effects((READ,), _REVIEW),
    "ReviewList.__len__": Effects((READ,), _REVIEW),
    "ReviewList.resolve": Effects((WRITE,), _REVIEW),
    "ReviewList.resolve_many": Effects((WRITE,), _REVIEW),
    "ScopeJobs.list": _READS,
    "ScopeJobs.run": Effects((WRITE,), _JOBS),
    "ScopeJobs.retry": Effects((WRITE,), _JOBS),
    "ScopeJobs.drop": Effects((WRITE,), _JOBS),
    "Audit.__call__": _READS,
    "Audit.diff": _READS,
    "Audit.verify": Effects((ADMIN,)),
    # -- the backend: verbs that the library does not offer -----------------------------------------------------------
    **{f"Backend.{name}": _FREE for name in ("now", "model", "settings", "is_embedded", "scopes", "scopes_with")},
    **{f"Backend.{name}": _READS for name in (
        "count", "tags", "stats", "kinds", "snapshot", "records", "history", "get_many", "recall", "search",
        "list_page", "similar",
        "messages", "sessions", "records_with_tag", "count_reads", "tool_rules", "window", "context",
    )},
    **{f"Backend.{name}": _FREE for name in (  # without text: what is erased, and where a page ends
        "grounds", "kind_of", "holds_session", "close_cursor", "open_cursor",
    )},
    "Backend.conversation": _FREE,
    "Backend.ingest": replace(_SPEAKS, speaks="max_source"),
    "Backend.update": replace(_SPEAKS, speaks="max_source"),
    "Backend.set_value": _SPEAKS,
    "Backend.forget": _ERASES,
    "Backend.forget_matching": Effects((FORGET,), "erasing more than a single memory"),
    "Backend.consolidate": _WRITES,
    "Backend.call_tool": _TOOL,
    "Backend.run_upkeep": _RUNS,
    "Backend.sync_changes": Effects((READ,), "synchronising"),
    "Backend.sync_apply": Effects((READ, WRITE, FORGET), "synchronising"),
    # -- the keys of a tenant -----------------------------------------------------------------------------------------
    "Keys.list": Effects((ADMIN,)),
    "Keys.create": Effects((ADMIN,)),
    "Keys.revoke": Effects((ADMIN,)),
}  # fmt: skip
GROUPS = frozenset(
    f"Memory.{name}" for name in ("conversation", "tasks", "working", "upkeep", "review", "jobs", "audit")
)  # attributes whose verbs have rows of their own


def effects_of(verb: Callable[..., Any]) -> Effects:
    """The row of a verb."""
    return VERBS[verb.__qualname__]
