"""Voyage AI's embedding models, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keepstone.embedders.hosted import HostedEmbedder, Purpose


class VoyageEmbedder(HostedEmbedder):
    """A model of Voyage AI, which embeds documents and queries differently.

    `dimension` requests shorter vectors from models that support it. Vectors of different dimensions cannot be compared, so it
    is part of the id.

    Example: `VoyageEmbedder("voyage-3.5", api_key=key).embed(["likes green tea"])`.
    Raises ConfigurationError without a key or httpx2; EmbedderError when the service fails or returns unusable vectors.
    """

    provider = "voyage"
    own_url = "https://api.voyageai.com/v1"
    variable = "VOYAGE_API_KEY"

    def _parameters(self, purpose: Purpose) -> Mapping[str, Any]:
        return {"input_type": purpose, **({"output_dimension": self._requested_dimension} if self._requested_dimension else {})}
