"""KeepstoneMemory: AutoGen's Memory protocol on keepstone.

Text becomes a memory like any other: guarded, deduplicated, found by recall from every surface. JSON, bytes and images are
documents and come back unchanged. What is put into a model's context is fenced as data.
"""

from __future__ import annotations

import base64
import json
import uuid
from itertools import islice
from typing import TYPE_CHECKING, Any

from autogen_core import CancellationToken, Component, Image
from autogen_core.memory import Memory, MemoryContent, MemoryMimeType, MemoryQueryResult, UpdateContextResult
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import AssistantMessage, SystemMessage, UserMessage
from pydantic import BaseModel

from keepstone.errors import ConfigurationError, NotFound
from keepstone.integrations.bridge import as_sync_memory, open_memory, run_to_completion, to_name
from keepstone.integrations.document_store import DocumentStore, require_accepted
from keepstone.memory import list_all
from keepstone.recall.render import CLOSE, OPEN, render_line
from keepstone.types import MESSAGE, Record

if TYPE_CHECKING:
    from keepstone.integrations.bridge import MemoryOrClient

_STORE = "autogen"


class KeepstoneMemoryConfig(BaseModel):
    """How a memory that AutoGen describes and loads is opened."""

    target: str = "keepstone.db"
    tenant: str = "local"
    agent: str = "default"
    user: str = ""
    name: str = "keepstone"
    limit: int = 10
    min_similarity: float | None = None


