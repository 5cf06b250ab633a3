"""The log: a line a request, ids, and nothing in it that anybody said."""

from __future__ import annotations

import asyncio
import functools
import io
import json
import logging
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from keepstone import Memory
from keepstone.errors import StorageFull, ValidationError
from keepstone.server import logs
from keepstone.server.metrics import Metrics
from keepstone.server.middleware import RequestMiddleware
from tests.server.running import Running, running


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What the server's log says, as JSON; everything is put back afterwards."""
    names = ("", "keepstone", *logs._QUIET)
    levels = {name: logging.getLogger(name).level for name in names}
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    logs.configure()
    logging.getLogger("keepstone").setLevel("DEBUG")
    yield stream
    root = logging.getLogger()
    for each in [held for held in root.handlers if isinstance(held.formatter, logs.LineFormatter)]:
        root.removeHandler(each)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def lines(written: io.StringIO, logger: str = logs.ACCESS, count: int = 1) -> list[dict[str, Any]]:
    """The lines of a logger, once there are as many: a line is written when its answer is already on its way."""
    until, tick = time.monotonic() + 120, threading.Event()
    while True:
        found = [json.loads(each) for each in written.getvalue().splitlines()]
        ours = [each for each in found if each["logger"] == logger]
        if len(ours) >= count or time.monotonic() > until:
            return ours
        tick.wait(0.005)


def test_a_request_is_a_line(server: Running, written: io.StringIO) -> None:
    key = server.key()
    answer = server.http(key).post("/v1/recall", json={"query": "What?"}, headers={"x-request-id": "trace-7.a_B"})
    (line,) = lines(written)
    assert line.pop("time").endswith("+00:00")
    assert line.pop("seconds") > 0
    assert line == {
        "level": "info", "logger": "keepstone.access", "message": "POST /v1/recall 200", "request_id": "trace-7.a_B",
        "method": "POST", "route": "/v1/recall", "status": 200, "key": key[3:11], "bytes": len(answer.content),
    }  # fmt: skip
    assert answer.headers["x-request-id"] == "trace-7.a_B"


def test_probes_are_worth_no_line_above_debug(server: Running, written: io.StringIO) -> None:
    httpx2.get(f"{server.url}/healthz", timeout=60)
    httpx2.get(f"{server.url}/nothing", timeout=60)
    assert [(each["level"], each["route"]) for each in lines(written, count=2)] == [("debug", "/healthz"), ("info", "other")]


@pytest.mark.parametrize(
    "given",
    ["", "a b", "x" * 65, "a;b", "../../etc", "ks_0123abcd_" + "x" * 43, "sk-proj-" + "a1B2c3D4" * 5],
    ids=lambda given: str(len(given)),
)
def test_an_id_that_cannot_be_written_down_is_replaced(server: Running, given: str) -> None:
    made = httpx2.get(f"{server.url}/healthz", headers={"x-request-id": given}, timeout=60).headers.get_list("x-request-id")
    assert len(made) == 1
    assert re.fullmatch("[0-9a-f]{16}", made[0])


