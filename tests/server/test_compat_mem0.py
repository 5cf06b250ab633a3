"""mem0's paths, by plain HTTP: what its client sends is answered as it expects. The client itself is run against them in
tests/frameworks/shared/test_mem0_client.py."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from keepstone import Memory
from tests.server.mem0_support import ABSENT, BASE, Mem0, dana_, scope_of, shared_, told  # noqa: F401  (fixtures)
from tests.server.running import Running, running


# -- keys --------------------------------------------------------------------------------------------------------------
def test_a_key_is_sent_as_a_token(shared: Running, dana: Mem0) -> None:
    assert dana.ask("GET", "/v1/ping/").json() == {
        "status": "ok", "org_id": "local", "project_id": "local", "user_email": None,
    }  # fmt: skip
    for sent in ({}, {"authorization": "Token ks_wrong_key"}, {"authorization": "Basic eDp5"}):
        answer = httpx2.get(f"{shared.url}{BASE}/v1/ping/", headers=sent, timeout=60)
        told(answer, 401)
    assert httpx2.post(f"{shared.url}{BASE}/v1/webhooks/", json={}, timeout=60).status_code == 401, (
        "an unknown caller learns nothing"
    )


RIGHTS: dict[str, tuple[str, str, str, Any]] = {
    "add": ("write", "POST", "/v3/memories/add/", {"messages": [{"role": "user", "content": "x"}]}),
    "search": ("read", "POST", "/v3/memories/search/", {"query": "x"}),
    "get_all": ("read", "POST", "/v3/memories/", {}),
    "get": ("read", "GET", f"/v1/memories/{ABSENT}/", None),
    "history": ("read", "GET", f"/v1/memories/{ABSENT}/history/", None),
    "update": ("read write", "PUT", f"/v1/memories/{ABSENT}/", {"text": "x"}),
    "delete": ("forget", "DELETE", f"/v1/memories/{ABSENT}/", None),
    "delete_all": ("forget", "DELETE", "/v1/memories/?user_id=x", None),
    "batch_update": ("read write", "PUT", "/v1/batch/", {"memories": [{"memory_id": ABSENT, "text": "x"}]}),
    "batch_delete": ("forget", "DELETE", "/v1/batch/", {"memories": [{"memory_id": ABSENT}]}),
    "users": ("read", "GET", "/v1/entities/", None),
    "delete_users": ("forget", "DELETE", "/v2/entities/user/x/", None),
}


@pytest.mark.parametrize("verb", RIGHTS)
def test_a_verb_needs_its_right(shared: Running, verb: str) -> None:
    needed, method, path, body = RIGHTS[verb]
    for right in needed.split():
        others = tuple({"read", "write", "forget"} - {right})
        assert right in told(Mem0(shared, shared.key("x", rights=others)).ask(method, path, body), 403)
    assert Mem0(shared, shared.key("x", rights=needed.split())).ask(method, path, body).status_code in (200, 404)


def test_what_the_server_describes_are_its_own_verbs(shared: Running) -> None:
    assert not [
        path for path in httpx2.get(f"{shared.url}/openapi.json", timeout=60).json()["paths"] if path.startswith("/compat")
    ]


# -- adding and finding --------------------------------------------------------------------------------------------------
def test_a_sentence_is_found_listed_changed_and_erased(dana: Mem0) -> None:
    (made,) = dana.add("I like pizza", metadata={"where": "chat"})
    assert (made["memory"], made["event"], made["categories"]) == ("The user likes pizza.", "ADD", ["preference"])
    (hit,) = dana.search("food?")
    assert "pizza" in hit["memory"]
    assert 0 < hit["score"] <= 1
    assert dana.all() == ["The user likes pizza."]
    found = dana.ask("GET", f"/v1/memories/{made['id']}/").json()
    assert found["metadata"]["where"] == "chat", "what was noted beside the words a fact was learned from"
    changed = dana.ask("PUT", f"/v1/memories/{made['id']}/", {"text": "The user likes sushi.", "metadata": {"n": 1}}).json()
    assert (changed["memory"], changed["metadata"]) == ("The user likes sushi.", {"where": "chat", "n": 1})
    first, second = dana.ask("GET", f"/v1/memories/{made['id']}/history/").json()
    assert (first["event"], first["old_memory"], first["new_memory"]) == ("ADD", None, "The user likes pizza.")
    assert (second["event"], second["old_memory"]) == ("UPDATE", first["new_memory"])
    assert second["new_memory"] == "The user likes sushi."
    assert second["memory_id"] == made["id"]
    assert dana.ask("DELETE", f"/v1/memories/{made['id']}/").json()["message"] == "Memory deleted successfully!"
    assert dana.all() == []
    assert dana.search("pizza sushi", threshold=0) == [], "the words that it came from went with it"
    told(dana.ask("GET", f"/v1/memories/{made['id']}/"), 404)


def test_words_without_a_fact_are_kept_as_they_are(dana: Mem0) -> None:
    (made,) = dana.add("My sister had a chaotic wedding in the rain")
    assert (made["memory"], made["event"], made["kind"]) == ("My sister had a chaotic wedding in the rain", "ADD", "message")
    assert dana.all() == [made["memory"]]
    assert [hit["id"] for hit in dana.search("whose wedding was chaotic?")] == [made["id"]]


def test_what_is_said_twice_is_one_memory(dana: Mem0) -> None:
    (made,), (again,) = dana.add("I like pizza"), dana.add("I like pizza")
    assert (again["id"], again["event"]) == (made["id"], "NONE")
    assert dana.all() == [made["memory"]]
    assert len(dana.search("pizza")) == 1
    dana.ask("DELETE", f"/v1/memories/{made['id']}/")
    assert dana.all() == [] == dana.search("pizza", threshold=0)


def test_erasing_a_fact_leaves_the_others_of_the_same_words(dana: Mem0) -> None:
    home, work = dana.add("I live in Rome and I work at Acme.")
    assert dana.all() == [work["memory"], home["memory"]]
    dana.ask("DELETE", f"/v1/memories/{home['id']}/")
    assert dana.all() == [work["memory"]]
    assert all("Rome" not in hit["memory"] for hit in dana.search("Rome", threshold=0))


def test_a_summary_stands_for_nothing_but_itself(dana: Mem0, shared: Running) -> None:
    said = [f"The {what} fell into the harbour" for what in ("cake", "drum", "lamp", "chair", "clock", "kite", "piano", "tent")]
    for text in said:
        dana.add(text, run_id="party")
    made = shared.memory.with_scope(user=scope_of(shared, dana).user).conversation("party").consolidate()
    assert made is not None
    assert sorted(dana.all()[1:]) == sorted(said)
    dana.ask("DELETE", f"/v1/memories/{made.id}/")
    assert sorted(dana.all()) == sorted(said)


def test_a_message_stands_for_its_facts_where_it_answers_better(dana: Mem0) -> None:
    dana.add("I'm not a big fan of thriller movies but I love sci-fi movies.")
    (hit,) = dana.search("thriller movies")
    assert "not a big fan of thriller" in hit["memory"]


def test_what_has_changed_since_is_not_brought_up_again(dana: Mem0) -> None:
    (rome,) = dana.add("I live in Rome.")
    (oslo,) = dana.add("I live in Oslo.")
    assert (oslo["id"], oslo["event"], oslo["memory"]) == (rome["id"], "UPDATE", "The user lives in Oslo.")
    assert dana.all() == ["The user lives in Oslo."]
    assert all("Oslo" in hit["memory"] for hit in dana.search("Does the user live in Rome?", threshold=0))
    dana.ask("PUT", f"/v1/memories/{rome['id']}/", {"text": "The user lives in Lima."})
    assert [hit["memory"] for hit in dana.search("I live in Oslo.", threshold=0)] == ["The user lives in Lima."]
    dana.ask("DELETE", f"/v1/memories/{rome['id']}/")
    assert dana.all() == []
    assert dana.search("Rome Oslo Lima", threshold=0) == []


def test_nothing_is_inferred_where_nothing_is_to_be(dana: Mem0) -> None:
    messages = [{"role": "user", "content": "I like pizza"}, {"role": "assistant", "content": "Noted: pizza."}]
    answer = dana.ask("POST", "/v3/memories/add/", {"messages": messages, "infer": False, "run_id": "r1"}).json()
    assert [(each["memory"], each["event"], each["kind"], each["run_id"]) for each in answer["results"]] == [
        ("I like pizza", "ADD", "fact", "r1"), ("Noted: pizza.", "ADD", "fact", "r1"),
    ]  # fmt: skip
    assert dana.all() == ["Noted: pizza.", "I like pizza"]


def test_what_is_to_end_ends(dana: Mem0, shared: Running) -> None:
    today = datetime.now(UTC).date()
    (made,) = dana.add("I like pizza", expiration_date=str(today + timedelta(days=3)))
    assert (made["memory"], made["expiration_date"]) == ("I like pizza", str(today + timedelta(days=3)))
    record = shared.engine.store.get(scope_of(shared, dana), made["id"])
    assert record is not None
    assert record.expires_at is not None
    assert record.expires_at.date() == today + timedelta(days=4), "that day is its last"
    for wrong in (str(today - timedelta(days=1)), "soon", "0001-01-01", "9999-12-31"):
        body = {"messages": [{"role": "user", "content": "x"}], "expiration_date": wrong}
        told(dana.ask("POST", "/v3/memories/add/", body), 400)
    told(dana.ask("PUT", f"/v1/memories/{made['id']}/", {"expiration_date": None}), 400)
    told(dana.ask("PUT", f"/v1/memories/{made['id']}/", {"text": "x", "expiration_date": "2030-01-01"}), 400)


def test_when_it_was_said(dana: Mem0, shared: Running) -> None:
    (made,) = dana.add("The harbour froze over", timestamp=1_700_000_000)
    record = shared.engine.store.get(scope_of(shared, dana), made["id"])
    assert record is not None
    assert record.occurred_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_blocks_tools_and_silence(dana: Mem0) -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "The ferry leaves at noon"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "user", "content": {"type": "text", "text": "The pier is made of oak"}},
    ]
    for infer in (True, False):
        answer = dana.ask("POST", "/v3/memories/add/", {"messages": messages, "infer": infer, "includes": "x", "unknown": 1})
        assert [each["memory"] for each in answer.json()["results"]] == ["The ferry leaves at noon", "The pier is made of oak"]
    told(dana.ask("POST", "/v3/memories/add/", {"messages": messages[1:2]}), 400)


def test_a_model_finds_the_facts_later(tmp_path: Any) -> None:
    def model(prompt: Any) -> dict[str, Any]:
        return {"facts": []}

    with Memory.open(tmp_path / "m.db", model=model, settings={"worker": False}) as memory, running(memory) as server:
        (made,) = Mem0(server, server.key("dana")).add("I like pizza")
        assert (made["kind"], made["event"]) == ("message", "ADD")
        assert len(memory.with_scope(user="dana").jobs.list()) == 1
