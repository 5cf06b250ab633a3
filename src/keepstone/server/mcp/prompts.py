"""The prompt: the rules of remembering with what is known for a question."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, TextContent

from keepstone.errors import NotFound, ValidationError
from keepstone.server.identity import READ
from keepstone.server.mcp.caller import Asker

NAME = "recall"
_TITLE = "Recall what matters for a question"
_PROMPT = Prompt(
    name=NAME,
    title=_TITLE,
    description="Begin with what is remembered: the rules of remembering, the tags in use, and what is known for a question.",
    arguments=[
        PromptArgument(name="query", description="What you want to talk about or do.", required=True),
        PromptArgument(name="task", description="What the model is to do then; the question itself if left out.", required=False),
    ],
)


def offered(asker: Asker) -> list[Prompt]:
    return [_PROMPT] if READ in asker.rights else []


def filled(asker: Asker, name: str, given: Mapping[str, str]) -> GetPromptResult:
    """The messages of a prompt. Raises NotFound, ValidationError, Forbidden, StoreError."""
    if name != NAME:
        raise NotFound(f"there is no prompt {name!r:.60}: use {NAME}.")
    asker.need(READ)
    query, task = given.get("query", ""), given.get("task", "")
    if not query.strip():
        raise ValidationError(f"the prompt {NAME} needs 'query': what you want to talk about or do.")
    said = [asker.memory.system_prompt(query), task if task.strip() else query]
    return GetPromptResult(
        description=_TITLE, messages=[PromptMessage(role="user", content=TextContent(text=text)) for text in said]
    )
