"""Where a request may come from: what a page in somebody's browser must not reach through a name of its own (DNS rebinding).
Pure.

A browser says in Origin which page asks; only our own and those of this machine may. What arrives from this machine itself asks
for a name of this machine, unless a public address is set: a proxy may send any.
"""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from keepstone.server.problems import Refused

_HERE = ("localhost", "127.0.0.1", "::1")


def check(origin: str | None, host: str | None, address: str, reached: str | None) -> None:
    """Refused for a request that came through a foreign page or a foreign name. `address` is ours, `reached` is where the
    connection arrived; None: that says nothing."""
    if origin is not None:
        own, page = _split(address), _split(origin)
        if not _here(page.hostname) and (page.scheme, page.netloc) != (own.scheme, own.netloc):
            raise Refused(403, f"Origin is {origin!r:.80}: pages of other addresses may not ask here.")
    if _here(reached) and not _here(_split(f"//{host or ''}").hostname):
        raise Refused(421, f"Host is {host!r:.80}, not this machine: set public_url to the address the server is reached at.")


def _split(text: str) -> SplitResult:
    try:
        found = urlsplit(text)
        found.hostname  # noqa: B018  # raises for what cannot be read
        return found
    except ValueError:
        return SplitResult("", "", "", "", "")


def _here(name: str | None) -> bool:
    return name is not None and (name in _HERE or name.endswith(".localhost"))
