"""Voyage's and OpenAI-compatible embedders over HTTP: the contract, what is sent, what fails, and the memory through it all."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("httpx2")

from keepstone import Memory
from keepstone import provider_http as http
from keepstone.embedders.hosted import HostedEmbedder
from keepstone.embedders.openai import OpenAIEmbedder
from keepstone.embedders.voyage import VoyageEmbedder
from keepstone.errors import EmbedderError, EmbedderMismatch
from keepstone.testing.embedders import EmbedderContract
from tests.embedders.embeddings_endpoint import (
    WIDTH,
    Embeddings,
    Step,
    changed,
    cut,
    every,
    garbage,
    last,
    slow,
    sound,
    status,
    vector,
)
from tests.faults.support import environment, everything, healthy, run

KEY = "sk-A1b2C3-secret-key"
SECRET = "heron"
Make = Callable[..., HostedEmbedder]


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every pause before a retry, none of which is waited for."""
    taken: list[float] = []
    monkeypatch.setattr(http, "_sleep", taken.append)
    return taken


def voyage(endpoint: Embeddings, **options: Any) -> VoyageEmbedder:
    return VoyageEmbedder("voyage-test", base_url=endpoint.url, **{"api_key": KEY, **options})


def openai(endpoint: Embeddings, **options: Any) -> OpenAIEmbedder:
    return OpenAIEmbedder("embed-test", base_url=endpoint.url, **{"api_key": KEY, **options})


both = pytest.mark.parametrize("make", [voyage, openai])


@pytest.fixture(scope="module")
def served() -> Iterator[Embeddings]:
    with Embeddings() as endpoint:
        yield endpoint


class TestVoyageEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self, served: Embeddings) -> VoyageEmbedder:
        return voyage(served)


class TestOpenAIEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self, served: Embeddings) -> OpenAIEmbedder:
        return openai(served)


# -- what is sent ------------------------------------------------------------------------------------------------------
def test_voyage_is_told_the_purpose_and_the_dimension() -> None:
    with Embeddings() as endpoint:
        voyage(endpoint).embed(["tea"])
        assert voyage(endpoint, dimension=8).embed(["tea"], purpose="query").shape == (1, 8)
    first, second = endpoint.requests
    assert first["body"] == {"model": "voyage-test", "input": ["tea"], "input_type": "document"}
    assert second["body"] == {"model": "voyage-test", "input": ["tea"], "input_type": "query", "output_dimension": 8}
    assert first["headers"]["authorization"] == f"Bearer {KEY}"


def test_openai_is_told_the_encoding_and_the_dimension() -> None:
    with Embeddings() as endpoint:
        openai(endpoint).embed(["tea"])
        assert openai(endpoint, dimension=8).embed(["tea"], purpose="query").shape == (1, 8)
    first, second = endpoint.requests
    assert first["body"] == {"model": "embed-test", "input": ["tea"], "encoding_format": "float"}
    assert second["body"] == {"model": "embed-test", "input": ["tea"], "encoding_format": "float", "dimensions": 8}
    assert first["headers"]["authorization"] == f"Bearer {KEY}"


@both
def test_many_texts_go_in_batches_and_come_back_in_order(make: Make) -> None:
    texts = [f"word{number} and word{number * 7}" for number in range(300)]
    with Embeddings() as endpoint:
        vectors = make(endpoint).embed(texts)
    assert [len(request["body"]["input"]) for request in endpoint.requests] == [128, 128, 44]
    assert endpoint.texts == texts
    expected = np.array([vector(text) for text in texts])
    np.testing.assert_allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-5)


def test_a_batch_is_bounded_in_characters_and_a_text_is_cut() -> None:
    with Embeddings() as endpoint:
        openai(endpoint).embed(["tea " * 10_000] * 10)
    sizes = [[len(text) for text in request["body"]["input"]] for request in endpoint.requests]
    assert sizes == [[16_384] * 7, [16_384] * 3]


def test_a_text_without_words_is_sent_as_one_that_providers_take() -> None:
    with Embeddings() as endpoint:
        openai(endpoint).embed(["", " \n", "tea"])
    assert endpoint.texts == [".", ".", "tea"]


def test_a_server_that_numbers_nothing_gives_its_vectors_in_order() -> None:
    with Embeddings(changed(lambda rows: [{"embedding": row["embedding"]} for row in rows])) as endpoint:
        vectors = openai(endpoint).embed(["tea", "coffee"])
        np.testing.assert_allclose(vectors, openai(endpoint).embed(["tea", "coffee"]))


