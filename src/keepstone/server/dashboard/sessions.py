"""Dashboard sessions: signed cookies, form tokens, security headers and the check of a request's origin. Pure.

The session cookie is signed, not secret: it holds the hash of a key, never the key. The key is looked up again at every request,
so a revoked key signs its session out at once.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from keepstone.server.identity import parse_origin

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
SESSION_SECONDS = 12 * 3600
_CLOCK_SKEW_SECONDS = 60
_OWN_SITES = ("same-origin", "none")  # none: typed into the address bar, or opened from a bookmark


@dataclass(frozen=True, slots=True)
class Session:
    """A signed-in key: the hash it is stored under, the sign-in time (seconds since 1970), the selected user and agent."""

    key: str
    at: int
    user: str | None = None
    agent: str | None = None

    def with_scope(self, user: str | None, agent: str | None) -> Session:
        return replace(self, user=user, agent=agent)


def is_own_page(headers: Mapping[str, str], address: str) -> bool:
    """Whether a form was sent by a page of this server, as far as the browser says. With the no-referrer policy the browser
    says so in Sec-Fetch-Site, and Origin may be "null"; over plain HTTP to another machine both may be missing."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in _OWN_SITES:
        return False
    if origin is None or origin == "null":
        return True
    page = parse_origin(origin)
    return page is not None and page.netloc in {headers.get("host", ""), urlsplit(address).netloc} - {""}


def encode_session(secret: bytes, session: Session) -> str:
    """The value of the session cookie."""
    return _sign(secret, "session", json.dumps([session.key, session.at, session.user, session.agent]))


def decode_session(secret: bytes, cookie: str | None, now: float) -> Session | None:
    """The session of a cookie; None if the signature is wrong or the session has expired."""
    text = _verify(secret, "session", cookie)
    if text is None:
        return None
    key, at, user, agent = json.loads(text)
    return Session(key, at, user, agent) if at <= now + _CLOCK_SKEW_SECONDS and now < at + SESSION_SECONDS else None


def encode_message(secret: bytes, text: str, tone: str) -> str:
    """The value of the cookie that carries a message to the next page."""
    return _sign(secret, "said", json.dumps([text, tone]))


def decode_message(secret: bytes, cookie: str | None) -> tuple[str, str] | None:
    """(message, tone) that the previous page left."""
    signed = _verify(secret, "said", cookie)
    if signed is None:
        return None
    text, tone = json.loads(signed)
    return str(text), "bad" if tone == "bad" else "good"


def form_token(secret: bytes, cookie: str) -> str:
    """The CSRF token of a session's forms."""
    return signature(secret, "token", cookie)


def signature(secret: bytes, purpose: str, text: str) -> str:
    """HMAC of a text for one purpose."""
    return hmac.new(secret, f"{purpose}\0{text}".encode("utf-8", "surrogatepass"), "sha256").hexdigest()


def equal(one: str, other: str) -> bool:
    """Compare two signatures in constant time."""
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))


def _sign(secret: bytes, purpose: str, text: str) -> str:
    encoded = base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")
    return f"{encoded}.{signature(secret, purpose, encoded)}"


def _verify(secret: bytes, purpose: str, cookie: str | None) -> str | None:
    encoded, dot, signed = (cookie or "").rpartition(".")
    if not dot or not equal(signature(secret, purpose, encoded), signed):
        return None
    try:
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeDecodeError):
        return None
