"""FunctionEmbedder: what functions may return, and what is said about what they may not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keepstone import AsyncMemory, Memory
from keepstone.embedders.function import FunctionEmbedder
from keepstone.errors import EmbedderError, ProviderError


def lengths(texts: list[str]) -> list[list[float]]:
    return [[len(text), 1.0] for text in texts]


class Client:
    def __call__(self, texts: list[str]) -> list[list[float]]:
        return lengths(texts)


@pytest.mark.parametrize(
    "shape",
    [
        list,
        tuple,
        np.array,
        lambda rows: np.array(rows, dtype=np.float16),
        lambda rows: [np.array(row) for row in rows],
        lambda rows: [tuple(row) for row in rows],
        lambda rows: iter(rows),
        lambda rows: np.asfortranarray(rows),
    ],
)
def test_vectors_may_come_as_lists_tuples_and_arrays(shape: Any) -> None:
    vectors = FunctionEmbedder(lambda texts: shape(lengths(texts))).embed(["abc", "a"])
    np.testing.assert_allclose(vectors, [[0.9486833, 0.3162278], [0.7071068, 0.7071068]], atol=1e-6)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous


def test_the_function_gets_a_list_in_one_call() -> None:
    calls: list[list[str]] = []
    FunctionEmbedder(lambda texts: calls.append(texts) or lengths(texts)).embed(("a", "bb"), purpose="query")
    assert calls == [["a", "bb"]]


def test_the_id_names_the_function() -> None:
    assert FunctionEmbedder(lengths).id == f"function:{__name__}.lengths"
    assert FunctionEmbedder(Client()).id == f"function:{__name__}.Client"
    assert FunctionEmbedder(lengths, id="acme-2").id == "acme-2"
    assert FunctionEmbedder(lengths).local is False


def test_the_dimension_is_learned_once_and_only_when_asked_for() -> None:
    calls: list[list[str]] = []

    def counted(texts: list[str]) -> list[list[float]]:
        calls.append(texts)
        return lengths(texts)

    embedder = FunctionEmbedder(counted)
    assert calls == []
    assert embedder.dimension == 2
    assert embedder.dimension == 2
    assert len(calls) == 1
    after_embedding = FunctionEmbedder(counted)
    after_embedding.embed(["a"])
    assert after_embedding.dimension == 2
    assert len(calls) == 2


def test_a_given_dimension_costs_no_call() -> None:
    def never(texts: list[str]) -> list[list[float]]:
        raise AssertionError("called")

    embedder = FunctionEmbedder(never, dimension=12)
    assert embedder.dimension == 12
    assert embedder.embed([]).shape == (0, 12)


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e200])
def test_very_large_and_very_small_numbers_are_normalised(scale: float) -> None:
    vectors = FunctionEmbedder(lambda texts: [[3.0 * scale, 4.0 * scale]]).embed(["a"])
    np.testing.assert_allclose(vectors, [[0.6, 0.8]], atol=1e-6)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([[1.0, 2.0]], "1 vectors for 2 texts"),
        ([[1.0, 2.0]] * 3, "3 vectors for 2 texts"),
        ([[1.0, 2.0], [1.0]], "not a list of equally long lists"),
        ([[1.0, float("nan")], [1.0, 2.0]], r"nan inside the vector of text 0 \('tea'\)"),
        ([[1.0, 2.0], [1.0, float("-inf")]], r"-inf inside the vector of text 1 \('coffee'\)"),
        ([[1.0, 2.0], [0.0, 0.0]], r"zeros for text 1 \('coffee'\)"),
        ([1.0, 2.0], r"shape \(2,\) for 2 texts"),
        ([[], []], r"shape \(2, 0\)"),
        ([[[1.0]], [[1.0]]], r"shape \(2, 1, 1\)"),
        ([], r"shape \(0,\) for 2 texts"),
        (None, "returned None for 2 texts"),
        ("no", "returned 'no' for 2 texts"),
        ([["a", "b"], ["c", "d"]], "Return one vector of numbers"),
        ({"data": [[1.0], [2.0]]}, "Return one vector of numbers"),
    ],
)
def test_unusable_vectors_are_refused(returned: object, message: str) -> None:
    with pytest.raises(EmbedderError, match=message):
        FunctionEmbedder(lambda texts: returned).embed(["tea", "coffee"])


def test_one_flat_vector_for_one_text_is_explained() -> None:
    with pytest.raises(EmbedderError, match=r"one flat vector of 3 numbers.*\[vector\]"):
        FunctionEmbedder(lambda texts: [1.0, 2.0, 3.0]).embed(["tea"])


def test_another_dimension_later_is_refused() -> None:
    sizes = iter([4, 5])
    embedder = FunctionEmbedder(lambda texts: np.ones((len(texts), next(sizes))), id="acme")
    embedder.embed(["a"])
    with pytest.raises(EmbedderError, match="acme returned vectors of 5 numbers and 4 were expected"):
        embedder.embed(["a"])
    assert embedder.dimension == 4


def test_a_failing_function_is_reported_with_its_error() -> None:
    def offline(texts: list[str]) -> list[list[float]]:
        raise TimeoutError("no answer in 10 s")

    with pytest.raises(EmbedderError, match="TimeoutError: no answer in 10 s") as caught:
        FunctionEmbedder(offline).embed(["tea"])
    assert isinstance(caught.value.__cause__, TimeoutError)


def test_an_error_of_keepstone_passes_through() -> None:
    def refuses(texts: list[str]) -> list[list[float]]:
        raise ProviderError("over quota")

    with pytest.raises(ProviderError, match=r"^over quota$"):
        FunctionEmbedder(refuses).embed(["tea"])


@pytest.mark.parametrize("dimension", [0, -1, True, 2.5])
def test_a_bad_dimension_is_refused(dimension: Any) -> None:
    with pytest.raises(EmbedderError, match="not a whole number above zero"):
        FunctionEmbedder(lengths, dimension=dimension)


def test_what_is_not_a_function_is_refused() -> None:
    with pytest.raises(EmbedderError, match="needs a function and got 5"):
        FunctionEmbedder(5)  # type: ignore[arg-type]


def test_one_string_is_refused() -> None:
    with pytest.raises(EmbedderError, match="got one string"):
        FunctionEmbedder(lengths).embed("tea")


# -- async functions ---------------------------------------------------------------------------------------------
class AsyncService:
    """An embedding service with a client that works in one event loop only, as those that keep connections do."""

    def __init__(self) -> None:
        self.loops: set[asyncio.AbstractEventLoop] = set()

    async def embed(self, texts: list[str]) -> list[list[float]]:
        self.loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return [[len(text), text.count("a"), 1.0] for text in texts]


def test_an_async_function_embeds_for_memory(path: Path) -> None:
    service = AsyncService()
    with Memory.open(path, embedder=service.embed) as memory:
        for text in ("Dana drinks tea.", "Omar rows on Sundays."):
            assert memory.remember(text).reasons == ()
        assert memory.recall("What does Dana drink?")[0].content == "Dana drinks tea."
        assert memory.upkeep.reembed().embedded == 0, "none is without a vector"
    assert len(service.loops) == 1, "one loop for all calls"


def test_memory_with_an_async_function_works_inside_a_running_loop(path: Path) -> None:
    service = AsyncService()

    async def work() -> None:
        with Memory.open(path, embedder=service.embed) as memory:
            assert memory.remember("Dana drinks tea.").reasons == ()
            assert len(memory.recall("What does Dana drink?")) == 1

    asyncio.run(work())


def test_an_async_function_runs_in_the_loop_of_the_caller_of_async_memory(path: Path) -> None:
    service = AsyncService()

    async def work() -> None:
        async with AsyncMemory.open(path, embedder=service.embed) as memory:
            receipts = await asyncio.gather(*(memory.remember(f"Dana has {number} cats.") for number in range(5)))
            assert [receipt.reasons for receipt in receipts] == [()] * 5
            assert service.loops == {asyncio.get_running_loop()}

    asyncio.run(work())


def test_an_async_function_that_fails_leaves_the_text_stored(path: Path) -> None:
    async def failing(texts: list[str]) -> list[list[float]]:
        raise TimeoutError("no answer")

    with Memory.open(path, embedder=failing) as memory:
        (reason,) = memory.remember("Dana drinks tea.").reasons
        assert "TimeoutError: no answer" in reason
        assert memory.recall("tea")[0].content == "Dana drinks tea."
