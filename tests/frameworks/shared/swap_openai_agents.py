"""Puts KeepstoneSession in the place of the SDK's SQLite sessions, for the SDK's own tests. A plugin for pytest: `-p`."""

from __future__ import annotations

import asyncio

import agents
import agents.extensions.memory
import agents.extensions.memory.async_sqlite_session
import agents.memory

from keepstone.integrations.openai_agents import KeepstoneSession


class SQLiteSession(KeepstoneSession):
    """Ours, by the name that the tests ask for."""


class AsyncSQLiteSession(KeepstoneSession):
    """The SDK's other SQLite session is closed in a coroutine."""

    async def close(self) -> None:  # type: ignore[override]
        super().close()


agents.SQLiteSession = SQLiteSession  # type: ignore[misc,assignment]
agents.memory.SQLiteSession = SQLiteSession  # type: ignore[misc,assignment]
agents.extensions.memory.AsyncSQLiteSession = AsyncSQLiteSession  # type: ignore[misc,assignment]
agents.extensions.memory.async_sqlite_session.AsyncSQLiteSession = AsyncSQLiteSession  # type: ignore[misc,assignment]


async def _warm() -> None:
    """Load what a first write loads: some of the tests give a whole run two seconds."""
    session = SQLiteSession("warm")
    await session.add_items([{"role": "user", "content": "My dog is called Rex."}])
    await session.pop_item()
    session.close()


asyncio.run(_warm())
