"""The whole store, for who runs it: the doctor, a backup."""

from __future__ import annotations

from starlette.responses import Response

from keepstone.server.files import handed
from keepstone.server.identity import OPERATOR
from keepstone.server.responses import Asking, answer, group
from keepstone.types import Diagnosis

router = group("store")
_SQLITE = "application/vnd.sqlite3"


@router.get("/store/doctor", operation_id="doctor", response_model=Diagnosis)
async def doctor(asking: Asking) -> Response:
    """Check the whole store: engine, content hashes, text = words = vectors."""
    asking.need(OPERATOR)
    return answer(await asking.run(asking.memory.upkeep.doctor))


@router.get(
    "/store/backup",
    operation_id="backup",
    response_class=Response,
    responses={
        200: {"description": "The store.", "content": {_SQLITE: {"schema": {"type": "string", "format": "binary"}}}},
    },
)
async def backup(asking: Asking) -> Response:
    """A consistent copy of the whole store, every tenant's memories and the hashes of keys with it, as a SQLite file."""
    asking.need(OPERATOR)
    return await handed(asking, asking.memory.backup, _SQLITE, "keepstone.db")