@both
def test_a_text_too_long_for_the_server_is_halved_until_it_fits_and_harms_no_other(make: Make) -> None:
    texts = ["red tea", "blue tea", "green " * 2_000, "black tea"]
    with Embeddings(most=500) as endpoint:
        vectors = make(endpoint).embed(texts)
        assert len(endpoint.requests) < 12
        np.testing.assert_allclose(vectors[[0, 1, 3]], make(endpoint).embed([texts[0], texts[1], texts[3]]))
        np.testing.assert_allclose(vectors[2], make(endpoint).embed(["green"])[0], atol=0.02)


def test_a_short_text_that_is_too_long_is_given_up() -> None:
    with (
        Embeddings(most=1) as endpoint,
        pytest.raises(EmbedderError, match=r"more than it accepts at once \(400, some_error\)"),
    ):
        openai(endpoint).embed(["green tea"] * 100)
    assert len(endpoint.requests) < 12


def test_the_dimension_is_learned_once_and_only_when_asked_for() -> None:
    with Embeddings(width=12) as endpoint:
        embedder = openai(endpoint)
        assert endpoint.requests == []
        assert embedder.dimension == embedder.dimension == 12
        assert embedder.embed([]).shape == (0, 12)
        assert len(endpoint.requests) == 1
        assert openai(endpoint, dimension=3).dimension == 3
        assert len(endpoint.requests) == 1


# -- what fails --------------------------------------------------------------------------------------------------------
@both
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5),
        ({"retry_after": "2"}, 2.0),
        ({"retry_after": format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)}, 0.0),
    ],
)
def test_a_busy_server_is_asked_again_when_it_says(
    make: Make, headers: dict[str, str], expected: float, pauses: list[float]
) -> None:
    with Embeddings(status(429, **headers), sound()) as endpoint:
        assert make(endpoint).embed(["tea"]).shape == (1, WIDTH)
    assert pauses == [expected]


def test_pauses_double_and_differ(pauses: list[float]) -> None:
    with Embeddings(*[status(500)] * 7, sound()) as endpoint:
        openai(endpoint, retries=7).embed(["tea"])
    shares = [pause / most for pause, most in zip(pauses, (0.5, 1, 2, 4, 8, 8, 8), strict=True)]
    assert 0.75 <= min(shares) < max(shares) <= 1


@pytest.mark.parametrize(
    "wait", ["3600", format_datetime(datetime.now(UTC) + timedelta(days=2), usegmt=True)], ids=["hour", "date"]
)
def test_nobody_waits_for_an_hour(wait: str, pauses: list[float]) -> None:
    with Embeddings(status(429, retry_after=wait)) as endpoint, pytest.raises(EmbedderError, match="asks to wait for"):
        openai(endpoint).embed(["tea"])
    assert (len(endpoint.requests), pauses) == (1, [])


@pytest.mark.parametrize("wait", ["soon", "nan", "inf", ""])
def test_a_wait_that_means_nothing_is_ignored(wait: str, pauses: list[float]) -> None:
    with Embeddings(status(503, retry_after=wait)) as endpoint:
        assert openai(endpoint).embed(["tea"]).shape == (1, WIDTH)
    assert len(pauses) == 1
    assert 0.3 < pauses[0] <= 0.5


PASSING = {
    "500": (status(500), r"failed on the server's side \(500, some_error\) \(after 2 retries\): try again later"),
    "529": (status(529, kind="overloaded_error"), r"failed on the server's side \(529, overloaded_error\)"),
    "429": (status(429), r"has reached its rate limit \(429, some_error\) \(after 2 retries\): wait"),
    "408": (status(408), r"refused the request \(408"),
    "cut": (cut(), r"broke off before its response was complete \(after 2 retries\)"),
}
LASTING = {
    "400": (status(400), r"refused the request \(400, some_error\): check the name of the model"),
    "401": (status(401), r"does not accept the API key \(401, some_error\): set (VOYAGE|OPENAI)_API_KEY"),
    "402": (status(402), "requires payment"),
    "403": (status(403), "does not allow this API key"),
    "404": (status(404), "is not known to the server"),
    "302": (status(302, location="http://127.0.0.1:1/"), r"redirected the request \(302"),
    "418": (status(418), r"refused the request \(418"),
    "no quota": (status(429, kind="insufficient_quota"), r"has reached its rate limit \(429, insufficient_quota\)"),
    "garbage": (garbage(), "other than a list of vectors"),
    "no JSON": (garbage(b"<html>heron</html>"), "other than a list of vectors"),
    "a list": (garbage(b"[]"), "other than a list of vectors"),
    "nothing": (garbage(b"null"), "other than a list of vectors"),
    "no data": (garbage(b"{}"), "other than a list of vectors"),
    "words as data": (garbage(b'{"data": ["heron"]}'), "other than a list of vectors"),
    "too few": (changed(lambda rows: rows[:-1]), "returned 1 vectors for 2 texts"),
    "too many": (changed(lambda rows: [*rows, *rows]), "returned 4 vectors for 2 texts"),
    "numbered twice": (changed(lambda rows: [{**row, "index": 0} for row in rows]), "returned wrong indexes"),
    "half numbered": (last(index=None), "returned wrong indexes"),
    "ragged": (last(embedding=[1.0]), "lists of numbers of one length"),
    "empty": (every(lambda vector: []), "lists of numbers of one length"),
    "base64": (every(lambda vector: "AACAPw=="), "lists of numbers of one length"),
    "null": (every(lambda vector: [None] * WIDTH), "text number 0 is zero or not finite"),
    "nan": (last(embedding=[float("nan")] * WIDTH), "text number 1 is zero or not finite"),
    "huge": (every(lambda vector: [1e300] * WIDTH), "zero or not finite"),
    "zero": (every(lambda vector: [0.0] * WIDTH), "zero or not finite"),
    "short": (every(lambda vector: vector[:9]), "vectors of 9 numbers, not of 1024"),
}


