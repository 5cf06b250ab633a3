"""An issuer of tokens on a loopback socket: discovery, a set of public keys that tests change, and tokens signed with PyJWT.
And a door that such tokens open, with clocks set by hand."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

from keepstone.errors import Unauthenticated
from keepstone.server.problems import IssuerUnavailable
from keepstone.server.tokens import TokenVerifier
from keepstone.settings import Settings
from tests.surfaces.support import Clock

AUDIENCE = "https://memory.example.org/mcp"
_CURVES = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}


@dataclass(frozen=True)
class Signer:
    """A private key with a name, and what it signs with."""

    kid: str
    algorithm: str
    private: Any

    @property
    def public(self) -> dict[str, Any]:
        """As a set of keys has it."""
        made = get_default_algorithms()[self.algorithm].to_jwk(self.private.public_key(), as_dict=True)
        return {name: value for name, value in made.items() if name != "key_ops"} | {"kid": self.kid, "use": "sig"}

    @property
    def secret(self) -> dict[str, Any]:
        """The whole key in that form, which no issuer should show."""
        made: dict[str, Any] = get_default_algorithms()[self.algorithm].to_jwk(self.private, as_dict=True)
        return {name: value for name, value in made.items() if name != "key_ops"} | {"kid": self.kid, "use": "sig"}

    @property
    def pem(self) -> bytes:
        """The public key as text."""
        made: bytes = self.private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return made

    def sign(self, claims: dict[str, Any] | bytes, **header: Any) -> str:
        """A token; bytes are signed as they are."""
        payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
        return jwt.PyJWS().encode(payload, self.private, self.algorithm, {"kid": self.kid, **header})


@cache
def signer(kid: str, algorithm: str = "RS256", bits: int = 2048) -> Signer:
    """A key of this name, made once in a run: RSA keys take a while."""
    if algorithm == "EdDSA":
        return Signer(kid, algorithm, ed25519.Ed25519PrivateKey.generate())
    if algorithm in _CURVES:
        return Signer(kid, algorithm, ec.generate_private_key(_CURVES[algorithm]()))
    return Signer(kid, algorithm, rsa.generate_private_key(65537, bits))


FIRST, SECOND, ELLIPTIC, STRANGER = signer("first"), signer("second"), signer("elliptic", "ES256"), signer("stranger")


@dataclass
class Issuer:
    """What is served, by path, and what was asked for. An answer is (status, headers, body)."""

    url: str = ""
    keys: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    away: bool = False
    gate: threading.Event | None = None  # answers wait for it

    def has(self, *signers: Signer) -> None:
        """These are the issuer's keys from now on."""
        self.keys = [each.public for each in signers]

    def claims(self, at: datetime, **more: Any) -> dict[str, Any]:
        """The claims of a good token, with changes; None takes one out."""
        now = int(at.timestamp())
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": "dana", "scope": "read write", "iat": now, "exp": now + 300}
        return {name: value for name, value in {**usual, **more}.items() if value is not None}

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        if self.away:
            return 503, {}, b"away"
        if path in self.answers:
            return self.answers[path]
        found: dict[str, Any] | None = {
            "/.well-known/openid-configuration": {"issuer": self.url, "jwks_uri": f"{self.url}/keys"},
            "/keys": {"keys": self.keys},
        }.get(path)
        return (404, {}, b"") if found is None else (200, {"content-type": "application/json"}, json.dumps(found).encode())

    def serve(self, path: str, body: Any, status: int = 200, **headers: str) -> None:
        """Answer this at a path."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers[path] = (status, headers, raw)


@contextmanager
def issuing() -> Iterator[Issuer]:
    """An issuer that answers until the block ends."""
    made = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.append(self.path)
            if made.gate is not None:
                made.gate.wait(10)
            status, headers, body = made.answer(self.path)
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                self.close_connection = True  # the client has enough

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join(120)


class Door:
    """A verifier with clocks set by hand."""

    def __init__(self, issuer: Issuer, address: str = "http://127.0.0.1:8700", **settings: Any) -> None:
        self.clock, self.now = Clock(), 0.0
        chosen = Settings.load({"token_issuer": issuer.url, "token_audience": AUDIENCE, **settings})
        self.verifier = TokenVerifier(chosen, address, self.clock, lambda: self.now)
        self.issuer = issuer

    def claims(self, **more: Any) -> dict[str, Any]:
        return self.issuer.claims(self.clock(), **more)

    def token(self, by: Signer = FIRST, **more: Any) -> str:
        return by.sign(self.claims(**more))

    def takes(self, token: str) -> bool:
        try:
            self.verifier.verify(token)
        except (Unauthenticated, IssuerUnavailable):
            return False
        return True


def part(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def by_secret(door: Door, secret: bytes) -> str:
    signed = f"{part({'alg': 'HS256', 'kid': 'first', 'typ': 'JWT'})}.{part(door.claims())}"
    return f"{signed}.{part(hmac.digest(secret, signed.encode(), hashlib.sha256))}"
