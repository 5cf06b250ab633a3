"""What all embedders behind an HTTP API share: batches, retries, errors, checked vectors.

The API is the one OpenAI made and most servers speak: POST {base_url}/embeddings with {"model", "input"}.
"""

from __future__ import annotations

import atexit
import base64
import email.utils
import importlib.util
import json
import math
import os
import random
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import SplitResult, unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from keepstone.distribution import install_command
from keepstone.embedders.static import MAX_CHARS
from keepstone.errors import ConfigurationError, EmbedderError
from keepstone.ports.vectors import checked_matrix

if TYPE_CHECKING:
    from httpx2 import Client, Response

Purpose = Literal["document", "query"]
PLACEHOLDER = "none"  # for servers that want no key
PROBE = "keepstone"
BLANK = "."  # sent for a text without any word: providers refuse empty ones
BATCH_TEXTS = 128
BATCH_CHARS = 120_000
_SHORTEST = 1_000  # characters: a text that is refused as too long is halved down to here
_PAUSE, _LONGEST_PAUSE = 0.5, 8.0  # seconds before the first retry, doubled each time
_LONGEST_WAIT = 60.0  # what a server may ask for: nobody's remember() sleeps longer
_PLAIN = re.compile(r"[a-z_]{1,40}")  # what of a server's error may be repeated: a word of its own, never ours or a key
_TOO_MUCH = re.compile(r"exceed|too (long|large|many)|context (length|size|window)|maximum.{0,60}(length|tokens)", re.DOTALL)
_STATUS = {
    300: ("sent the request elsewhere", "give the base URL it moved to"),
    400: ("refused the request", "check the model's name and whether it knows the dimension"),
    401: ("does not accept the API key", "set {variable}, or pass api_key"),
    402: ("wants to be paid first", "check the account"),
    403: ("does not allow this API key to use it", "check what the key may do"),
    404: ("is not known to the server", "check the model's name and the base URL"),
    413: ("was sent more than it takes", "use a model that takes longer texts"),
    429: ("has no more room for this key now", "wait, or raise the limit of the account"),
    500: ("failed on its own side", "try again later"),
}


