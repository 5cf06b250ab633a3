"""What the tests of Pydantic AI share: messages of every kind, and a model that says what it has heard."""

from __future__ import annotations

import os

from pydantic_ai import ImageUrl
from pydantic_ai.messages import (
    BinaryImage,
    FilePart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo
from pydantic_ai.usage import RequestUsage


def rich() -> list[ModelMessage]:
    """One message of each kind of part, with a file that is larger than a record."""
    picture = BinaryImage(data=os.urandom(300_000), media_type="image/png")
    return [
        ModelRequest(
            parts=[
                SystemPromptPart("You are a painter."),
                UserPromptPart(["Look at this garden,", ImageUrl("https://example.org/a.png"), picture, "please."]),
            ],
            instructions="Be kind.",
            run_id="r1",
            metadata={"k": [1, None]},
        ),
        ModelResponse(
            parts=[
                ThinkingPart("Hm, a garden.", id="t", signature="EqoB-_" * 40, provider_name="anthropic"),
                TextPart("A fine garden."),
                ToolCallPart("paint", {"colours": ["green", None], "n": 1.5}, "c1"),
                ToolCallPart("paint", '{"raw": "json"}', "c2"),
                FilePart(picture),
            ],
            usage=RequestUsage(input_tokens=9, details={"x": 1}),
            model_name="m",
            provider_details={"finish": "stop"},
        ),
        ModelRequest(
            parts=[
                ToolReturnPart("paint", {"made": None, "file": [picture]}, "c1"),
                ToolReturnPart("paint", "again", "c2", outcome="retried"),
            ]
        ),
    ]


def said(message: ModelMessage) -> str:
    return str(message.parts[0].content)


def echo(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that says which of its user's messages it has seen."""
    parts = [part.content for each in messages for part in each.parts if isinstance(part, UserPromptPart)]
    return ModelResponse(parts=[TextPart(f"heard {len(parts)}: {parts[-1]}")])
