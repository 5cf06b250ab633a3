"""The verbs of a client that Memory has on itself."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from keepstone.client.codec import (
    encode_filter,
    encode_items,
    encode_scope,
    encode_scopes,
    message,
    named,
    names,
    new_idempotency_key,
    path_segment,
    read,
    read_all,
    source_field,
)
from keepstone.client.plans import Plan, Remote, route, verb
from keepstone.client.working_memory import saved_name
from keepstone.errors import NotFound, ValidationError
from keepstone.memory import Memory, Path
from keepstone.types import Context, ImportReport, Message, Page, Receipt, Record

if TYPE_CHECKING:
    from keepstone.ports.stores import Progress
    from keepstone.tasks.working_memory import WorkingMemory

_MESSAGES_PER_REQUEST = 100


class RemoteVerbs(Remote):
    """Remembering, recalling, forgetting, learning and moving over HTTP."""

    _working: WorkingMemory | None
    _may_forget: bool

    # -- writing --------------------------------------------------------------------------------------------------
    # The client gives a write without an idempotency key a random one, so that it can be sent again and is stored once.
    remember = route(
        Memory.remember,
        "POST",
        "/memories",
        encode={"source": source_field, "idempotency_key": lambda key: new_idempotency_key() if key is None else key},
        repeatable=True,
    )
    remember_many = route(
        Memory.remember_many,
        "POST",
        "/memories/batch",
        result="receipts",
        encode={"items": encode_items},
        repeatable=True,
    )
    update = route(Memory.update, "PATCH", "/memories/{id:path}")
    feedback = route(Memory.feedback, "POST", "/memories/{id:path}/feedback")
    promote = route(Memory.promote, "POST", "/memories/{id:path}/promote", encode={"to": encode_scope})
    demote = route(Memory.demote, "POST", "/memories/{id:path}/demote", encode={"to": encode_scope})
    forget = route(Memory.forget, "POST", "/forget", long=True)
    set = route(Memory.set, "PUT", "/values/{key:path}")
    learn = route(Memory.learn, "POST", "/learn", encode={"source": source_field})

    @verb(Memory.ingest)
    def ingest(
        self,
        messages: Iterable[Message | Mapping[str, Any]],
        *,
        session: str,
        extract: bool = True,
        source: str | None = None,
    ) -> Plan[list[Receipt]]:
        sent, receipts = [message(item) for item in messages], list[Receipt]()
        for start in range(0, len(sent), _MESSAGES_PER_REQUEST):
            body = {"session": session, "messages": sent[start : start + _MESSAGES_PER_REQUEST], "extract": extract}
            body |= {} if source is None else {"source": source}
            response = yield from self._wire.request("POST", "/v1/ingest", body)
            receipts += read_all(Receipt, response["receipts"])
        return receipts

    # -- reading --------------------------------------------------------------------------------------------------
    recall = route(
        Memory.recall,
        "POST",
        "/recall",
        encode={"kinds": lambda kinds: names(kinds, "kinds", one=True), "also": encode_scopes},
        repeatable=True,
    )
    history = route(Memory.history, "GET", "/memories/{id:path}/history", result="versions")
    why = route(Memory.why, "POST", "/memories/{id:path}/why", repeatable=True)
    costs = route(Memory.costs, "GET", "/costs", result="costs", bounds={"days": (1, 366)})
    add_cost = route(Memory.add_cost, "POST", "/costs")
    entities = route(Memory.entities, "GET", "/entities", result="entities", bounds={"limit": (1, 1000)})
    scopes = route(Memory.scopes, "GET", "/scopes", result="scopes")
    list = route(
        Memory.list,
        "GET",
        "/memories",
        bounds={"limit": (1, 100)},
        encode={"filter": lambda filter: None if filter is None else encode_filter(filter)},
    )

    @verb(Memory.get)
    def get(self, id: str | None = None, *, key: str | None = None) -> Plan[Record | None]:
        if (id is None) == (key is None):
            raise ValidationError("get needs either an id or a key: name exactly one of them.")
        if id is None:
            page = yield from self._wire.request("GET", "/v1/memories", {"key": named(key, "key")})
            return next(iter(read(Page, page)), None)
        try:
            record = yield from self._wire.request("GET", f"/v1/memories/{path_segment(id)}")
        except NotFound:
            return None
        return read(Record, record)

    @verb(Memory.value)
    def value(self, key: str | None = None, default: Any = None, *, tag: str | None = None) -> Plan[Any]:
        if (key is None) == (tag is None):
            raise ValidationError("value needs either a key or a tag: pass exactly one of them.")
        if key is None:
            response = yield from self._wire.request("GET", "/v1/values", {"tag": named(tag, "tag")})
            return response["values"]
        try:
            response = yield from self._wire.request("GET", f"/v1/values/{path_segment(key, 'key')}")
        except NotFound:
            return default
        return response["value"]

    # -- for a model ----------------------------------------------------------------------------------------------
    @verb(Memory.context)
    def context(
        self,
        query: str,
        *,
        max_tokens: int = 1500,
        limit: int | None = None,
        kinds: Iterable[str] | None = None,
        tag: str | None = None,
        min_trust: float | None = None,
    ) -> Plan[Context]:
        fields = {"query": query, "max_tokens": max_tokens, "limit": limit, "tag": tag, "min_trust": min_trust}
        fields["kinds"] = names(kinds, "kinds", one=True)
        response = yield from self._with_working_memory("/v1/context", fields)
        return Context(response["context"], response["tokens"], response["ids"])

    @verb(Memory.system_prompt)
    def system_prompt(self, query: str = "", *, max_tokens: int = 1500) -> Plan[str]:
        response = yield from self._with_working_memory("/v1/prompt", {"query": query, "max_tokens": max_tokens})
        return str(response["prompt"])

    def _with_working_memory(self, path: str, fields: Mapping[str, Any]) -> Plan[Any]:
        """Ask for a block of a prompt. The working memory is on the server meanwhile, a task's under its own name."""
        working = self._working
        if working is None or not working.lines():
            return (yield from self._wire.request("POST", path, fields, repeatable=True))
        name = saved_name(working) if working.task_id is not None else f"client:{secrets.token_hex(8)}"
        address = f"/v1/working/{path_segment(name, 'working')}"
        yield from self._wire.request("PUT", address, working.document(), repeatable=True)
        try:
            return (yield from self._wire.request("POST", path, {**fields, "working": name}, repeatable=True))
        finally:
            if working.task_id is None:
                yield from self._wire.request("DELETE", address)

    @verb(Memory.tools)
    def tools(self, *, allow_forget: bool = False, format: str = "anthropic") -> Plan[Any]:
        from keepstone.agent.tools import schemas

        schemas(allow_forget, format)  # raises for an unknown format
        self._may_forget = allow_forget
        response = yield from self._wire.request("GET", "/v1/tools", {"allow_forget": allow_forget, "format": format})
        return [*response["tools"]]

    @verb(Memory.call_tool)
    def call_tool(self, name: str, input: Mapping[str, Any], *, allow_forget: bool | None = None) -> Plan[dict[str, Any]]:
        from keepstone.agent.tools import tool_problem

        may_forget = self._may_forget if allow_forget is None else allow_forget
        problem = tool_problem(name, input, may_forget)
        if problem is not None:
            return {"error": problem}
        fields = {"input": input, "allow_forget": may_forget}
        try:
            response = yield from self._wire.request("POST", f"/v1/tools/{path_segment(name)}", fields, long=True)
        except ValidationError as error:
            return {"error": str(error)}
        return dict(response)

    # -- files ----------------------------------------------------------------------------------------------------
    @verb(Memory.export)
    def export(
        self, path: Path, *, everything: bool = False, plaintext: bool = False, progress: Progress | None = None
    ) -> Plan[int]:
        lines, _ = yield from self._wire.fetch("/v1/export", path, everything=everything or None, plaintext=plaintext or None)
        if progress is not None:
            progress(lines, lines)
        return lines

    @verb(Memory.import_)
    def import_(self, path: Path, *, source: str | None = None, progress: Progress | None = None) -> Plan[ImportReport]:
        report = read(ImportReport, (yield from self._wire.push("/v1/import", path, source=source)))
        if progress is not None:
            progress(report.added + report.skipped, report.added + report.skipped)
        return report

    @verb(Memory.backup, right="operator")
    def backup(self, path: Path, *, progress: Progress | None = None) -> Plan[None]:
        _, size = yield from self._wire.fetch("/v1/store/backup", path, new=True)
        if progress is not None:
            progress(size, size)