class HostedEmbedder:
    """An embedder behind an HTTP API. An adapter says what is sent besides the model and the texts (`_wishes`).

    Only the first 16,384 characters of a text count; where a server takes less, what it takes. `dimension` is asked of the
    server when given, and otherwise learned from the first vectors. `timeout` is how many seconds the server may be silent.
    """

    local = False
    provider = ""  # begins the id, and names the extra
    own_url = ""  # the provider's own: only this one must have a key
    variable = ""  # where the environment has the key

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
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError(f"{name!r} is no name of a model: give the one {self.provider} knows it by.")
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
            raise ConfigurationError(f"timeout must be a number of seconds above 0, got {timeout!r}.")
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise ConfigurationError(f"retries must be 0 or a larger whole number, got {retries!r}.")
        if dimension is not None and (isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1):
            raise ConfigurationError(f"dimension must be a whole number above 0, got {dimension!r}: leave it out to learn it.")
        self.name, self.timeout, self.retries = name.strip(), timeout, retries
        self.id = f"{self.provider}:{self.name}" + (f"@{dimension}" if dimension else "")
        if importlib.util.find_spec("httpx2") is None:
            raise ConfigurationError(f"The embedder {self.id} needs httpx2: {install_command(self.provider)}.")
        address = _address(base_url or self.own_url)
        self.base_url = f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path.rstrip('/')}"
        self._headers = {"content-type": "application/json", "authorization": self._authorization(api_key, address)}
        self._asked_for = self._dimension = dimension

    def __repr__(self) -> str:
        return f"<{self.id}>"

    @property
    def dimension(self) -> int:
        """Numbers in one vector; asks the server for one vector when that is not known yet."""
        if self._dimension is None:
            self._embed([PROBE], "document")
        assert self._dimension is not None
        return self._dimension

    def embed(self, texts: Sequence[str], *, purpose: Purpose = "document") -> NDArray[np.float32]:
        """One unit vector a text, in order."""
        if isinstance(texts, str):
            raise EmbedderError("embed() takes a sequence of texts and got one string. Put it into a list: embed([text]).")
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise EmbedderError(
                    f"Text {index} of {len(texts)} is a {type(text).__name__}, not a string. Pass str values only."
                )
        if not len(texts):
            return np.empty((0, self.dimension), dtype=np.float32)
        cut = [text[:MAX_CHARS] for text in texts]
        cut = [text if text.strip() else BLANK for text in cut]
        return np.concatenate([self._embed(batch, purpose) for batch in _batches(cut)])

    def _wishes(self, purpose: Purpose) -> Mapping[str, Any]:
        raise NotImplementedError

    def _authorization(self, api_key: str | None, address: SplitResult) -> str:
        if address.username is not None:  # an address with a name and a password wants these
            pair = f"{unquote(address.username)}:{unquote(address.password or '')}"
            return f"Basic {base64.b64encode(pair.encode()).decode()}"
        key = (api_key or "").strip()
        if not key and address.hostname == urlsplit(self.own_url).hostname:
            raise ConfigurationError(
                f"{self.id} has no API key: set {self.variable} and open the memory with embedder={self.id!r}, or pass api_key."
            )
        if not key.isascii() or not key.isprintable():  # such a header cannot be sent, and the client would quote it
            raise ConfigurationError(f"The API key of {self.id} has characters that no key has: copy it anew.")
        return f"Bearer {key or PLACEHOLDER}"

    def _embed(self, texts: list[str], purpose: Purpose) -> NDArray[np.float32]:
        """The vectors of one batch. What is too much for the server goes in halves: of the batch, then of the text."""
        try:
            rows = self._rows(self._ask(texts, purpose), len(texts))
        except _TooMuch as refused:
            if len(texts) > 1:
                half = len(texts) // 2
                return np.concatenate([self._embed(texts[:half], purpose), self._embed(texts[half:], purpose)])
            if len(texts[0]) <= _SHORTEST:
                raise EmbedderError(str(refused)) from None
            return self._embed([texts[0][: len(texts[0]) // 2]], purpose)
        if self._dimension is None:
            self._dimension = rows.shape[1]
        if rows.shape[1] != self._dimension:
            advice = "leave dimension out" if self._asked_for else "use the model the store was filled with, or re-embed it"
            raise EmbedderError(
                f"{self.id} gave vectors of {rows.shape[1]} numbers where {self._dimension} were expected: {advice}."
            )
        try:
            with np.errstate(all="ignore"):  # what leaves the range of a float is refused, as infinite
                return checked_matrix(rows, len(texts), self._dimension)
        except EmbedderError as error:
            raise EmbedderError(f"{self.id}: {error}") from None

    def _ask(self, texts: Sequence[str], purpose: Purpose) -> Response:
        """The server's answer, asked for again while that may help."""
        import httpx2

        content = json.dumps({"model": self.name, "input": texts, **self._wishes(purpose)}).encode()
        taken = 0
        while True:
            try:
                response = _client().post(
                    f"{self.base_url}/embeddings", content=content, headers=self._headers, timeout=self.timeout
                )
            except (httpx2.RequestError, httpx2.InvalidURL) as error:
                trouble = self._unreached(error)
            else:
                if response.status_code == 200:
                    return response
                trouble = self._refused(response)
            pause = trouble.wait
            if pause is None:
                pause = min(_PAUSE * 2**taken, _LONGEST_PAUSE) * random.uniform(0.75, 1.0)
            if not trouble.passing or taken >= self.retries or pause > _LONGEST_WAIT:
                after = f" (after {taken} retries)" if taken else ""
                told = f"{self.id} {trouble.what}{after}: {trouble.advice}."
                raise _TooMuch(told) if trouble.too_much else EmbedderError(told)
            _sleep(pause)
            taken += 1

    def _unreached(self, error: Exception) -> _Trouble:
        import httpx2

        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError | httpx2.InvalidURL):
            advice = "check the network, the base URL and whether the server runs"
            passing = not isinstance(error, httpx2.InvalidURL)
            return _Trouble(f"cannot be reached at {self.base_url}", advice, passing)
        if isinstance(error, httpx2.TimeoutException):
            return _Trouble(f"did not answer within {self.timeout:g} seconds", "try again, or allow a longer timeout", True)
        return _Trouble("broke off before its answer was whole", "try again", True)

    def _refused(self, response: Response) -> _Trouble:
        status = response.status_code
        words, text = _said(response)
        what, advice = _STATUS.get(status) or _STATUS[max(300, min(status, 599) // 100 * 100)]
        shown = ", ".join(dict.fromkeys([str(status), *words]))
        wait = _wait(response.headers)
        if wait is not None and wait > _LONGEST_WAIT:
            what, advice = f"asks to be left alone for {wait:.0f} seconds", "try again after that"
        too_much = status == 413 or (status in (400, 422, 500) and _TOO_MUCH.search(text) is not None)
        passing = (status in (408, 429) or status >= 500) and not too_much and "insufficient_quota" not in words
        if too_much:
            what, advice = _STATUS[413]
        return _Trouble(f"{what} ({shown})", advice.format(variable=self.variable), passing, wait, too_much)

    def _rows(self, response: Response, count: int) -> NDArray[np.float64]:
        """The vectors of an answer, in the order of the texts."""
        try:
            data = response.json()["data"]
            places = [each.get("index") for each in data]
            vectors = [each["embedding"] for each in data]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise EmbedderError(
                f"{self.id} answered with something that is no list of vectors: check that {self.base_url} speaks the API."
            ) from None
        if len(data) != count:
            raise EmbedderError(f"{self.id} gave {len(data)} vectors for {count} texts: try again, or use another server.")
        if places != [None] * count:  # without numbers, they come in order
            at = {place: vector for place, vector in zip(places, vectors, strict=True) if isinstance(place, int)}
            if set(at) != set(range(count)):
                raise EmbedderError(f"{self.id} numbered its vectors wrongly: nobody can tell which text they belong to.")
            vectors = [at[place] for place in range(count)]
        try:
            rows = np.asarray(vectors, dtype=np.float64)
        except (ValueError, TypeError, OverflowError):
            rows = np.empty(0)
        if rows.ndim != 2 or not rows.shape[1]:
            raise EmbedderError(f"{self.id} gave something that is no list of equally long lists of numbers: use another server.")
        return rows


class _TooMuch(Exception):
    """A request that the server would take if it were shorter."""


@dataclass(frozen=True, slots=True)
class _Trouble:
    """What went wrong with a request, what to do, and whether asking again may help."""

    what: str
    advice: str
    passing: bool
    wait: float | None = None
    too_much: bool = False


def _address(url: str) -> SplitResult:
    """A URL taken apart. Nothing of it is repeated in an error: it may hold a password."""
    try:
        parts = urlsplit(str(url).strip())
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise ConfigurationError("base_url is no address: use one such as http://localhost:8000/v1.")
    if parts.query or parts.fragment:
        raise ConfigurationError("base_url has a query or a fragment: leave it out, and pass a key as api_key.")
    return parts


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) == BATCH_TEXTS or size + len(text) > BATCH_CHARS):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    yield batch


def _said(response: Response) -> tuple[list[str], str]:
    """Of a server's error: its own words that may be repeated, and all of it in lower case, to be searched only."""
    text = response.text[:10_000].lower()
    try:
        body = response.json()
        error = body.get("error", body) if isinstance(body, dict) else {}
        named = [error.get("type"), error.get("code")] if isinstance(error, dict) else []
    except (ValueError, RecursionError):
        named = []
    return [each for each in named if isinstance(each, str) and _PLAIN.fullmatch(each)], text


def _wait(headers: Mapping[str, str]) -> float | None:
    """The seconds a server asks to be left alone, None where it does not say."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        given = headers.get(name, "")
        try:
            seconds = float(given) * unit
        except ValueError:
            try:
                seconds = (email.utils.parsedate_to_datetime(given).astimezone(UTC) - datetime.now(UTC)).total_seconds()
            except (ValueError, OverflowError):
                continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


_sleep = time.sleep
_lock = threading.Lock()
_open: Client | None = None
_abandoned: list[Client | None] = []


def _client() -> Client:
    """The process's client, which all embedders and threads share."""
    global _open
    with _lock:
        if _open is None:
            import httpx2

            _open = httpx2.Client()
        return _open


def _forked() -> None:
    """A child must neither use nor close its parent's connections: it keeps them, untouched, and opens its own."""
    global _open, _lock
    _abandoned.append(_open)
    _open, _lock = None, threading.Lock()


@atexit.register
def _close() -> None:
    if _open is not None:
        _open.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
