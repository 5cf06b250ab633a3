"""What a client makes of answers, good and bad: what is sent again, what is raised, and what is in no message."""

from __future__ import annotations

import asyncio
import inspect
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from keepstone import AsyncClient, Client, errors
from keepstone.errors import (
    ConfigurationError,
    KeepstoneError,
    RateLimited,
    ServerError,
    StoreBusy,
    StoreClosed,
    StoreUnreachable,
    TooLarge,
    ValidationError,
)
from keepstone.server.problems import error_response
from tests.server.scripted import Answer, Scripted, problem, scripted

KEY = "ks_00000000_of-nobody"
RECEIPT = Answer(201, b'{"action": "added", "id": "m_1", "version": 1}')
RECEIPTS = Answer(200, b'{"receipts": []}')
NOTHING = Answer(200, b'{"query": "x"}')
GONE = Answer(None)
NAMES = sorted(name for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, KeepstoneError))
Act = Callable[[Client], Any]


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as made:
        yield made


@pytest.fixture
def client(server: Scripted) -> Iterator[Client]:
    with Client(server.url, KEY) as made:
        yield made


def test_what_is_sent(server: Scripted) -> None:
    server.answers = [NOTHING]
    with Client(f"{server.url}/", KEY, agent="coder", user="Zoë") as client:
        client.recall("x", kinds={"fact"})
    method, path, headers, _ = server.asked[0]
    assert (method, path, headers["authorization"]) == ("POST", "/v1/recall", f"Bearer {KEY}")
    assert (headers["x-keepstone-agent"], headers["x-keepstone-user"].encode("latin-1").decode()) == ("coder", "Zoë")
    assert server.bodies[0]["kinds"] == ["fact"]


@pytest.mark.parametrize(
    ("id", "path"), [("..", "%2E%2E"), (".", "%2E"), ("a/b", "a%2Fb"), ("m 1?x=2#y", "m%201%3Fx%3D2%23y"), ("%2e", "%252e")]
)
def test_an_id_stays_in_its_place(server: Scripted, client: Client, id: str, path: str) -> None:
    server.answers = [problem(404, "NotFound", "there is no memory")]
    assert client.get(id) is None
    assert server.asked[0][1] == f"/v1/memories/{path}"


@pytest.mark.parametrize(
    "trouble", [GONE, problem(503, "StoreBusy", headers={"retry-after": "0"}), Answer(502, b"", "text/html")]
)
@pytest.mark.parametrize(
    ("act", "good"),
    [
        (lambda client: client.recall("x"), NOTHING),
        (lambda client: client.jobs.list(), Answer(200, b'{"jobs": []}')),
        (lambda client: client.remember("x"), RECEIPT),
        (lambda client: client.remember_many(["x"]), RECEIPTS),
    ],
    ids=["recall", "jobs", "remember", "remember_many"],
)
def test_what_can_be_repeated_is_sent_again(server: Scripted, client: Client, trouble: Answer, act: Act, good: Answer) -> None:
    server.answers = [trouble, good]
    act(client)
    assert len(server.asked) == 2
    assert server.asked[0][3] == server.asked[1][3], "the same key each time"


@pytest.mark.parametrize(
    "trouble", [GONE, problem(503, "StoreBusy", headers={"retry-after": "0"}), Answer(502, b"", "text/html")]
)
@pytest.mark.parametrize(
    "act",
    [
        lambda client: client.ingest([{"role": "user", "content": "x"}], session="s"),
        lambda client: client.update("m_1", "x"),
        lambda client: client.forget("m_1"),
        lambda client: client.set("k", 1),
        lambda client: client.learn("x"),
        lambda client: client.conversation("s").add("user", "x"),
        lambda client: client.upkeep.lapse(),
    ],
    ids=["ingest", "update", "forget", "set", "learn", "add", "lapse"],
)
def test_what_may_have_been_done_is_sent_once(server: Scripted, client: Client, trouble: Answer, act: Act) -> None:
    server.answers = [trouble]
    with pytest.raises((ServerError, StoreBusy)):
        act(client)
    assert len(server.asked) == 1


def test_a_key_that_asks_too_often_waits_and_asks_again(server: Scripted, client: Client) -> None:
    server.answers = [problem(429, "RateLimited", headers={"retry-after": "0"}), RECEIPTS]
    assert client.ingest([{"role": "user", "content": "x"}], session="s") == []
    assert len(server.asked) == 2


def test_nobody_waits_longer_than_the_timeout(server: Scripted, client: Client) -> None:
    server.answers = [problem(429, "RateLimited", headers={"retry-after": "999"})]
    with pytest.raises(RateLimited) as caught:
        client.list()
    assert (caught.value.retry_after, len(server.asked)) == (999.0, 1)


def test_it_gives_up_in_the_end(server: Scripted, client: Client) -> None:
    server.answers = [problem(503, "StoreUnreachable", headers={"retry-after": "0"})]
    with pytest.raises(StoreUnreachable):
        client.list()
    assert len(server.asked) == 4


@pytest.mark.parametrize("status", [422, 429])
def test_a_write_that_was_refused_is_a_receipt(server: Scripted, client: Client, status: int) -> None:
    receipt = {"action": "refused", "id": None, "version": 0, "reasons": ["too many"], "retry_after": 7.5}
    server.answers = [problem(status, "RateLimited", receipt=receipt, headers={"retry-after": "8"})]
    refused = client.remember("x")
    assert (refused.action, refused.reasons, refused.retry_after, len(server.asked)) == ("refused", ("too many",), 7.5, 1)


