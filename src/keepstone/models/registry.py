"""Finds the chat model that a setting names."""

from __future__ import annotations

from keepstone.errors import ConfigurationError
from keepstone.models.anthropic import AnthropicModel
from keepstone.models.function import FunctionModel
from keepstone.models.openai import PLACEHOLDER_KEY, OpenAIModel
from keepstone.ports.chat import ChatModel

OLLAMA_URL = "http://localhost:11434/v1"
_FORMS = "anthropic:NAME, openai:NAME, openai:NAME@http://host:port/v1, ollama:NAME"


def make_model(spec: object, *, timeout: float = 60.0, retries: int = 2) -> ChatModel | None:
    """The chat model for a name, a model (returned as it is) or a function; None for None.

    Example: `make_model("anthropic:claude-sonnet-5-5")`, `make_model("ollama:llama3.3")`, `make_model(my_function)`.
    Raises ConfigurationError for a name that is not known or a value that is not a model.
    """
    if spec is None:
        return None
    if isinstance(spec, str):
        return _named(spec, timeout, retries)
    if isinstance(spec, type):
        raise ConfigurationError(f"The model {spec.__qualname__} is a class. Pass an instance: {spec.__qualname__}(...).")
    if isinstance(spec, ChatModel):
        return spec
    if callable(spec):
        return FunctionModel(spec)
    raise ConfigurationError(
        f"A value of type {type(spec).__name__} cannot be used as a chat model. Pass one of {_FORMS}, a function from a "
        "Prompt to text, or an object with id, ask, stream, aask and astream."
    )


def _named(spec: str, timeout: float, retries: int) -> ChatModel:
    kind, _, rest = (part.strip() for part in spec.partition(":"))
    name, address = _split_address(rest)
    if not name or kind.lower() not in ("anthropic", "openai", "ollama"):
        label = spec if address is None else f"{kind}:{name}@…"  # an address may hold a password
        raise ConfigurationError(f"There is no chat model {label!r}. Use one of {_FORMS}; or pass a function or a model.")
    if kind.lower() == "anthropic":
        return AnthropicModel(name, base_url=address, timeout=timeout, retries=retries)
    if kind.lower() == "openai":
        return OpenAIModel(name, base_url=address, timeout=timeout, retries=retries)
    # Ollama needs no key, and must not get that of OpenAI.
    return OpenAIModel(name, base_url=address or OLLAMA_URL, api_key=PLACEHOLDER_KEY, timeout=timeout, retries=retries)


def _split_address(rest: str) -> tuple[str, str | None]:
    """The name of a model and its address. A name may hold colons and at signs."""
    for scheme in ("@http://", "@https://"):
        name, separator, address = rest.partition(scheme)
        if separator:
            return name, scheme[1:] + address
    return rest, None
