"""What keepstone does wherever it is reached: every behaviour in a sentence, and where one of them is not offered, why.

A test names the behaviour it proves (`@proves("recalled")`) and then runs on every surface that offers it. test_manifest.py holds
the two together: no behaviour without a test, no test without a behaviour, no surface without a test or a reason.
"""

from __future__ import annotations

import pytest

proves = pytest.mark.behaviour

SURFACES = ("library", "client", "async-client", "mcp-stdio", "mcp-http", "cli", "cli-http")

BEHAVIOURS: dict[str, str] = {
    # -- remembering and recalling
    "recalled": "What is remembered is recalled, with its id and in its own words.",
    "survives": "What was answered is on disk: a kill -9 right after the answer loses nothing.",
    "duplicates": "The same said again is a duplicate of the one record there is.",
    "changed": "A changed fact is updated under its id, and the old one is no longer recalled.",
    "history": "What a changed fact said before is in its history.",
    "irrelevant": "A question that nothing answers gets nothing, and an empty context.",
    "tags": "A tag given to recall filters by it.",
    "limit": "No more is recalled than was asked for.",
    "limit-least": "A limit below one is refused, and the answer names those that can be used.",
    "limit-most": "A limit above the most is refused, and the answer names those that can be used.",
    "unicode": "Emoji, combining characters and right-to-left text come back character by character.",
    "largest": "A text of 64 KiB is one memory, recalled by the passage that fits.",
    "empty": "Empty content is refused, and the answer names what to do next.",
    "together": "Twenty writes of the same fact at once leave one record.",
    # -- whose it is
    "users": "Two users never see each other's memories: not by recall, not by context, not by list.",
    "foreign": "Another user's id is answered as one that does not exist, word for word.",
    "unknown": "An unknown id is answered with the surface's own not-found.",
    # -- what is let in, and what goes
    "sensitive": "Sensitive data is redacted, the answer says so, and the file never has it.",
    "not-kept": "A write of nothing but sensitive data is refused, and the answer says why and how to allow it.",
    "values-not-kept": "A secret that is set under a key is refused; the value before it stays.",
    "quarantine": "Instructions in a tool's words are quarantined, and the answer says so.",
    "quarantined": "What waits for a review is in no recall and in no context.",
    "forgotten": "What is forgotten is erased: no recall, no id, no byte in the file.",
    # -- for a model
    "context-narrowed": "A context takes limit, kinds, tag and min_trust, and refuses what recall refuses.",
    "context": "A context is one fence, and nothing that was remembered can close it.",
    "said": "Searching conversations finds what was said, in the words it was said in.",
    # -- what some surfaces have beside
    "list": "What is remembered is listed, newest first.",
    "review": "What is in quarantine is on the review list.",
    "why": "A surface that explains recalls says why, and why not.",
    "values": "A value that was set under a key is read back, and the newer one holds.",
    "audit": "The trail tells what was done, and never the content.",
    "export": "An export holds every record of the scope, and no other's.",
}

_SOURCE = "a model's writes are always its own word: no tool takes a source"
_MOST = "a model that asks for more than twenty memories is given twenty: being told so would cost it another round"
_PEOPLE = "for people and programs: the tools are those that a model needs, and this is none of them"
_MCP = {
    "quarantine": _SOURCE,
    "limit-most": _MOST,
    "history": _PEOPLE,
    "why": _PEOPLE,
    "values": _PEOPLE,
    "values-not-kept": _PEOPLE,
    "audit": _PEOPLE,
    "export": _PEOPLE,
}
NOT_OFFERED: dict[str, dict[str, str]] = {"mcp-stdio": _MCP, "mcp-http": _MCP}


def offering(behaviour: str) -> list[str]:
    """The surfaces on which a behaviour is proved."""
    return [surface for surface in SURFACES if behaviour not in NOT_OFFERED.get(surface, {})]
