"""Upkeep over HTTP: one's own scope by a person, a tenant by its admin, the store by an operator."""

from __future__ import annotations

import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from keepstone import Memory
from tests.server.running import Running, running

VERBS: dict[str, dict[str, Any]] = {
    "age": {},
    "lapse": {},
    "fade": {},
    "cap": {"most": 0},
    "undo": {"ticket": 1},
    "restore": {"ids": []},
    "archive": {"ids": []},
    "purge": {},
    "compact": {},
    "verify": {},
    "fix": {},
}


def remember(http: httpx2.Client, content: str, **more: Any) -> str:
    answer = http.post("/v1/memories", json={"content": content, **more})
    assert answer.status_code == 201
    return str(answer.json()["id"])


def test_what_is_capped_is_aside_and_can_be_taken_back(server: Running) -> None:
    http = server.http()
    ids = [remember(http, "Ada likes tea.", importance=0.1), remember(http, "Ada lives in Porto.", importance=0.9)]
    tried = http.post("/v1/upkeep/cap", json={"most": 1, "dry_run": True}).json()
    assert (tried["ids"], tried["ticket"], tried["dry_run"]) == (ids[:1], 0, True)
    report = http.post("/v1/upkeep/cap", json={"most": 1}).json()
    assert (report["ids"], report["why"], report["records"][0]["content"]) == (ids[:1], "capped", "Ada likes tea.")
    archived = http.get("/v1/upkeep/archived").json()["archived"]
    assert [(each["record"]["id"], each["why"], each["ticket"]) for each in archived] == [(ids[0], "capped", report["ticket"])]
    assert http.post("/v1/upkeep/undo", json={"ticket": report["ticket"]}).json() == {"ids": ids[:1]}
    assert http.get("/v1/upkeep/archived").json() == {"archived": []}
    http.post("/v1/upkeep/cap", json={"most": 1})
    assert http.post("/v1/upkeep/restore", json={"ids": ids}).json() == {"count": 1}


def test_durations_are_seconds(server: Running) -> None:
    http = server.http()
    id = remember(http, "Ada likes tea.", importance=0.1)
    for verb in ("age", "fade"):
        assert http.post(f"/v1/upkeep/{verb}", json={"older_than": 3600}).json()["ids"] == []
        tried = http.post(f"/v1/upkeep/{verb}", json={"older_than": 0.000001, "dry_run": True}).json()
        assert tried["ids"] == [id], verb
    assert http.post("/v1/upkeep/lapse").json()["ids"] == []


def test_what_is_aside_long_enough_is_erased(server: Running) -> None:
    http = server.http()
    remember(http, "Ada likes tea.")
    remember(http, "Ada lives in Porto.")
    http.post("/v1/upkeep/cap", json={"most": 0})
    assert http.post("/v1/upkeep/purge", json={"after": 3600}).json()["waiting"] == 2
    report = http.post("/v1/upkeep/purge", json={"after": 0.000001, "trust_clock": True, "why": ["capped"]}).json()
    assert (len(report["ids"]), report["waiting"], report["erased"]) == (2, 0, True)
    assert http.get("/v1/upkeep/archived").json() == {"archived": []}


def test_related_memories_are_condensed_and_checked(server: Running) -> None:
    http = server.http()
    for text in ("Ada drinks green tea in the morning.", "In the morning Ada drinks green tea with milk."):
        remember(http, text)
    report = http.post("/v1/upkeep/compact", json={"older_than": 0.000001, "kinds": ["fact"], "dry_run": True}).json()
    assert (report["before"], report["dry_run"]) == (2, True)
    checked = http.post("/v1/upkeep/verify").json()
    assert (checked["checked"], checked["probed"]) == (2, 0)


def test_health_and_its_remedy(server: Running) -> None:
    http = server.http()
    remember(http, "ok")
    remember(http, "Ada lives in Porto.")
    report = http.get("/v1/upkeep/health", params={"most": 5}).json()
    assert (report["items"], report["counts"]["junk"], report["score"] < 100) == (2, 1, True)
    fixed = http.post("/v1/upkeep/fix", json={"checks": ["junk"]}).json()
    assert (fixed["archived"], fixed["steps"][0]["check"]) == (1, "junk")
    assert http.get("/v1/upkeep/health").json()["counts"]["junk"] == 0


