"""Regular expressions that are compiled on first use: a process that only recalls needs few of them."""

from __future__ import annotations

import re
from typing import Any, cast


class _Pattern:
    def __init__(self, expression: str, flags: int) -> None:
        self._source = expression, flags

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(re.compile(*self._source), name)
        return value


def lazy_pattern(expression: str, flags: int = 0) -> re.Pattern[str]:
    """The compiled expression, compiled when one of its methods is first called.

    >>> lazy_pattern("b+").findall("abba")
    ['bb']
    """
    return cast("re.Pattern[str]", _Pattern(expression, flags))
