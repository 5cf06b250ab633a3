"""The public keys (JWKS) of an outside token issuer.

The keys are fetched for the first token, again every 15 minutes, and when a token names an unknown key, at most once a minute.
One fetch serves all waiting requests. While the issuer is unavailable the known keys stay in use. Responses are limited in size
and time, and redirects are not followed. PyJWT's PyJWKClient has none of these limits: it refetches for every token while the
issuer is unavailable, and makes requests with known keys wait for a fetch.
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
from keepstone.server.problems import IssuerUnavailable

log = logging.getLogger("keepstone.server")
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_KEY_ALGORITHMS = {  # by key type and curve; no shared-secret algorithm, so a public key never serves as a secret
    ("RSA", None): _RSA, ("EC", "P-256"): ("ES256",), ("EC", "P-384"): ("ES384",), ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",), ("OKP", "Ed448"): ("EdDSA",),
}  # fmt: skip
ALGORITHMS = frozenset(algorithm for algorithms in _KEY_ALGORITHMS.values() for algorithm in algorithms)
_MIN_RSA_BITS = 2048
_MAX_AGE_SECONDS = 900.0  # a key that the issuer withdraws is refused after this time
_REFETCH_SECONDS, _FIRST_REFETCH_SECONDS = 60.0, 5.0  # between fetches; before the first success
_MAX_RESPONSE_BYTES, _MAX_KEYS = 524_288, 100
_FETCH_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _SigningKey:
    """A public key, once for each algorithm that it may sign with."""

    kid: str | None
    by_algorithm: Mapping[str, jwt.PyJWK]


class IssuerKeys:
    """The keys of one issuer, from `address`, or from the address that the issuer's discovery document names."""

    def __init__(self, issuer: str, address: str = "", ticks: Callable[[], float] = time.monotonic) -> None:
        self._issuer = _require_safe_address(issuer, "token_issuer")
        self._address = address and _require_safe_address(address, "token_keys")
        self._ticks = ticks
        self._lock = threading.Lock()
        self._keys: tuple[_SigningKey, ...] | None = None
        self._expires = self._next_fetch = float("-inf")

    def find(self, kid: str | None, algorithm: str) -> Sequence[jwt.PyJWK]:
        """The keys that may have signed a token; for a token without `kid`, the only key for its algorithm. IssuerUnavailable
        if no keys could be fetched yet."""
        if self._keys is not None and self._ticks() >= self._expires:
            self._refresh(wait=False)
        keys = self._matching(kid, algorithm)
        if not keys:
            self._refresh(wait=True)
            keys = self._matching(kid, algorithm)
        if self._keys is None:
            raise IssuerUnavailable("the keys of the token issuer cannot be fetched: check that it is reachable.")
        return keys

    def _matching(self, kid: str | None, algorithm: str) -> Sequence[jwt.PyJWK]:
        keys = [
            key.by_algorithm[algorithm] for key in self._keys or () if algorithm in key.by_algorithm and kid in (None, key.kid)
        ]
        return [] if kid is None and len(keys) > 1 else keys

    def _refresh(self, *, wait: bool) -> None:
        if not self._lock.acquire(blocking=wait):
            return
        try:
            if self._ticks() < self._next_fetch:  # another thread has fetched meanwhile
                return
            try:
                deadline = time.monotonic() + _FETCH_SECONDS
                self._keys = _parse_key_set(_fetch(self._address or self._discover(deadline), deadline))
                self._expires = self._ticks() + _MAX_AGE_SECONDS
            except IssuerUnavailable as error:
                effect = "no token can be checked" if self._keys is None else "the known keys stay in use"
                log.warning("the token issuer's keys cannot be fetched (%s): %s", error, effect)
            self._next_fetch = self._ticks() + (_FIRST_REFETCH_SECONDS if self._keys is None else _REFETCH_SECONDS)
        finally:
            self._lock.release()

    def _discover(self, deadline: float) -> str:
        """The address of the keys, from the OpenID Connect document or that of RFC 8414."""
        parts = urlsplit(self._issuer)
        path = parts.path.rstrip("/")
        addresses = (
            f"{parts.scheme}://{parts.netloc}{path}/.well-known/openid-configuration",
            f"{parts.scheme}://{parts.netloc}/.well-known/oauth-authorization-server{path}",
        )
        problems = []
        for address in addresses:
            try:
                found = _fetch(address, deadline)
            except IssuerUnavailable as error:
                problems.append(str(error))
                continue
            keys_address = found.get("jwks_uri")
            if found.get("issuer") != self._issuer:
                problems.append(f"{address} is the document of another issuer")
            elif isinstance(keys_address, str) and _is_safe(keys_address, allow_http=_is_loopback(parts.hostname)):
                return keys_address
            else:
                problems.append(f"{address} names no https address of keys")
        raise IssuerUnavailable("; ".join(problems))


