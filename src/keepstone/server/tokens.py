"""Tokens of an outside issuer (JWT): checked, and whom they stand for.

A token is taken when a public key of the issuer has signed it, it comes from that issuer, is meant for this server, has an end
and has not reached it. Whoever is refused is not told which check it was; the log is.

Its claims say who is asking: the user (`sub`), what they may do (`scope`: the names of rights, with or without `keepstone:` or
`memory:` before them), and where the settings name claims for them the tenant and the agent. A claim that the settings name must
be there. A token with none of our rights is refused like any other that is not meant for us. Nobody becomes an operator or a
service by a token: those see more than one user's memory, and a key for that is made by hand.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import jwt

from keepstone.errors import ConfigurationError, Unauthenticated, ValidationError
from keepstone.server.identity import OPERATOR, RIGHTS, Identity
from keepstone.server.issuer import ALGORITHMS, IssuerKeys
from keepstone.settings import Settings
from keepstone.text import times
from keepstone.types import clean_name

log = logging.getLogger("keepstone.server")
LEEWAY = 30.0  # seconds that two clocks may differ
_LONGEST = 16_384  # characters of something that may be a token
_TYPES = ("", "jwt", "at+jwt")
_CLAIMS = {"user": "sub", "scopes": "scope"}
_PREFIXES = ("keepstone:", "memory:")
_REFUSED = "this token is not valid here: get a new one from its issuer, meant for this server and with one of its scopes."
_LATEST = times.LATEST.timestamp()


class _InvalidToken(Exception):
    """Why a token is not taken; never with anything of the token in it."""


class TokenVerifier:
    """Tells whom a token of the settings' issuer stands for.

    `address` is that of this server, whom tokens must be meant for unless the settings name an audience. Raises
    ConfigurationError for settings that cannot work.
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
        own = (base, f"{base}/", f"{base}/mcp", f"{base}/mcp/")  # clients differ in what they call one address
        self._audiences = frozenset([settings.token_audience] if settings.token_audience else own)
        self._claims = {**_CLAIMS, **settings.token_claims}
        self._clock = clock

    def verify(self, token: str) -> Identity:
        """Whom a token stands for; Unauthenticated for one that is not valid here."""
        try:
            claims = _claims(self._payload(token))
            begun, ends = self._times(claims)
            self._meant_for_us(claims)
            return self._identity(claims, begun, ends)
        except _InvalidToken as unfit:
            why = str(unfit)
        except ValidationError:
            why = "a name in it cannot be taken"
        log.info("a token was refused: %s", why)
        raise Unauthenticated(_REFUSED)

    # -- whether it is good ---------------------------------------------------------------------------------------
    def _payload(self, token: str) -> bytes:
        """What was signed, once the signature has been checked."""
        if not isinstance(token, str) or len(token) > _LONGEST or not token.isascii():
            raise _InvalidToken("it is too long, or no text that a token can be")
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError):
            raise _InvalidToken("it cannot be read") from None
        algorithm, kind = header.get("alg"), header.get("typ", "")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise _InvalidToken("its algorithm is not one for public keys")
        if not isinstance(kind, str) or kind.lower().removeprefix("application/") not in _TYPES:
            raise _InvalidToken("it is a token for another end")
        keys = self._keys.find(header.get("kid"), algorithm)
        if not keys:
            raise _InvalidToken("the issuer has no such key")
        return _signed(token, keys, algorithm)

    def _times(self, claims: Mapping[str, Any]) -> tuple[datetime, datetime]:
        """Since when and until when it is good."""
        now = self._clock()
        at = now.timestamp()
        ends = _moment(claims, "exp")
        if ends is None or ends + LEEWAY <= at:
            raise _InvalidToken("it has no end, or has reached it")
        begun = [_moment(claims, name) for name in ("iat", "nbf")]
        if any(each is not None and each - LEEWAY > at for each in begun):
            raise _InvalidToken("its time has not come")
        return now if begun[0] is None else datetime.fromtimestamp(begun[0], UTC), datetime.fromtimestamp(ends, UTC)

    def _meant_for_us(self, claims: Mapping[str, Any]) -> None:
        issuer, audience = claims.get("iss"), claims.get("aud")
        if not isinstance(issuer, str) or issuer != self._issuer:
            raise _InvalidToken("it comes from another issuer")
        meant = [audience] if isinstance(audience, str) else audience
        if not isinstance(meant, list) or not all(isinstance(each, str) for each in meant) or self._audiences.isdisjoint(meant):
            raise _InvalidToken("it is meant for somebody else")

    # -- whom it stands for ---------------------------------------------------------------------------------------
    def _identity(self, claims: Mapping[str, Any], begun: datetime, ends: datetime) -> Identity:
        user, agent = self._named(claims, "user"), self._named(claims, "agent")
        tenant = self._named(claims, "tenant") or "local"
        if user is None:
            raise _InvalidToken("it names no user")
        if self._claims["user"] == "email" and claims.get("email_verified") not in (None, True, "true"):
            raise _InvalidToken("nobody has verified that the e-mail address is theirs")
        hashed = hashlib.sha256("\0".join((self._issuer, tenant, user)).encode()).hexdigest()
        rights = _rights(claims.get(self._claims["scopes"]))
        return Identity(f"t-{hashed[:16]}", _shown(claims, user), tenant, agent, user, False, rights, begun, ends, None, "token")

    def _named(self, claims: Mapping[str, Any], part: str) -> str | None:
        """A part of the scope from its claim; None only where no claim is meant to say it."""
        name = self._claims.get(part)
        return None if name is None else clean_name(claims.get(name), part)  # type: ignore[arg-type]  # whatever came is checked


