"""Every way to ask a model with an official client, each from a client and messages to the text of the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anthropic
import openai
from pydantic import BaseModel

from tests.integrations.speaking import Speaking

Messages = list[dict[str, Any]]
Way = Callable[[Any, Messages], str]
CHAT = {"model": "gpt-test"}
MESSAGES = {"model": "claude-test", "max_tokens": 100}


def client_of(vendor: str, endpoint: Speaking, **options: Any) -> Any:
    """A vendor's own client at an endpoint."""
    kinds = {
        "openai": openai.OpenAI,
        "async-openai": openai.AsyncOpenAI,
        "anthropic": anthropic.Anthropic,
        "async-anthropic": anthropic.AsyncAnthropic,
    }
    url = endpoint.openai_url if vendor.endswith("openai") else endpoint.url
    client = kinds[vendor](base_url=url, api_key="sk-test", **{"max_retries": 0, **options})
    if not vendor.startswith("async-"):  # those are closed in their loop
        endpoint.left.callback(client.close)
    return client


class Reply(BaseModel):
    """What a parsed answer holds."""

    text: str


def _chunks(stream: Any) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def _blocks(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def _deltas(stream: Any) -> str:
    return "".join(
        event.delta.text for event in stream if event.type == "content_block_delta" and event.delta.type == "text_delta"
    )


def _outputs(stream: Any) -> str:
    return "".join(event.delta for event in stream if event.type == "response.output_text.delta")


def chat(client: Any, messages: Messages) -> str:
    return str(client.chat.completions.create(messages=messages, **CHAT).choices[0].message.content)


def chat_stream(client: Any, messages: Messages) -> str:
    return _chunks(client.chat.completions.create(messages=messages, stream=True, **CHAT))


def chat_helper(client: Any, messages: Messages) -> str:
    with client.chat.completions.stream(messages=messages, **CHAT) as stream:
        return str(stream.get_final_completion().choices[0].message.content)


def chat_raw(client: Any, messages: Messages) -> str:
    raw = client.chat.completions.with_raw_response.create(messages=messages, **CHAT)
    assert raw.headers["content-type"] == "application/json"
    return str(raw.parse().choices[0].message.content)


def chat_raw_stream(client: Any, messages: Messages) -> str:
    return _chunks(client.chat.completions.with_raw_response.create(messages=messages, stream=True, **CHAT).parse())


def chat_streaming_response(client: Any, messages: Messages) -> str:
    with client.chat.completions.with_streaming_response.create(messages=messages, **CHAT) as response:
        return str(response.parse().choices[0].message.content)


def responses(client: Any, messages: Messages) -> str:
    return str(client.responses.create(input=messages, **CHAT).output_text)


def responses_stream(client: Any, messages: Messages) -> str:
    return _outputs(client.responses.create(input=messages, stream=True, **CHAT))


def responses_helper(client: Any, messages: Messages) -> str:
    with client.responses.stream(input=messages, **CHAT) as stream:
        return str(stream.get_final_response().output_text)


def responses_parse(client: Any, messages: Messages) -> str:
    return str(client.responses.parse(input=messages, **CHAT).output_text)


def claude(client: Any, messages: Messages) -> str:
    return _blocks(client.messages.create(messages=messages, **MESSAGES))


def claude_stream(client: Any, messages: Messages) -> str:
    return _deltas(client.messages.create(messages=messages, stream=True, **MESSAGES))


def claude_helper(client: Any, messages: Messages) -> str:
    with client.messages.stream(messages=messages, **MESSAGES) as stream:
        return "".join(stream.text_stream)


def claude_raw(client: Any, messages: Messages) -> str:
    return _blocks(client.messages.with_raw_response.create(messages=messages, **MESSAGES).parse())


def claude_raw_stream(client: Any, messages: Messages) -> str:
    return _deltas(client.messages.with_raw_response.create(messages=messages, stream=True, **MESSAGES).parse())


def claude_streaming_response(client: Any, messages: Messages) -> str:
    with client.messages.with_streaming_response.create(messages=messages, **MESSAGES) as response:
        return _blocks(response.parse())


def claude_beta(client: Any, messages: Messages) -> str:
    return _blocks(client.beta.messages.create(messages=messages, **MESSAGES))


def claude_beta_helper(client: Any, messages: Messages) -> str:
    with client.beta.messages.stream(messages=messages, **MESSAGES) as stream:
        return "".join(stream.text_stream)


def claude_beta_runner(client: Any, messages: Messages) -> str:
    return _blocks(client.beta.messages.tool_runner(messages=messages, tools=[], **MESSAGES).until_done())


async def achat(client: Any, messages: Messages) -> str:
    return str((await client.chat.completions.create(messages=messages, **CHAT)).choices[0].message.content)


async def achat_stream(client: Any, messages: Messages) -> str:
    stream = await client.chat.completions.create(messages=messages, stream=True, **CHAT)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])


