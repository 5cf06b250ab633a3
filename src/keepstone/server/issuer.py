"""The public keys of an outside issuer: where they are, and the ones it has now.

They are fetched when a token first needs them, again every quarter of an hour, and when a token names one that is not known:
once a minute at most, whatever arrives, and one fetch serves all who wait for it. While the issuer is away the keys that are held
go on. An answer is bounded in size and time, and one that sends us elsewhere is not followed.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
import jwt

from keepstone.errors import ConfigurationError

log = logging.getLogger("keepstone.server")
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_FITTING = {  # what each kind of key may sign with: a public key never serves as a shared secret
    ("RSA", None): _RSA, ("EC", "P-256"): ("ES256",), ("EC", "P-384"): ("ES384",), ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",), ("OKP", "Ed448"): ("EdDSA",),
}  # fmt: skip
ALGORITHMS = frozenset(each for fitting in _FITTING.values() for each in fitting)
_BITS = 2048  # of an RSA key at least
_AGE = 900.0  # seconds after which the keys are asked for again: one that the issuer took back ends then
_PAUSE, _COLD = 60.0, 5.0  # seconds between two fetches; while there are no keys at all
_BYTES, _MANY = 524_288, 100  # of one answer; keys in it
_SECONDS = 5.0  # that fetching may take in all: requests wait for it


@dataclass(frozen=True, slots=True)
class _Key:
    """A public key by its name, once for each algorithm that it may sign with."""

    kid: str | None
    by_algorithm: Mapping[str, jwt.PyJWK]


class _IssuerUnavailable(Exception):
    """The issuer cannot be reached, or its answer cannot be used."""


class IssuerKeys:
    """The keys of one issuer. `address` is where they are; without it, the issuer's discovery says so."""

    def __init__(self, issuer: str, address: str = "", ticks: Callable[[], float] = time.monotonic) -> None:
        self._issuer = _checked(issuer, "token_issuer")
        self._address = address and _checked(address, "token_keys")
        self._ticks = ticks
        self._lock = threading.Lock()
        self._held: tuple[_Key, ...] | None = None
        self._old = self._next = float("-inf")  # from when on the keys are old; from when on another fetch may be made

    def find(self, kid: str | None, algorithm: str) -> Sequence[jwt.PyJWK]:
        """The keys that may have signed a token; without a name, the only one there is for the algorithm."""
        if self._held is not None and self._ticks() >= self._old:
            self._renew(wait=False)
        found = self._fitting(kid, algorithm)
        if not found:
            self._renew(wait=True)
            found = self._fitting(kid, algorithm)
        return found

    def _fitting(self, kid: str | None, algorithm: str) -> Sequence[jwt.PyJWK]:
        held = [each for each in self._held or () if algorithm in each.by_algorithm and kid in (None, each.kid)]
        return [] if kid is None and len(held) > 1 else [each.by_algorithm[algorithm] for each in held]

    def _renew(self, *, wait: bool) -> None:
        if not self._lock.acquire(blocking=wait):
            return
        try:
            if self._ticks() < self._next:  # somebody else has asked meanwhile
                return
            try:
                until = time.monotonic() + _SECONDS
                self._held = _keys(_fetched(self._address or self._discovered(until), until))
                self._old = self._ticks() + _AGE
            except _IssuerUnavailable as away:
                going_on = "no token is taken until it can" if self._held is None else "the keys that are held go on"
                log.warning("the issuer's keys cannot be fetched (%s): %s", away, going_on)
            self._next = self._ticks() + (_COLD if self._held is None else _PAUSE)
        finally:
            self._lock.release()

    def _discovered(self, until: float) -> str:
        """Where the issuer's discovery says that its keys are: OpenID Connect's document, or that of RFC 8414."""
        parts = urlsplit(self._issuer)
        path = parts.path.rstrip("/")
        places = (
            f"{parts.scheme}://{parts.netloc}{path}/.well-known/openid-configuration",
            f"{parts.scheme}://{parts.netloc}/.well-known/oauth-authorization-server{path}",
        )
        problems = []
        for place in places:
            try:
                found = _fetched(place, until)
            except _IssuerUnavailable as away:
                problems.append(str(away))
                continue
            if found.get("issuer") != self._issuer:  # or anybody's document would do
                problems.append(f"{place} is the document of another issuer")
                continue
            address = found.get("jwks_uri")
            if isinstance(address, str) and _safe(address, plain=_is_loopback(parts.hostname)):
                return address
            problems.append(f"{place} names no https address of keys")
        raise _IssuerUnavailable("; ".join(problems))


