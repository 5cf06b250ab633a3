"""Queued work over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.errors import ModelError
from tests.server.running import Running, running


class Model:
    """A model that fails until it is mended."""

    def __init__(self) -> None:
        self.mended = False

    def __call__(self, prompt: str) -> dict[str, Any]:
        if not self.mended:
            raise ModelError("the model cannot be reached: try again later.")
        return {"facts": []}


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def working(tmp_path: Path, model: Model) -> Iterator[Running]:
    """A server that runs jobs on request."""
    settings = {"worker": False, "model_retries": 0}
    with Memory.open(tmp_path / "memory.db", model=model, settings=settings) as memory, running(memory) as made:
        yield made


def queue(server: Running, **scope: str) -> None:
    server.memory.with_scope(**{"user": "alice", **scope}).conversation("s").add("user", "I live in Porto.")


def test_jobs_wait_fail_wait_again_and_are_done(working: Running, model: Model) -> None:
    queue(working)
    http = working.http()
    (job,) = http.get("/v1/jobs").json()["jobs"]
    assert (job["state"], job["kind"], job["session"], job["scope"]["user"]) == ("waiting", "extract", "s", "alice")
    for _ in range(10):
        if http.get("/v1/jobs", params={"state": "failed"}).json()["jobs"]:
            break
        assert http.post("/v1/jobs/run").json()["failed"] == 1
    (failed,) = http.get("/v1/jobs", params={"state": "failed"}).json()["jobs"]
    assert "Porto" not in failed["problem"]
    assert http.post("/v1/jobs/retry", json={"number": job["number"]}).json() == {"count": 1}
    assert http.post("/v1/jobs/retry").json() == {"count": 0}
    model.mended = True
    report = http.post("/v1/jobs/run").json()
    assert (report["done"], report["failed"], report["problems"]) == (1, 0, [])
    assert http.get("/v1/jobs").json() == {"jobs": []}


def test_a_job_can_be_dropped(working: Running) -> None:
    queue(working)
    http = working.http()
    number = http.get("/v1/jobs").json()["jobs"][0]["number"]
    dropped = http.delete(f"/v1/jobs/{number}")
    assert (dropped.status_code, dropped.json()) == (200, {})
    assert http.delete(f"/v1/jobs/{number}").status_code == 404
    assert http.post("/v1/jobs/retry", json={"number": number}).status_code == 404


def test_rights(working: Running) -> None:
    queue(working)
    number = working.http().get("/v1/jobs").json()["jobs"][0]["number"]
    assert working.http(working.key(rights=("write",))).get("/v1/jobs").status_code == 403
    assert working.http(working.key(agent="bot")).get("/v1/jobs").status_code == 200
    for key in (working.key(rights=("read", "forget")), working.key(agent="default")):
        http = working.http(key)
        assert http.post("/v1/jobs/run").status_code == 403
        assert http.post("/v1/jobs/retry").status_code == 403
        assert http.delete(f"/v1/jobs/{number}").status_code == 403
    assert len(working.http().get("/v1/jobs").json()["jobs"]) == 1


def test_nobody_reaches_anothers_work(working: Running, model: Model) -> None:
    model.mended = True
    queue(working)
    number = working.http().get("/v1/jobs").json()["jobs"][0]["number"]
    for key in (working.key("bob"), working.key("alice", tenant="away")):
        http = working.http(key)
        assert http.get("/v1/jobs").json() == {"jobs": []}
        assert http.post("/v1/jobs/run").json()["done"] == 0
        assert http.delete(f"/v1/jobs/{number}").status_code == 404
        assert http.post("/v1/jobs/retry", json={"number": number}).status_code == 404
    assert len(working.http().get("/v1/jobs").json()["jobs"]) == 1


def test_nonsense_is_refused(server: Running) -> None:
    http = server.http()
    for query in ("state=done", "limit=0", "limit=10001", "limit=many", "surprise=1"):
        assert http.get(f"/v1/jobs?{query}").status_code == 422, query
    for number in (0, -1, "1", 1.5, True, 2**62):
        assert http.post("/v1/jobs/retry", json={"number": number}).status_code == 422, number
    for text in ("0", str(2**80)):
        assert http.delete(f"/v1/jobs/{text}").status_code == 422, text
    assert http.delete("/v1/jobs/x").status_code == 404
    assert http.delete("/v1/jobs/run").status_code == 405
