"""Where a page is and who may see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.responses import Response

from keepstone.server.dashboard.visit import Visit
from keepstone.server.identity import READ

Page = Callable[[Visit], Response]


@dataclass(frozen=True, slots=True)
class Place:
    """An address with what answers there. `rights` are needed for both methods; a `person` where it is not for agents."""

    path: str
    get: Page | None = None
    post: Page | None = None
    rights: tuple[str, ...] = (READ,)
    person: str | None = None