def _fetch(url: str, deadline: float) -> dict[str, Any]:
    """A JSON object from an address; IssuerUnavailable for anything else, and for one that is late."""
    headers = {"accept": "application/json", "accept-encoding": "identity"}  # a packed response could exceed the limit
    use_proxy = not _is_loopback(urlsplit(url).hostname)
    seconds = max(0.1, deadline - time.monotonic())
    body = bytearray()
    try:
        with (
            httpx2.Client(timeout=seconds, follow_redirects=False, trust_env=use_proxy) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            if response.status_code != 200 or response.headers.get("content-encoding", "identity") != "identity":
                raise IssuerUnavailable(f"{url} answered {response.status_code}, not 200 with plain JSON")
            for chunk in response.iter_raw():
                body += chunk
                if len(body) > _MAX_RESPONSE_BYTES or time.monotonic() > deadline:
                    raise IssuerUnavailable(f"{url} answered with more than {_MAX_RESPONSE_BYTES} bytes, or too slowly")
        found = json.loads(body)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise IssuerUnavailable(f"{url} does not answer: {type(error).__name__}") from None
    except (ValueError, RecursionError):
        raise IssuerUnavailable(f"{url} did not answer with JSON") from None
    if not isinstance(found, dict):
        raise IssuerUnavailable(f"{url} did not answer with a JSON object")
    return found


def _parse_key_set(found: Mapping[str, Any]) -> tuple[_SigningKey, ...]:
    """The usable keys of a JWKS; others (encryption, weak, private) are skipped."""
    listed = found.get("keys")
    if not isinstance(listed, list) or len(listed) > _MAX_KEYS:
        raise IssuerUnavailable(f"the key set is missing, or has more than {_MAX_KEYS} keys")
    return tuple(key for data in listed if isinstance(data, dict) and (key := _parse_key(data)) is not None)


def _parse_key(data: dict[str, Any]) -> _SigningKey | None:
    kind, curve, named, kid = data.get("kty"), data.get("crv"), data.get("alg"), data.get("kid")
    if not isinstance(kind, str) or not isinstance(curve, str | None) or not isinstance(kid, str | None):
        return None
    algorithms = [algorithm for algorithm in _KEY_ALGORITHMS.get((kind, curve), ()) if named in (None, algorithm)]
    if not algorithms or data.get("use", "sig") != "sig" or "d" in data:  # with a published private key, anyone can sign
        return None
    try:
        keys = {algorithm: jwt.PyJWK(data, algorithm) for algorithm in algorithms}
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    weak = kind == "RSA" and any(key.key.key_size < _MIN_RSA_BITS for key in keys.values())
    return None if weak else _SigningKey(kid, keys)


def _require_safe_address(address: str, setting: str) -> str:
    if not _is_safe(address, allow_http=True):
        raise ConfigurationError(
            f"setting {setting} is {address!r:.80}: use an https address without user or fragment; http is for loopback only."
        )
    return address


def _is_safe(address: str, *, allow_http: bool) -> bool:
    """https to any host, or http to this machine if that is allowed."""
    try:
        parts = urlsplit(address)
        parts.port  # noqa: B018  (raises for an invalid port)
    except ValueError:
        return False
    if not parts.hostname or "@" in parts.netloc or parts.fragment or not address.isascii() or not address.isprintable():
        return False
    return parts.scheme == "https" or (allow_http and parts.scheme == "http" and _is_loopback(parts.hostname))


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
