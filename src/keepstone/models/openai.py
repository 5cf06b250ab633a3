"""Models that speak chat completions, through the official `openai` client: OpenAI's own, and those behind Ollama, vLLM,
llama.cpp and others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keepstone.models.hosted import Hosted, Pieces, Prices, Reading
from keepstone.models.openai_shapes import Chunks, format_of, messages_of, reading_of, system_of, tools_of
from keepstone.ports.chat import Prompt

PLACEHOLDER = "none"  # for servers that want no key, where the client wants one
_OWN = "https://api.openai.com"
_FORMAT, _COUNT = "response_format", "stream_options"
# Words by which a server says what it does not take.
_MENTIONS = {_FORMAT: (_FORMAT, "json_schema"), _COUNT: (_COUNT, "include_usage")}


class OpenAIModel(Hosted):
    """A model that speaks chat completions.

    Servers differ in what they take. Where one refuses `response_format`, `stream_options` or the name of the token limit, the
    model asks again without it (the schema then goes into the system prompt) and remembers that. Where one counts no tokens,
    usage is 0. With a `base_url` and no key anywhere a placeholder is sent; the client itself looks for OPENAI_API_KEY.

    `timeout` is how many seconds it may be silent; `prices` are (input, output) or (input, output, cached) a million tokens; a
    `client` of the official package, for asyncio or not, is used as it is, with its own timeout, retries and key.

    Example: `OpenAIModel("llama3.3", base_url="http://localhost:11434/v1").ask(Prompt([{"role": "user", "content": "Hi"}])).text`
    """

    package = "openai"
    classes = ("OpenAI", "AsyncOpenAI")

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        retries: int = 2,
        prices: Prices | None = None,
        client: Any = None,
    ) -> None:
        super().__init__(name, base_url=base_url, api_key=api_key, timeout=timeout, retries=retries, prices=prices, client=client)
        elsewhere = str(client.base_url) if client is not None else base_url or _OWN
        # OpenAI's newer models take the second name only, older servers the first only.
        names = ("max_tokens", "max_completion_tokens")
        self._limits = names if not elsewhere.startswith(_OWN) else names[::-1]

    def _make(self, kind: str) -> Any:
        try:
            return super()._make(kind)
        except Exception:
            if self.base_url is None or self._api_key is not None:
                raise
            self._api_key = PLACEHOLDER
            return super()._make(kind)

    def _method(self, client: Any) -> Any:
        return client.chat.completions.with_raw_response.create

    def _arguments(self, prompt: Prompt, without: frozenset[str]) -> dict[str, Any]:
        limit = next(each for each in self._limits if each not in without)
        sent: dict[str, Any] = {
            "model": self.name,
            "messages": messages_of(prompt, system_of(prompt, told_schema=_FORMAT in without)),
            limit: prompt.max_tokens,
        }
        if prompt.tools:
            sent["tools"] = tools_of(prompt)
            if not prompt.may_use:
                sent["tool_choice"] = "none"
        if prompt.schema is not None and _FORMAT not in without:
            sent[_FORMAT] = format_of(prompt.schema)
        return sent

    def _streaming(self, without: frozenset[str]) -> dict[str, Any]:
        return {"stream": True, **({} if _COUNT in without else {_COUNT: {"include_usage": True}})}

    def _refused(self, error: Exception, sent: Mapping[str, Any], without: frozenset[str]) -> frozenset[str] | None:
        status = getattr(error, "status_code", None)
        if status not in (400, 422, 500, 501):
            return None
        param = getattr(error, "param", None)
        text = f"{param} {getattr(error, 'message', '')}".lower()
        for name in (_FORMAT, _COUNT):
            if name in sent and any(word in text for word in _MENTIONS[name]):
                return without | {name}
        for name in self._limits:
            if name in sent and name in text and not without & set(self._limits):
                return without | {name}
        if status == 400 and _FORMAT in sent and not param:  # it does not say why; this is the likeliest
            return without | {_FORMAT}
        return None

    def _read(self, body: Mapping[str, Any]) -> Reading:
        return reading_of(body)

    def _pieces(self) -> Pieces:
        return Chunks()
