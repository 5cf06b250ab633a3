"""Spans: one a request, one a verb, by the GenAI conventions for memory, and without anybody's words."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from keepstone import Memory
from keepstone.backend import backend_of
from keepstone.errors import ConfigurationError
from keepstone.server.app import make_app
from keepstone.server.service import Service
from tests.faults.support import environment
from tests.server.running import Running, running

PLANTED = "Zanzibar"
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class Traced:
    """A server whose spans are kept."""

    def __init__(self, server: Running, kept: InMemorySpanExporter) -> None:
        self.server, self._kept = server, kept

    def spans(self, count: int) -> list[ReadableSpan]:
        """The spans so far, the earliest first, once there are as many: a span ends when its answer is on its way."""
        until, tick = time.monotonic() + 120, threading.Event()
        while len(self._kept.get_finished_spans()) < count and time.monotonic() < until:
            tick.wait(0.005)
        return sorted(self._kept.get_finished_spans(), key=lambda each: each.start_time or 0)

    def said(self) -> str:
        return "".join(each.to_json() for each in self._kept.get_finished_spans())


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    kept, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    with (
        Memory.open(tmp_path / "memory.db", settings={"telemetry": True}) as memory,
        running(memory, tracer_provider=provider) as server,
    ):
        yield Traced(server, kept)


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def test_a_verb_is_a_span_below_its_request(traced: Traced) -> None:
    http, store = traced.server.http(), traced.server.engine.store.id
    id = http.post("/v1/memories", json={"content": "Dana lives in Lisbon."}).json()["id"]
    http.post("/v1/recall", json={"query": "Where does Dana live?"})
    http.get(f"/v1/memories/{id}")
    http.delete(f"/v1/memories/{id}")
    spans = traced.spans(8)
    assert [each.name for each in spans] == [
        "POST /v1/memories", "update_memory", "POST /v1/recall", "search_memory",
        "GET /v1/memories/{id}", "search_memory", "DELETE /v1/memories/{id}", "delete_memory",
    ]  # fmt: skip
    usual = {"gen_ai.provider.name": "keepstone", "gen_ai.memory.store.id": store, "gen_ai.memory.record.count": 1}
    assert [dict(each.attributes or {}) for each in spans[1::2]] == [
        {"gen_ai.operation.name": "update_memory", "gen_ai.memory.record.id": id, **usual},
        {"gen_ai.operation.name": "search_memory", **usual},
        {"gen_ai.operation.name": "search_memory", "gen_ai.memory.record.id": id, **usual},
        {"gen_ai.operation.name": "delete_memory", **usual},
    ]
    assert [parent_of(each) for each in spans[1::2]] == [each.context.span_id for each in spans[::2]]
    assert [parent_of(each) for each in spans[::2]] == [None] * 4
    assert dict(spans[2].attributes or {}) == {
        "http.request.method": "POST", "url.scheme": "http", "http.route": "/v1/recall", "http.response.status_code": 200,
    }  # fmt: skip


def test_a_request_goes_on_with_the_trace_of_its_caller(traced: Traced) -> None:
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    http = traced.server.http()
    http.get("/v1/memories", headers={"traceparent": f"00-{trace}-{span}-01", "baggage": f"word={PLANTED}"})
    http.get("/v1/memories", headers={"traceparent": PLANTED})
    first, verb, second, _ = traced.spans(4)
    assert (f"{first.context.trace_id:032x}", f"{parent_of(first):016x}") == (trace, span)
    assert verb.context.trace_id == first.context.trace_id
    assert parent_of(second) is None


def _tour(server: Running, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Requests that go well and that fail, with a word planted wherever one can stand."""
    key = server.key(f"{PLANTED}-name", tenant=f"{PLANTED}-tenant", service=True)
    http = server.http(key, x_keepstone_user=f"{PLANTED}-user", user_agent=f"{PLANTED}/1")

    @functools.wraps(Memory.context)  # the server keeps the signature of a verb
    def broken(self: Memory, query: str, **given: Any) -> Any:
        raise RuntimeError(f"no context for {query}")

    monkeypatch.setattr(Memory, "context", broken)
    answers = [
        http.post("/v1/memories", json={"content": f"{PLANTED} is where Dana lives.", "tag": PLANTED}),
        http.post("/v1/recall", json={"query": f"Who lives in {PLANTED}?"}),
        http.get(f"/v1/memories/{PLANTED}", params={PLANTED: PLANTED}),
        http.post("/v1/memories", json={"content": PLANTED, "importance": 7}),
        http.get(f"/{PLANTED}"),
        server.http(f"ks_00000000_{PLANTED}").get("/v1/memories"),
        http.post("/v1/context", json={"query": PLANTED}),
    ]
    return [each.status_code for each in answers]