async def achat_helper(client: Any, messages: Messages) -> str:
    async with client.chat.completions.stream(messages=messages, **CHAT) as stream:
        return str((await stream.get_final_completion()).choices[0].message.content)


async def achat_raw(client: Any, messages: Messages) -> str:
    raw = await client.chat.completions.with_raw_response.create(messages=messages, **CHAT)
    return str(raw.parse().choices[0].message.content)


async def achat_raw_stream(client: Any, messages: Messages) -> str:
    raw = await client.chat.completions.with_raw_response.create(messages=messages, stream=True, **CHAT)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in raw.parse() if chunk.choices])


async def aresponses(client: Any, messages: Messages) -> str:
    return str((await client.responses.create(input=messages, **CHAT)).output_text)


async def aresponses_stream(client: Any, messages: Messages) -> str:
    stream = await client.responses.create(input=messages, stream=True, **CHAT)
    return "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])


async def aresponses_helper(client: Any, messages: Messages) -> str:
    async with client.responses.stream(input=messages, **CHAT) as stream:
        return str((await stream.get_final_response()).output_text)


async def aclaude(client: Any, messages: Messages) -> str:
    return _blocks(await client.messages.create(messages=messages, **MESSAGES))


async def aclaude_stream(client: Any, messages: Messages) -> str:
    stream = await client.messages.create(messages=messages, stream=True, **MESSAGES)
    return _deltas([event async for event in stream])


async def aclaude_helper(client: Any, messages: Messages) -> str:
    async with client.messages.stream(messages=messages, **MESSAGES) as stream:
        return "".join([text async for text in stream.text_stream])


async def aclaude_streaming_response(client: Any, messages: Messages) -> str:
    async with client.messages.with_streaming_response.create(messages=messages, **MESSAGES) as response:
        return _blocks(await response.parse())


async def aclaude_raw_stream(client: Any, messages: Messages) -> str:
    raw = await client.messages.with_raw_response.create(messages=messages, stream=True, **MESSAGES)
    return _deltas([event async for event in await raw.parse()])


async def aclaude_beta_runner(client: Any, messages: Messages) -> str:
    return _blocks(await client.beta.messages.tool_runner(messages=messages, tools=[], **MESSAGES).until_done())


def _waited(way: Callable[[Any, Messages], Any]) -> Way:
    async def closing(client: Any, messages: Messages) -> str:
        async with client:
            return str(await way(client, messages))

    return lambda client, messages: asyncio.run(closing(client, messages))


_SYNC = {
    "openai": (
        chat, chat_stream, chat_helper, chat_raw, chat_raw_stream, chat_streaming_response,
        responses, responses_stream, responses_helper, responses_parse,
    ),
    "anthropic": (
        claude, claude_stream, claude_helper, claude_raw, claude_raw_stream, claude_streaming_response, claude_beta,
        claude_beta_helper, claude_beta_runner,
    ),
}  # fmt: skip
_ASYNC = {
    "async-openai": (
        achat, achat_stream, achat_helper, achat_raw, achat_raw_stream, aresponses, aresponses_stream, aresponses_helper,
    ),
    "async-anthropic": (
        aclaude, aclaude_stream, aclaude_helper, aclaude_streaming_response, aclaude_raw_stream, aclaude_beta_runner,
    ),
}  # fmt: skip

# name -> (vendor, way)
WAYS: dict[str, tuple[str, Way]] = {
    **{way.__name__: (vendor, way) for vendor, ways in _SYNC.items() for way in ways},
    **{way.__name__: (vendor, _waited(way)) for vendor, ways in _ASYNC.items() for way in ways},
}
PLAIN = {"openai": chat, "anthropic": claude}
