"""Export and import over HTTP: files of lines, whole or not at all, and nothing left of them on the server."""

from __future__ import annotations

import gzip
import json
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from keepstone import Memory
from keepstone.server import files
from tests.server.raw import assert_problem, head, line
from tests.server.running import Running, running

LINES = {"content-type": "application/jsonl"}


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the server's temporary files are."""
    folder = tmp_path / "spool"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def until(true: Callable[[], bool]) -> bool:
    """Whether something comes to be true before long."""
    deadline = time.monotonic() + 120
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return true()


def empty(folder: Path) -> bool:
    return not list(folder.iterdir())


def told(http: httpx2.Client, *contents: str) -> None:
    for content in contents:
        assert http.post("/v1/memories", json={"content": content}).status_code == 201


def exported(http: httpx2.Client, **params: bool) -> str:
    answer = http.get("/v1/export", params=params)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/jsonl")
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    return answer.text


def contents(http: httpx2.Client) -> set[str]:
    return {each["content"] for each in http.get("/v1/memories").json()["records"]}


def test_what_is_exported_can_be_imported_elsewhere(server: Running, spool: Path) -> None:
    ada, bob = server.http(server.key("ada")), server.http(server.key("bob"))
    told(ada, "Ada likes tea.", "Ada lives in Porto.")
    text = exported(ada)
    assert len(text.splitlines()) == 2
    report = bob.post("/v1/import", content=text.encode(), headers=LINES)
    assert (report.status_code, report.json()) == (200, {"added": 2, "skipped": 0, "errors": []})
    assert contents(bob) == {"Ada likes tea.", "Ada lives in Porto."}
    again = bob.post("/v1/import", content=text.encode(), headers=LINES).json()
    assert again == {"added": 0, "skipped": 2, "errors": []}
    assert until(lambda: empty(spool))


def test_an_empty_scope_is_an_empty_file(server: Running) -> None:
    assert exported(server.http()) == ""


def test_an_import_may_be_packed(server: Running, spool: Path) -> None:
    ada, bob = server.http(server.key("ada")), server.http(server.key("bob"))
    told(ada, "Ada likes tea.")
    packed = gzip.compress(exported(ada).encode())
    kind = {"content-type": "application/x-ndjson; charset=utf-8", "content-encoding": "gzip"}
    assert bob.post("/v1/import", content=packed, headers=kind).json()["added"] == 1
    assert empty(spool)


def test_an_import_that_unpacks_to_a_multiple_is_refused(server: Running, spool: Path) -> None:
    http = server.http()
    told(http, "Dana rows.")
    line = exported(http).splitlines()[0]
    raw = "\n".join([line] * 100_000).encode()
    packed = gzip.compress(raw)
    headers = {"content-type": "application/jsonl", "content-encoding": "gzip"}
    assert len(raw) > 100 * len(packed)
    assert_problem(http.post("/v1/import", content=packed, headers=headers), 413)
    assert empty(spool)


def test_an_import_may_come_in_pieces(server: Running) -> None:
    ada, bob = server.http(server.key("ada")), server.http(server.key("bob"))
    told(ada, "Ada likes tea.", "Ada lives in Porto.")
    raw = exported(ada).encode()
    pieces = (raw[start : start + 100] for start in range(0, len(raw), 100))
    answer = bob.post("/v1/import", content=pieces, headers={"content-type": "application/octet-stream"})
    assert answer.json()["added"] == 2


def test_whose_word_an_import_is(server: Running) -> None:
    ada, bob = server.http(server.key("ada")), server.http(server.key("bob"))
    told(ada, "Ada likes tea.")
    assert bob.post("/v1/import?source=web", content=exported(ada).encode(), headers=LINES).json()["added"] == 1
    assert [(each["source"], each["trust"] < 0.5) for each in bob.get("/v1/memories").json()["records"]] == [("web", True)]


def test_a_bad_line_is_named_and_nothing_is_stored(server: Running, spool: Path) -> None:
    ada, bob = server.http(server.key("ada")), server.http(server.key("bob"))
    told(ada, "Ada likes tea.")
    raw = exported(ada).encode() + b"{nonsense\n"
    report = bob.post("/v1/import", content=raw, headers=LINES)
    assert report.status_code == 200
    assert (report.json()["added"], [each["line"] for each in report.json()["errors"]]) == (0, [2])
    assert contents(bob) == set()
    assert empty(spool)


def test_lines_of_another_tenant_are_refused(server: Running) -> None:
    away = server.http(server.key("ada", tenant="away"))
    told(away, "Ada likes tea.")
    home = server.http(server.key("ada"))
    report = home.post("/v1/import", content=exported(away).encode(), headers=LINES).json()
    assert (report["added"], report["errors"]) == (
        0,
        [{"line": 1, "problem": "the record belongs to another tenant and cannot be imported here."}],
    )
    assert contents(home) == set()


