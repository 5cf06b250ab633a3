"""Voyage AI's embedding models, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keepstone.embedders.hosted import HostedEmbedder, Purpose


class VoyageEmbedder(HostedEmbedder):
    """A model of Voyage AI, which is told whether a text is a document or a query.

    `dimension` asks for shorter vectors of models that have them; what is embedded with one is not comparable with another,
    so it is part of the id.

    Example: `VoyageEmbedder("voyage-3.5", api_key=key).embed(["likes green tea"])`.
    Raises ConfigurationError without a key or httpx2; EmbedderError when the service fails or gives unusable vectors.
    """

    provider = "voyage"
    own_url = "https://api.voyageai.com/v1"
    variable = "VOYAGE_API_KEY"

    def _wishes(self, purpose: Purpose) -> Mapping[str, Any]:
        return {"input_type": purpose, **({"output_dimension": self._asked_for} if self._asked_for else {})}