def _failure(make: Make, fault: Step, **options: Any) -> tuple[EmbedderError, int]:
    """What is raised once a sound answer has told the dimension, and how many requests that took."""
    with Embeddings() as endpoint:
        embedder = make(endpoint, **options)
        embedder.embed([f"{SECRET} in the harbour"])
        endpoint.always = fault
        with pytest.raises(EmbedderError) as caught:
            embedder.embed([f"{SECRET} in the harbour", "tea"])
        return caught.value, len(endpoint.requests) - 1


@both
@pytest.mark.parametrize("fault", PASSING)
def test_what_may_pass_is_tried_again_and_then_told(make: Make, fault: str, pauses: list[float]) -> None:
    step, message = PASSING[fault]
    error, asked = _failure(make, step)
    assert error.args[0].startswith(make.__name__ + ":")
    with pytest.raises(EmbedderError, match=message):
        raise error
    assert (asked, len(pauses)) == (3, 2)


@both
@pytest.mark.parametrize("fault", LASTING)
def test_what_will_not_pass_is_told_at_once(make: Make, fault: str, pauses: list[float]) -> None:
    step, message = LASTING[fault]
    error, asked = _failure(make, step)
    with pytest.raises(EmbedderError, match=message):
        raise error
    assert (asked, pauses) == (1, [])


@both
def test_a_silent_server_is_given_up(make: Make, pauses: list[float]) -> None:
    error, asked = _failure(make, slow(), timeout=0.2, retries=1)
    assert str(error).endswith("did not answer within 0.2 seconds (after 1 retries): try again, or allow a longer timeout.")
    assert (asked, len(pauses)) == (2, 1)


@both
def test_a_server_that_does_not_run_is_told_with_its_address(make: Make, pauses: list[float]) -> None:
    with Embeddings() as endpoint:
        pass
    with pytest.raises(
        EmbedderError, match=r"cannot be reached at http://127\.0\.0\.1:\d+/v1 \(after 2 retries\): check the network"
    ):
        make(endpoint).embed(["tea"])
    assert len(pauses) == 2


@both
def test_a_dimension_the_server_does_not_know_is_told(make: Make) -> None:
    error, _ = _failure(make, every(lambda vector: [1.0] * 12), dimension=8)
    assert str(error).endswith("@8 returned vectors of 12 numbers, not of 8: leave dimension out.")