def test_everything_is_every_agents(server: Running) -> None:
    key = server.key("ada")
    told(server.http(key), "Ada likes tea.")
    told(server.http(key, x_keepstone_agent="coach"), "Ada runs every morning.")
    told(server.http(server.key("bob")), "Bob likes coffee.")
    lines = [json.loads(line) for line in exported(server.http(key), everything=True).splitlines()]
    assert {line["content"] for line in lines if line["what"] == "memory"} == {"Ada likes tea.", "Ada runs every morning."}
    assert "Bob" not in exported(server.http(key), everything=True)
    assert len(exported(server.http(key)).splitlines()) == 1


def test_rights(server: Running) -> None:
    reader, writer = server.http(server.key(rights=("read",))), server.http(server.key(rights=("write",)))
    assert reader.get("/v1/export").status_code == 200
    assert reader.post("/v1/import", content=b"", headers=LINES).status_code == 403
    assert writer.get("/v1/export").status_code == 403
    assert writer.post("/v1/import", content=b"", headers=LINES).status_code == 200
    agent = server.http(server.key(agent="bot"))
    assert agent.get("/v1/export").status_code == 403
    assert agent.post("/v1/import", content=b"", headers=LINES).status_code == 403
    admin = server.http(server.key(agent="bot", rights=("read", "write", "admin")))
    assert admin.get("/v1/export").status_code == 200
    assert admin.get("/v1/export?everything=true").status_code == 403
    assert admin.post("/v1/import", content=b"", headers=LINES).status_code == 200


def test_an_export_has_ones_own_alone(server: Running) -> None:
    told(server.http(server.key("ada")), "Ada likes tea.")
    assert exported(server.http(server.key("bob"))) == ""
    assert exported(server.http(server.key("ada", tenant="away"))) == ""


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "multipart/form-data"])
def test_other_content_is_refused(server: Running, kind: str) -> None:
    assert server.http().post("/v1/import", content=b"{}", headers={"content-type": kind}).status_code == 415


def test_nonsense_in_an_address_is_refused(server: Running) -> None:
    http = server.http()
    assert http.get("/v1/export?everything=perhaps").status_code == 422
    assert http.get("/v1/export?path=/etc/passwd").status_code == 422
    assert http.post("/v1/import?surprise=1", content=b"", headers=LINES).status_code == 422
    assert http.post("/v1/import?source=", content=b"", headers=LINES).status_code == 422


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Running]:
    """A server that takes imports of up to 4 KiB."""
    with Memory.open(tmp_path / "small.db", settings={"import_bytes": 4096}) as memory, running(memory) as made:
        yield made


def test_a_file_that_is_too_large_is_refused_and_dropped(small: Running, spool: Path) -> None:
    http = small.http()
    assert http.post("/v1/import", content=b"x" * 5000, headers=LINES).status_code == 413
    bomb = gzip.compress(b"x" * 1_000_000)
    assert http.post("/v1/import", content=bomb, headers={**LINES, "content-encoding": "gzip"}).status_code == 413
    assert http.post("/v1/import", content=(b"x" * 1000 for _ in range(6)), headers=LINES).status_code == 413
    assert until(lambda: empty(spool))


def ask(server: Running, head: str, body: bytes = b"") -> socket.socket:
    """A request by hand, on a socket that can be dropped."""
    to = urlsplit(server.url)
    made = socket.create_connection((to.hostname, to.port), timeout=120)
    made.sendall(f"{head} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {server.key()}\r\n".encode() + body)
    return made


def test_nothing_stays_of_an_import_that_was_cut_off(server: Running, spool: Path) -> None:
    with ask(server, "POST /v1/import", b"content-type: application/jsonl\r\ncontent-length: 100000\r\n\r\n" + b"x" * 500):
        assert until(lambda: not empty(spool)), "it has begun"
    assert until(lambda: empty(spool))


def test_nothing_stays_of_an_export_that_nobody_waits_for(server: Running, spool: Path) -> None:
    memory = server.memory.with_scope(user="alice")
    memory.remember_many([f"{number} " + "x" * 60_000 for number in range(100)])  # more than a connection holds
    with ask(server, "GET /v1/export", b"\r\n") as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        assert not empty(spool), "it is still being sent"
    assert until(lambda: empty(spool))


def test_one_key_has_a_limited_number_of_files_in_progress(server: Running) -> None:
    key, bob = server.key("greedy"), server.http(server.key("bob"))
    begun = head("POST", "/v1/import", f"authorization: Bearer {key}", "content-type: application/jsonl", "content-length: 9999")
    lines = [line(server) for _ in range(files._MAX_FILES_PER_KEY)]
    try:
        for each in lines:
            each.send(begun)
        assert until(lambda: server.service.open_files.total() == files._MAX_FILES_PER_KEY)
        answer = server.http(key).get("/v1/export")
        assert_problem(answer, 429, "RateLimited")
        assert answer.headers["retry-after"] == "5"
        assert bob.get("/v1/export").status_code == 200
    finally:
        for each in lines:
            each.made.close()
    assert until(lambda: not server.service.open_files)
    assert server.http(key).get("/v1/export").status_code == 200
