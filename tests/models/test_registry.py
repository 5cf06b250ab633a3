"""Which chat model a name, a function or an object stands for."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from keepstone.errors import ConfigurationError
from keepstone.models.function import FunctionModel
from keepstone.models.registry import make_model
from keepstone.ports.chat import Prompt


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both packages are found; nothing here asks a model, so neither is imported."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())


def test_nothing_is_nothing() -> None:
    assert make_model(None) is None


def test_a_model_is_itself_and_a_function_becomes_one() -> None:
    model = FunctionModel(lambda prompt: "tea")
    assert make_model(model) is model
    made = make_model(lambda prompt: "tea")
    assert made is not None
    assert made.ask(Prompt([])).text == "tea"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("spec", "id"),
    [
        ("anthropic:claude-test", "anthropic:claude-test"),
        ("Anthropic: claude-test ", "anthropic:claude-test"),
        ("anthropic:claude@20250805", "anthropic:claude@20250805"),
        ("anthropic:claude@https://gate.example", "anthropic:claude@https://gate.example"),
        ("openai:gpt-test", "openai:gpt-test"),
        ("openai:qwen:7b@http://127.0.0.1:8000/v1", "openai:qwen:7b@http://127.0.0.1:8000/v1"),
        ("ollama:llama3.3:8b", "openai:llama3.3:8b@http://localhost:11434/v1"),
    ],
)
def test_names(spec: str, id: str) -> None:
    model: Any = make_model(spec, timeout=5, retries=1)
    assert (model.id, model.timeout, model.retries) == (id, 5, 1)


@pytest.mark.usefixtures("installed")
def test_ollama_is_never_sent_a_real_key() -> None:
    model: Any = make_model("ollama:llama3.3")
    assert model._api_key == "none"


@pytest.mark.parametrize("spec", ["", "gpt-test", "openai", "openai:", "openai:@http://x/v1", "gemini:pro", "ollama: "])
def test_names_that_are_not_known(spec: str) -> None:
    with pytest.raises(ConfigurationError, match=r"anthropic:NAME, openai:NAME, openai:NAME@http://host:port/v1, ollama:NAME"):
        make_model(spec)


def test_an_unknown_name_does_not_show_its_addresss_password() -> None:
    with pytest.raises(ConfigurationError) as caught:
        make_model("gemini:pro@http://me:heron@example.org/v1")
    assert "heron" not in str(caught.value)


@pytest.mark.parametrize("spec", [FunctionModel, object, 5, b"openai:x", ["openai:x"], {"model": "x"}])
def test_values_that_cannot_answer(spec: object) -> None:
    with pytest.raises(ConfigurationError):
        make_model(spec)


@pytest.mark.parametrize(("spec", "extra"), [("anthropic:m", "anthropic"), ("openai:m", "openai"), ("ollama:m", "openai")])
def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch, spec: str, extra: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=rf"pip install .*\[{extra}\]'"):
        make_model(spec)
