"""Base of embedders behind an HTTP API: batches, and vectors that are checked.

The API is OpenAI's, which most servers implement: POST {base_url}/embeddings with {"model", "input"}.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import SplitResult, unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from keepstone.embedders.texts import MAX_CHARS, check_texts
from keepstone.errors import ConfigurationError, EmbedderError
from keepstone.ports.caches import sized_batches
from keepstone.ports.vectors import check_vectors
from keepstone.provider_http import (
    RequestFailed,
    Service,
    check_key,
    check_model_name,
    check_package,
    check_retries,
    check_timeout,
    parse_url,
    public_url,
)

if TYPE_CHECKING:
    from httpx2 import Response

Purpose = Literal["document", "query"]
_PLACEHOLDER_KEY = "none"  # for servers without keys
_PROBE_TEXT = "keepstone"
_BLANK_TEXT = "."  # sent for a text without words: providers refuse empty ones
_MAX_BATCH_TEXTS = 128
_MAX_BATCH_CHARS = 120_000
_MIN_HALVED_CHARS = 1_000  # a text that is refused as too long is halved down to this length
_ADVICE = {
    400: "check the name of the model and whether it supports the dimension",
    401: "set {variable}, or pass api_key",
    404: "check the name of the model and the base URL",
    413: "use a model that accepts longer texts",
}


class HostedEmbedder:
    """An embedder behind an HTTP API. A subclass names the provider and adds its own parameters (`_parameters`).

    Only the first 16,384 characters of a text count, or as many as the server accepts. `dimension` is requested from the server
    where it is set, and otherwise learned from the first vectors. `timeout` is how many seconds the server may be silent.
    """

    local = False
    provider = ""  # begins the id, and names the extra
    own_url = ""  # the provider's own address, which requires a key
    variable = ""  # the environment variable of the key

    def __init__(
        self,
        name: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 30.0,
        retries: int = 2,
        dimension: int | None = None,
    ) -> None:
        self.name = check_model_name(name, self.provider)
        self.timeout, self.retries = check_timeout(timeout), check_retries(retries)
        if dimension is not None and (isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1):
            raise ConfigurationError(f"dimension must be a whole number above 0, got {dimension!r}: leave it out to learn it.")
        self.id = f"{self.provider}:{self.name}" + (f"@{dimension}" if dimension else "")
        check_package("httpx2", f"The embedder {self.id}", self.provider)
        address = parse_url(base_url or self.own_url, "base_url", "http://localhost:8000/v1")
        self.base_url = public_url(address)
        headers = {"content-type": "application/json", "authorization": self._authorization(api_key, address)}
        self._service = Service(self.id, self.base_url, self.variable, self.timeout, self.retries, headers, _ADVICE)
        self._requested_dimension = self._dimension = dimension

    def __repr__(self) -> str:
        return f"<{self.id}>"

    @property
    def dimension(self) -> int:
        """Numbers in one vector. Requests one vector from the server if that is not known yet."""
        if self._dimension is None:
            self._embed_batch([_PROBE_TEXT], "document")
        assert self._dimension is not None
        return self._dimension

    def embed(self, texts: Sequence[str], *, purpose: Purpose = "document") -> NDArray[np.float32]:
        """One unit vector per text, in order."""
        check_texts(texts)
        if not len(texts):
            return np.empty((0, self.dimension), dtype=np.float32)
        inputs = [text[:MAX_CHARS] for text in texts]
        inputs = [text if text.strip() else _BLANK_TEXT for text in inputs]
        parts = sized_batches(inputs, len, _MAX_BATCH_TEXTS, _MAX_BATCH_CHARS)
        return np.concatenate([self._embed_batch(part, purpose) for part in parts])

    def _parameters(self, purpose: Purpose) -> Mapping[str, Any]:
        """What is sent besides the model and the texts."""
        raise NotImplementedError

    def _authorization(self, api_key: str | None, address: SplitResult) -> str:
        if address.username is not None:
            pair = f"{unquote(address.username)}:{unquote(address.password or '')}"
            return f"Basic {base64.b64encode(pair.encode()).decode()}"
        key = check_key(api_key, f"The API key of {self.id}")
        if key is None and address.hostname == urlsplit(self.own_url).hostname:
            raise ConfigurationError(
                f"{self.id} has no API key: set {self.variable} and open the memory with embedder={self.id!r}, or pass api_key."
            )
        return f"Bearer {key or _PLACEHOLDER_KEY}"

    def _embed_batch(self, texts: list[str], purpose: Purpose) -> NDArray[np.float32]:
        """The vectors of one batch. What is too large for the server is halved: first the batch, then the text."""
        content = json.dumps({"model": self.name, "input": texts, **self._parameters(purpose)}).encode()
        try:
            response = self._service.post("/embeddings", content)
        except RequestFailed as error:
            if error.too_large and len(texts) > 1:
                half = len(texts) // 2
                return np.concatenate([self._embed_batch(texts[:half], purpose), self._embed_batch(texts[half:], purpose)])
            if error.too_large and len(texts[0]) > _MIN_HALVED_CHARS:
                return self._embed_batch([texts[0][: len(texts[0]) // 2]], purpose)
            raise EmbedderError(str(error)) from None
        return self._check_vectors(self._parse_vectors(response, len(texts)))

    def _parse_vectors(self, response: Response, count: int) -> NDArray[np.float64]:
        """The vectors of a response, in the order of the texts."""
        try:
            data = response.json()["data"]
            indexes = [row.get("index") for row in data]
            vectors = [row["embedding"] for row in data]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise EmbedderError(
                f"{self.id} answered with something other than a list of vectors: check that {self.base_url} implements the API."
            ) from None
        if len(data) != count:
            raise EmbedderError(f"{self.id} returned {len(data)} vectors for {count} texts: try again, or use another server.")
        if indexes != [None] * count:  # without indexes the vectors are in order
            by_index = {index: vector for index, vector in zip(indexes, vectors, strict=True) if isinstance(index, int)}
            if set(by_index) != set(range(count)):
                raise EmbedderError(f"{self.id} returned wrong indexes, so its vectors cannot be matched: use another server.")
            vectors = [by_index[index] for index in range(count)]
        try:
            matrix = np.asarray(vectors, dtype=np.float64)
        except (ValueError, TypeError, OverflowError):
            matrix = np.empty(0)
        if matrix.ndim != 2 or not matrix.shape[1]:
            raise EmbedderError(f"{self.id} did not return lists of numbers of one length: use another server.")
        return matrix

    def _check_vectors(self, matrix: NDArray[np.float64]) -> NDArray[np.float32]:
        count, width = matrix.shape
        if self._dimension is None:
            self._dimension = width
        if width != self._dimension:
            advice = (
                "leave dimension out" if self._requested_dimension else "use the model the store was filled with, or re-embed it"
            )
            raise EmbedderError(f"{self.id} returned vectors of {width} numbers, not of {self._dimension}: {advice}.")
        try:
            with np.errstate(all="ignore"):  # numbers outside the range of a float become infinite and are refused
                return check_vectors(matrix, count, self._dimension)
        except EmbedderError as error:
            raise EmbedderError(f"{self.id}: {error}") from None