def _fetched(url: str, until: float) -> dict[str, Any]:
    """A JSON object from an address; _Away for anything else, and for one that is not there in time."""
    headers = {"accept": "application/json", "accept-encoding": "identity"}  # what is packed may be larger than it looks
    direct = _is_loopback(urlsplit(url).hostname)  # no proxy of the environment leads to this machine
    left = max(0.1, until - time.monotonic())
    body = bytearray()
    try:
        with (
            httpx2.Client(timeout=left, follow_redirects=False, trust_env=not direct) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            if response.status_code != 200 or response.headers.get("content-encoding", "identity") != "identity":
                raise _IssuerUnavailable(f"{url} answered {response.status_code}, not 200 with plain JSON")
            for chunk in response.iter_raw():
                body += chunk
                if len(body) > _BYTES or time.monotonic() > until:
                    raise _IssuerUnavailable(f"{url} answered with more than {_BYTES} bytes, or too slowly")
        found = json.loads(body)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise _IssuerUnavailable(f"{url} does not answer: {type(error).__name__}") from None
    except (ValueError, RecursionError):
        raise _IssuerUnavailable(f"{url} answered with something that is not JSON") from None
    if not isinstance(found, dict):
        raise _IssuerUnavailable(f"{url} answered with JSON that is no object")
    return found


def _keys(found: Mapping[str, Any]) -> tuple[_Key, ...]:
    """The usable keys of a JWKS; what is for other ends, too weak or not public is passed over."""
    listed = found.get("keys")
    if not isinstance(listed, list) or len(listed) > _MANY:
        raise _IssuerUnavailable(f"its set of keys is none, or has more than {_MANY}")
    return tuple(key for each in listed if isinstance(each, dict) and (key := _key(each)) is not None)


def _key(data: dict[str, Any]) -> _Key | None:
    kind, curve, named, kid = data.get("kty"), data.get("crv"), data.get("alg"), data.get("kid")
    if not isinstance(kind, str) or not isinstance(curve, str | None) or not isinstance(kid, str | None):
        return None
    fitting = [each for each in _FITTING.get((kind, curve), ()) if named in (None, each)]
    if not fitting or data.get("use", "sig") != "sig" or "d" in data:  # a private key that is public signs for anybody
        return None
    try:
        made = {algorithm: jwt.PyJWK(data, algorithm) for algorithm in fitting}
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    weak = kind == "RSA" and any(each.key.key_size < _BITS for each in made.values())
    return None if weak else _Key(kid, made)


def _checked(address: str, setting: str) -> str:
    """An address that keys may come from; ConfigurationError for any other."""
    if not _safe(address, plain=True):
        raise ConfigurationError(
            f"setting {setting} is {address!r:.80}: use an https address without user or fragment; http is for loopback only."
        )
    return address


def _safe(address: str, *, plain: bool) -> bool:
    """https anywhere; http on this machine, where that is allowed."""
    try:
        parts = urlsplit(address)
        parts.port  # noqa: B018  (raises where there is none such)
    except ValueError:
        return False
    if not parts.hostname or "@" in parts.netloc or parts.fragment or not address.isascii() or not address.isprintable():
        return False
    return parts.scheme == "https" or (plain and parts.scheme == "http" and _is_loopback(parts.hostname))


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