def test_every_answer_has_an_id_and_its_headers(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    @functools.wraps(Memory.recall)  # the server keeps the signature of a verb
    def broken(self: Memory, *given: Any, **more: Any) -> Any:
        raise RuntimeError

    monkeypatch.setattr(Memory, "recall", broken)
    http = server.http()
    answers = [
        httpx2.get(f"{server.url}/v1/memories", timeout=60),
        http.get("/v1/nothing"),
        http.request("PROPFIND", "/v1/recall"),
        http.post("/v1/memories", content=b"x" * 10_000_000),
        http.post("/v1/memories", content=b"{", headers={"content-type": "application/json"}),
        http.post("/v1/recall", json={"query": "What?"}),
        http.post("/v1/memories", json={"content": "Dana lives in Lisbon."}),
    ]
    assert [each.status_code for each in answers] == [401, 404, 405, 413, 422, 500, 201]
    ids = {each.headers["x-request-id"] for each in answers}
    assert len(ids) == len(answers)
    assert {(each.headers["x-content-type-options"], each.headers["cache-control"]) for each in answers} == {
        ("nosniff", "no-store")
    }


PLANTED = "Zanzibar"


def _tour(server: Running, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Requests of all kinds, those that fail included, with a word planted wherever one can stand."""
    key = server.key(f"{PLANTED}-name", tenant=f"{PLANTED}-tenant", service=True)
    reader = server.key(f"{PLANTED}-reader", rights=("read",), agent=f"{PLANTED}-agent")
    headers = {"x_keepstone_user": f"{PLANTED}-user", "x_keepstone_agent": f"{PLANTED}-agent", "user_agent": f"{PLANTED}/1"}
    http, stranger = server.http(key, **headers), server.http(f"ks_00000000_{PLANTED}", referer=f"http://{PLANTED}/")
    memory = {"content": f"{PLANTED} is where Dana lives.", "tag": PLANTED, "key": PLANTED, "session": PLANTED}
    answers = [
        http.post("/v1/memories", json=memory, headers={"idempotency-key": PLANTED}),
        http.post("/v1/recall", json={"query": f"Who lives in {PLANTED}?", "session": PLANTED}),
        http.get(f"/v1/memories/{PLANTED}"),
        http.get("/v1/memories", params={"tag": PLANTED, "filter": json.dumps({PLANTED: 1})}),
        http.get("/v1/memories", params={PLANTED: PLANTED}),
        http.post(f"/v1/memories/{PLANTED}/why", json={"query": PLANTED}),
        http.post("/v1/memories", json={"content": PLANTED, PLANTED: 1}),
        http.post("/v1/memories", content=f'{{"{PLANTED}": '.encode(), headers={"content-type": "application/json"}),
        http.post("/v1/recall", content=b"x", headers={"content-type": f"text/{PLANTED}"}),
        http.post("/v1/recall", content=b"x", headers={"content-encoding": PLANTED}),
        http.get(f"/{PLANTED}?{PLANTED}={PLANTED}", headers={"x-request-id": f"{PLANTED}!", "traceparent": PLANTED}),
        http.delete(f"/v1/memories/{PLANTED}"),
        stranger.post("/v1/recall", json={"query": PLANTED}),
        server.http(reader).post("/v1/forget", json={"key": PLANTED}),
        server.http(reader, x_keepstone_agent=f"{PLANTED}-other").get("/v1/memories"),
    ]

    @functools.wraps(Memory.recall)
    def broken(self: Memory, query: str, **given: Any) -> Any:
        try:
            {}[query]
        except KeyError as error:
            raise RuntimeError(f"cannot recall {query}") from error

    with monkeypatch.context() as patched:
        patched.setattr(Memory, "recall", broken)
        answers.append(http.post("/v1/recall", json={"query": PLANTED}))
    return [each.status_code for each in answers]


def test_nothing_that_anybody_said_is_in_the_log_or_the_figures(
    server: Running, written: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = _tour(server, monkeypatch)
    assert statuses == [201, 200, 404, 200, 422, 404, 422, 422, 415, 415, 404, 404, 401, 403, 403, 500]
    assert [each["status"] for each in lines(written, count=len(statuses))] == statuses
    figures = httpx2.get(f"{server.url}/metrics", timeout=60).text
    assert PLANTED.lower() not in written.getvalue().lower()
    assert PLANTED.lower() not in figures.lower()
    for identity in server.service.keys.list():
        assert identity.id not in figures


def test_an_error_that_nobody_foresaw_is_told_by_its_places(
    server: Running, written: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    @functools.wraps(Memory.recall)  # the server keeps the signature of a verb
    def broken(self: Memory, query: str, **given: Any) -> Any:
        raise RuntimeError(f"cannot recall {query}")

    monkeypatch.setattr(Memory, "recall", broken)
    answer = server.http().post("/v1/recall", json={"query": PLANTED})
    (line,) = lines(written, "keepstone.server")
    assert line["request_id"] == answer.headers["x-request-id"]
    assert line["error"][0] == "builtins.RuntimeError"
    assert any("test_logs.py" in each and each.endswith("in broken") for each in line["error"])
    assert [each["status"] for each in lines(written)] == [500]
    assert len(written.getvalue().splitlines()) == 2  # no other handler wrote it again


def test_texts_of_errors_are_told_where_they_are_keepstones_own_affairs() -> None:
    try:
        try:
            raise ValidationError(f"tag is {PLANTED!r}")
        except ValidationError:
            raise StorageFull("no space is left on the disk") from None
    except StorageFull as error:
        told = list(logs.describe_error(error))
    assert told[0] == "keepstone.errors.StorageFull: no space is left on the disk"
    error = RuntimeError(PLANTED)
    error.__cause__ = ValidationError(PLANTED)
    error.__cause__.__cause__ = error  # a circle
    assert list(logs.describe_error(error)) == ["builtins.RuntimeError", "keepstone.errors.ValidationError"]


def test_other_peoples_lines_are_cleaned(written: io.StringIO) -> None:
    logging.getLogger("somebody.else").warning("paid with %s", "4111 1111 1111 1111")
    (line,) = lines(written, "somebody.else")
    assert line["message"] == "paid with [redacted:card]"


def test_on_a_terminal_a_line_reads_like_one(server: Running, written: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = io.StringIO()
    monkeypatch.setattr(plain, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", plain)
    logs.configure()
    key = server.key()
    server.http(key).get("/v1/memories")
    until, tick = time.monotonic() + 120, threading.Event()
    while not plain.getvalue() and time.monotonic() < until:
        tick.wait(0.005)
    assert re.fullmatch(
        rf"\d\d:\d\d:\d\d info    GET /v1/memories 200 [\d.]+ ms key={key[3:11]} request_id=[0-9a-f]{{16}}\n", plain.getvalue()
    )
    assert written.getvalue() == ""  # set up once more, it goes to the new place alone


def test_half_an_answer_counts_as_a_failure_and_is_not_told_twice(written: io.StringIO) -> None:
    async def half(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError(PLANTED)

    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": f"/{PLANTED}", "headers": []}
    asyncio.run(RequestMiddleware(half, Metrics("sqlite"), (100, 1.0), {})(scope, None, send))  # type: ignore[arg-type]
    assert [each["type"] for each in sent] == ["http.response.start"]
    assert [each["status"] for each in lines(written)] == [500]
    assert PLANTED not in written.getvalue()


def test_a_request_that_is_given_up_counts_as_gone(written: io.StringIO) -> None:
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    async def given_up() -> None:
        scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
        task = asyncio.create_task(RequestMiddleware(slow, Metrics("sqlite"), (9, 1.0), {})(scope, None, None))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(given_up())
    assert [each["status"] for each in lines(written)] == [499]


def test_a_token_is_not_named(tmp_path: Path, written: io.StringIO) -> None:
    class Trusting:
        def verify(self, token: str) -> Any:
            from dataclasses import replace

            return replace(server.service.keys.check(server.key()), id=f"{PLANTED}@example.org", via="token")

    with Memory.open(tmp_path / "tokens.db") as memory, running(memory, verifier=Trusting()) as server:
        assert server.http("a.b.c").get("/v1/memories").status_code == 200
    assert [each["key"] for each in lines(written)] == ["token"]
    assert PLANTED not in written.getvalue()