@pytest.mark.parametrize("verb", VERBS)
def test_upkeep_takes_the_right_to_write_and_a_person(server: Running, verb: str) -> None:
    path, body = f"/v1/upkeep/{verb}", VERBS[verb]
    reports = verb not in ("undo", "restore", "purge")  # of records, which takes the right to read them
    blind = server.http(server.key(rights=("write", "forget"))).post(path, json=body)
    assert blind.status_code == (403 if reports else 200)
    assert server.http(server.key(rights=("read", "forget"))).post(path, json=body).status_code == 403
    assert server.http(server.key(agent="bot")).post(path, json=body).status_code == 403
    assert (
        server.http(server.key(agent="bot", rights=("read", "write", "forget", "admin"))).post(path, json=body).status_code == 200
    )
    without = server.http(server.key(rights=("read", "write"))).post(path, json=body)
    assert without.status_code == (403 if verb == "purge" else 200)


@pytest.mark.parametrize("path", ["/v1/upkeep/archived", "/v1/upkeep/health"])
def test_looking_takes_the_right_to_read_and_a_person(server: Running, path: str) -> None:
    assert server.http(server.key(rights=("read",))).get(path).status_code == 200
    assert server.http(server.key(rights=("write",))).get(path).status_code == 403
    assert server.http(server.key(agent="bot")).get(path).status_code == 403


def test_nobody_reaches_into_another_scope(server: Running) -> None:
    ours, theirs = server.http(server.key("ada")), server.http(server.key("bob"))
    away = server.http(server.key("ada", tenant="away"))
    id = remember(ours, "Ada likes tea.")
    ticket = ours.post("/v1/upkeep/cap", json={"most": 0}).json()["ticket"]
    for http in (theirs, away):
        assert http.get("/v1/upkeep/archived").json() == {"archived": []}
        assert http.post("/v1/upkeep/undo", json={"ticket": ticket}).json() == {"ids": []}
        assert http.post("/v1/upkeep/restore", json={"ids": [id]}).json() == {"count": 0}
        assert http.post("/v1/upkeep/purge", json={"after": 0.000001, "trust_clock": True}).json()["ids"] == []
    assert len(ours.get("/v1/upkeep/archived").json()["archived"]) == 1


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("age", {"older_than": -1}),
        ("age", {"older_than": "1 year"}),
        ("age", {"older_than": 1e300}),
        ("age", {"kinds": "fact"}),
        ("fade", {"importance": 2}),
        ("fade", {"reads": 1.5}),
        ("cap", {}),
        ("cap", {"most": -1}),
        ("cap", {"most": 10**18}),
        ("undo", {"ticket": 0}),
        ("undo", {"ticket": True}),
        ("restore", {"ids": "abc"}),
        ("purge", {"why": ["because"]}),
        ("purge", {"after": 0}),
        ("compact", {"kinds": ["message"]}),
        ("verify", {"handlers": {"shell": "rm"}}),
        ("verify", {"stale_after": -1}),
        ("fix", {"checks": ["everything"]}),
        ("lapse", {"dry_run": "yes"}),
        ("run", {"policy": {"cap": -1}}),
        ("run", {"policy": {"surprise": 1}}),
        ("run", {"policy": "/etc/passwd"}),
        ("run", {"policy": ["learn"]}),
        ("reembed", {"embedder": 5}),
        ("repair_index", None),
        ("rebuild_index", None),
    ],
)
def test_nonsense_is_refused(server: Running, verb: str, body: Any) -> None:
    answer = server.http(server.key(rights=("read", "write", "forget", "admin", "operator"))).post(
        f"/v1/upkeep/{verb}", json=body
    )
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert "passwd" not in answer.text


@pytest.mark.parametrize("path", ["archived?limit=0", "health?most=0", "health?path=/etc/passwd"])
def test_nonsense_in_an_address_is_refused(server: Running, path: str) -> None:
    assert server.http().get(f"/v1/upkeep/{path}").status_code == 422


# -- a tenant, and the store --------------------------------------------------------------------------------------
def test_a_run_stays_within_the_tenant(server: Running) -> None:
    tenants = {name: server.http(server.key("ada", tenant=name)) for name in ("local", "away")}
    ids = {name: remember(http, "Ada likes tea.") for name, http in tenants.items()}
    other = remember(server.http(server.key("bob")), "Bob likes tea.")
    admin = server.http(server.key("boss", rights=("admin",)))
    report = admin.post("/v1/upkeep/run", json={"policy": {"age_days": 1e-10, "verify": False}}).json()
    assert (report["ran"], report["dry_run"], report["tuned"]) == (True, False, [])
    assert {(each["scope"]["tenant"], each["scope"]["user"], each["job"]) for each in report["jobs"]} == {
        ("local", "ada", "age"),
        ("local", "bob", "age"),
    }
    assert tenants["away"].get(f"/v1/memories/{ids['away']}").json()["status"] == "active"
    assert tenants["local"].get(f"/v1/memories/{ids['local']}").json()["status"] == "archived"
    assert server.http(server.key("bob")).get(f"/v1/memories/{other}").json()["status"] == "archived"


