"""Settings: what a store is opened with besides its target. Imports: stdlib, errors.

Read at the composition root only, in this order: the `settings` argument, the environment (RECOLLECT_*), the file named
by RECOLLECT_SETTINGS or ./recollect.toml, the defaults below.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from recollect.errors import ConfigurationError

PREFIX = "RECOLLECT_"
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def _setting(default: Any, text: str, least: float | None = None, most: float | None = None) -> Any:
    return field(default=default, metadata={"text": text, "least": least, "most": most})


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting with its default; the table in the documentation is made from this class."""

    durable: bool = _setting(True, "every write waits until the disk has it; off: a power cut may cost the last writes")
    busy_timeout: float = _setting(30.0, "seconds to wait for another process's write", 5.0, 3600.0)
    cache_mb: int = _setting(512, "memory for scopes held ready for recall, in megabytes", 1, 1_000_000)
    min_similarity: float | None = _setting(
        None, "relevance below which a memory is not recalled; unset: what chance reaches", 0, 1
    )

    extract: bool = _setting(True, "facts are looked for in what users say: by the model, or by rules where there is none")
    extract_after: float = _setting(5.0, "seconds that messages are gathered before a model is asked for facts", 0.0, 86400.0)
    worker: bool = _setting(
        True, "with a model: a thread of this process works on the queue; off: only 'recollect upkeep run' does"
    )
    tool_writes_per_minute: int = _setting(10, "memories that the memory tools may write in a minute, in one scope", 1, 100_000)
    model_timeout: float = _setting(60.0, "seconds a model may take for an answer", 0.1, 3600.0)
    model_retries: int = _setting(2, "how often a model is asked again when its service fails or is busy", 0, 20)

    @classmethod
    def load(cls, given: Settings | Mapping[str, Any] | None = None) -> Settings:
        """The settings in force; ConfigurationError names the one that cannot be used and where it came from."""
        if isinstance(given, Settings):
            given = asdict(given)
        if given is not None and not isinstance(given, Mapping):
            raise ConfigurationError(f"settings must be a dictionary or Settings, got {type(given).__name__}.")
        values: dict[str, Any] = {}
        hints = get_type_hints(cls)
        for origin, source in (("file", _file()), ("environment", _environment()), ("argument", given or {})):
            for name, value in source.items():
                if name not in hints:
                    raise ConfigurationError(f"there is no setting {name!r} (from the {origin}): use {', '.join(sorted(hints))}.")
                values[name] = _converted(name, value, hints[name], origin)
        return cls(**values)


def provider_variable(name: str) -> str | None:
    """What the environment has under a provider's own name (VOYAGE_API_KEY, OPENAI_BASE_URL); None where that is nothing."""
    return os.environ.get(name, "").strip() or None


def _file() -> Mapping[str, Any]:
    named = os.environ.get(PREFIX + "SETTINGS")
    path = Path(named or "recollect.toml")
    if not named and not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"the settings file {path} cannot be read ({error}): mend it or take it away.") from None


def _environment() -> Mapping[str, str]:
    """RECOLLECT_CACHE_MB=64 and so on; other RECOLLECT_* variables belong to the command line."""
    names = {each.name for each in fields(Settings)}
    found = {name: os.environ.get(PREFIX + name.upper()) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _converted(name: str, value: Any, kind: Any, origin: str) -> Any:
    limits = next(each.metadata for each in fields(Settings) if each.name == name)
    try:
        if kind is bool:
            word = str(value).lower()
            if word not in _TRUE + _FALSE:
                raise ValueError("use true or false")
            return word in _TRUE
        if value is None and kind == float | None:
            return None
        if isinstance(value, bool) or (kind is int and float(value) != int(float(value))):
            raise ValueError("use a whole number" if kind is int else "use a number")
        number = (int if kind is int else float)(value)
        least, most = limits["least"], limits["most"]
        if not least <= number <= most:
            raise ValueError(f"use {least} to {most}")
        return number
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigurationError(f"setting {name} is {value!r:.40} (from the {origin}): {error}.") from None
