"""mem0's filters over HTTP, and what cannot be taken there: each is refused as the client can read it, and harms nothing."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from keepstone import Memory
from keepstone.server.rate_limit import RateLimiter
from tests.server.mem0_support import ABSENT, Mem0, dana_, shared_, shop_, told  # noqa: F401  (fixtures)
from tests.server.running import Running, running

# -- filters -------------------------------------------------------------------------------------------------------------
FOUND: dict[str, tuple[dict[str, Any], list[str]]] = {
    "run": ({"run_id": "r1"}, ["oak"]),
    "app": ({"app_id": "ios"}, ["elm", "oak"]),
    "any app": ({"app_id": "*"}, ["elm", "oak"]),
    "no app": ({"app_id": None}, ["ash"]),
    "metadata": ({"metadata": {"n": 1}}, ["oak"]),
    "metadata at least": ({"metadata": {"n": {"gte": 2}}}, ["ash", "elm"]),
    "metadata among": ({"metadata": {"n": {"in": [1, 3]}}}, ["ash", "oak"]),
    "metadata set": ({"metadata": {"note": "*"}}, ["ash"]),
    "metadata within": ({"metadata": {"note": {"contains": "ee"}}}, ["ash"]),
    "and": ({"AND": [{"app_id": "ios"}, {"metadata": {"n": 2}}]}, ["elm"]),
    "or": ({"OR": [{"run_id": "r1"}, {"metadata": {"n": 3}}]}, ["ash", "oak"]),
    "not": ({"NOT": [{"run_id": "r1"}, {"metadata": {"n": 3}}]}, ["elm"]),
    "side by side": ({"app_id": "ios", "NOT": {"run_id": "r1"}}, ["elm"]),
    "one of": ({"run_id": ["r1", "r2"]}, ["elm", "oak"]),
    "words": ({"keywords": {"contains": "oak"}}, ["oak"]),
    "yesterday and before": ({"created_at": {"lt": "2020-01-01"}}, []),
    "since": ({"created_at": {"gte": "2020-01-01T00:00:00Z", "lte": "9000-01-01"}}, ["ash", "elm", "oak"]),
    "no category": ({"categories": {"in": ["profile"]}}, []),
    "not of a category": ({"NOT": [{"categories": {"contains": "profile"}}]}, ["ash", "elm", "oak"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def wood(shared: Running) -> Mem0:
    made = Mem0(shared, shared.key("wood-of-mem0"))
    made.add("The pier is made of oak", run_id="r1", app_id="ios", metadata={"n": 1}, infer=False)
    made.add("The table is made of elm", run_id="r2", app_id="ios", metadata={"n": 2}, infer=False)
    made.add("The bench is made of ash", metadata={"n": 3, "note": "a green tree"}, infer=False)
    return made


@pytest.mark.parametrize("case", FOUND)
def test_filters_find_what_they_say(wood: Mem0, case: str) -> None:
    filters, expected = FOUND[case]
    assert sorted(text.split()[-1] for text in wood.all(filters=filters)) == expected
    hits = wood.search("What is made of wood?", filters=filters, threshold=0)
    assert sorted(hit["memory"].split()[-1] for hit in hits) == expected


WRONG: dict[str, Any] = {
    "a field that is not known": {"userid": "dana"},
    "an operator that is not known": {"metadata": {"n": {"icontains": "x"}}},
    "no parts": {"AND": []},
    "an empty part": {"AND": [{}]},
    "parts that are none": {"OR": ["x"]},
    "a number for parts": {"NOT": 3},
    "metadata that is none": {"metadata": "x"},
    "a day that is none": {"created_at": {"gte": "yesterday"}},
    "a list of times": {"created_at": {"in": ["2020-01-01"]}},
    "words by another operator": {"keywords": {"gte": "x"}},
    "a name with a newline": {"run_id": "a\nb"},
    "a name that is too long": {"user_id": "x" * 300},
    "a key that is none": {"metadata": {"": 1}},
    "a value that is none": {"metadata": {"n": {"eq": {"a": 1}}}},
    "a tower": {"NOT": {"NOT": {"NOT": {"NOT": {"NOT": {"NOT": {"NOT": {"NOT": {"NOT": {"run_id": "x"}}}}}}}}}},
    "very many": {"OR": [{"run_id": str(at)} for at in range(100)]},
    "nothing among": {"categories": {"in": []}},
    "a number among": {"categories": {"in": [{}]}},
}


@pytest.mark.parametrize("case", WRONG)
def test_filters_that_cannot_be_taken_are_refused(wood: Mem0, case: str) -> None:
    for path, more in (("search/", {"query": "x"}), ("", {})):
        told(wood.ask("POST", f"/v3/memories/{path}", {"filters": WRONG[case], **more}), 400)


def test_a_question_has_its_options(wood: Mem0) -> None:
    assert len(wood.search("What is made of wood?", top_k=2, threshold=0)) == 2
    assert len(wood.search("What is made of wood?", top_k=5000, threshold=0, rerank=True, keyword_search=True)) == 3
    (hit,) = wood.search("pier", fields=["memory", "score"], top_k=1)
    assert sorted(hit) == ["id", "memory", "score"]
    assert wood.search("pier", threshold=1) == []
    assert len(wood.search("wood", categories=["profile"], threshold=0)) == 0


def test_pages(wood: Mem0) -> None:
    first = wood.ask("POST", "/v3/memories/", {}, page=1, page_size=2).json()
    assert (first["count"], len(first["results"]), first["previous"]) == (3, 2, None)
    second = wood.http.post(first["next"], json={}).json()
    assert (second["count"], len(second["results"]), second["next"]) == (3, 1, None)
    assert second["previous"].endswith("?page=1&page_size=2")
    assert wood.ask("POST", "/v3/memories/", {}, page=10**9, page_size=1000).json()["results"] == []
    for wrong in ({"page": 0}, {"page_size": 0}, {"page": "x"}):
        told(wood.ask("POST", "/v3/memories/", {}, **wrong), 400)


# -- what there is not, and what cannot be taken ---------------------------------------------------------------------------
NOT_HERE = {
    "exports": ("POST", "/v1/exports/", {"schema": "x"}), "get export": ("POST", "/v1/exports/get/", {}),
    "summary": ("POST", "/v1/summary/", {}), "feedback": ("POST", "/v1/feedback/", {"memory_id": "x"}),
    "profile": ("GET", "/v2/entities/user/dana/profile/", None), "profile jobs": ("POST", "/v2/profiles/jobs/", {}),
    "webhooks": ("GET", "/api/v1/webhooks/projects/x/", None), "new webhook": ("POST", "/api/v1/webhooks/projects/x/", {}),
    "project": ("PATCH", "/api/v1/orgs/organizations/local/projects/local/", {}),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_HERE)
def test_what_there_is_not_is_said_plainly(dana: Mem0, case: str) -> None:
    assert told(dana.ask(*NOT_HERE[case]), 400).startswith("keepstone has no ")


SAID = [{"role": "user", "content": "x"}]
BAD: dict[str, tuple[str, str, bytes | Any, int]] = {
    "not JSON": ("POST", "/v3/memories/add/", b"{", 400),
    "not an object": ("POST", "/v3/memories/add/", [], 400),
    "no messages": ("POST", "/v3/memories/add/", {}, 400),
    "messages that are none": ("POST", "/v3/memories/add/", {"messages": "x"}, 400),
    "very many messages": ("POST", "/v3/memories/add/", {"messages": SAID * 101}, 400),
    "an invisible message": ("POST", "/v3/memories/add/", {"messages": [{"role": "user", "content": "\u200b"}]}, 400),
    "NUL": ("POST", "/v3/memories/add/", {"messages": [{"role": "user", "content": "a\0b"}]}, 400),
    "a surrogate": ("POST", "/v3/memories/add/", b'{"messages": [{"role": "user", "content": "\\ud800"}]}', 400),
    "a number for content": ("POST", "/v3/memories/add/", {"messages": [{"role": "user", "content": 7}]}, 400),
    "a text that is too long": (
        "POST",
        "/v3/memories/add/",
        {"messages": [{"role": "user", "content": "x" * (8 * 1024 * 1024 + 1)}]},
        413,
    ),
    "metadata that is none": ("POST", "/v3/memories/add/", {"messages": SAID, "metadata": "x"}, 400),
    "infer that is none": ("POST", "/v3/memories/add/", {"messages": SAID, "infer": "yes"}, 400),
    "a name that is too long": ("POST", "/v3/memories/add/", {"messages": SAID, "run_id": "x" * 300}, 400),
    "an empty name": ("POST", "/v3/memories/add/", {"messages": SAID, "user_id": " "}, 400),
    "everybody": ("POST", "/v3/memories/add/", {"messages": SAID, "user_id": "*"}, 400),
    "a time that is none": ("POST", "/v3/memories/add/", {"messages": SAID, "timestamp": "soon"}, 400),
    "a time out of reach": ("POST", "/v3/memories/add/", {"messages": SAID, "timestamp": 10**17}, 400),
    "no query": ("POST", "/v3/memories/search/", {}, 400),
    "a query that is none": ("POST", "/v3/memories/search/", {"query": ["x"]}, 400),
    "none of them": ("POST", "/v3/memories/search/", {"query": "x", "top_k": 0}, 400),
    "a threshold past all": ("POST", "/v3/memories/search/", {"query": "x", "threshold": 2}, 400),
    "a day that is none": ("POST", "/v3/memories/search/", {"query": "x", "reference_date": "soon"}, 400),
    "dates that are none": ("POST", "/v3/memories/", {"start_date": "soon"}, 400),
    "nothing to change": ("PUT", f"/v1/memories/{ABSENT}/", {}, 404),
    "a text that is none": ("PUT", f"/v1/memories/{ABSENT}/", {"text": 7}, 400),
    "a batch of nothing": ("PUT", "/v1/batch/", {"memories": []}, 400),
    "a batch without names": ("DELETE", "/v1/batch/", {"memories": [{}]}, 400),
    "an id with a newline": ("GET", f"/v1/memories/{quote('a' + chr(10))}/", None, 400),
    "an id with slashes": ("GET", f"/v1/memories/{quote('a/b', safe='')}/", None, 404),
    "an id of nothing": ("GET", "/v1/memories//", None, 400),
    "nowhere": ("GET", "/v9/memories/", None, 404),
    "no slash": ("GET", "/v1/ping", None, 404),
    "another method": ("PATCH", "/v1/ping/", {}, 404),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told_and_harms_nothing(dana: Mem0, case: str) -> None:
    dana.add("The pier is made of oak")
    method, path, body, status = BAD[case]
    raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    answer = dana.http.request(method, path, content=raw, headers={"content-type": "application/json"} if raw else {})
    told(answer, status)
    assert dana.all() == ["The pier is made of oak"]


def test_too_much_is_refused_with_when_to_come_back() -> None:
    with Memory.open(":memory:") as memory, running(memory, rate_limiter=RateLimiter()) as server:
        mem0 = Mem0(server, server.key("dana", rate=2))
        answers = [mem0.ask("GET", "/v1/ping/") for _ in range(4)]
        told(answers[-1], 429)
        assert int(answers[-1].headers["retry-after"]) >= 1


# -- whose -----------------------------------------------------------------------------------------------------------------
ALSO: dict[str, tuple[dict[str, Any], list[str]]] = {
    "an agent or none": ({"user_id": "dana", "agent_id": ["default", "coach"]}, ["elm", "oak"]),
    "an agent or null": ({"user_id": "dana", "agent_id": {"in": ["coach", None]}}, ["elm", "oak"]),
    "an agent at all": ({"user_id": "dana", "agent_id": {"nin": ["default"]}}, ["elm"]),
    "equal to none": ({"user_id": "dana", "agent_id": {"eq": None}}, ["oak"]),
    "a user or none": ({"user_id": ["dana", None]}, ["ash", "elm", "oak"]),
    "any that is set": ({"user_id": {"exists": True}}, ["elm", "oak"]),
}


@pytest.mark.parametrize("case", ALSO)
def test_none_may_stand_among_names(shop: Mem0, case: str) -> None:
    shop.add("oak", user_id="dana", infer=False)
    shop.add("elm", user_id="dana", agent_id="coach", infer=False)
    shop.add("ash", infer=False)
    filters, found = ALSO[case]
    assert sorted(shop.all(filters=filters)) == found
    assert sorted(hit["memory"] for hit in shop.search("oak elm ash", filters=filters, threshold=0)) == found


@pytest.mark.parametrize("name", [7, True, 1.5, [7], {"eq": 7}], ids=str)
def test_a_name_that_is_no_text_is_refused_not_passed_over(dana: Mem0, name: Any) -> None:
    for field in ("user_id", "agent_id", "run_id"):
        assert field in told(dana.ask("POST", "/v3/memories/", {"filters": {field: name}}), 400)
