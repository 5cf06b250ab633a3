"""What keeps the dashboard to whoever is signed in: headers of its pages, where a request comes from, signed texts. Pure."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

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
_SAME = ("same-origin", "none")  # none: typed, or from a bookmark


def own(headers: Mapping[str, str], address: str) -> bool:
    """Whether a request that changes something was made by one of our own pages, as far as the browser says. Under a policy of
    no referrers it says so in Sec-Fetch-Site, and Origin may be "null"; plain HTTP to another machine may have neither."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None and site not in _SAME:
        return False
    if origin is None or origin == "null":
        return True
    try:
        page = urlsplit(origin).netloc
    except ValueError:  # "http://["
        return False
    return page in {headers.get("host", ""), urlsplit(address).netloc} - {""}


def sealed(secret: bytes, purpose: str, text: str) -> str:
    """A text that nobody else can have written."""
    packed = base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")
    return f"{packed}.{mark(secret, purpose, packed)}"


def opened(secret: bytes, purpose: str, given: str | None) -> str | None:
    """The text of `sealed`, or None where it is not of our making."""
    packed, dot, seal = (given or "").rpartition(".")
    if not dot or not same(mark(secret, purpose, packed), seal):
        return None
    try:
        return base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)).decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeDecodeError):
        return None


def mark(secret: bytes, purpose: str, text: str) -> str:
    """What proves that a text is of our making, for one purpose."""
    return hmac.new(secret, f"{purpose}\0{text}".encode("utf-8", "surrogatepass"), "sha256").hexdigest()


def same(one: str, other: str) -> bool:
    """Whether two marks are the same, in a time that says nothing about where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass"))
