"""Exact values that the user stated outlast a model that leaves them out, under the policy for sensitive data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keepstone import Memory
from tests.agent.support import model_at, served
from tests.faults.support import start
from tests.models.endpoint import Request, Step, say

TALK = [
    ("user", "Hi! My account number is 4471-2290, and my passport expires on 14 March 2027."),
    ("assistant", "Noted."),
    ("user", "My IBAN is DE89370400440532013000. Is my order number AB-99?"),
    ("assistant", "I see."),
]


def forgetful(request: Request) -> Step:
    """A model that keeps something, and none of the values."""
    if "facts about the user" in str(request["body"]) or "decisions" in str(request["body"]):
        return say(json.dumps({"facts": [{"turns": [1], "text": "The user has an account."}], "decisions": [], "open_tasks": []}))
    return say(json.dumps({"facts": []}))


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_exact_values_survive_extraction_and_consolidation_by_a_model(path: Path, provider: str) -> None:
    with (
        served(forgetful) as endpoint,
        Memory.open(path, model=model_at(provider, endpoint.url), settings={"worker": False}) as memory,
    ):
        memory.ingest([{"role": role, "content": text} for role, text in TALK], session="s")
        memory.jobs.run()
        assert memory.value("user.account_number") == "The user's account number is 4471-2290."
        assert memory.value("user.passport_expires") == "The user's passport expires on 14 March 2027."
        assert "DE89" not in json.dumps([record.content for record in memory.list(limit=100)]), "the policy redacts it"
        assert memory.value("user.order_number") is None, "it was only asked"
        receipt = memory.conversation("s").consolidate()
        assert receipt is not None
        summary = memory.get(receipt.id)
        assert summary is not None
        assert summary.content.startswith("Facts:\n- The user has an account.")
        assert "- The user's account number is 4471-2290." in summary.content
        assert "14 March 2027" in summary.content
        memory.ingest([{"role": "user", "content": "My account number is 4471-3333."}], session="t")
        memory.jobs.run()
        assert "4471-3333" in memory.value("user.account_number")
        record = memory.get(key="user.account_number")
        assert record is not None
        assert [version.content[-10:-1] for version in memory.history(record.id)] == ["4471-2290", "4471-3333"]


KEEP = """
import json, sys
from keepstone import Memory
memory = Memory.open(sys.argv[1], model=lambda prompt: {"facts": []}, settings={"worker": False})
memory.ingest([{"role": "user", "content": "My account number is 4471-2290."}], session="s")
memory.jobs.run()
print("kept", flush=True)
sys.stdin.read()
"""


def test_exact_values_outlive_a_killed_process(path: Path) -> None:
    with start("-c", KEEP, str(path)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "kept\n"
        process.kill()
        process.wait()
    with Memory.open(path) as memory:
        assert "4471-2290" in memory.value("user.account_number")
        assert "4471-2290" in memory.recall("What is my account number?")[0].content
