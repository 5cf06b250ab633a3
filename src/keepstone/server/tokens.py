"""Tokens (JWT) of an outside issuer: verification, and the identity they stand for.

A token is valid if a public key of the issuer signed it, it names that issuer and this server as its audience, and it has not
expired. A refused caller is not told which check failed; the log is.

The claims name the user (`sub`), the rights (`scope`: names of rights, with or without the prefix `keepstone:` or `memory:`) and,
if the settings name claims for them, the tenant and the agent. A claim that the settings name is required. A token without any
right is refused. A token is never an operator's or a service's: such keys are created by hand.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import jwt

from keepstone.errors import ConfigurationError, Unauthenticated, ValidationError
from keepstone.server.bodies import parse_json
from keepstone.server.identity import OPERATOR, RIGHTS, Identity
from keepstone.server.issuer import ALGORITHMS, IssuerKeys
from keepstone.settings import Settings
from keepstone.text import times
from keepstone.types import clean_name

log = logging.getLogger("keepstone.server")
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
