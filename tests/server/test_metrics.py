"""The figures: what is counted under which labels, and that callers cannot choose labels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from keepstone import Memory
from keepstone.errors import RateLimited
from keepstone.server.metrics import BUCKETS, METHODS, Metrics
from tests.faults.support import environment
from tests.server.running import Running, running


def samples(server: Running) -> list[Sample]:
    text = httpx2.get(f"{server.url}/metrics", timeout=60).text
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def value(found: list[Sample], name: str, **labels: str) -> float | None:
    return next((each.value for each in found if each.name == name and labels.items() <= each.labels.items()), None)


def test_requests_are_counted_by_their_routes_template(server: Running) -> None:
    http = server.http()
    id = http.post("/v1/memories", json={"content": "Dana lives in Lisbon."}).json()["id"]
    for each in (id, id, "nothing/there"):
        http.get(f"/v1/memories/{each}")
    http.get("/openapi.json")
    for path in ("/mcp", "/mcp/"):
        http.get(path)
    found = samples(server)
    counted = {"method": "GET", "route": "/v1/memories/{id}"}
    assert value(found, "keepstone_http_requests_total", **counted, status="200") == 2
    assert value(found, "keepstone_http_requests_total", **counted, status="404") == 1
    assert value(found, "keepstone_http_requests_total", route="/openapi.json", status="200") == 1
    assert {each.labels["route"] for each in found if "mcp" in each.labels.get("route", "")} == {"/mcp"}
    assert value(found, "keepstone_http_request_seconds_count", route="/v1/memories/{id}") == 3
    assert value(found, "keepstone_verbs_total", verb="remember", outcome="ok") == 1
    assert value(found, "keepstone_verbs_total", verb="get", outcome="refused") == 1
    assert value(found, "keepstone_verb_seconds_count", verb="get") == 3
    assert value(found, "keepstone_http_in_flight") == 1  # the question itself
    edges = {each.labels["le"] for each in found if each.name == "keepstone_http_request_seconds_bucket"}
    assert {float(each) for each in edges} == {*BUCKETS, float("inf")}


def test_the_process_the_build_and_the_store_are_there(server: Running) -> None:
    found = samples(server)
    assert value(found, "keepstone_build_info", store="sqlite") == 1
    assert (value(found, "process_resident_memory_bytes") or 0) > 1_000_000
    assert value(found, "process_cpu_seconds_total") is not None


def test_nobody_makes_up_a_label(server: Running) -> None:
    http = server.http()
    for each, method in enumerate(("PROPFIND", "MKCOL", "LOCK", "REPORT", "MERGE") * 3):  # others the server does not read at all
        http.get(f"/odd/{each}")
        http.get(f"/v1/memories/odd{each}")
        http.request(method, "/v1/recall")
        http.request(method, f"/odd{each}")
        http.post(f"/v1/memories/odd{each}/why", content=b"{")
    found = samples(server)
    http_labels = {tuple(sorted(each.labels.items())) for each in found if each.name == "keepstone_http_requests_total"}
    assert {dict(each)["method"] for each in http_labels} <= {*METHODS, "other"}
    assert {dict(each)["route"] for each in http_labels} == {
        "/v1/memories/{id}", "/v1/recall", "/v1/memories/{id}/why", "other",
    }  # fmt: skip
    assert not [each for each in found if "odd" in str(each.labels) or "MKCOL" in str(each.labels)]
    assert {name for each in found for name in each.labels} <= {
        "method", "route", "status", "le", "verb", "outcome", "reason", "version", "python", "store",
    }  # fmt: skip


def test_verbs_are_bounded_whoever_counts_them() -> None:
    metrics = Metrics("sqlite")
    for each in range(5000):
        metrics.count_verb(f"verb{each}", 200, 0.001)
    text = metrics.render()[0].decode()
    assert text.count("keepstone_verb_seconds_count{") < 1000
    assert 'keepstone_verbs_total{outcome="ok",verb="other"}' in text


class Once:
    """Refuses every credential that it is asked about."""

    def take(self, id: str, per_minute: int) -> None:
        raise RateLimited("too many", 3)


def test_refusals_are_counted_by_their_reason(tmp_path: Path) -> None:
    unbounded = {"requests_per_minute": 0}  # for keys without a rate of their own
    with Memory.open(tmp_path / "memory.db", settings=unbounded) as memory, running(memory, rate_limiter=Once()) as server:
        assert httpx2.get(f"{server.url}/v1/memories", timeout=60).status_code == 401
        assert server.http(server.key("limited", rate=5)).get("/v1/memories").status_code == 429
        reader = server.http(server.key("reader", rights=("read",)))
        assert reader.post("/v1/forget", json={"everything": True}).status_code == 403
        found = samples(server)
        reasons = {each.labels["reason"]: each.value for each in found if each.name == "keepstone_refusals_total"}
        assert reasons == {"unauthenticated": 1, "rate_limited": 1, "forbidden": 1}


def test_two_servers_of_one_process_count_apart(tmp_path: Path) -> None:
    with (
        Memory.open(tmp_path / "one.db") as one, running(one) as first,
        Memory.open(tmp_path / "two.db") as two, running(two) as second,
    ):  # fmt: skip
        first.http().get("/v1/memories")
        assert value(samples(first), "keepstone_verbs_total", verb="list") == 1
        assert value(samples(second), "keepstone_verbs_total", verb="list") is None


@pytest.mark.parametrize(
    ("accept", "kind"),
    [("", "text/plain; version=0.0.4"), ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text")],
)
def test_the_format_is_the_one_that_is_asked_for(server: Running, accept: str, kind: str) -> None:
    found = httpx2.get(f"{server.url}/metrics", headers={"accept": accept}, timeout=60)
    assert (found.status_code, found.headers["content-type"].startswith(kind)) == (200, True)
    assert found.text.endswith("# EOF\n") == ("openmetrics" in accept)


COUNTS = """
from keepstone.server.metrics import Metrics
metrics = Metrics("sqlite")
metrics.count_request("GET", "/v1/memories", 200, 0.01)
print(metrics.render()[0].decode())
"""


def test_worker_processes_that_share_a_folder_answer_with_the_sum(tmp_path: Path) -> None:
    command, env = [sys.executable, "-c", COUNTS], environment() | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    said = [subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=True).stdout for _ in range(2)]
    counted = 'keepstone_http_requests_total{method="GET",route="/v1/memories",status="200"}'
    assert [f"{counted} {number}" in text for text, number in zip(said, ("1.0", "2.0"), strict=True)] == [True, True]
    assert "pid=" not in said[1]


@pytest.mark.parametrize("accept", ["application/openmetrics-text; version=x; q=x", "text/plain;escaping=x;q=", ";;,=;q=", "é"])
def test_a_malformed_accept_header_gets_the_default_format(server: Running, accept: str) -> None:
    answer = httpx2.get(f"{server.url}/metrics", headers={"accept": accept.encode()}, timeout=60)
    assert answer.status_code == 200
    assert b"keepstone_http_requests" in answer.content
