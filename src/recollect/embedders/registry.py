"""Which embedder a name, a function or an object stands for. Imports: the embedders, recollect.ports and errors."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, cast

from recollect.embedders.function import FunctionEmbedder
from recollect.embedders.static import StaticEmbedder
from recollect.errors import ConfigurationError
from recollect.ports import Embedder


def _minilm(where: str = "") -> Embedder:
    from recollect.embedders.minilm import MiniLMEmbedder  # here, since hardly anybody needs it

    return MiniLMEmbedder(where)


_BY_NAME: dict[str, Callable[[], Embedder | None]] = {
    "auto": StaticEmbedder,
    "minilm": _minilm,
    "none": lambda: None,
    "static": StaticEmbedder,
}
# Names that may be followed by ":" and a place.
_BY_PLACE: dict[str, Callable[[str], Embedder]] = {"minilm": _minilm}


def names() -> list[str]:
    """The names that `make_embedder` knows."""
    return sorted(_BY_NAME)


def make_embedder(spec: object) -> Embedder | None:
    """The embedder meant by a name, an embedder (returned as it is) or a function; None for "none": words only.

    Example: `make_embedder("auto")`, `make_embedder("minilm:/models/minilm")`, `make_embedder(my_function)`.
    Raises ConfigurationError for a name that does not exist or a value that cannot embed.
    """
    if spec is None:
        return None
    if isinstance(spec, str):
        return _named(spec)
    if isinstance(spec, type):
        raise ConfigurationError(f"The embedder {spec.__qualname__} is a class. Pass an instance: {spec.__qualname__}(...).")
    if _embeds(spec):
        return cast(Embedder, spec)
    if callable(spec):
        return FunctionEmbedder(spec)
    raise ConfigurationError(
        f"{spec!r} cannot be used as an embedder. Pass one of {', '.join(names())}, a function from a list of texts to "
        "a list of vectors, or an object with id, dimension, local and embed(texts)."
    )


def _named(name: str) -> Embedder | None:
    kind, colon, place = (part.strip() for part in name.partition(":"))
    if colon and kind.lower() in _BY_PLACE:
        if not place:
            raise ConfigurationError(f"The embedder {name!r} names no place behind the colon: give a folder, or {kind!r} alone.")
        return _BY_PLACE[kind.lower()](place)
    make = _BY_NAME.get(name.strip().lower())
    if make is not None:
        return make()
    near = difflib.get_close_matches(name.strip().lower(), names(), n=1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigurationError(f"There is no embedder named {name!r}.{guess} The names are: {', '.join(names())}.")


def _embeds(spec: Any) -> bool:
    # The attributes are looked up on the class where they can be: `dimension` may be a property that asks a provider.
    return callable(getattr(spec, "embed", None)) and all(
        name in vars(spec) or hasattr(type(spec), name) for name in ("id", "dimension", "local")
    )
