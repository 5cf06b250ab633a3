"""Values that are planted where content, names and secrets go, and looked for where they must not be.

They are made at run time, so that no source file has them: a hit is a leak and never a quotation. They are the same in every
process, so that what one writes another can look for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence


def _made(what: str, length: int = 20) -> str:
    """Letters and digits that nothing else says."""
    return hashlib.sha256(f"planted for keepstone: {what}".encode()).hexdigest()[:length]


def _card() -> str:
    """A number that passes for a card's."""
    digits = "4" + str(int(_made("card"), 16))[:14]
    total = sum(sum(divmod(int(digit) * 2, 10)) if at % 2 == 0 else int(digit) for at, digit in enumerate(digits))
    return digits + str(-total % 10)


# Private to the caller: they may be stored and returned, and are in no log, metric, span or report.
CONTENT = f"canary{_made('content')}"
SAID = f"spoken{_made('said')}"
QUERY = f"asked{_made('query')}"
NOTE = f"noted{_made('metadata')}"
NAME = f"named{_made('name')}"  # keys, tags, sessions, sources, users: names that people choose
HEADER = f"header{_made('header')}"
PRIVATE = (CONTENT, SAID, QUERY, NOTE, NAME, HEADER)
# Secrets: they stand in nothing at all, neither in what is written down nor in what is answered when something is wrong.
PASSWORD = f"pw{_made('password')}"
PROVIDER_KEY = "sk-" + "ant-api03-" + _made("provider", 64) + _made("more", 29) + "AA"
GITHUB_TOKEN = "ghp" + "_" + _made("github", 36)
CARD = _card()
SECRETS = (PASSWORD, PROVIDER_KEY, GITHUB_TOKEN, CARD)
EVERYTHING = (*PRIVATE, *SECRETS)
KEY = re.compile(r"ks_[0-9a-f]{8}_[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])")  # a key of keepstone's own, whole
_ANY = re.compile("|".join(map(re.escape, EVERYTHING)))


def leaks(text: str, of: Sequence[str] = EVERYTHING, *, keys: bool = True) -> list[str]:
    """What stands in a text and must not, by a name that may be printed: where it stands, with the value left out."""
    if not ((keys and "ks_" in text) or any(value in text for value in of)):  # nearly always, and quick
        return []
    wanted = set(of)
    found = [each for each in _ANY.finditer(text) if each[0] in wanted]
    found += list(KEY.finditer(text)) if keys else []
    return sorted({_shown(text, each) for each in found})


def _shown(text: str, found: re.Match[str]) -> str:
    before = KEY.sub("…", _ANY.sub("…", text[max(0, found.start() - 200) : found.start()]))[-60:]
    kind = "a key" if found[0].startswith("ks_") else _kind(found[0])
    return f"{kind} after {before!r}"


def _kind(value: str) -> str:
    names = {CONTENT: "content", SAID: "a message", QUERY: "a question", NOTE: "metadata", NAME: "a name", HEADER: "a header",
             PASSWORD: "a password", PROVIDER_KEY: "a provider's key", GITHUB_TOKEN: "a token", CARD: "a card"}  # fmt: skip
    return next(name for planted, name in names.items() if planted == value)