def test_no_span_holds_anybodys_words(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CAPTURE, raising=False)
    assert _tour(traced.server, monkeypatch) == [201, 200, 404, 422, 404, 401, 500]
    spans = traced.spans(12)
    assert PLANTED.lower() not in traced.said().lower()
    failed = [(each.name, (each.attributes or {}).get("error.type")) for each in spans if not each.status.is_ok]
    assert failed == [
        ("search_memory", "NotFound"),
        ("update_memory", "ValidationError"),
        ("POST /v1/context", "500"),
        ("search_memory", "RuntimeError"),
    ]
    assert [each.name for each in spans if "http.route" not in (each.attributes or {}) and each.name.isupper()] == ["GET"]


def test_the_question_is_there_where_the_process_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPTURE, "true")
    kept, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    with (
        Memory.open(tmp_path / "memory.db", settings={"telemetry": True}) as memory,
        running(memory, tracer_provider=provider) as server,
    ):
        server.http().post("/v1/recall", json={"query": f"Who lives in {PLANTED}?"})
        spans = Traced(server, kept).spans(2)
    assert (spans[1].attributes or {})["gen_ai.memory.query.text"] == f"Who lives in {PLANTED}?"


def test_what_is_not_about_memories_is_a_request_alone(traced: Traced) -> None:
    http = traced.server.http()
    http.get("/healthz")
    http.get("/openapi.json")
    http.get("/v1/me")
    assert [each.name for each in traced.spans(3)] == ["GET /healthz", "GET /openapi.json", "GET /v1/me"]


def test_without_telemetry_nothing_is_traced(tmp_path: Path) -> None:
    kept, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    with Memory.open(tmp_path / "memory.db") as memory, running(memory, tracer_provider=provider) as server:
        assert server.http().get("/v1/memories").status_code == 200
        assert server.service.on_result is None
    assert kept.get_finished_spans() == ()


def test_telemetry_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Memory.open(tmp_path / "memory.db", settings={"telemetry": True}) as memory:
        monkeypatch.delitem(sys.modules, "keepstone.server.tracing", raising=False)
        monkeypatch.setitem(sys.modules, "opentelemetry.trace.propagation.tracecontext", None)
        with pytest.raises(ConfigurationError, match=r"pip install .*\[otel\]'"):
            make_app(Service(backend_of(memory)))


SET_UP = """
from opentelemetry import trace
from keepstone.server.tracing import set_up
made = set_up()
assert set_up() is made is trace.get_tracer_provider()
trace.get_tracer("here").start_span("seen").end()
made.shutdown()
"""


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_TRACES_EXPORTER": "console"}, ['"name": "seen"', '"service.name": "keepstone"']),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_SERVICE_NAME": "ours"}, ['"service.name": "ours"']),
        ({"OTEL_TRACES_EXPORTER": "none"}, []),
        ({"OTEL_TRACES_EXPORTER": "pigeon"}, ["the trace exporter 'pigeon'"]),
    ],
    ids=["console", "named", "none", "unknown"],
)
def test_a_process_that_serves_sets_up_its_spans(variables: dict[str, str], said: list[str]) -> None:
    env = {name: held for name, held in environment().items() if not name.startswith("OTEL_")} | variables
    done = subprocess.run([sys.executable, "-c", SET_UP], capture_output=True, text=True, env=env, timeout=60, check=False)
    assert [each in done.stdout + done.stderr for each in said] == [True] * len(said)
    assert (done.returncode != 0) == ("pigeon" in variables.values())
