"""Finds the vector index that a setting names."""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Callable
from typing import Any, cast

from keepstone.errors import ConfigurationError
from keepstone.ports.caches import VectorIndex

Environment = Callable[[str], str | None]  # the value of an environment variable
FORMS = (
    "chroma:/path/to/folder, chroma:http://host:8000, qdrant:/path/to/folder, qdrant::memory:, qdrant:http://host:6333, "
    "pinecone:index-name"
)
_METHODS = ("open", "put", "drop", "clear", "existing", "vector_hashes", "search", "close")


# Kind -> (class, which environment variable has which option).
_KINDS = {
    "chroma": ("ChromaIndex", {"token": "CHROMA_TOKEN"}),
    "pinecone": (
        "PineconeIndex",
        {
            "key": "PINECONE_API_KEY",
            "host": "PINECONE_HOST",
            "controller": "PINECONE_CONTROLLER_HOST",
            "cloud": "PINECONE_CLOUD",
            "region": "PINECONE_REGION",
        },
    ),
    "qdrant": ("QdrantIndex", {"key": "QDRANT_API_KEY"}),
}


def make_index(spec: Any, *, environment: Environment) -> VectorIndex | None:
    """The vector index for a name, or an index object (returned as it is); None for None. No request is sent before `open`. Keys
    and addresses are looked up in `environment`.

    Example: `make_index("chroma:/data/chroma", environment=os.environ.get)`.
    Raises ConfigurationError for an unknown name, a missing package or a missing key.
    """
    if spec is None:
        return None
    if isinstance(spec, str):
        return _index_by_name(spec, environment)
    if isinstance(spec, type):
        raise ConfigurationError(f"The vector index {spec.__qualname__} is a class. Pass an instance: {spec.__qualname__}(...).")
    missing = [name for name in _METHODS if not callable(getattr(spec, name, None))]
    if missing:
        raise ConfigurationError(
            f"A {type(spec).__name__} cannot be used as a vector index, it has no {', '.join(missing)}. Pass one of {FORMS}, "
            "or an object with the methods of keepstone.ports.caches.VectorIndex."
        )
    return cast(VectorIndex, spec)


def _index_by_name(spec: str, environment: Environment) -> VectorIndex:
    kind, _, rest = (part.strip() for part in spec.strip().partition(":"))
    if kind.lower() not in _KINDS:
        shown = re.sub(r"(https?://).*", r"\1…", spec)  # an address may hold a password
        near = difflib.get_close_matches(kind.lower(), list(_KINDS), n=1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(f"There is no vector index named {shown!r}.{guess} Write one of: {FORMS}.")
    if not rest:
        raise ConfigurationError(f"The vector index {spec!r} does not say where it is. Write one of: {FORMS}.")
    name, variables = _KINDS[kind.lower()]
    make: Callable[..., VectorIndex] = getattr(importlib.import_module(f"keepstone.vector_indexes.{kind.lower()}"), name)
    return make(rest, **{option: environment(variable) for option, variable in variables.items()})
