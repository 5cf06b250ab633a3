"""Embedding models behind OpenAI's API: OpenAI's own, and those of Ollama, vLLM, llama.cpp and others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keepstone.embedders.hosted import HostedEmbedder, Purpose


class OpenAIEmbedder(HostedEmbedder):
    """A model behind OpenAI's embeddings API. The address is not part of the id: a model may move.

    Documents and queries are embedded alike, since the API has no parameter for it. `dimension` requests shorter vectors from
    models that support it, and is part of the id. A server other than OpenAI's needs no key.

    Example: `OpenAIEmbedder("nomic-embed-text", base_url="http://localhost:11434/v1").embed(["likes green tea"])`.
    Raises ConfigurationError without a key or httpx2; EmbedderError when the service fails or returns unusable vectors.
    """

    provider = "openai"
    own_url = "https://api.openai.com/v1"
    variable = "OPENAI_API_KEY"

    def _parameters(self, purpose: Purpose) -> Mapping[str, Any]:
        return {"encoding_format": "float", **({"dimensions": self._requested_dimension} if self._requested_dimension else {})}
