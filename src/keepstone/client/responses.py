"""Responses of a server: JSON documents, or problems that become errors of the library."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from keepstone import errors
from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError, KeepstoneError, RateLimited, ServerError, ValidationError
from keepstone.types import clean_name

MAX_ATTEMPTS = 4
StatusAndHeaders = tuple[int, Mapping[str, str]]  # the status and the headers of an answer
_TRANSIENT_STATUSES = (502, 503, 504)  # what may be over in a moment
_FIRST_WAIT_SECONDS = 0.1  # seconds before the second try; each further one waits twice as long
_NO_ROUTE = "there is nothing at this address"  # how a server's own 404 begins, where it is not a memory that is missing
_KINDS: Mapping[str, type[KeepstoneError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, KeepstoneError)
}


def parse_url(given: str | None) -> str:
    """The address of a server without what follows it; ConfigurationError for what is none."""
    if given is None:
        raise ConfigurationError("no server is named: pass its address, such as http://127.0.0.1:8700, or set KEEPSTONE_URL.")
    text = given.strip() if isinstance(given, str) else ""
    try:
        parts = urlsplit(text)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole:
        raise ConfigurationError(
            f"{public_url(str(given))!r:.100} is no server's address: use one such as http://127.0.0.1:8700."
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise ConfigurationError("the server's address holds more than a host and a path: pass the key as key=… instead.")
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


def public_url(url: str) -> str:
    """An address as it may be printed: without what could be a secret."""
    head, sign, rest = url.partition("://")
    return f"{head}{sign}{rest.partition('/')[0].rpartition('@')[2]}{''.join(rest.partition('/')[1:])}".partition("?")[0]


def header(name: str, value: str) -> tuple[bytes, bytes]:
    """A name as the header that carries it, in UTF-8; ValidationError for what a header cannot carry."""
    what = name.rpartition("-")[2].lower()
    cleaned = clean_name(value, what)
    if cleaned != cleaned.strip(" \t"):
        raise ValidationError(f"{what} {value!r:.60} begins or ends with a space, which does not travel: take it off.")
    return name.encode("ascii"), cleaned.encode("utf-8")


def authorization_header(key: str) -> tuple[bytes, bytes]:
    """The header that says who is asking. The key is in no message."""
    text = key.strip() if isinstance(key, str) else ""
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigurationError("the key is not one: pass what 'keepstone keys create' has printed, or set KEEPSTONE_KEY to it.")
    return b"Authorization", f"Bearer {text}".encode("ascii")


def path_segment(name: str, what: str = "id") -> str:
    """One part of a path: everything in it is encoded, dots too where they would mean a folder. ValidationError for no name."""
    encoded = quote(clean_name(name, what), safe="")
    return encoded.replace(".", "%2E") if not encoded.strip(".") else encoded


class Document(dict[str, Any]):
    """The JSON object of an answer; what is not in it makes the answer one that cannot be used."""

    def __missing__(self, name: str) -> Any:
        raise ServerError(f"the server's answer has no {name!r:.40}: is it of the same version as this client?")


def parse_response(status: int, media: str, body: bytes, headers: Mapping[str, str], url: str) -> Any:
    """The JSON of an answer; the receipt where a write was refused. Raises what the problem is."""
    found: Any = None
    if media.partition(";")[0].strip().lower().endswith("json"):
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
    if 200 <= status < 300 and isinstance(found, dict):
        return Document(found)
    if 300 <= status < 400:
        raise ServerError(f"{url} answers with a redirect ({status}): use the address that it points to.")
    if not isinstance(found, dict) or "error" not in found:
        raise _strange(status, media, url)
    if isinstance(found.get("receipt"), dict):
        return found["receipt"]
    raise problem(status, found, headers, url)


def _strange(status: int, media: str, url: str) -> KeepstoneError:
    if status in _TRANSIENT_STATUSES:
        return ServerError(f"{url} answers with {status}: what stands before the server cannot reach it. Try again later.")
    kind = f"{media or 'nothing'!r:.60}"
    return ServerError(f"{url} answers with {status} and {kind}, not as a keepstone server does: check the address.")


def problem(status: int, found: Mapping[str, Any], headers: Mapping[str, str], url: str) -> KeepstoneError:
    """A problem as the error that the library would raise."""
    detail, name = str(found.get("detail") or found.get("title") or status), str(found["error"])
    if status == 404 and detail.startswith(_NO_ROUTE):
        return ServerError(f"{url} answers, but has no such address ({detail}) Is the server older, or its address another?")
    kind = _KINDS.get(name)
    if kind is RateLimited:
        return RateLimited(detail, retry_after_seconds(headers) or 1.0)
    if kind is None or kind is KeepstoneError:
        return ServerError(f"{url} failed ({status}): {detail}")
    return kind(detail)


# -- trying again -------------------------------------------------------------------------------------------------
def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """The seconds that Retry-After names."""
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def wait_before_retry(tries: int, error: KeepstoneError, answer: StatusAndHeaders, again: bool, patience: float) -> float | None:
    """The seconds to wait before another try after a problem; None: it is raised. A key that asks too often was refused before
    anything was done, so whatever it asked for may be sent again; a store that was busy may have done half of it."""
    status, headers = answer
    wait = retry_after_seconds(headers)
    worth = wait is not None if isinstance(error, RateLimited) else again and status in _TRANSIENT_STATUSES
    if not worth or tries >= MAX_ATTEMPTS:
        return None
    chosen = backoff(tries) if wait is None else wait + backoff(1) * random.random()
    return chosen if chosen <= patience else None


def backoff(tries: int) -> float:
    """How long to wait after so many attempts that did not reach the server."""
    return float(_FIRST_WAIT_SECONDS * 2 ** (tries - 1) * (1 + random.random() / 2))


def httpx_module() -> Any:
    """The HTTP client, which comes with an extra."""
    try:
        import httpx2
    except ImportError:
        raise ConfigurationError(f"a client needs httpx2: {install_command('client')}.") from None
    return httpx2


@lru_cache(maxsize=1)
def ssl_context() -> Any:
    """Whose certificates are believed. Reading them takes longer than a request, so all clients of a process share them."""
    return httpx_module().create_ssl_context()