class KeepstoneMemory(Memory, Component[KeepstoneMemoryConfig]):
    """What an agent of AutoGen remembers: give it as `AssistantAgent(memory=[KeepstoneMemory(memory)])`.

    `limit` is how many memories a question brings, `min_similarity` what keeps out the irrelevant (None: keepstone's own measure,
    0: nothing). The best are chosen by relevance and given in the order they came."""

    component_type = "memory"
    component_config_schema = KeepstoneMemoryConfig
    component_provider_override = "keepstone.integrations.autogen.KeepstoneMemory"

    def __init__(self, memory: Any, *, name: str = "keepstone", limit: int = 10, min_similarity: float | None = None) -> None:
        self._memory: MemoryOrClient = as_sync_memory(memory)
        self._name = name
        self._limit = limit
        self._least = min_similarity
        self._source = to_name(f"agent:{name}")
        self._config: KeepstoneMemoryConfig | None = None  # where the memory was opened from a description

    @property
    def name(self) -> str:
        """The source of what is added here: `memory.forget(source="agent:NAME")` erases it."""
        return self._name

    async def add(self, content: MemoryContent, cancellation_token: CancellationToken | None = None) -> None:
        """Keep a content; it is on disk when this returns. Raises ValidationError for what cannot be kept."""
        await run_to_completion(self._add, content)

    async def query(
        self, query: str | MemoryContent = "", cancellation_token: CancellationToken | None = None, **kwargs: Any
    ) -> MemoryQueryResult:
        """The memories that answer a query, oldest first, their score in the metadata; without words in it, the newest."""
        _, results = await run_to_completion(self._known, _query_text(query))
        return MemoryQueryResult(results=results)

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Put what is known about the last message into a model's context, as one fenced system message."""
        records, results = await run_to_completion(self._known, _last_text(await model_context.get_messages()))
        if records:
            block = "\n".join([OPEN, *map(render_line, records), CLOSE])
            await model_context.add_message(SystemMessage(content=block))
        return UpdateContextResult(memories=MemoryQueryResult(results=results))

    async def clear(self) -> None:
        """Erase what was added under this name; what keepstone learned elsewhere stays."""
        await run_to_completion(self._clear)

    async def close(self) -> None:
        """Close a memory that was opened from a description; one that was given is its owner's to close."""
        if self._config is not None:
            await run_to_completion(self._memory.close)

    @classmethod
    def _from_config(cls, config: KeepstoneMemoryConfig) -> KeepstoneMemory:
        memory = open_memory(config.target, tenant=config.tenant, agent=config.agent, user=config.user)
        made = cls(memory, name=config.name, limit=config.limit, min_similarity=config.min_similarity)
        made._config = config
        return made

    def _to_config(self) -> KeepstoneMemoryConfig:
        if self._config is None:
            raise ConfigurationError(
                "this memory was given open, so there is nothing to describe it by: load it from a KeepstoneMemoryConfig instead."
            )
        return self._config

    # -- parts ----------------------------------------------------------------------------------------------------
    def _add(self, content: MemoryContent) -> None:
        mime = content.mime_type.value if isinstance(content.mime_type, MemoryMimeType) else content.mime_type
        if isinstance(content.content, str):
            metadata = {**(content.metadata or {}), "mime_type": mime}
            require_accepted(self._memory.remember(content.content, metadata=metadata, source=self._source))
            return
        value = {"mime_type": mime, "metadata": content.metadata, **_pack(content.content)}
        DocumentStore(self._memory, _STORE).put(
            (uuid.uuid4().hex,), value, text=_describe(content.content, mime), source=self._source
        )

    def _known(self, words: str) -> tuple[list[Record], list[MemoryContent]]:
        """What is known about some words, as records and as AutoGen has them."""
        found = self._found(words)
        return [record for record, _ in found], [self._content(record, score) for record, score in found]

    def _found(self, words: str) -> list[tuple[Record, float | None]]:
        found: list[tuple[Record, float | None]]
        if words.strip():
            hits = self._memory.recall(words, limit=self._limit, min_similarity=self._least)
            found = [(hit.record, hit.score) for hit in hits]
        else:
            newest = (record for record in list_all(self._memory) if record.kind != MESSAGE)
            found = [(record, None) for record in islice(newest, self._limit)]
        return sorted(found, key=lambda each: (each[0].occurred_at, each[0].created_at))

    def _content(self, record: Record, score: float | None) -> MemoryContent:
        about: dict[str, Any] = {"id": record.id, "at": record.occurred_at.isoformat(), "source": record.source}
        if score is not None:
            about["score"] = score
        if record.metadata.get("shelf") == _STORE:
            document = DocumentStore(self._memory, _STORE).get(record.metadata["path"])
            if document is not None:
                value = document.value
                held = {**(value["metadata"] or {}), **about}
                return MemoryContent(content=_unpack(value), mime_type=value["mime_type"], metadata=held)
        held = {**record.metadata, **about}
        return MemoryContent(content=record.content, mime_type=held.pop("mime_type", MemoryMimeType.TEXT), metadata=held)

    def _clear(self) -> None:
        documents = DocumentStore(self._memory, _STORE)
        for document in list(documents.list()):
            record = self._memory.get(document.id)
            if record is not None and record.source == self._source:
                documents.delete(document.path)  # with its pieces, which have no source
        try:
            self._memory.forget(source=self._source)
        except NotFound:
            return


def _pack(content: Any) -> dict[str, Any]:
    if isinstance(content, Image):
        return {"image": content.to_base64()}
    return {"bytes": base64.b64encode(content).decode()} if isinstance(content, bytes) else {"json": content}


def _unpack(value: dict[str, Any]) -> Any:
    if "image" in value:
        return Image.from_base64(value["image"])
    return base64.b64decode(value["bytes"]) if "bytes" in value else value["json"]


def _describe(content: Any, mime: str) -> str:
    """The searchable text of a content that is no text."""
    if isinstance(content, dict):
        return json.dumps(content, ensure_ascii=False)
    return f"[{mime}]" if isinstance(content, Image) else f"[{mime}, {len(content)} bytes]"


def _query_text(query: str | MemoryContent) -> str:
    content = query if isinstance(query, str) else query.content
    return content if isinstance(content, str) else json.dumps(content) if isinstance(content, dict) else ""


def _last_text(messages: list[Any]) -> str:
    """The text of the last message, as a query."""
    for message in reversed(messages):
        if isinstance(message, (UserMessage, AssistantMessage)):
            said = message.content
            parts = [said] if isinstance(said, str) else [each for each in said if isinstance(each, str)]
            if any(part.strip() for part in parts):
                return "\n".join(parts)
    return ""