@pytest.mark.parametrize("name", NAMES)
def test_a_problem_is_the_error_that_it_names(server: Scripted, client: Client, name: str) -> None:
    server.answers = [problem(500, name, "what was wrong")]
    with pytest.raises(KeepstoneError, match="what was wrong") as caught:
        client.update("m_1", "x")
    assert type(caught.value).__name__ == ("ServerError" if name == "KeepstoneError" else name)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, b"<html>", "text/html"),
        Answer(200, b"{", "application/json"),
        Answer(200, b"[]", "application/json"),
        Answer(404, b"not here", "text/plain"),
        Answer(500, b"[]", "application/json"),
        Answer(301, b"", "text/html", {"location": "https://elsewhere.example"}),
        problem(500, "Error", "the log says what"),
        problem(500, "KeyError", "no such name"),
        Answer(404, bytes(error_response(HTTPException(404)).body), "application/problem+json"),
    ],
    ids=["html", "half", "no object", "text", "a list", "redirect", "unforeseen", "no error of ours", "no such address"],
)
def test_an_answer_that_is_none_names_the_server_and_not_the_key(server: Scripted, client: Client, answer: Answer) -> None:
    server.answers = [answer]
    with pytest.raises(ServerError) as caught:
        client.update("m_1", "x")
    assert server.url in str(caught.value)
    assert KEY not in str(caught.value)
    with pytest.raises(ServerError):
        client.get("m_1")
    assert len(server.asked) == 2, "it would be no better for being asked again"


def test_an_answer_of_another_version(server: Scripted, client: Client) -> None:
    for act in (lambda: client.jobs.list(), lambda: client.recall("x"), lambda: client.value("k"), lambda: client.scope):
        with pytest.raises(ServerError, match="same version"):
            act()


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with Client(url, KEY) as client, pytest.raises(ServerError, match="cannot be reached") as caught:
            client.ingest([{"role": "user", "content": "x"}], session="s")
    assert url in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_server_that_does_not_answer() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Client(url, KEY, timeout=0.2) as client, pytest.raises(ServerError, match=r"within 0\.2 seconds"):
            client.update("m_1", "x")


@pytest.mark.parametrize("old", [b"what was there", None])
def test_a_file_that_is_cut_off_leaves_what_was_there(
    server: Scripted, client: Client, tmp_path: Path, old: bytes | None
) -> None:
    target = tmp_path / "out.jsonl"
    if old is not None:
        target.write_bytes(old)
    server.answers = [Answer(200, b'{"a": 1}\n' * 100, "application/jsonl", cut=50)]
    with pytest.raises(ServerError, match="broke off"):
        client.export(target)
    assert (target.read_bytes() if target.exists() else None) == old
    assert [path.name for path in tmp_path.iterdir()] == (["out.jsonl"] if old else [])


def test_files_that_cannot_be_written_or_read(server: Scripted, client: Client, tmp_path: Path) -> None:
    for target in (tmp_path, tmp_path / "nowhere" / "out.jsonl", "a\0b"):
        with pytest.raises(ConfigurationError):
            client.export(target)
    for source in (tmp_path, tmp_path / "nothing.jsonl", "a\0b"):
        with pytest.raises(ConfigurationError):
            client.import_(source)
    (tmp_path / "there.db").write_bytes(b"mine")
    with pytest.raises(ConfigurationError, match="exists already"):
        client.backup(tmp_path / "there.db")
    assert server.asked == []


def test_what_cannot_travel_is_refused_here(server: Scripted, client: Client, tmp_path: Path) -> None:
    acts: list[Act] = [
        lambda client: client.conversation("s", counter=len),
        lambda client: client.conversation("s", model="ollama:x"),
        lambda client: client.upkeep.verify(handlers={}),
        lambda client: client.upkeep.health(tmp_path),
        lambda client: client.upkeep.schedule(),
        lambda client: client.upkeep.reembed(embedder=object()),
        lambda client: client.upkeep.run(tmp_path / "no policy.toml"),
        lambda client: client.upkeep.run({"unknown": 1}),
    ]
    for act in acts:
        with pytest.raises(ConfigurationError):
            act(client)
    with pytest.raises(ValidationError, match="metadata"):
        client.remember("x", metadata={"a": {1, 2}})
    assert server.asked == []


def test_a_body_that_is_too_large(server: Scripted, client: Client) -> None:
    server.answers = [problem(413, "TooLarge", "send less")]
    with pytest.raises(TooLarge, match="send less"):
        client.remember("x")


def test_closing(server: Scripted) -> None:
    client = Client(server.url, KEY)
    view = client.with_scope(agent="coder")
    view.close()
    assert client.jobs is not None
    server.answers = [Answer(200, b'{"jobs": []}')]
    assert client.jobs.list() == []
    client.close()
    client.close()
    for each in (client, view):
        with pytest.raises(StoreClosed, match="closed"):
            each.jobs.list()


def test_asyncio_waits_and_gives_up_alike(server: Scripted) -> None:
    async def work() -> None:
        client = AsyncClient(server.url, KEY)
        server.answers = [GONE, problem(503, "StoreBusy", headers={"retry-after": "0"}), RECEIPT]
        assert (await client.remember("x")).id == "m_1"
        assert len({body["idempotency_key"] for body in server.bodies}) == 1
        server.answers = [GONE]
        with pytest.raises(ServerError, match="broke off"):
            await client.learn("x")
        assert len(server.asked) == 4
        await client.close()
        with pytest.raises(StoreClosed):
            await client.learn("x")

    asyncio.run(work())
