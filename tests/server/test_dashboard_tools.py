"""The playground and the map of the dashboard over HTTP: what they show, what they store, and to whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstone import Memory
from keepstone.models.anthropic import AnthropicModel
from tests.models.endpoint import Endpoint, say, use
from tests.server.dashboard import EVERYTHING, Visitor, text, visitor
from tests.server.running import Running, running


@pytest.fixture
def at(server: Running) -> Visitor:
    return visitor(server, server.key("alice", rights=EVERYTHING))


def test_without_a_model_a_message_is_stored_learned_from_and_shown_as_a_prompt(server: Running, at: Visitor) -> None:
    memory = server.memory.with_scope(user="alice")
    memory.remember("Marco leads the billing team.")
    page = at.send("/playground", {"message": "I live in Porto. Who leads the billing team?", "session": "try", "do": "send"})
    assert page.status_code == 200
    shown = text(page)
    assert [message["content"] for message in memory.conversation("try").messages()] == [
        "I live in Porto. Who leads the billing team?"
    ]
    learned = [record.content for record in memory.list() if record.kind == "fact" and "Porto" in record.content]
    assert learned
    assert learned[0] in shown[shown.index("Learned") :]
    assert "Marco leads the billing team." in shown[shown.index("Recalled ") : shown.index("Learned")]
    prompt = shown[shown.index("The whole prompt") :]
    for part in ("Rules for the memory tools", "Definitions of the memory tools", "Memories recalled for this message"):
        assert part in prompt
    assert "recall_memory" in prompt
    # Showing the prompt alone stores nothing.
    preview = at.send("/playground", {"message": "Where do I live?", "session": "try", "strategy": "buffer", "do": "preview"})
    assert "Where do I live?" in text(preview)
    assert "Rules for the memory tools" not in text(preview)
    assert len(memory.conversation("try")) == 1


def test_a_model_answers_with_the_prompt_that_the_page_shows(tmp_path: Path) -> None:
    script = [use("write_memory", {"content": "Alice owns a boat named Tern."}), say("I will remember the boat.")]
    with Endpoint(script) as endpoint:
        model = AnthropicModel("any", base_url=endpoint.url, api_key="k")
        path = tmp_path / "memory.db"
        with Memory.open(path, model=model, settings={"worker": False}) as memory, running(memory) as server:
            memory.with_scope(user="alice").remember("Alice sails on Sundays.")
            page = visitor(server, server.key("alice")).send(
                "/playground", {"message": "My boat is named Tern. When do I sail?", "session": "try", "do": "send"}
            )
            shown = text(page)
            assert "I will remember the boat." in shown
            assert "20 tokens read 10 written 2 requests" in shown
            assert "Alice owns a boat named Tern." in shown[shown.index("Learned 1") :]
            asked = endpoint.requests[0]["body"]
            for block in asked["messages"][-1]["content"]:
                assert " ".join(block["text"].split()) in shown
            assert " ".join(asked["tools"][0]["description"].split()[:8]) in shown
            assert "2 messages wait" in shown or "1 message waits" in shown


def test_the_playground_asks_for_the_same_rights_as_every_surface(server: Running) -> None:
    server.memory.with_scope(user="alice").remember("The vault is blue.")
    form = {"message": "The vault is red.", "do": "send"}
    reader = visitor(server, server.key("alice", rights=("read",)))
    assert reader.send("/playground", form).status_code == 403
    assert "The vault is blue." in text(reader.send("/playground", {**form, "do": "preview"}))
    agent = visitor(server, server.key("alice", agent="planner"))
    assert agent.send("/playground", form).status_code == 403
    bob = visitor(server, server.key("bob"))
    assert "The vault is blue." not in bob.send("/playground", form).text
    assert server.memory.with_scope(user="alice").conversation.list() == []


def test_the_map_names_who_and_what_memories_speak_of(server: Running, at: Visitor) -> None:
    assert "No names yet" in text(at.http.get("/map"))
    memory = server.memory.with_scope(user="alice")
    memory.remember("My colleague Marco lives in Porto.")
    memory.remember("Yesterday Marco met Priya in Lisbon.")
    page = at.http.get("/map")
    assert 'data-name="Marco" data-kind="person" data-count="2"' in page.text
    assert "Porto" in page.text
    one = text(at.http.get("/map?name=marco"))
    assert "My colleague Marco lives in Porto." in one
    assert "Yesterday Marco met Priya in Lisbon." in one
    assert 'data-name="Marco"' not in at.http.get("/map?kind=place").text
    assert at.http.get("/map?name=Nemo").status_code == 404
    for number in range(70):
        memory.remember(f"Yesterday Marco wrote to Zed{number}.")
    crowded = at.http.get("/map")
    assert crowded.text.count("data-name=") == 60
    assert "left out" in text(crowded)
