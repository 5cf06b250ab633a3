"""Who is signed in: a cookie with the hash of a key, the time, and whose memory is looked at.

The cookie is signed, not secret: it holds no key. The key is looked up again at every request, so one that is revoked is signed
out at once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from keepstone.server.dashboard import security

HOURS = 12
_SESSION, _TOKEN, _SAID = "session", "token", "said"


@dataclass(frozen=True, slots=True)
class Session:
    """A key that was shown at a time (seconds since 1970), and the user and agent that were chosen since, if any."""

    key: str
    at: int
    user: str | None = None
    agent: str | None = None

    def looking_at(self, user: str | None, agent: str | None) -> Session:
        return replace(self, user=user, agent=agent)


def packed(secret: bytes, session: Session) -> str:
    """A session as a cookie."""
    return security.sealed(secret, _SESSION, json.dumps([session.key, session.at, session.user, session.agent]))


def unpacked(secret: bytes, cookie: str | None, now: float) -> Session | None:
    """The session of a cookie; None where it is none of ours, or too old."""
    text = security.opened(secret, _SESSION, cookie)
    if text is None:
        return None
    key, at, user, agent = json.loads(text)
    return Session(key, at, user, agent) if at <= now + 60 and now < at + HOURS * 3600 else None


def token(secret: bytes, cookie: str) -> str:
    """What every form of a session carries: pages of others cannot know it."""
    return security.mark(secret, _TOKEN, cookie)


def said(secret: bytes, text: str, tone: str) -> str:
    """A sentence for the next page, as a cookie."""
    return security.sealed(secret, _SAID, json.dumps([text, tone]))


def heard(secret: bytes, cookie: str | None) -> tuple[str, str] | None:
    """(sentence, tone) that the page before has left."""
    text = security.opened(secret, _SAID, cookie)
    if text is None:
        return None
    sentence, tone = json.loads(text)
    return str(sentence), "bad" if tone == "bad" else "good"
