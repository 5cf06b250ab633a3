"""The policy of upkeep: what a run does, as data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

from keepstone.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class UpkeepPolicy:
    """What is done when upkeep runs, scope by scope; 0 days and a cap of 0 mean never.

    learn: work on what waits for a model. lapse: put aside what has outlived its time to live. age_days: put aside what was
    neither changed nor read for so long, with age_messages messages too. consolidate_days: the same for what matters less
    than consolidate_importance and was read at most consolidate_reads times. cap: how many memories a scope may have,
    messages and keys apart. compact_days: condense what was not changed for so long. verify: flag what is stale, contradicted
    or unsupported. purge_days: erase what has been aside for so long; until then it can be undone. trust_clock: a clock that
    jumps by more than a week is right."""

    learn: bool = True
    lapse: bool = True
    age_days: float = 0.0
    age_messages: bool = False
    consolidate_days: float = 90.0
    consolidate_importance: float = 0.3
    consolidate_reads: int = 1
    cap: int = 0
    compact_days: float = 0.0
    verify: bool = True
    purge_days: float = 30.0
    trust_clock: bool = False

    @classmethod
    def of(cls, given: UpkeepPolicy | Mapping[str, Any] | str | PathLike[str] | None) -> UpkeepPolicy:
        """A policy from its values by name, or from a TOML file; None is the default."""
        if given is None or isinstance(given, UpkeepPolicy):
            return given or cls()
        if isinstance(given, (str, PathLike)):
            given = _read(Path(given))
        if not isinstance(given, Mapping):
            raise ConfigurationError(f"policy is {type(given).__name__}: use a dictionary, a TOML file or None for the default.")
        known = {each.name: each for each in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name not in known:
                raise ConfigurationError(f"the policy has no {name!r:.60}: use {', '.join(sorted(known))}.")
            values[name] = _checked(str(name), value, type(known[name].default))
        return cls(**values)


def _checked(name: str, value: Any, kind: type) -> Any:
    if kind is bool:
        if not isinstance(value, bool):
            raise ConfigurationError(f"the policy's {name} is {value!r:.40}: use true or false.")
        return value
    number = not isinstance(value, bool) and isinstance(value, (int, float) if kind is float else int)
    if not number or not 0 <= value < 1e9 or (name == "consolidate_importance" and value > 1):
        raise ConfigurationError(f"the policy's {name} is {value!r:.40}: use a number from 0.")
    return kind(value)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValueError) as error:
        raise ConfigurationError(f"the policy {str(path)!r:.100} cannot be read ({error}): name a TOML file.") from None
