"""Bad and hostile input over HTTP, row by row: each is refused or taken as documented, as a problem that says what is wrong;
nothing is stored by half, and the store is usable afterwards. Writes, files, names and times are in test_bad_writes, bodies that
are too large, too slow or cut off in test_slow_and_large."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from itertools import count
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from keepstone import Memory
from tests.server.raw import Guest, assert_problem, guest
from tests.server.running import Running, running

JSON = {"content-type": "application/json"}
_numbers = count()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with (
        Memory.open(tmp_path_factory.mktemp("bad") / "memory.db", settings={"durable": False}) as memory,
        running(memory) as made,
    ):
        yield made
        found = memory.upkeep.doctor()
        assert (found.healthy, found.findings) == (True, ()), "whatever came in, the store is whole"


@pytest.fixture
def dana(shared: Running) -> Guest:
    return guest(shared, f"dana-{next(_numbers)}")


def cases(table: dict[str, tuple[Any, ...]]) -> Any:
    return pytest.mark.parametrize("given", table.values(), ids=list(table))


# -- 1, 3, 4: text and JSON that cannot be taken --------------------------------------------------------------------------
def body(**more: Any) -> dict[str, Any]:
    return {"content": "Dana rows.", **more}


INVISIBLE = {
    "empty": "", "spaces": " \t\n  ", "zero width": "\u200b\u200d\ufeff\u2060",
    "soft hyphens": "\xad\xad", "bidi marks": "\u202e\u2066",
    "tags": "\U000e0041\U000e0042",
}  # fmt: skip
PLACES: dict[str, tuple[str, str, Any]] = {  # where content may stand
    "remember": ("POST", "/v1/memories", lambda text: {"content": text}),
    "batch": ("POST", "/v1/memories/batch", lambda text: {"items": [{"content": text}]}),
    "update": ("PATCH", "/v1/memories/{id}", lambda text: {"content": text}),
    "learn": ("POST", "/v1/learn", lambda text: {"content": text}),
    "ingest": ("POST", "/v1/ingest", lambda text: {"session": "s", "messages": [said(text)]}),
    "message": ("POST", "/v1/conversations/s/messages", lambda text: {"messages": [said(text)]}),
    "import": ("POST", "/v1/conversations/s/import", lambda text: {"keepstone": 1, "messages": [said("Hello."), said(text)]}),
}


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize("text", INVISIBLE.values(), ids=list(INVISIBLE))
@pytest.mark.parametrize("place", PLACES)
def test_content_that_nobody_can_see_is_refused(dana: Guest, place: str, text: str) -> None:
    method, path, make = PLACES[place]
    assert_problem(dana.http.request(method, path.format(id=dana.id), json=make(text)), 422, "ValidationError")
    dana.unharmed()


RAW = {
    "NUL in content": b'{"content": "a\\u0000b"}',
    "NUL in a key": b'{"content": "a", "key": "a\\u0000b"}',
    "NUL in a tag": b'{"content": "a", "tag": "a\\u0000b"}',
    "NUL in a metadata key": b'{"content": "a", "metadata": {"a\\u0000b": 1}}',
    "NUL in a metadata value": b'{"content": "a", "metadata": {"a": ["x", {"b": "\\u0000"}]}}',
    "a NUL byte": b'{"content": "a\x00b"}',
    "half a pair": b'{"content": "a\\ud800b"}',
    "the other half": b'{"content": "a\\udc00b"}',
    "a pair the wrong way round": b'{"content": "a\\ude00\\ud83db"}',
    "half a pair in metadata": b'{"content": "a", "metadata": {"a": {"b": "\\uDFFF"}}}',
    "half a pair in a metadata key": b'{"content": "a", "metadata": {"\\ud800": 1}}',
    "half a pair as bytes": b'{"content": "a\xed\xa0\x80b"}',
    "bytes that are no UTF-8": b'{"content": "\xff\xfe"}',
    "Latin-1": '{"content": "café"}'.encode("latin-1"),
    "UTF-16": '{"content": "a"}'.encode("utf-16"),
    "NaN": b'{"content": "a", "importance": NaN}',
    "NaN in metadata": b'{"content": "a", "metadata": {"a": NaN}}',
    "Infinity": b'{"content": "a", "metadata": {"a": Infinity}}',
    "-Infinity": b'{"content": "a", "ttl": -Infinity}',
    "1e999": b'{"content": "a", "metadata": {"a": 1e999}}',
    "-1e999": b'{"content": "a", "importance": -1e999}',
    "2^63": b'{"content": "a", "metadata": {"a": 9223372036854775808}}',
    "-2^63-1": b'{"content": "a", "metadata": {"a": -9223372036854775809}}',
    "a number of 5,000 digits": b'{"content": "a", "metadata": {"a": ' + b"9" * 5000 + b"}}",
    "10,000 lists deep": b'{"content": "a", "metadata": {"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}}",
    "10,000 objects deep": b'{"content": "a", "metadata": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b"}",
    "10,000 brackets and no end": b"[" * 10_000,
    "a key twice": b'{"content": "a", "content": "b"}',
    "a key twice further in": b'{"content": "a", "metadata": {"user": "a", "user": "b"}}',
    "no JSON": b"content=a",
    "half a JSON": b'{"content": "a"',
    "two JSONs": b'{"content": "a"}{"content": "b"}',
    "a list": b'[{"content": "a"}]',
    "a text": b'"a"',
    "null": b"null",
    "nothing": b"",
    "a byte order mark": b'\xef\xbb\xbf{"content": "a"}',
    "a number for content": b'{"content": 7}',
    "a list for content": b'{"content": ["a"]}',
    "a text for a number": b'{"content": "a", "importance": "0.5"}',
    "a yes for a number": b'{"content": "a", "importance": true}',
    "importance past 1": b'{"content": "a", "importance": 1.01}',
    "an unknown argument": b'{"content": "a", "trust": 1.0}',
    "an owner": b'{"content": "a", "user": "omar", "tenant": "other"}',
    "a negative ttl": b'{"content": "a", "ttl": -1}',
    "a ttl without end": b'{"content": "a", "ttl": 1e300}',
}  # fmt: skip


@pytest.mark.parametrize("raw", RAW.values(), ids=list(RAW))
def test_bodies_that_are_not_what_they_should_be(dana: Guest, raw: bytes) -> None:
    assert_problem(dana.http.post("/v1/memories", content=raw, headers=JSON), 422, "ValidationError")
    dana.unharmed()


@pytest.mark.parametrize("bad", ["half a pair", "NaN", "10,000 brackets and no end", "a key twice", "no JSON", "null", "nothing"])
@pytest.mark.parametrize(
    "path", ["/v1/recall", "/v1/memories/batch", "/v1/forget", "/v1/ingest", "/v1/learn", "/v1/tasks", "/v1/tools/write_memory"]
)
def test_every_route_reads_its_body_so(dana: Guest, path: str, bad: str) -> None:
    assert_problem(dana.http.post(path, content=RAW[bad], headers=JSON), 422, "ValidationError")
    dana.unharmed()


def test_the_largest_numbers_come_back_as_they_were(dana: Guest) -> None:
    given = {"most": 2**63 - 1, "least": -(2**63), "real": 1.7976931348623157e308, "small": 5e-324}
    id = dana.http.post("/v1/memories", json=body(metadata=given)).json()["id"]
    assert dana.http.get(f"/v1/memories/{id}").json()["metadata"] == given


# -- 2: limits that are documented ----------------------------------------------------------------------------------------
LARGE: dict[str, tuple[str, Any, int]] = {
    "content past 8 MB": ("/v1/memories", {"content": "x" * (8 * 1024 * 1024 + 1)}, 413),
    "metadata past 16 KB": ("/v1/memories", body(metadata={"a": "x" * 16_400}), 413),
    "metadata nine deep": ("/v1/memories", body(metadata=json.loads('{"a":' * 9 + "1" + "}" * 9)), 413),
    "a batch of 101": ("/v1/memories/batch", {"items": [body(key=str(at)) for at in range(101)]}, 413),
    "101 messages": ("/v1/ingest", {"session": "s", "messages": [said(f"Hello {at}.") for at in range(101)]}, 422),
    "no messages": ("/v1/ingest", {"session": "s", "messages": []}, 422),
    "a tag of 257": ("/v1/memories", body(tag="x" * 257), 422),
    "a key of 257": ("/v1/memories", body(key="x" * 257), 422),
}  # fmt: skip


@cases(LARGE)
def test_past_a_limit_nothing_is_stored(dana: Guest, given: tuple[str, Any, int]) -> None:
    path, sent, status = given
    assert_problem(dana.http.post(path, json=sent), status, "TooLarge" if status == 413 else "ValidationError")
    dana.unharmed()


def test_at_a_limit_all_is_stored(dana: Guest) -> None:
    assert dana.http.post("/v1/memories", json={"content": "x" * 64 * 1024}).status_code == 201
    receipts = dana.http.post("/v1/memories/batch", json={"items": [body(key=str(at)) for at in range(100)]}).json()["receipts"]
    assert len({each["id"] for each in receipts}) == 100


# -- 6: queries -----------------------------------------------------------------------------------------------------------
QUERIES = [
    'hello"', '"', "AND", "NOT", "OR", "*", "a:b", "(", "NEAR(", "NEAR(a b, 5)",
    "-", "^", "{", "a* OR b*", "content:boat", "col : x",
    "'; drop table records; --", "%", "_", "\\", "😀", "\u202e", "ﷺ", "a" * 10_000, "boat " * 2000,
    "AND OR NOT NEAR", "1 = 1", "$$",
]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: repr(query[:20]))
def test_any_query_finds_something_or_nothing(dana: Guest, query: str) -> None:
    answers = [
        dana.http.post("/v1/recall", json={"query": query, "min_similarity": 0}),
        dana.http.post("/v1/context", json={"query": query}),
        dana.http.post("/v1/prompt", json={"query": query}),
        dana.http.post(f"/v1/memories/{dana.id}/why", json={"query": query}),
        dana.http.get("/v1/conversations/s/search", params={"words": query}),
        dana.http.post("/v1/tools/recall_memory", json={"input": {"query": query}}),
    ]
    assert [answer.status_code for answer in answers] == [200] * 6
    dana.unharmed()


def test_a_query_of_nothing_finds_nothing_and_a_long_one_what_it_asks_for(dana: Guest) -> None:
    for query in ("", "  \n", "\0", "\u200b"):
        answer = dana.http.post("/v1/recall", json={"query": query})
        assert (answer.status_code, answer.json()["hits"]) == (200, [])
    long = dana.http.post("/v1/recall", json={"query": "Where is the boat? " * 20_000})
    assert (long.status_code, [hit["id"] for hit in long.json()["hits"]]) == (200, [dana.id])
    dana.unharmed()


# -- 7, 8: what would be SQL, or a path -----------------------------------------------------------------------------------
DROP = "'; drop table records; --"
TRICKS = [DROP, '" or ""="', "1 or 1=1", "x' union select sql from sqlite_master --", "*", "null", "../../etc/passwd",
          "/etc/passwd", "..\\..\\secret", "file:///etc/passwd", "C:\\secret"]  # fmt: skip


@pytest.mark.parametrize("trick", TRICKS)
def test_what_would_be_sql_or_a_path_is_a_name_like_any_other(dana: Guest, trick: str) -> None:
    made = dana.http.post("/v1/memories", json=body(key=trick, tag=trick, metadata={trick: trick}, session=trick))
    assert made.status_code == 201
    id, name = made.json()["id"], quote(trick, safe="")
    assert dana.http.get(f"/v1/values/{name}").json()["key"] == trick
    assert list(dana.http.get("/v1/values", params={"tag": trick}).json()["values"]) == [trick]
    assert [each["id"] for each in dana.http.get("/v1/memories", params={"tag": trick}).json()["records"]] == [id]
    found = dana.http.get("/v1/memories", params={"filter": json.dumps({trick: trick})})
    assert found.status_code == 422 or [each["id"] for each in found.json()["records"]] == [id]
    assert dana.http.post("/v1/forget", json={"key": trick}).json()["forgotten"] == 1
    dana.unharmed()


@pytest.mark.parametrize("trick", [*TRICKS, "..", ".", "%", "\u202e", "m_", "0", "-1", "😀"])
def test_an_id_that_is_no_id_is_not_found(dana: Guest, trick: str) -> None:
    id = quote(trick, safe="").replace(".", "%2E")
    for answer in (
        dana.http.get(f"/v1/memories/{id}"),
        dana.http.get(f"/v1/memories/{id}/history"),
        dana.http.patch(f"/v1/memories/{id}", json={"content": "x"}),
        dana.http.delete(f"/v1/memories/{id}"),
        dana.http.post(f"/v1/memories/{id}/why", json={"query": "boat"}),
        dana.http.post("/v1/forget", json={"id": trick}),
        dana.http.post(f"/v1/tasks/{id}/steps", json={"thought": "x"}),
        dana.http.post(f"/v1/tasks/{id}/end", json={"success": True, "outcome": "x"}),
        dana.http.get(f"/v1/working/{id}"),
        dana.http.delete(f"/v1/working/{id}"),
    ):
        problem = assert_problem(answer, answer.status_code)
        assert answer.status_code in (404, 422), problem
    dana.unharmed()


@pytest.mark.parametrize("odd", ["%00", "a%00b", "%0A", "%0d%0aset-cookie:%20a", "%1b", "%ff", "%ed%a0%80", "%C2%85", "x" * 300])
def test_a_name_that_no_name_can_be_is_refused(dana: Guest, odd: str) -> None:
    for method, path, sent in (
        ("GET", f"/v1/memories/{odd}", None),
        ("DELETE", f"/v1/memories/{odd}", None),
        ("PUT", f"/v1/values/{odd}", {"value": 1}),
        ("GET", f"/v1/values/{odd}", None),
        ("GET", f"/v1/memories/{odd}/history", None),
        ("POST", f"/v1/conversations/{odd}/messages", {"messages": [said("Hello.")]}),
        ("GET", f"/v1/conversations/{odd}", None),
        ("GET", f"/v1/conversations/{odd}/messages", None),
        ("DELETE", f"/v1/conversations/{odd}", None),
        ("PUT", f"/v1/working/{odd}", {"task": "x"}),
        ("POST", f"/v1/tools/{odd}", {}),
        ("GET", f"/v1/{odd}", None),
    ):
        answer = dana.http.request(method, path, json=sent)
        if odd in ("%ff", "%ed%a0%80") and answer.status_code < 400:
            continue  # what is no UTF-8 in an address is read with U+FFFD in its place
        assert answer.status_code in (404, 422), (method, path, answer.text)
        assert_problem(answer, answer.status_code)
        assert "set-cookie" not in answer.headers
    if odd not in ("%ff", "%ed%a0%80"):
        assert dana.holds() == dana.before
    dana.usable()


# -- 9: limits and cursors ------------------------------------------------------------------------------------------------
LIMITED = {
    "/v1/memories": "limit", "/v1/conversations": "limit", "/v1/conversations/s/messages": "limit", "/v1/messages": "n",
    "/v1/conversations/s/search?words=a": "limit", "/v1/audit": "limit", "/v1/jobs": "limit", "/v1/review": "limit",
    "/v1/upkeep/archived": "limit", "/v1/upkeep/health": "most", "/v1/stats": "days",
}  # fmt: skip


@pytest.mark.parametrize(
    "limit", ["-1", "1000000000", "5.5", "five", "", "1e3", "0x10", "99999999999999999999", "NaN", "null", "٣٫٥"]
)
@pytest.mark.parametrize("path", LIMITED)
def test_a_limit_that_cannot_be(dana: Guest, path: str, limit: str) -> None:
    answer = dana.http.get(httpx2.URL(path).copy_merge_params({LIMITED[path]: limit}))
    assert_problem(answer, 413 if path == "/v1/memories" and limit in ("1000000000", "99999999999999999999") else 422)


@pytest.mark.parametrize("limit", [-1, 0, 101, 10**9, "5", 5.5, None, True, [5]])
def test_a_limit_in_a_body_that_cannot_be(dana: Guest, limit: Any) -> None:
    assert_problem(dana.http.post("/v1/recall", json={"query": "boat", "limit": limit}), 413 if limit in (101, 10**9) else 422)
    dana.unharmed()


def test_nothing_is_no_number_of_records(dana: Guest) -> None:
    for path in ("/v1/memories", "/v1/conversations", "/v1/conversations/s/messages", "/v1/audit", "/v1/jobs", "/v1/review"):
        assert_problem(dana.http.get(path, params={"limit": 0}), 422, "ValidationError")


def test_cursors_are_good_for_their_own_question_alone(shared: Running, dana: Guest) -> None:
    omar = guest(shared, f"omar-{next(_numbers)}")
    for each in (dana, omar):
        each.http.post("/v1/memories/batch", json={"items": [body(key=str(at), tag="row") for at in range(5)]})
    first = dana.http.get("/v1/memories", params={"limit": 2, "tag": "row"}).json()["cursor"]
    foreign = omar.http.get("/v1/memories", params={"limit": 2, "tag": "row"}).json()["cursor"]
    assert dana.http.get("/v1/memories", params={"limit": 2, "tag": "row", "cursor": first}).status_code == 200
    forged = [
        first[:-1],
        first + "A",
        first[::-1],
        "",
        "0",
        "a" * 5000,
        DROP,
        "../x",
        "\x00",
        base64.b64encode(b'{"after": 0}').decode(),
    ]
    for cursor in (foreign, *forged):
        assert_problem(dana.http.get("/v1/memories", params={"limit": 2, "tag": "row", "cursor": cursor}), 422, "ValidationError")
    for other in ({"tag": "general"}, {}, {"tag": "row", "kind": "fact"}, {"tag": "row", "filter": '{"a": 1}'}):
        assert_problem(dana.http.get("/v1/memories", params={"limit": 2, "cursor": first, **other}), 422, "ValidationError")
    for cursor in ("-1", "x", "1.5", "9" * 40, "²", ""):
        assert_problem(dana.http.get("/v1/conversations/s/messages", params={"cursor": cursor}), 422, "ValidationError")
    dana.usable()


FILTERS = ["", "{", "[]", "1", "null", '"a"', '{"a": {"$ne": 1}}', '{"a": {"gt": {"b": 1}}}', '{"a": NaN}', '{"a": 1, "a": 2}',
           '{"": 1}', '{"a": {"drop": 1}}', '{"a": 1e999}', '{"a": 9223372036854775808}',
           "{" + '"a":{' * 200 + "}" * 201, '{"$or": [{"a": 1}, {}]}']  # fmt: skip


@pytest.mark.parametrize("filter", FILTERS, ids=lambda text: text[:20])
def test_a_filter_is_conditions_or_refused(dana: Guest, filter: str) -> None:
    answer = dana.http.get("/v1/memories", params={"filter": filter})
    assert (
        answer.json().get("records", None) == [] if answer.status_code == 200 else assert_problem(answer, 422, "ValidationError")
    )
    dana.unharmed()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/memories", {f"field{n}": 1 for n in range(1000)}),
        ("/v1/memories/batch", {"items": [{}] * 1000}),
        ("/v1/memories/batch", {"items": [{f"field{n}": 1 for n in range(1000)}]}),
        ("/v1/ingest", {"session": "s", "messages": [{"role": "user", "content": [1] * 1000}]}),
        ("/v1/conversations/s/import", {"keepstone": 1, "messages": [{}] * 1000}),
        ("/v1/upkeep/restore", {"ids": [1] * 1000}),
        ("/v1/recall", {"query": "x", "kinds": [1] * 1000}),
    ],
    ids=["fields", "items", "fields-of-an-item", "blocks", "messages", "ids", "kinds"],
)
def test_at_most_twenty_validation_errors_are_reported(
    server: Running, path: str, body: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastapi.exceptions import RequestValidationError

    from keepstone.server import problems

    seen: list[int] = []

    def counted(error: RequestValidationError) -> Any:
        seen.append(len(error.errors()))
        return original(error)

    original = problems._validation_response
    monkeypatch.setattr(problems, "_validation_response", counted)
    assert_problem(server.http().post(path, json=body), 422, "ValidationError")
    assert seen
    assert seen[0] <= 20, "each of them would be made on the thread that answers"


@pytest.mark.parametrize("path", ["/v1/me/", "/healthz/", "/v1/memories/batch/"])
def test_no_address_redirects(server: Running, path: str) -> None:
    """To the address in Host, and without TLS behind a proxy."""
    answer = server.http(host="evil.example.org").get(path)
    assert_problem(answer, 404, "NotFound")
    assert "location" not in answer.headers
