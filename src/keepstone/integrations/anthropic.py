"""KeepstoneMemoryTool, AsyncKeepstoneMemoryTool: Claude's memory tool with keepstone behind it.

client.beta.messages.tool_runner(model=…, max_tokens=…, messages=…, tools=[KeepstoneMemoryTool(memory)]).until_done()
"""

from __future__ import annotations

from typing import Any

from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool
from anthropic.types.beta import (
    BetaCacheControlEphemeralParam,
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)
from anyio.to_thread import run_sync

from keepstone.integrations.anthropic_files import Files


class KeepstoneMemoryTool(BetaAbstractMemoryTool):
    """The files that Claude keeps under /memories, in one scope: found by recall, with a history, in the trail.

    `memory` is a Memory, an AsyncMemory or a Client."""

    def __init__(self, memory: Any, *, cache_control: BetaCacheControlEphemeralParam | None = None) -> None:
        super().__init__(cache_control=cache_control)
        self._files = Files(memory)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """A file with line numbers, or what is in a directory. Raises ToolError."""
        return self._files.view(command.path, command.view_range)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """A new file. Raises ToolError, where there is one already too."""
        return self._files.create(command.path, command.file_text)

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that stands in a file once. Raises ToolError."""
        return self._files.str_replace(command.path, command.old_str, command.new_str)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Put a text after a line. Raises ToolError."""
        return self._files.insert(command.path, command.insert_line, command.insert_text)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Erase a file with its history, or a directory. Raises ToolError."""
        return self._files.delete(command.path)

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file or a directory. Raises ToolError."""
        return self._files.rename(command.old_path, command.new_path)

    def clear_all_memory(self) -> str:
        """Erase every file of this scope."""
        return self._files.clear()


class AsyncKeepstoneMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for AsyncAnthropic; the store is asked in a thread."""

    def __init__(self, memory: Any, *, cache_control: BetaCacheControlEphemeralParam | None = None) -> None:
        super().__init__(cache_control=cache_control)
        self._files = Files(memory)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """A file with line numbers, or what is in a directory. Raises ToolError."""
        return await run_sync(self._files.view, command.path, command.view_range)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """A new file. Raises ToolError, where there is one already too."""
        return await run_sync(self._files.create, command.path, command.file_text)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that stands in a file once. Raises ToolError."""
        return await run_sync(self._files.str_replace, command.path, command.old_str, command.new_str)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Put a text after a line. Raises ToolError."""
        return await run_sync(self._files.insert, command.path, command.insert_line, command.insert_text)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Erase a file with its history, or a directory. Raises ToolError."""
        return await run_sync(self._files.delete, command.path)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Move a file or a directory. Raises ToolError."""
        return await run_sync(self._files.rename, command.old_path, command.new_path)

    async def clear_all_memory(self) -> str:
        """Erase every file of this scope."""
        return await run_sync(self._files.clear)
