"""Bodies that are too large, packed to become so, too slow or cut off, and requests that two readers could read in two ways: byte
by byte on real sockets. What was refused or cut off left nothing behind, what was answered is there, and a retry is safe."""

from __future__ import annotations

import gzip
import json
import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from keepstone import Memory
from tests.server.raw import Guest, assert_problem, guest, head, line, once
from tests.server.running import Running, running

TEN_MB = 10 * 1024 * 1024
_numbers = count()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = {"request_seconds": 0.5, "import_bytes": 2_000_000, "durable": False}
    path = tmp_path_factory.mktemp("slow") / "memory.db"
    with Memory.open(path, settings=settings) as memory, running(memory) as made:
        yield made
        found = memory.upkeep.doctor()
        assert (found.healthy, found.findings) == (True, ()), "whatever came in, the store is whole"


@pytest.fixture
def dana(shared: Running) -> Guest:
    return guest(shared, f"dana-{next(_numbers)}")


def post(dana: Guest, *headers: str | bytes, path: str = "/v1/memories") -> bytes:
    """The head of a post of JSON with Dana's key."""
    return head("POST", path, f"authorization: Bearer {dana.key}", "content-type: application/json", *headers)


def until(true: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


# -- 2: too large ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "path", ["/v1/memories", "/v1/recall", "/v1/ingest", "/v1/import", "/v1/conversations/s/import", "/v1/nothing"]
)
def test_ten_megabytes_are_refused_by_their_length_alone(dana: Guest, path: str) -> None:
    with line(dana.server) as made:
        made.send(post(dana, f"content-length: {TEN_MB}", path=path))  # and not a byte of the body
        assert_problem(made.reply(), 413, "TooLarge")
    dana.unharmed()


@pytest.mark.parametrize("length", ["99999999999999999999", "18446744073709551616"])
def test_a_length_that_no_number_holds(dana: Guest, length: str) -> None:
    reply = once(dana.server, post(dana, f"content-length: {length}"))
    assert reply is None or reply.status in (400, 413)
    dana.unharmed()


