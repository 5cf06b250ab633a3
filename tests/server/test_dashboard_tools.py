"""Playground, map, health, maintenance, settings, transfer and API pages over HTTP: what they show and do, and for whom."""

from __future__ import annotations

import html
import re
import shlex
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


def test_every_finding_has_a_fix_and_what_it_archived_comes_back(server: Running, at: Visitor) -> None:
    memory = server.memory.with_scope(user="alice")
    for content in ("ok!", "Dana rows on Mondays.", "The office is in Lisbon."):
        memory.remember(content)
    page = at.http.get("/health")
    assert "Archive 1" in text(page)
    fixed = at.send("/health", {"do": "fix", "check": "junk"}, "/health")
    assert fixed.headers["location"].startswith("/health?undo=")
    assert sorted(record.content for record in memory.list()) == ["Dana rows on Mondays.", "The office is in Lisbon."]
    back = at.http.get(fixed.headers["location"])
    assert "Fixed: 1 archived." in text(back)
    ticket = fixed.headers["location"].partition("=")[2]
    assert "no information" in text(at.http.get("/maintenance"))
    assert at.send("/health", {"do": "undo", "tickets": ticket}, "/health").status_code == 303
    assert len(memory.list().records) == 3
    assert at.send("/health", {"do": "undo", "tickets": ticket}, "/health").status_code == 404
    assert at.send("/health", {"do": "fix", "check": "nonsense"}, "/health").status_code == 422
    reader = visitor(server, server.key("alice", rights=("read",)))
    assert reader.send("/health", {"do": "fix", "check": "junk"}, "/health").status_code == 403
    assert "Archive 1" not in text(reader.http.get("/health"))
    agent = visitor(server, server.key("alice", agent="planner"))
    assert (agent.http.get("/health").status_code, agent.http.get("/maintenance").status_code) == (403, 403)


def test_maintenance_is_previewed_run_and_undone(server: Running, at: Visitor) -> None:
    memory = server.memory.with_scope(user="alice")
    memory.remember("The sale ends soon.", ttl=0.001)
    memory.remember("Dana rows on Mondays.")
    seen = text(at.send("/maintenance", {"job": "lapse", "do": "preview"}, "/maintenance"))
    assert "Expired memories: 1 memory would change" in seen
    assert "Nothing is archived." in seen
    done = text(at.send("/maintenance", {"job": "lapse", "do": "run"}, "/maintenance"))
    assert "1 memory changed" in done
    assert "past their time to live" in done
    ticket = str(memory.upkeep.archived()[0].ticket)
    assert at.send("/maintenance", {"do": "undo", "tickets": ticket}, "/maintenance").status_code == 303
    assert memory.upkeep.archived() == []
    assert at.send("/maintenance", {"job": "purge", "do": "run"}, "/maintenance").status_code == 422
    assert "Maintenance of the tenant" in text(at.send("/maintenance", {"job": "policy", "do": "preview"}, "/maintenance"))
    writer = visitor(server, server.key("alice", rights=("read", "write")))
    assert writer.send("/maintenance", {"job": "policy", "do": "run"}, "/maintenance").status_code == 403
    assert writer.send("/maintenance", {"job": "purge", "do": "run", "sure": "yes"}, "/maintenance").status_code == 403


def test_settings_say_where_they_come_from_and_hide_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPSTONE_CACHE_MB", "77")
    given = {"min_trust": 0.2, "buffer": "redis://bob:hunter2@127.0.0.1:1/0", "upkeep_hours": 24}
    with Memory.open(tmp_path / "m.db", settings=given) as memory, running(memory) as server:
        operator = visitor(server, server.key("op", rights=(*EVERYTHING, "operator")))
        shown = text(operator.http.get("/settings"))
        assert "cache_mb 77 default 512 environment" in shown
        assert "min_trust 0.2 default 0 given at start" in shown
        assert "hunter2" not in shown
        assert "The server runs the policy every 24 hours." in text(operator.http.get("/maintenance"))
        assert [each.runs for each in server.engine.upkeep_jobs.schedulers] == [0]
        admin = visitor(server, server.key("admin", rights=EVERYTHING))
        assert admin.http.get("/settings").status_code == 403
        assert 'href="/settings"' not in admin.http.get("/").text


