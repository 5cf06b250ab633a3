"""Finds the embedder that a setting names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, cast

from keepstone.embedders.function import FunctionEmbedder
from keepstone.embedders.static import ENGLISH_FOLDER, StaticEmbedder
from keepstone.errors import ConfigurationError
from keepstone.ports.stores import Embedder

ENGLISH_EMBEDDER = "static-256-v2"  # the built-in model of earlier releases
OLLAMA_URL = "http://localhost:11434/v1"
Environment = Callable[[str], str | None]  # the value of an environment variable


@cache
def _static() -> Embedder:
    """One for the process, since loading it takes as long as opening a store."""
    return StaticEmbedder()


@cache
def _english() -> Embedder:
    """The static model of earlier releases."""
    return StaticEmbedder(ENGLISH_FOLDER)


def _load(module: str, name: str) -> Any:
    """A class of embedders, whose module is only loaded where it is used."""
    return getattr(import_module(f"keepstone.embedders.{module}"), name)


def _minilm(where: str = "") -> Embedder:
    return cast(Embedder, _load("minilm", "MiniLMEmbedder")(where))


_BY_NAME: dict[str, Callable[[], Embedder | None]] = {
    "auto": _static,
    "minilm": _minilm,
    "multilingual": lambda: cast(Embedder, _load("multilingual", "MultilingualEmbedder")()),
    "none": lambda: None,
    "static": _static,
    ENGLISH_EMBEDDER: _english,
}
# Names that are followed by ":" and a folder or a model.
_BY_FOLDER: dict[str, Callable[[str], Embedder]] = {
    "minilm": _minilm,
    "sentence-transformers": lambda name: cast(Embedder, _load("sentence_transformers", "SentenceTransformersEmbedder")(name)),
}
_HOSTED = {
    "ollama": ("openai", "OpenAIEmbedder"),
    "openai": ("openai", "OpenAIEmbedder"),
    "voyage": ("voyage", "VoyageEmbedder"),
}
_PATTERNS = (
    "minilm:FOLDER, ollama:NAME, openai:NAME, openai:NAME@http://host:port/v1, sentence-transformers:NAME_OR_FOLDER, voyage:NAME"
)


def names() -> list[str]:
    """The names that `make_embedder` knows without a model or a folder."""
    return sorted(_BY_NAME)


def make_embedder(spec: object, *, environment: Environment = lambda name: None) -> Embedder | None:
    """The embedder for a name, an embedder (returned as it is) or a function; None for "none": words only. Keys of
    providers are looked up in `environment`.

    Example: `make_embedder("auto")`, `make_embedder("ollama:nomic-embed-text")`, `make_embedder(my_function)`.
    Raises ConfigurationError for an unknown name or a value that is not an embedder.
    """
    if spec is None:
        return None
    if isinstance(spec, str):
        return _embedder_by_name(spec, environment)
    if isinstance(spec, type):
        raise ConfigurationError(f"The embedder {spec.__qualname__} is a class. Pass an instance: {spec.__qualname__}(...).")
    if _is_embedder(spec):
        return cast(Embedder, spec)
    if callable(spec):
        return FunctionEmbedder(spec)
    raise ConfigurationError(
        f"{spec!r} cannot be used as an embedder. Pass one of {', '.join(names())}, {_PATTERNS}, a function from a list of "
        "texts to a list of vectors, or an object with id, dimension, local and embed(texts)."
    )


def _embedder_by_name(spec: str, environment: Environment) -> Embedder | None:
    kind, colon, rest = (part.strip() for part in spec.partition(":"))
    kind = kind.lower()
    if kind in _HOSTED:
        return _hosted(kind, rest, environment)
    if kind in _BY_FOLDER and (colon or kind not in _BY_NAME):
        if not rest:
            alone = f", or {kind!r} alone" if kind in _BY_NAME else " or a model's name"
            raise ConfigurationError(f"The embedder {spec!r} names nothing after the colon: give a folder{alone}.")
        return _BY_FOLDER[kind](rest)
    factory = _BY_NAME.get(spec.strip().lower())
    if factory is not None:
        return factory()
    label = re.sub(r"(https?://).*", r"\1…", spec)  # an address may hold a password
    near = difflib.get_close_matches(kind, [*names(), *_BY_FOLDER, *_HOSTED], n=1)
    guess = f" Did you mean {near[0]!r}?" if near and near[0] != kind else ""
    known = f"{', '.join(names())}, {_PATTERNS}"
    raise ConfigurationError(f"There is no embedder named {label!r}.{guess} The names are: {known}.")


def _hosted(kind: str, rest: str, environment: Environment) -> Embedder:
    name, dimension, address = _split_spec(rest)
    if not name:
        raise ConfigurationError(f"The embedder {kind!r} names no model: write {kind}:NAME with a name of the provider.")
    hosted = _load(*_HOSTED[kind])
    if kind == "openai":
        address = address or environment("OPENAI_BASE_URL")
    # Ollama needs no key, and must not get that of OpenAI.
    key, address = (None, address or OLLAMA_URL) if kind == "ollama" else (environment(hosted.variable), address)
    return cast(Embedder, hosted(name, api_key=key, base_url=address, dimension=dimension))


def _split_spec(rest: str) -> tuple[str, int | None, str | None]:
    """The name, dimension and address of a model: NAME, NAME@512, NAME@http://…, NAME@512@http://…"""
    match = re.search("@https?://", rest)
    name, address = (rest[: match.start()], rest[match.start() + 1 :]) if match else (rest, None)
    sized = re.fullmatch(r"(.+)@([1-9]\d{0,5})", name, re.DOTALL)
    return (sized[1], int(sized[2]), address) if sized else (name, None, address)


def _is_embedder(spec: Any) -> bool:
    # Looked up on the class where possible: `dimension` may be a property that sends a request.
    return callable(getattr(spec, "embed", None)) and all(
        name in vars(spec) or hasattr(type(spec), name) for name in ("id", "dimension", "local")
    )