def make_verifier(settings: Settings, address: str) -> TokenVerifier | None:
    """What checks tokens for a server at this address; None where no issuer is trusted. ConfigurationError where the settings
    cannot work."""
    if settings.token_issuer:
        return TokenVerifier(settings, address)
    for name in ("token_keys", "token_audience", "token_claims"):
        if getattr(settings, name):
            raise ConfigurationError(f"setting {name} says which tokens are taken, but no issuer is named: set token_issuer too.")
    return None


def _signed(token: str, keys: Sequence[jwt.PyJWK], algorithm: str) -> bytes:
    for key in keys:
        try:
            payload: bytes = jwt.PyJWS().decode_complete(token, key, algorithms=[algorithm])["payload"]
            return payload
        except jwt.InvalidSignatureError:
            continue
        except (jwt.PyJWTError, ValueError, TypeError):
            break
    raise _InvalidToken("its signature is not the issuer's")


def _claims(payload: bytes) -> dict[str, Any]:
    """The claims; a name that comes twice means two things to two readers, and is refused."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        held = dict(pairs)
        if len(held) < len(pairs):
            raise ValueError
        return held

    try:
        claims = json.loads(payload.decode("utf-8"), object_pairs_hook=once)
    except (ValueError, RecursionError):
        raise _InvalidToken("its claims cannot be read") from None
    if not isinstance(claims, dict):
        raise _InvalidToken("its claims are no object")
    return claims


def _moment(claims: Mapping[str, Any], name: str) -> float | None:
    """Seconds since 1970; None where the token does not say."""
    if (value := claims.get(name)) is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LATEST:
        raise _InvalidToken("a time in it is none")
    return float(value)


def _rights(claim: Any) -> frozenset[str]:
    """Rights by the names in a claim: a text with spaces, or a list."""
    words = claim.split() if isinstance(claim, str) else claim
    if not isinstance(words, list) or not all(isinstance(each, str) for each in words):
        raise _InvalidToken("it says nothing about what may be done")
    plain = {next((each.removeprefix(one) for one in _PREFIXES if each.startswith(one)), each) for each in words}
    rights = frozenset(plain & set(RIGHTS) - {OPERATOR})
    if not rights:
        raise _InvalidToken("it has none of our rights")
    return rights


def _shown(claims: Mapping[str, Any], user: str) -> str:
    """What to call them in lists and in the trail."""
    for name in ("preferred_username", "email", "sub"):
        try:
            return clean_name(claims.get(name), "name")  # type: ignore[arg-type]  # whatever came is checked
        except ValidationError:
            continue
    return user