def test_ten_megabytes_without_a_length_are_refused_while_they_come(dana: Guest) -> None:
    with line(dana.server) as made:
        made.send(post(dana, "transfer-encoding: chunked"))
        sent, chunk = 0, b"x" * 65536
        try:
            while sent < TEN_MB:
                made.send(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                sent += len(chunk)
        except ConnectionError:
            assert sent > 1_000_000
        reply = made.reply()
        if reply is not None:  # the answer may be lost to the reset that the rest of the body met
            assert_problem(reply, 413, "TooLarge")
    dana.unharmed()


def test_a_content_of_ten_megabytes(dana: Guest) -> None:
    answer = dana.http.post("/v1/memories", json={"content": "x" * TEN_MB})
    assert_problem(answer, 413, "TooLarge")
    dana.unharmed()


# -- 21: packed, of another type, slow ------------------------------------------------------------------------------------
def bomb(size: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join(packer.compress(b" " * 1_000_000) for _ in range(size // 1_000_000)) + packer.flush()


@pytest.mark.parametrize("path", ["/v1/memories", "/v1/import", "/v1/recall", "/mcp"])
def test_a_gzip_bomb_is_refused(dana: Guest, path: str) -> None:
    kind = "application/jsonl" if path == "/v1/import" else "application/json"
    headers = {"content-encoding": "gzip", "content-type": kind, "accept": "application/json"}
    raw = bomb(100_000_000)
    assert len(raw) < 200_000
    answer = dana.http.post(path, content=raw, headers=headers)
    assert answer.status_code == 413
    assert path == "/mcp" or assert_problem(answer, 413, "TooLarge")
    dana.unharmed()


def test_a_bomb_in_a_bomb_is_opened_once(dana: Guest) -> None:
    raw = gzip.compress(bomb(100_000_000))
    answer = dana.http.post("/v1/memories", content=raw, headers={"content-encoding": "gzip", "content-type": "application/json"})
    assert_problem(answer, 422, "ValidationError")
    dana.unharmed()


def test_packed_bodies(dana: Guest) -> None:
    raw = gzip.compress(b'{"content": "Dana rows."}')
    sent = {"content-encoding": "gzip", "content-type": "application/json"}
    assert_problem(dana.http.post("/v1/memories", content=raw[:-5], headers=sent), 400)
    assert_problem(dana.http.post("/v1/memories", content=raw[:10], headers=sent), 400)
    assert_problem(dana.http.post("/v1/memories", content=b"", headers=sent), 400)
    assert_problem(dana.http.post("/v1/memories", content=b'{"content": "Dana rows."}', headers=sent), 400)
    assert_problem(dana.http.post("/v1/memories", content=zlib.compress(b"{}"), headers=sent), 400)
    for coding in ("br", "deflate", "zstd", "gzip, gzip", "gzip;q=1", "x"):
        assert_problem(dana.http.post("/v1/memories", content=raw, headers=sent | {"content-encoding": coding}), 415)
    dana.unharmed()
    assert dana.http.post("/v1/memories", content=raw, headers=sent).status_code == 201


@pytest.mark.parametrize(
    "path", ["/v1/memories", "/v1/recall", "/v1/forget", "/v1/conversations/s/messages", "/v1/upkeep/age", "/mcp"]
)
def test_a_body_that_does_not_come_is_not_waited_for(dana: Guest, path: str) -> None:
    with line(dana.server) as made:
        made.send(post(dana, "content-length: 500", "accept: application/json", path=path) + b'{"content": ')
        reply = made.reply()
        assert reply is not None
        assert reply.status == 408
        assert path == "/mcp" or assert_problem(reply, 408)
        assert made.closed()
    dana.unharmed()


def test_a_body_that_comes_a_byte_at_a_time_has_no_more_time(dana: Guest) -> None:
    with line(dana.server) as made:
        made.send(post(dana, "content-length: 500"))
        made.made.settimeout(0.05)
        reply = None
        for _ in range(400):
            try:
                made.send(b" ")
                reply = made.reply()
            except TimeoutError:
                continue
            except ConnectionError:
                pass
            break
        assert_problem(reply, 408)
    dana.unharmed()


# -- 14: gone in the middle -----------------------------------------------------------------------------------------------
def dropped(dana: Guest, raw: bytes, *, rudely: bool) -> None:
    """Send something and go without a word."""
    with line(dana.server) as made:
        if rudely:
            made.made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        made.send(raw)


@pytest.mark.parametrize("rudely", [False, True])
@pytest.mark.parametrize("part", [0.0, 0.5, 0.99])
def test_half_a_request_is_no_request(dana: Guest, part: float, rudely: bool) -> None:
    body = b'{"content": "Dana rows on Sundays."}'
    dropped(dana, post(dana, f"content-length: {len(body)}") + body[: int(len(body) * part)], rudely=rudely)
    body += b'{"content": "x"}'
    dropped(dana, post(dana, "transfer-encoding: chunked") + b"24\r\n" + body[:30], rudely=rudely)
    assert dana.http.get("/healthz").status_code == 200
    dana.unharmed()


@pytest.mark.parametrize("rudely", [False, True])
def test_who_goes_before_the_answer_may_ask_again(dana: Guest, rudely: bool) -> None:
    """What was sent whole is stored once or not at all; with its idempotency key it can be sent until there is an answer."""
    for number in range(20):
        body = json.dumps({"content": f"Dana rows to quay {number}.", "key": f"quay{number}"}).encode()
        raw = post(dana, f"content-length: {len(body)}", f"idempotency-key: row-{number}") + body
        dropped(dana, raw, rudely=rudely)
        reply = once(dana.server, raw)
        assert reply is not None
        assert (reply.status, reply.json()["action"]) == (201, "added")
        again = once(dana.server, raw)
        assert again is not None
        assert again.json() == reply.json()
    assert until(lambda: dana.server.service.busy_threads() == 0)
    versions = [record.version for record in dana.memory.list(limit=100)]
    assert versions == [1] * 21, "each once"
    dana.usable()


def test_who_reads_no_answer_holds_nobody_up(dana: Guest) -> None:
    lines = [line(dana.server) for _ in range(20)]
    for each in lines:
        each.send(head("GET", "/v1/memories", f"authorization: Bearer {dana.key}") * 5)
    assert dana.http.get("/v1/memories").status_code == 200
    for each in lines:
        each.made.close()
    dana.unharmed()


# -- read in two ways -----------------------------------------------------------------------------------------------------
STORE = b'{"content": "Smuggled."}'
INNER = b"POST /v1/memories HTTP/1.1\r\nhost: x\r\n"


@pytest.mark.parametrize("headers", [
    ["content-length: 5", "content-length: 24"],
    ["content-length: 24", "transfer-encoding: chunked"],
    ["transfer-encoding: chunked", "content-length: 0"],
    ["transfer-encoding: chunked, identity"],
    ["transfer-encoding: xchunked"],
    ["transfer-encoding: gzip, chunked", "content-length: 3"],
    ["content-length: +24"],
    ["content-length: -1"],
    ["content-length: 0x18"],
    ["content-length: 24, 24"],
    ["content-length: 2 4"],
    [b"content-length : 24"],
    [b"transfer-encoding\x00: chunked"],
    [b"x-a: b\r\n content-length: 24"],
], ids=ascii)  # fmt: skip
def test_a_body_of_two_lengths_stores_nothing(dana: Guest, headers: list[str | bytes]) -> None:
    """A proxy in front may read the other length: what follows is never taken for a request of its own."""
    inner = INNER + f"authorization: Bearer {dana.key}\r\ncontent-type: application/json\r\n".encode()
    inner += b"content-length: %d\r\n\r\n%s" % (len(STORE), STORE)
    with line(dana.server) as made:
        made.send(post(dana, *headers) + b"0\r\n\r\n" + inner)
        made.made.shutdown(socket.SHUT_WR)
        first = made.reply()
        assert first is None or 400 <= first.status < 500, first
        assert made.reply() is None, "one answer at most: the connection is closed after it"
    dana.unharmed()


@pytest.mark.parametrize("raw", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET /v1/me\r\n\r\n",
                                 b"GET  HTTP/1.1\r\n\r\n", b"\0" * 100,
                                 b"GET /v1/me HTTP/9.9\r\nhost: x\r\n\r\n", b"A" * 70_000, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
                         ids=["TLS", "0.9", "no address", "NULs", "9.9", "a long word", "HTTP/2"])  # fmt: skip
def test_what_is_no_http_is_answered_with_400_or_not_at_all(dana: Guest, raw: bytes) -> None:
    with line(dana.server) as made:
        made.send(raw)
        made.made.shutdown(socket.SHUT_WR)
        reply = made.reply()
        assert reply is None or 400 <= reply.status < 500
    dana.unharmed()


# -- headers --------------------------------------------------------------------------------------------------------------
def ask(dana: Guest, *headers: str | bytes) -> tuple[int, dict[str, object]]:
    reply = once(dana.server, head("GET", "/v1/me", *headers))
    assert reply is not None
    return reply.status, reply.json()


@pytest.mark.parametrize("word", ["Bearer", "bearer", "BEARER", "bEaReR"])
def test_bearer_is_one_word_in_any_case(dana: Guest, word: str) -> None:
    status, me = ask(dana, f"AUTHORIZATION: {word} {dana.key}")
    assert (status, me["user"]) == (200, dana.name)


def test_a_header_that_comes_twice_is_refused(dana: Guest) -> None:
    other = guest(dana.server, f"omar-{next(_numbers)}")
    own = f"authorization: Bearer {dana.key}"
    service = f"authorization: Bearer {dana.server.key('site', service=True)}"
    for headers in (
        [own, own],
        [own, f"authorization: Bearer {other.key}"],
        [service, f"x-keepstone-user: {dana.name}", f"x-keepstone-user: {other.name}"],
        [own, "x-keepstone-agent: a", "X-Keepstone-Agent: b"],
    ):
        assert_problem(once(dana.server, head("GET", "/v1/me", *headers)), 422, "ValidationError")


@pytest.mark.parametrize("value", [
    b"", b"Bearer", b"Bearer ", b"Bearer  ", b"Basic YTpi", b"ks_00000000_" + b"A" * 43, b"Bearer \xc3\xa9", b"Bearer ks_",
    b"Bearer null", b"Bearer ks_' or '1'='1", b"Digest x", b"Bearer a b c", b"Bearer " + b"x" * 5000,
], ids=lambda value: ascii(value[:24]))  # fmt: skip
def test_what_is_no_key_opens_nothing(dana: Guest, value: bytes) -> None:
    reply = once(dana.server, head("GET", "/v1/me", b"authorization: " + value))
    problem = assert_problem(reply, 401, "Unauthenticated")
    assert reply is not None
    assert reply.headers["www-authenticate"].startswith("Bearer")
    assert "xxxx" not in json.dumps(problem)


def test_bytes_that_are_no_text_are_refused(dana: Guest) -> None:
    own = f"authorization: Bearer {dana.key}"
    for name in ("authorization", "x-keepstone-user", "x-keepstone-agent"):
        sent = [f"{name}: ".encode() + b"\xff\xfe\x80"] + ([own] if name != "authorization" else [])
        assert_problem(once(dana.server, head("GET", "/v1/me", *sent)), 422, "ValidationError")
    for name in ("x-keepstone-user", "x-keepstone-agent"):
        for value in ("", " ", "x" * 300, "a\tb", "\u200b"):
            assert_problem(once(dana.server, head("GET", "/v1/me", own, f"{name}: {value}")), 422, "ValidationError")


def test_names_in_headers_are_utf8(dana: Guest) -> None:
    status, me = ask(dana, f"authorization: Bearer {dana.key}", "x-keepstone-agent: Zoë 🚣")
    assert (status, me["scope"]) == (200, {"tenant": "local", "agent": "Zoë 🚣", "user": dana.name})


def test_a_header_without_end(dana: Guest) -> None:
    for size in (10_000, 70_000, 200_000):
        reply = once(dana.server, head("GET", "/v1/me", f"authorization: Bearer {dana.key}", "x-long: " + "x" * size))
        assert reply is None or reply.status in (200, 400, 431)
    many = [f"x-{number}: {number}" for number in range(2000)]
    reply = once(dana.server, head("GET", "/v1/me", f"authorization: Bearer {dana.key}", *many))
    assert reply is None or reply.status in (200, 400, 431)
    dana.unharmed()


JSON_TYPE = {"content-type": "application/json"}
PACKED = {"content-encoding": "gzip", "content-type": "application/json"}


@pytest.mark.parametrize("more", [b"garbage", gzip.compress(b'"Dana rows."}'), b"\0"], ids=["garbage", "another", "padding"])
def test_bytes_after_the_gzip_data_are_refused(server: Running, more: bytes) -> None:
    raw = gzip.compress(b'{"content": "Dana rows."}')
    http = server.http()
    assert_problem(http.post("/v1/memories", content=raw + more, headers=PACKED), 400)
    assert http.get("/v1/memories").json()["records"] == []


def test_packed_bytes_count_towards_the_limit(server: Running) -> None:
    """Empty blocks of deflate unpack to nothing, however many there are."""
    key, most = server.key(), server.service.settings.request_bytes
    begun = gzip.compress(b"")[:10]
    empty = b"\0\0\0\xff\xff" * 10_000
    with line(server) as made:
        made.send(head("POST", "/v1/memories", f"authorization: Bearer {key}", "transfer-encoding: chunked",
                       *(f"{name}: {value}" for name, value in PACKED.items())))  # fmt: skip
        made.send(b"%x\r\n%s\r\n" % (len(begun), begun))
        try:
            for _ in range(2 + most // len(empty)):
                made.send(b"%x\r\n%s\r\n" % (len(empty), empty))
        except ConnectionError:
            return  # the answer was lost to the reset
        reply = made.reply()
    if reply is not None:
        assert_problem(reply, 413, "TooLarge")


def test_a_long_text_arrives_and_other_bodies_stay_small(server: Running) -> None:
    http = server.http()
    text = "worker 7 wrote its rows without a complaint\n" * 30_000 + "The vault certificate expired on Tuesday.\n"
    stored = http.post("/v1/memories", json={"content": text})
    assert stored.status_code == 201
    (hit,) = http.post("/v1/recall", json={"query": "When did the certificate expire?"}).json()["hits"]
    assert "Tuesday" in hit["content"]
    passage = hit["passage"]
    assert hit["content"] == hit["record"]["content"] == passage["text"] == text[passage["start"] : passage["end"]]
    assert passage["length"] == len(text)
    assert http.get(f"/v1/memories/{stored.json()['id']}").json()["content"] == text
    assert_problem(http.post("/v1/recall", json={"query": "x" * 1_100_000}), 413)
    assert_problem(http.post("/v1/memories", content=b'{"content": "' + b"x" * 10_000_000 + b'"}', headers=JSON_TYPE), 413)
    messages = [{"role": "user", "content": content} for content in ("first", "\u200b", "last")]
    receipts = http.post("/v1/ingest", json={"session": "s", "messages": messages}).json()["receipts"]
    assert [receipt["action"] for receipt in receipts] == ["added", "refused", "added"]
    assert "visible" in receipts[1]["reasons"][0]
