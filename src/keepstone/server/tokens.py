"""Tokens (JWT) of an outside issuer: verification, and the identity they stand for.

A token is valid if a public key of the issuer signed it, it names that issuer and this server as its audience, and it has not
expired. A refused caller is not told which check failed; the log is.

The claims name the user (`sub`), the rights (`scope`: names of rights, with or without the prefix `keepstone:` or `memory:`) and,
if the settings name claims for them, the tenant and the agent. A claim that the settings name is required. A token without any
right is refused. A token is never an operator's or a service's: such keys are created by hand.

The public keys (JWKS) are fetched for the first token, again every 15 minutes, and when a token names an unknown key, at most
once a minute. One fetch serves all waiting requests. While the issuer is unavailable the known keys stay in use. Responses are
limited in size and time, and redirects are not followed. PyJWT's PyJWKClient has none of these limits: it refetches for every
token while the issuer is unavailable, and makes requests with known keys wait for a fetch.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx2
import jwt

from keepstone.errors import ConfigurationError, Unauthenticated, ValidationError
from keepstone.server.bodies import parse_json
from keepstone.server.identity import OPERATOR, RIGHTS, Identity
from keepstone.server.problems import IssuerUnavailable
from keepstone.settings import Settings
from keepstone.text import times
from keepstone.types import clean_name

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
LEEWAY_SECONDS = 30.0  # that two clocks may differ
_MAX_TOKEN_CHARS = 16_384
_TYPES = ("", "jwt", "at+jwt")
_DEFAULT_CLAIMS = {"user": "sub", "scopes": "scope"}
_SCOPE_PREFIXES = ("keepstone:", "memory:")
_INVALID = "this token is not valid here: get a new one from its issuer, for this server and with one of its scopes."
_MAX_TIMESTAMP = times.LATEST.timestamp()


class _InvalidToken(Exception):
    """Why a token is refused; without any part of the token."""


class TokenVerifier:
    """Verifies tokens of the issuer in the settings.

    `address` is this server's, and the audience of its tokens unless the settings name another. Raises ConfigurationError for
    settings that cannot work.
    """

    def __init__(
        self,
        settings: Settings,
        address: str,
        clock: Callable[[], datetime] = times.now,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        unknown = sorted(set(settings.token_claims) - {"tenant", "agent", "user", "scopes"})
        if unknown:
            raise ConfigurationError(f"setting token_claims names {unknown[0]!r:.40}: use tenant, agent, user or scopes.")
        self._issuer = settings.token_issuer
        self._keys = IssuerKeys(settings.token_issuer, settings.token_keys, ticks)
        base = (settings.public_url or address).rstrip("/")
        addresses = (base, f"{base}/", f"{base}/mcp", f"{base}/mcp/")  # clients write the same address differently
        self._audiences = frozenset([settings.token_audience] if settings.token_audience else addresses)
        self._claims = {**_DEFAULT_CLAIMS, **settings.token_claims}
        self._clock = clock

    def verify(self, token: str) -> Identity:
        """The identity of a token; Unauthenticated if it is not valid here, IssuerUnavailable if it cannot be checked."""
        try:
            claims = _parse_claims(self._signed_payload(token))
            issued_at, expires_at = self._check_times(claims)
            self._check_audience(claims)
            return self._identity(claims, issued_at, expires_at)
        except _InvalidToken as invalid:
            reason = str(invalid)
        except ValidationError:
            reason = "it holds an invalid name"
        log.info("a token was refused: %s", reason)
        raise Unauthenticated(_INVALID)

    # -- checks ----------------------------------------------------------------------------------------------------------
    def _signed_payload(self, token: str) -> bytes:
        """The payload, after its signature is checked."""
        if not isinstance(token, str) or len(token) > _MAX_TOKEN_CHARS or not token.isascii():
            raise _InvalidToken("it is too long, or not ASCII")
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError):
            raise _InvalidToken("it cannot be read") from None
        algorithm, kind = header.get("alg"), header.get("typ", "")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise _InvalidToken("its algorithm is not a public-key algorithm")
        if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in _TYPES:
            raise _InvalidToken("its type is not an access token's")
        keys = self._keys.find(header.get("kid"), algorithm)
        if not keys:
            raise _InvalidToken("the issuer has no such key")
        return _verify_signature(token, keys, algorithm)

    def _check_times(self, claims: Mapping[str, Any]) -> tuple[datetime, datetime]:
        """(issued at, expires at)."""
        now = self._clock()
        expires = _timestamp(claims, "exp")
        if expires is None or expires + LEEWAY_SECONDS <= now.timestamp():
            raise _InvalidToken("it has expired, or never expires")
        starts = [_timestamp(claims, name) for name in ("iat", "nbf")]
        if any(start is not None and start - LEEWAY_SECONDS > now.timestamp() for start in starts):
            raise _InvalidToken("it is not valid yet")
        issued_at = now if starts[0] is None else datetime.fromtimestamp(starts[0], UTC)
        return issued_at, datetime.fromtimestamp(expires, UTC)

    def _check_audience(self, claims: Mapping[str, Any]) -> None:
        issuer, audience = claims.get("iss"), claims.get("aud")
        if not isinstance(issuer, str) or issuer != self._issuer:
            raise _InvalidToken("it is from another issuer")
        audiences = [audience] if isinstance(audience, str) else audience
        if not isinstance(audiences, list) or not all(isinstance(name, str) for name in audiences):
            raise _InvalidToken("its audience cannot be read")
        if self._audiences.isdisjoint(audiences):
            raise _InvalidToken("it is for another audience")

    # -- identity --------------------------------------------------------------------------------------------------------
    def _identity(self, claims: Mapping[str, Any], issued_at: datetime, expires_at: datetime) -> Identity:
        user, agent = self._name(claims, "user"), self._name(claims, "agent")
        tenant = self._name(claims, "tenant") or "local"
        if user is None:
            raise _InvalidToken("it names no user")
        if self._claims["user"] == "email" and claims.get("email_verified") not in (None, True, "true"):
            raise _InvalidToken("its e-mail address is not verified")
        digest = hashlib.sha256("\0".join((self._issuer, tenant, user)).encode()).hexdigest()
        return Identity(
            id=f"t-{digest[:16]}",
            name=_display_name(claims, user),
            tenant=tenant,
            agent=agent,
            user=user,
            service=False,
            rights=_parse_rights(claims.get(self._claims["scopes"])),
            created_at=issued_at,
            expires_at=expires_at,
            via="token",
        )

    def _name(self, claims: Mapping[str, Any], part: str) -> str | None:
        """A part of the scope from its claim; None if no claim is named for it."""
        claim = self._claims.get(part)
        return None if claim is None else clean_name(claims.get(claim), part)  # type: ignore[arg-type]  # clean_name checks it


def make_verifier(settings: Settings, address: str) -> TokenVerifier | None:
    """The verifier of a server at this address; None without a trusted issuer. ConfigurationError for settings that cannot
    work."""
    if settings.token_issuer:
        return TokenVerifier(settings, address)
    for name in ("token_keys", "token_audience", "token_claims"):
        if getattr(settings, name):
            raise ConfigurationError(f"setting {name} has no effect without a token issuer: set token_issuer too.")
    return None


def _verify_signature(token: str, keys: Sequence[jwt.PyJWK], algorithm: str) -> bytes:
    for key in keys:
        try:
            payload: bytes = jwt.PyJWS().decode_complete(token, key, algorithms=[algorithm])["payload"]
            return payload
        except jwt.InvalidSignatureError:
            continue
        except (jwt.PyJWTError, ValueError, TypeError):
            break
    raise _InvalidToken("its signature is not the issuer's")


def _parse_claims(payload: bytes) -> dict[str, Any]:
    """The claims; a duplicate name is refused, because readers disagree on its value."""
    try:
        claims = parse_json(payload)
    except ValidationError:
        raise _InvalidToken("its claims cannot be read") from None
    if not isinstance(claims, dict):
        raise _InvalidToken("its claims are not an object")
    return claims


def _timestamp(claims: Mapping[str, Any], name: str) -> float | None:
    """Seconds since 1970; None without the claim."""
    if (value := claims.get(name)) is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MAX_TIMESTAMP:
        raise _InvalidToken("it holds an invalid time")
    return float(value)


def _parse_rights(claim: Any) -> frozenset[str]:
    """Rights from a claim: a list, or names separated by spaces."""
    names = claim.split() if isinstance(claim, str) else claim
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _InvalidToken("it has no list of scopes")
    plain = {next((name.removeprefix(prefix) for prefix in _SCOPE_PREFIXES if name.startswith(prefix)), name) for name in names}
    rights = frozenset(plain & set(RIGHTS) - {OPERATOR})
    if not rights:
        raise _InvalidToken("it has no scope of this server")
    return rights


def _display_name(claims: Mapping[str, Any], user: str) -> str:
    """The name for lists and the audit log."""
    for claim in ("preferred_username", "email", "sub"):
        try:
            return clean_name(claims.get(claim), "name")  # type: ignore[arg-type]  # clean_name checks it
        except ValidationError:
            continue
    return user


# -- keys of the issuer ----------------------------------------------------------------------------------------------------
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
                listed = _fetch(self._address or self._discover(deadline), deadline).get("keys")
                if not isinstance(listed, list) or len(listed) > _MAX_KEYS:
                    raise IssuerUnavailable(f"the key set is missing, or has more than {_MAX_KEYS} keys")
                keys = (_parse_key(data) for data in listed if isinstance(data, dict))
                self._keys = tuple(key for key in keys if key is not None)
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


def _parse_key(data: dict[str, Any]) -> _SigningKey | None:
    """A usable key; None for any other (encryption, weak, private)."""
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
