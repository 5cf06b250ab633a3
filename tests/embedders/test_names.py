"""Which hosted embedder a name means, where its key comes from, and what cannot be one."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx2")

from keepstone import Memory
from keepstone.embedders.hosted import HostedEmbedder
from keepstone.embedders.openai import OpenAIEmbedder
from keepstone.embedders.registry import OLLAMA_URL, make_embedder
from keepstone.embedders.voyage import VoyageEmbedder
from keepstone.errors import ConfigurationError, EmbedderError
from tests.embedders.embeddings_endpoint import Embeddings, sound, status

KEY = "sk-A1b2C3-secret-key"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VOYAGE_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def _made(spec: str, **environment: str) -> HostedEmbedder:
    made = make_embedder(spec, environment=environment.get)
    assert isinstance(made, HostedEmbedder)
    return made


@pytest.mark.parametrize(
    ("spec", "kind", "id", "base_url"),
    [
        ("voyage:voyage-3.5", VoyageEmbedder, "voyage:voyage-3.5", "https://api.voyageai.com/v1"),
        ("voyage:voyage-3.5@512", VoyageEmbedder, "voyage:voyage-3.5@512", "https://api.voyageai.com/v1"),
        ("OpenAI: text-embedding-3-small", OpenAIEmbedder, "openai:text-embedding-3-small", "https://api.openai.com/v1"),
        ("openai:a/b:c@http://gpu:8000/v1/", OpenAIEmbedder, "openai:a/b:c", "http://gpu:8000/v1"),
        ("openai:x@256@https://gpu/v1", OpenAIEmbedder, "openai:x@256", "https://gpu/v1"),
        ("ollama:nomic-embed-text:v1.5", OpenAIEmbedder, "openai:nomic-embed-text:v1.5", OLLAMA_URL),
        ("ollama:bge@http://box:1/v1", OpenAIEmbedder, "openai:bge", "http://box:1/v1"),
    ],
)
def test_names_say_which_model_and_where(spec: str, kind: type, id: str, base_url: str) -> None:
    made = _made(spec, VOYAGE_API_KEY=KEY, OPENAI_API_KEY=KEY)
    assert (type(made), made.id, made.base_url, made.local) == (kind, id, base_url, False)
    if "@" in id:
        assert made.dimension == int(id.rpartition("@")[2])


@pytest.mark.parametrize(("spec", "variable"), [("voyage:voyage-3.5", "VOYAGE_API_KEY"), ("openai:x", "OPENAI_API_KEY")])
def test_a_provider_without_a_key_is_refused_before_anything_is_stored(spec: str, variable: str, path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"{spec} has no API key: set {variable}"):
        Memory.open(path, embedder=spec)
    assert not path.exists()
    with pytest.raises(ConfigurationError, match=variable):
        make_embedder(spec + "@https://" + ("api.voyageai.com" if "voyage" in spec else "api.openai.com") + "/v2")


def test_the_environment_has_the_key_and_openais_address(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Embeddings() as endpoint:
        monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        with Memory.open(path, embedder="openai:x") as memory:
            assert endpoint.requests == []  # opening costs no call
            memory.remember("Dana drinks tea.")
            assert memory.upkeep.reembed(embedder=f"openai:y@{endpoint.url}").embedded == 1
    assert [request["body"]["model"] for request in endpoint.requests][::2] == ["x", "y"]
    assert {request["headers"]["authorization"] for request in endpoint.requests} == {f"Bearer {KEY}"}


def test_a_server_of_ones_own_needs_no_key_and_ollama_gets_none() -> None:
    with Embeddings() as endpoint:
        _made(f"openai:x@{endpoint.url}").embed(["tea"])
        _made(f"ollama:x@{endpoint.url}", OPENAI_API_KEY=KEY).embed(["tea"])
    assert [request["headers"]["authorization"] for request in endpoint.requests] == ["Bearer none"] * 2


def test_a_password_in_the_address_is_sent_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    with Embeddings(sound(), status(401)) as endpoint, caplog.at_level(logging.DEBUG):
        embedder = _made(f"openai:x@{endpoint.url.replace('//', '//dana:p%40ss@')}/", OPENAI_API_KEY=KEY)
        embedder.embed(["tea"])
        assert endpoint.requests[0]["headers"]["authorization"] == "Basic ZGFuYTpwQHNz"
        assert endpoint.requests[0]["path"] == "/v1/embeddings"
        with pytest.raises(EmbedderError) as caught:
            embedder.embed(["tea"])
    assert "p%40ss" not in f"{caught.value} {caplog.text} {embedder!r} {vars(embedder)}"


@pytest.mark.parametrize("spec", ["openai", "openai:", "voyage: ", "ollama:@http://box/v1"])
def test_a_provider_wants_a_model(spec: str) -> None:
    with pytest.raises(ConfigurationError, match="names no model: write"):
        make_embedder(spec)


def test_an_unknown_provider_is_told_what_is_known() -> None:
    with pytest.raises(ConfigurationError, match="no embedder named 'cohere:embed-4'") as caught:
        make_embedder("cohere:embed-4")
    for known in ("static", "voyage:NAME", "openai:NAME@http", "ollama:NAME", "sentence-transformers:NAME", "minilm:FOLDER"):
        assert known in str(caught.value)
    with pytest.raises(ConfigurationError, match="Did you mean 'openai'") as caught:
        make_embedder("opnai:x@http://dana:secret@box/v1")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": " "}, "not the name of a model"),
        ({"timeout": 0}, "timeout must be"),
        ({"timeout": float("nan")}, "timeout must be"),
        ({"retries": -1}, "retries must be"),
        ({"retries": True}, "retries must be"),
        ({"dimension": 0}, "dimension must be"),
        ({"dimension": 2.5}, "dimension must be"),
        ({"base_url": "box:8000/v1"}, "base_url is not an HTTP address"),
        ({"base_url": "http://box:99999/v1"}, "base_url is not an HTTP address"),
        ({"base_url": "ftp://box/v1"}, "base_url is not an HTTP address"),
        ({"base_url": "http://box/v1?key=abc"}, "has a query"),
        ({"api_key": "sk-\nheron"}, "characters that no key has"),
        ({"api_key": "sk-höron"}, "characters that no key has"),
    ],
)
@pytest.mark.parametrize("kind", [VoyageEmbedder, OpenAIEmbedder])
def test_what_cannot_be_used_is_refused(kind: Any, options: dict[str, Any], message: str) -> None:
    given = {"name": "x", "api_key": KEY, **options}
    with pytest.raises(ConfigurationError, match=message) as caught:
        kind(given.pop("name"), **given)
    assert "ron" not in str(caught.value)
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize("spec", ["voyage:x", "openai:x"])
def test_the_package_is_asked_for_when_it_is_missing(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=rf"pip install .*\[{spec[:-2]}\]'"):
        _made(spec, VOYAGE_API_KEY=KEY, OPENAI_API_KEY=KEY)


@pytest.mark.parametrize("texts", ["tea", ["tea", 5]])
def test_what_is_no_text_is_refused_unasked(texts: Any) -> None:
    with Embeddings() as endpoint, pytest.raises(EmbedderError, match=r"one string|not a string"):
        OpenAIEmbedder("x", base_url=endpoint.url).embed(texts)
    assert endpoint.requests == []