def test_an_export_is_downloaded_and_imported_again(server: Running, at: Visitor) -> None:
    server.memory.with_scope(user="alice").remember("Dana rows on Mondays.")
    file = at.http.get("/transfer/export")
    assert (file.status_code, file.headers["content-type"]) == (200, "application/jsonl")
    bob = visitor(server, server.key("bob"))
    page = bob.http.get("/transfer").text
    token = page.partition('data-upload="')[2].partition('"')[0]
    headers = {**bob.own(), "content-type": "application/jsonl"}
    assert bob.http.post("/transfer/import", content=file.content, headers=headers).status_code == 403
    answer = bob.http.post("/transfer/import", content=file.content, headers={**headers, "x-token": token})
    assert (answer.status_code, answer.json()["added"]) == (200, 1)
    assert [record.content for record in server.memory.with_scope(user="bob").list()] == ["Dana rows on Mondays."]
    broken = bob.http.post("/transfer/import", content=b"{", headers={**headers, "x-token": token, "x-fragment": "1"})
    assert [error["line"] for error in broken.json()["errors"]] == [1]
    stranger = visitor(server)
    assert stranger.http.get("/transfer/export").status_code == 303
    reader = visitor(server, server.key("alice", rights=("write",)))
    assert reader.http.get("/transfer/export").status_code == 403


def test_the_api_page_lists_every_operation_and_an_unknown_page_is_a_page(server: Running, at: Visitor) -> None:
    page = at.http.get("/docs")
    described = at.http.get("/openapi.json").json()["paths"]
    assert page.text.count("<form data-api ") == sum(len(operations) for operations in described.values())
    assert 'data-path="/v1/memories"' in page.text
    browser = at.http.get("/nowhere", headers={"accept": "text/html,*/*"})
    assert (browser.status_code, browser.headers["content-type"].partition(";")[0]) == (404, "text/html")
    assert "There is no page at this address" in text(browser)
    assert at.http.get("/nowhere").headers["content-type"] == "application/problem+json"


def test_score_bars_are_to_scale_and_in_the_order_of_the_ranks(server: Running, at: Visitor) -> None:
    memory = server.memory.with_scope(user="alice")
    for content in ("Marco leads the billing team.", "The billing team meets on Mondays.", "Invoices go out on Friday."):
        memory.remember(content)
    page = at.http.get("/recall", params={"query": "Who leads the billing team?", "min_similarity": "0"}).text
    bars = re.findall(r'<svg class="stack".*?aria-label="score: ([\d.]+).*?</svg>', page)
    widths = [
        sum(map(float, re.findall(r'class="s-\w+" x="[\d.]+" width="([\d.]+)"', bar)))
        for bar in re.findall(r'<svg class="stack".*?</svg>', page)
    ]
    scores = [float(score) for score in bars]
    assert len(scores) >= 2
    assert scores == sorted(scores, reverse=True)
    assert widths[0] == pytest.approx(100, abs=0.1)
    assert all(width == pytest.approx(100 * score / scores[0], abs=1) for width, score in zip(widths, scores, strict=True))


def test_imported_history_is_on_the_timeline_at_its_own_time(server: Running, at: Visitor) -> None:
    memory = server.memory.with_scope(user="alice")
    memory.remember("Dana moved to Porto.", occurred_at="2019-05-04")
    memory.remember("Dana rows on Mondays.")
    then = text(at.http.get("/timeline?at=2019-05-06T00:00&span=week"))
    assert "1 added" in then
    assert then.count("Dana moved to Porto.") == 2
    assert "Dana rows" not in then
    assert "4 May 2019" in text(at.http.get("/timeline"))
    later = text(at.http.get("/timeline?span=day"))
    assert "1 added" in later
    assert later.count("Dana moved to Porto.") == 1


def test_a_conversation_has_its_summary_and_length(server: Running, at: Visitor) -> None:
    memory = server.memory.with_scope(user="alice")
    talk = [("user", "I moved to Porto last week and I work at the harbour."), ("assistant", "Noted.")] * 4
    memory.ingest(
        [{"role": role, "content": said, "at": f"2026-01-01T10:{5 * minute:02}:00"} for minute, (role, said) in enumerate(talk)],
        session="moving",
    )
    receipt = memory.conversation("moving").consolidate()
    assert receipt is not None
    record = memory.get(receipt.id or "")
    assert record is not None
    shown = text(at.http.get("/conversations"))
    assert "8 messages in 35 minutes" in shown
    assert " ".join(record.content.split())[:60] in shown


def test_an_empty_page_shows_a_request_that_works_under_the_key(server: Running) -> None:
    key = server.key("backend", service=True)
    at, at_api = visitor(server, key), visitor(server).http
    for user, path in (("bob", "/"), ("carl", "/memories"), ("dan o'neil", "/conversations")):
        at.send("/scope", {"user": user, "agent": "planner"})
        command = html.unescape(at.http.get(path).text).partition("<code>curl ")[2].partition("</code>")[0]
        assert f"Bearer {key[:11]}_…" in command
        address, *words = shlex.split(command.replace(f"{key[:11]}_…", key).replace("\\\n", " "))
        headers = dict(words[place + 1].split(": ", 1) for place, word in enumerate(words) if word == "-H")
        answer = at_api.post(address, content=words[-1], headers=headers)
        assert answer.is_success, answer.text
        assert len(server.memory.with_scope(user=user, agent="planner").list().records) >= 1
    reader = visitor(server, server.key("eve", rights=("read",)))
    assert "curl" not in text(reader.http.get("/"))
