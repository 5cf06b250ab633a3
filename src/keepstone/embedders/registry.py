"""Which embedder a name, a function or an object stands for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from functools import cache
from typing import Any, cast

from keepstone.embedders.function import FunctionEmbedder
from keepstone.embedders.static import StaticEmbedder
from keepstone.errors import ConfigurationError
from keepstone.ports.stores import Embedder

OLLAMA = "http://localhost:11434/v1"
Environment = Callable[[str], str | None]  # what the environment has under a name: keys, and where OpenAI's API is


@cache
def _static() -> Embedder:
    """One for the process: it only reads, and making another takes as long as opening a store."""
    return StaticEmbedder()


def _minilm(where: str = "") -> Embedder:
    from keepstone.embedders.minilm import MiniLMEmbedder  # here, since hardly anybody needs it

    return MiniLMEmbedder(where)


def _sentence_transformers(name: str) -> Embedder:
    from keepstone.embedders.sentence_transformers import SentenceTransformersEmbedder

    return SentenceTransformersEmbedder(name)


def _voyage(rest: str, environment: Environment) -> Embedder:
    from keepstone.embedders.voyage import VoyageEmbedder

    name, dimension, address = _parted(rest)
    return VoyageEmbedder(name, api_key=environment(VoyageEmbedder.variable), base_url=address, dimension=dimension)


def _openai(rest: str, environment: Environment) -> Embedder:
    from keepstone.embedders.openai import OpenAIEmbedder

    name, dimension, address = _parted(rest)
    address = address or environment("OPENAI_BASE_URL")
    return OpenAIEmbedder(name, api_key=environment(OpenAIEmbedder.variable), base_url=address, dimension=dimension)


def _ollama(rest: str, environment: Environment) -> Embedder:
    from keepstone.embedders.openai import OpenAIEmbedder

    name, dimension, address = _parted(rest)  # another program's key is none of its business
    return OpenAIEmbedder(name, base_url=address or OLLAMA, dimension=dimension)


_BY_NAME: dict[str, Callable[[], Embedder | None]] = {
    "auto": _static,
    "minilm": _minilm,
    "none": lambda: None,
    "static": _static,
}
# Names that are followed by ":" and a place or a model.
_BY_PLACE: dict[str, Callable[[str], Embedder]] = {"minilm": _minilm, "sentence-transformers": _sentence_transformers}
_HOSTED: dict[str, Callable[[str, Environment], Embedder]] = {"ollama": _ollama, "openai": _openai, "voyage": _voyage}
_PATTERNS = (
    "minilm:FOLDER, ollama:NAME, openai:NAME, openai:NAME@http://host:port/v1, sentence-transformers:NAME_OR_FOLDER, voyage:NAME"
)


def names() -> list[str]:
    """The names that `make_embedder` knows without anything behind them."""
    return sorted(_BY_NAME)


def make_embedder(spec: object, *, environment: Environment = lambda name: None) -> Embedder | None:
    """The embedder meant by a name, an embedder (returned as it is) or a function; None for "none": words only. Keys of
    providers are looked up in `environment`.

    Example: `make_embedder("auto")`, `make_embedder("ollama:nomic-embed-text")`, `make_embedder(my_function)`.
    Raises ConfigurationError for a name that does not exist or a value that cannot embed.
    """
    if spec is None:
        return None
    if isinstance(spec, str):
        return _named(spec, environment)
    if isinstance(spec, type):
        raise ConfigurationError(f"The embedder {spec.__qualname__} is a class. Pass an instance: {spec.__qualname__}(...).")
    if _embeds(spec):
        return cast(Embedder, spec)
    if callable(spec):
        return FunctionEmbedder(spec)
    raise ConfigurationError(
        f"{spec!r} cannot be used as an embedder. Pass one of {', '.join(names())}, {_PATTERNS}, a function from a list of "
        "texts to a list of vectors, or an object with id, dimension, local and embed(texts)."
    )


def _named(spec: str, environment: Environment) -> Embedder | None:
    kind, colon, rest = (part.strip() for part in spec.partition(":"))
    kind = kind.lower()
    if kind in _HOSTED:
        if not _parted(rest)[0]:
            raise ConfigurationError(f"The embedder {kind!r} names no model: write {kind}:NAME with the one the provider knows.")
        return _HOSTED[kind](rest, environment)
    if kind in _BY_PLACE and (colon or kind not in _BY_NAME):
        if not rest:
            alone = f", or {kind!r} alone" if kind in _BY_NAME else " or a model's name"
            raise ConfigurationError(f"The embedder {spec!r} names no place behind the colon: give a folder{alone}.")
        return _BY_PLACE[kind](rest)
    make = _BY_NAME.get(spec.strip().lower())
    if make is not None:
        return make()
    shown = re.sub(r"(https?://).*", r"\1…", spec)  # an address may hold a password
    near = difflib.get_close_matches(kind, [*names(), *_BY_PLACE, *_HOSTED], n=1)
    guess = f" Did you mean {near[0]!r}?" if near and near[0] != kind else ""
    known = f"{', '.join(names())}, {_PATTERNS}"
    raise ConfigurationError(f"There is no embedder named {shown!r}.{guess} The names are: {known}.")


def _parted(rest: str) -> tuple[str, int | None, str | None]:
    """A model's name, its dimension and its address: NAME, NAME@512, NAME@http://…, NAME@512@http://…"""
    begin = re.search("@https?://", rest)
    name, address = (rest[: begin.start()], rest[begin.start() + 1 :]) if begin else (rest, None)
    sized = re.fullmatch(r"(.+)@([1-9]\d{0,5})", name, re.DOTALL)
    return (sized[1], int(sized[2]), address) if sized else (name, None, address)


def _embeds(spec: Any) -> bool:
    # The attributes are looked up on the class where they can be: `dimension` may be a property that asks a provider.
    return callable(getattr(spec, "embed", None)) and all(
        name in vars(spec) or hasattr(type(spec), name) for name in ("id", "dimension", "local")
    )
