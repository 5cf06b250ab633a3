"""A write that waits to be committed together with others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PendingWrite(Generic[T]):
    """A caller's work inside a transaction, and its outcome."""

    __slots__ = ("done", "error", "result", "work")

    def __init__(self, work: Callable[[Any], T]) -> None:
        self.work = work
        self.done = False
        self.result: T | None = None
        self.error: BaseException | None = None

    def given(self) -> T:
        """The result of the work; raises its error."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]
