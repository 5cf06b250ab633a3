"""A memory on a server as an agent uses it. The server gathers what the prompt shows, with its own model for summaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from keepstone.client.codec import path_segment, read
from keepstone.client.plans import run
from keepstone.errors import ValidationError
from keepstone.types import Receipt

if TYPE_CHECKING:
    from keepstone.agent.strategies import GatheredMemory, Strategy
    from keepstone.client.client import Client
    from keepstone.ports.chat import ChatModel


class RemoteAccess:
    """Access to a memory over a synchronous client."""

    model: ChatModel | None = None
    make_model: Callable[[Any], ChatModel | None] | None = None

    def __init__(self, client: Client) -> None:
        self.memory: Any = client

    def for_task(self) -> RemoteAccess:
        own = self.memory.with_scope()
        own.working.saved_as = None
        return RemoteAccess(own)

    def gather(self, strategy: Strategy, text: str, session: str, model: ChatModel | None, until: str | None) -> GatheredMemory:
        return self._gather(strategy, text, session=session, until=until)

    def gather_for_task(self, strategy: Strategy, text: str) -> GatheredMemory:
        return self._gather(strategy, text)

    def _gather(self, strategy: Strategy, text: str, **fields: str | None) -> GatheredMemory:
        from keepstone.agent.strategies import GatheredMemory

        body = {"text": text, **asdict(strategy), "boot": list(strategy.boot), **fields}
        return read(GatheredMemory, run(self.memory._with_working_memory("/v1/agent/prompt", body)))

    def call_tool(self, name: str, input: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        fields = {"input": input, **options, "leave_out": list(options.get("leave_out", ()))}
        try:
            return dict(run(self.memory._wire.request("POST", f"/v1/tools/{path_segment(name)}", fields, long=True)))
        except ValidationError as error:
            return {"error": str(error)}

    def consolidate(self, session: str, model: ChatModel | None) -> Receipt | None:
        receipt: Receipt | None = self.memory.conversation(session).consolidate()
        return receipt