@both
@pytest.mark.parametrize("fault", ["500", "401", "no JSON", "nan", "too few"])
def test_neither_key_nor_text_is_told_or_logged(
    make: Make, fault: str, pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    step = {**PASSING, **LASTING}[fault][0]
    echo = json.dumps({"error": {"message": f"{KEY} {SECRET}", "type": KEY, "code": f"{SECRET} 1"}}).encode()
    if step.status != 200:
        step = Step(status=step.status, body=echo)
    with caplog.at_level(logging.DEBUG):
        error, _ = _failure(make, step)
    shown = "".join(traceback.format_exception(error)) + caplog.text
    assert KEY not in shown
    assert SECRET not in shown
    with Embeddings() as endpoint:
        assert KEY not in repr(make(endpoint))


# -- what is shared ----------------------------------------------------------------------------------------------------
@both
def test_connections_are_kept_between_calls_and_embedders(make: Make) -> None:
    with Embeddings() as endpoint:
        for _ in range(5):
            make(endpoint).embed(["tea"])
        assert (len(endpoint.requests), endpoint.connections) == (5, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_opens_connections_of_its_own() -> None:
    code = """
import json, os, sys
from keepstone.embedders.openai import OpenAIEmbedder
from keepstone.provider_http import _shared
embedder = OpenAIEmbedder("x", base_url=sys.argv[1])
embedder.embed(["parent"])
parents = _shared._client
_shared._lock.acquire()  # as another thread may have, at that moment
child = os.fork()
if child == 0:
    good = embedder.embed(["child"]).shape[0] == 1 and _shared._client is not parents
    os._exit(0 if good else 1)
_shared._lock.release()
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
embedder.embed(["parent again"])
print(json.dumps([status, _shared._client is parents]))
"""
    with Embeddings() as endpoint:
        assert run(code, endpoint.url) == [0, True]
        assert endpoint.texts == ["parent", "child", "parent again"]
        assert endpoint.connections == 2


def test_a_process_ends_quietly_with_connections_open() -> None:
    code = "import sys; from keepstone.embedders.openai import OpenAIEmbedder as E; E('x', base_url=sys.argv[1]).embed(['tea'])"
    with Embeddings() as endpoint:
        command = [sys.executable, "-X", "dev", "-c", code, endpoint.url]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60)
    assert (done.returncode, done.stderr, endpoint.texts) == (0, "", ["tea"])


# -- the memory ----------------------------------------------------------------------------------------------------------
@both
@pytest.mark.parametrize("fault", [*PASSING, *LASTING])
def test_every_text_is_stored_found_by_words_and_embedded_later(make: Make, fault: str, path: Path, pauses: list[float]) -> None:
    with Embeddings() as endpoint, Memory.open(path, embedder=make(endpoint, dimension=WIDTH)) as memory:
        endpoint.always = {**PASSING, **LASTING}[fault][0]
        one = memory.remember("My car is parked at the harbour.")
        many = memory.remember_many(["The doctor sees me on Monday.", "The plumber comes at noon."])
        said = memory.ingest([{"role": "user", "content": "I sold the piano."}], session="s")
        receipts = [one, *many, *said]
        if fault in ("numbered twice", "half numbered"):  # which harms none that comes alone
            receipts = [receipt for receipt in receipts if not memory.get(receipt.id or "").embedded]  # type: ignore[union-attr]
        assert receipts
        for receipt in receipts:
            assert receipt.action == "added"
            assert any("reembed" in reason for reason in receipt.reasons)
            assert KEY not in str(receipt.reasons)
        assert {record.content for record in everything(memory)} >= {"My car is parked at the harbour.", "I sold the piano."}
        assert memory.recall("Where is my car parked?")[0].content == "My car is parked at the harbour."
        endpoint.always = sound()
        report = memory.upkeep.reembed()
        assert (report.embedded, report.failed, report.problem) == (len(receipts), 0, None)
        assert all(record.embedded for record in everything(memory))
        found = memory.recall("automobile", min_similarity=0)
        assert found[0].content == "My car is parked at the harbour."  # no word in common: found by meaning
        assert found.notes == ()
    assert healthy(path)


def test_documents_and_queries_are_told_apart_by_the_memory(path: Path) -> None:
    with Embeddings() as endpoint, Memory.open(path, embedder=voyage(endpoint)) as memory:
        memory.remember("My car is parked at the harbour.")
        memory.recall("Where is the automobile?")
        sent = {(request["body"]["input_type"], text) for request in endpoint.requests for text in request["body"]["input"]}
    assert ("document", "My car is parked at the harbour.") in sent
    assert {purpose for purpose, text in sent if "harbour" not in text} == {"query"}


def test_two_models_never_mix(path: Path) -> None:
    with Embeddings() as endpoint:
        with Memory.open(path, embedder=openai(endpoint)) as memory:
            memory.remember("My car is parked at the harbour.")
        for other in (voyage(endpoint), openai(endpoint, dimension=WIDTH), OpenAIEmbedder("other", base_url=endpoint.url)):
            with pytest.raises(EmbedderMismatch, match="reembed"):
                Memory.open(path, embedder=other)
        with Memory.open(path, embedder="none") as memory:
            assert memory.upkeep.reembed(embedder=voyage(endpoint)).embedded == 1
        with pytest.raises(EmbedderMismatch):
            Memory.open(path, embedder=openai(endpoint))
        with Memory.open(path, embedder=voyage(endpoint)) as memory:
            assert memory.recall("vehicle", min_similarity=0)[0].content == "My car is parked at the harbour."
    assert healthy(path)