def test_a_run_of_one_tenant_does_not_hold_up_another(server: Running) -> None:
    leases = server.engine.store.leases
    assert leases.acquire("upkeep of away", "somebody", timedelta(minutes=5))
    assert leases.acquire("upkeep", "who runs the store", timedelta(minutes=5))
    ours = server.http(server.key("boss", rights=("admin",))).post("/v1/upkeep/run").json()
    theirs = server.http(server.key("boss", tenant="away", rights=("admin",))).post("/v1/upkeep/run").json()
    assert (ours["ran"], theirs["ran"]) == (True, False)
    assert "tenant" in theirs["problems"][0]


def test_a_run_works_on_what_waits_in_the_tenant_alone(tmp_path: Path) -> None:
    asked: list[str] = []

    def model(prompt: Any) -> dict[str, Any]:
        asked.append(str(prompt))
        return {"facts": []}

    with Memory.open(tmp_path / "m.db", model=model, settings={"worker": False}) as memory, running(memory) as server:
        for tenant, city in (("local", "Porto"), ("away", "Lisbon")):
            memory.with_scope(tenant=tenant, user="ada").conversation("s").add("user", f"I live in {city}.")
        admin = server.http(server.key("boss", rights=("admin",)))
        assert admin.post("/v1/upkeep/run", json={"dry_run": True}).json()["done"] == 0
        report = admin.post("/v1/upkeep/run").json()
        assert (report["done"], report["failed"]) == (1, 0)
        assert len(asked) == 1
        assert "Porto" in asked[0]
        assert len(memory.with_scope(tenant="away", user="ada").jobs.list()) == 1


def test_a_run_without_a_model_says_what_waits_in_the_tenant(server: Running) -> None:
    server.memory.with_scope(tenant="away", user="ada").conversation("s").add("user", "I live in Porto.")
    report = server.http(server.key("boss", rights=("admin", "forget"))).post("/v1/upkeep/run").json()
    assert report["problems"] == []


def test_a_run_takes_an_admin(server: Running) -> None:
    assert server.http(server.key(rights=("read", "write", "forget", "operator"))).post("/v1/upkeep/run").status_code == 403


def test_vectors_are_made_anew_by_an_operator(server: Running) -> None:
    operator = server.http(server.key(rights=("operator",)))
    assert operator.post("/v1/upkeep/reembed").json() == {"embedded": 0, "failed": 0, "problem": None, "moved": True}
    everything_else = server.http(server.key(rights=("read", "write", "forget", "admin")))
    for verb in ("reembed", "repair_index", "rebuild_index"):
        assert everything_else.post(f"/v1/upkeep/{verb}").status_code == 403


def test_a_request_names_no_address_and_no_new_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider's key and every text of the store would go to the address that the request names."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-operator")
    seen: list[str] = []

    class Provider(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.headers["authorization"])
            self.send_error(404)

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Provider) as provider:
        threading.Thread(target=provider.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{provider.server_port}/v1"
        allowed = f"openai:listed@{address}"
        with Memory.open(tmp_path / "m.db", settings={"request_embedders": allowed}) as memory, running(memory) as server:
            remember(server.http(), "Ada likes tea.")
            operator = server.http(server.key(rights=("read", "operator")))
            others = ("openai:x", f"openai:x@{address}", f"ollama:x@{address}", f"minilm:{tmp_path}", "voyage:x")
            for name in ("minilm", "multilingual", "no such embedder"):
                assert operator.post("/v1/upkeep/reembed", json={"embedder": name}).status_code == 422, name
            for name in (*others, "sentence-transformers:x"):
                answer = operator.post("/v1/upkeep/reembed", json={"embedder": name})
                assert (answer.status_code, answer.json()["error"]) == (403, "Forbidden"), name
            assert seen == []
            assert operator.post("/v1/upkeep/reembed", json={"embedder": "static"}).status_code == 200
            operator.post("/v1/upkeep/reembed", json={"embedder": allowed})
        provider.shutdown()
    assert seen == ["Bearer sk-of-the-operator"], "what the operator listed may be named"


def test_an_index_beside_the_store_is_mended_by_an_operator(tmp_path: Path) -> None:
    from tests.vector_sync.exact_index import ExactIndex

    with Memory.open(tmp_path / "m.db", index=ExactIndex()) as memory, running(memory) as server:
        remember(server.http(), "Ada likes tea.")
        operator = server.http(server.key(rights=("operator",)))
        assert operator.post("/v1/upkeep/rebuild_index").json() == {"count": 1}
        assert operator.post("/v1/upkeep/repair_index").json() == {"put": 0, "dropped": 0}
