"""What both providers' models do alike, over HTTP through the official clients: asked, streamed, with asyncio and without."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

pytest.importorskip("anthropic")
pytest.importorskip("openai")

from keepstone.errors import ConfigurationError, ModelError
from keepstone.models.anthropic import AnthropicModel
from keepstone.models.openai import OpenAIModel
from keepstone.ports import forks
from keepstone.ports.chat import Answer, ChatModel, Prompt
from tests.models.endpoint import Endpoint, cut, empty, garbage, said, say, slow, status, together, use

KEY = "sk-A1b2C3-secret-key"
SECRET = "the password of the vault is heron"
PROMPT = Prompt([{"role": "user", "content": SECRET}], system="Be kind.")
Make = Callable[..., Any]
Way = Callable[[Any, Prompt], tuple[list[str], Answer]]


def anthropic_model(endpoint: Endpoint, **options: Any) -> AnthropicModel:
    return AnthropicModel("claude-test", base_url=endpoint.url, **{"api_key": KEY, "retries": 0, **options})


def openai_model(endpoint: Endpoint, **options: Any) -> OpenAIModel:
    return OpenAIModel("gpt-test", base_url=endpoint.openai_url, **{"api_key": KEY, "retries": 0, **options})


def asked(model: Any, prompt: Prompt) -> tuple[list[str], Answer]:
    answer = model.ask(prompt)
    return [answer.text], answer


def streamed(model: Any, prompt: Prompt) -> tuple[list[str], Answer]:
    *pieces, answer = model.stream(prompt)
    return pieces, answer


def awaited(model: Any, prompt: Prompt) -> tuple[list[str], Answer]:
    answer = asyncio.run(model.aask(prompt))
    return [answer.text], answer


def streamed_async(model: Any, prompt: Prompt) -> tuple[list[str], Answer]:
    async def collect() -> list[Any]:
        return [each async for each in model.astream(prompt)]

    *pieces, answer = asyncio.run(collect())
    return pieces, answer


@pytest.fixture(autouse=True, scope="module")
def one_context() -> Iterator[None]:
    """Clients share one TLS context, which no test here uses: to make one takes longer than most of these tests."""
    import httpx2

    with pytest.MonkeyPatch.context() as patch:
        context = httpx2.create_ssl_context()
        patch.setattr("httpx2._transports.default.create_ssl_context", lambda **_: context)
        yield


WAYS = [asked, streamed, awaited, streamed_async]
STREAMS = [streamed, streamed_async]
both = pytest.mark.parametrize("make", [anthropic_model, openai_model])
all_ways = pytest.mark.parametrize("way", WAYS)
streams = pytest.mark.parametrize("way", STREAMS)


@both
@all_ways
def test_text_usage_and_model_come_back(make: Make, way: Way) -> None:
    with Endpoint([say("You drink green tea.", usage=(120, 30, 100))]) as endpoint:
        model = make(endpoint)
        pieces, answer = way(model, PROMPT)
    assert "".join(pieces) == answer.text == "You drink green tea."
    assert answer.blocks == ({"type": "text", "text": "You drink green tea."},)
    assert (answer.stop, answer.model) == ("end", model.name)
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.cached_tokens) == (120, 30, 100)
    assert (answer.usage.calls, answer.usage.retries, answer.usage.cost) == (1, 0, None)


@both
@streams
def test_a_stream_comes_in_pieces(make: Make, way: Way) -> None:
    with Endpoint([say("one two three")]) as endpoint:
        assert way(make(endpoint), PROMPT)[0] == ["one ", "two ", "three"]


@both
@all_ways
def test_tool_uses_come_back_whole(make: Make, way: Way) -> None:
    step = together(use("recall", {"query": "tea – ü"}, "Let me see.", id="u1"), use("forget", {}, id="u2"))
    with Endpoint([step]) as endpoint:
        answer = way(make(endpoint), PROMPT)[1]
    assert answer.stop == "tools"
    assert answer.blocks == (
        {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "u1", "name": "recall", "input": {"query": "tea – ü"}},
        {"type": "tool_use", "id": "u2", "name": "forget", "input": {}},
    )


@both
@all_ways
@pytest.mark.parametrize("arguments", ['{"query": ', "[1, 2]", '"tea"'])
def test_arguments_that_are_no_json_object_are_told(make: Make, way: Way, arguments: str) -> None:
    with Endpoint([use("recall", arguments)]) as endpoint:
        block = way(make(endpoint), PROMPT)[1].tool_uses[0]
    assert block["input"] == {}
    assert "JSON" in block["error"]


@both
@all_ways
@pytest.mark.parametrize("stop", ["length", "refusal"])
def test_why_it_stopped(make: Make, way: Way, stop: str) -> None:
    with Endpoint([say("I", stop=stop)]) as endpoint:
        assert way(make(endpoint), PROMPT)[1].stop == stop


@both
@all_ways
def test_a_refusal_may_be_without_words_other_answers_not(make: Make, way: Way) -> None:
    with Endpoint([empty("refusal"), empty(), empty("length")]) as endpoint:
        model = make(endpoint)
        assert way(model, PROMPT)[1].blocks == ()
        with pytest.raises(ModelError, match="answered with nothing"):
            way(model, PROMPT)
        with pytest.raises(ModelError, match="all 4096 tokens"):
            way(model, PROMPT)


@both
@all_ways
@pytest.mark.parametrize(
    ("step", "message"),
    [
        (status(400, kind="invalid_request_error", message=SECRET), r"refused the request \(400, invalid_request_error\)"),
        (status(401, message=f"Incorrect API key provided: {KEY}"), "API key .*: set (ANTHROPIC|OPENAI)_API_KEY"),
        (status(403), "403"),
        (status(404, kind="not_found_error"), "not known to the server"),
        (status(413), "413.*shorter"),
        (status(429), "429.*wait"),
        (status(500, kind=KEY, message=KEY), r"failed on the server's side \(500\)"),
        (status(529, kind="overloaded_error"), "529, overloaded_error"),
        (cut("You drink green"), "broke off"),
        (cut(), "broke off"),
        (garbage(), "other than a completion"),
    ],
)
def test_failures_are_model_errors_that_tell_no_secrets(make: Make, way: Way, step: Any, message: str) -> None:
    with Endpoint([step]) as endpoint:
        model = make(endpoint)
        with pytest.raises(ModelError, match=message) as caught:
            way(model, PROMPT)
        shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(model)
        assert model.id in str(caught.value)
        assert len(endpoint.requests) == 1
        assert KEY in endpoint.requests[0]["headers"]["authorization"]
    assert KEY not in shown
    assert "heron" not in shown


@both
@all_ways
@pytest.mark.parametrize("code", [429, 500])
def test_retries_are_made_and_counted(make: Make, way: Way, code: int) -> None:
    with Endpoint([status(code, retry_after=0), status(code, retry_after=0), say("there")]) as endpoint:
        answer = way(make(endpoint, retries=2), PROMPT)[1]
        assert (answer.text, answer.usage.retries, answer.usage.calls) == ("there", 2, 1)
        assert len(endpoint.requests) == 3


@both
@all_ways
def test_retries_end(make: Make, way: Way) -> None:
    with Endpoint([status(429, retry_after=0)] * 2) as endpoint:
        with pytest.raises(ModelError, match=r"429.*after 1 retries"):
            way(make(endpoint, retries=1), PROMPT)
        assert (len(endpoint.requests), endpoint.unexpected) == (2, 0)


@both
@streams
@pytest.mark.parametrize("step", [cut(), cut(error="overloaded_error"), cut(quietly=True)])
def test_a_stream_cut_before_any_text_is_asked_for_again(make: Make, way: Way, step: Any) -> None:
    with Endpoint([step, say("whole")]) as endpoint:
        pieces, answer = way(make(endpoint, retries=1), PROMPT)
    assert (pieces, answer.text, answer.usage.retries) == (["whole"], "whole", 1)


@both
@streams
def test_cut_streams_and_refusals_share_the_retries(make: Make, way: Way) -> None:
    with Endpoint([status(429, retry_after=0), cut(), status(429, retry_after=0)]) as endpoint:
        with pytest.raises(ModelError, match="429"):
            way(make(endpoint, retries=2), PROMPT)
        assert (len(endpoint.requests), endpoint.unexpected) == (3, 0)


@both
@pytest.mark.parametrize("quietly", [False, True])
def test_a_stream_cut_after_text_is_not_asked_for_again(make: Make, quietly: bool) -> None:
    with Endpoint([cut("You drink ", quietly=quietly), say("never")]) as endpoint:
        stream = make(endpoint, retries=2).stream(PROMPT)
        assert next(stream) == "You "
        assert next(stream) == "drink "
        with pytest.raises(ModelError, match="broke off"):
            next(stream)
        assert len(endpoint.requests) == 1


@both
@streams
def test_an_error_inside_a_stream_says_what_it_was(make: Make, way: Way) -> None:
    with (
        Endpoint([cut("You ", error="overloaded_error")]) as endpoint,
        pytest.raises(ModelError, match=r"failed on the server's side \(overloaded_error\)"),
    ):
        way(make(endpoint), PROMPT)


@both
@all_ways
def test_silence_ends_after_the_timeout(make: Make, way: Way) -> None:
    with Endpoint([slow()]) as endpoint, pytest.raises(ModelError, match=r"did not answer within 0\.05 seconds"):
        way(make(endpoint, timeout=0.05), PROMPT)


@both
@all_ways
def test_nobody_there(make: Make, way: Way) -> None:
    with Endpoint([]) as endpoint:
        pass
    with pytest.raises(ModelError, match="cannot be reached"):
        way(make(endpoint), PROMPT)


@both
@pytest.mark.parametrize(("prices", "cost"), [((3, 15), 0.0045), ((3, 15, 0.3), 0.00234)])
def test_prices_make_costs(make: Make, prices: tuple[float, ...], cost: float) -> None:
    with Endpoint([say("tea", usage=(1000, 100, 800))]) as endpoint:
        assert make(endpoint, prices=prices).ask(PROMPT).usage.cost == pytest.approx(cost)


@both
def test_threads_do_not_mix_their_answers(make: Make) -> None:
    gate = threading.Barrier(8)

    def script(request: dict[str, Any]) -> Any:
        gate.wait(120)  # all eight are under way at once
        return say(f"you said {said(request)}")

    def one(model: Any, number: int) -> str:
        prompt = Prompt([{"role": "user", "content": f"number {number}"}])
        way = (asked, streamed)[number % 2]
        return way(model, prompt)[1].text

    with Endpoint(script) as endpoint, ThreadPoolExecutor(8) as pool:
        model = make(endpoint)
        for _ in range(3):
            texts = list(pool.map(lambda number: one(model, number), range(8)))
            assert texts == [f"you said number {number}" for number in range(8)]


@both
def test_one_model_serves_many_event_loops_and_closes_their_connections(make: Make) -> None:
    with Endpoint(lambda request: say(said(request))) as endpoint:
        model = make(endpoint)

        async def several() -> list[Any]:
            clients = {id(await model._async_client()) for _ in range(3)}
            assert len(clients) == 1
            answers = await asyncio.gather(*(model.aask(Prompt([{"role": "user", "content": str(n)}])) for n in range(5)))
            return [answer.text for answer in answers]

        for _ in range(3):
            assert asyncio.run(several()) == ["0", "1", "2", "3", "4"]
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(lambda _: asyncio.run(several()), range(2))) == [["0", "1", "2", "3", "4"]] * 2
        assert all(client.is_closed() for client, _ in model._by_loop.values())


@both
def test_a_forked_process_makes_a_client_of_its_own(make: Make) -> None:
    with Endpoint([]) as endpoint:
        model = make(endpoint)
        parents = model._sync_client()
        assert model._sync_client() is parents
        forks._reset_all()
        assert model._sync_client() is not parents


@both
def test_a_stream_left_early_harms_no_later_call(make: Make) -> None:
    async def leave(model: Any) -> str:
        stream = model.astream(PROMPT)
        first = await anext(stream)
        await stream.aclose()
        assert (await model.aask(PROMPT)).text == "again"
        return str(first)

    with Endpoint([say("one two three"), say("again"), say("four five"), say("again")]) as endpoint:
        model = make(endpoint)
        stream = model.stream(PROMPT)
        assert next(stream) == "one "
        stream.close()
        assert model.ask(PROMPT).text == "again"
        assert asyncio.run(leave(model)) == "four "


@both
def test_messages_of_another_shape_are_refused_before_anything_is_sent(make: Make) -> None:
    wrong: list[Any] = [
        {"role": "user"},
        {"role": "system", "content": "x"},
        {"role": "user", "content": [{"type": "video", "data": SECRET}]},
        {"role": "user", "content": [{"type": "image", "source": {"type": "path", "path": SECRET}}]},
        {"role": "user", "content": 5},
    ]
    with Endpoint([]) as endpoint:
        for message in wrong:
            with pytest.raises(ModelError) as caught:
                make(endpoint).ask(Prompt([message]))
            assert "heron" not in str(caught.value)
        assert endpoint.requests == []


@both
def test_text_that_no_wire_can_carry_is_a_model_error(make: Make) -> None:
    with Endpoint(lambda request: say("fine")) as endpoint:
        with pytest.raises(ModelError):
            make(endpoint).ask(Prompt([{"role": "user", "content": object()}]))
        with pytest.raises(ModelError):
            make(endpoint, api_key="schlüssel\n").ask(PROMPT)


@both
def test_a_given_client_is_used_for_its_kind(make: Make) -> None:
    with Endpoint([say("given"), say("given")]) as endpoint:
        inner = make(endpoint)
        package = pytest.importorskip(inner.package)
        sync, asynchronous = (getattr(package, name) for name in inner.classes)
        with sync(api_key=KEY, base_url=inner.base_url) as client:
            model = type(inner)("m", client=client)
            assert model.ask(PROMPT).text == "given"
            with pytest.raises(ModelError, match="not for asyncio"):
                asyncio.run(model.aask(PROMPT))

        async def other() -> str:
            async with asynchronous(api_key=KEY, base_url=inner.base_url) as client:
                model = type(inner)("m", client=client)
                with pytest.raises(ModelError, match="for asyncio"):
                    model.ask(PROMPT)
                return str((await model.aask(PROMPT)).text)

        assert asyncio.run(other()) == "given"


@both
def test_it_is_a_chat_model_and_its_id_hides_passwords(make: Make) -> None:
    with Endpoint([]) as endpoint:
        model = make(endpoint)
        as_any: Any = ChatModel
        assert isinstance(model, as_any)
        assert model.id == f"{model.package}:{model.name}@{model.base_url}"
        hidden = type(model)("m", base_url="https://me:heron@example.org/v1/?key=heron", api_key=KEY)
        assert hidden.id == f"{model.package}:m@https://example.org/v1"
        assert type(model)("m").id == f"{model.package}:m"


@pytest.mark.parametrize("kind", [AnthropicModel, OpenAIModel])
@pytest.mark.parametrize(
    "wrong",
    [{"timeout": 0}, {"timeout": "5"}, {"retries": -1}, {"retries": 1.5}, {"prices": (1,)}, {"prices": (-1, 2)}, {"name": " "}],
)
def test_options_that_cannot_work(kind: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        kind(**{"name": "m", **wrong})
