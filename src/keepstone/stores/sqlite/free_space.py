"""A VFS of SQLite that writes zeros into the free space of pages, so that the file holds nothing that was forgotten.

SQLite overwrites the rows that it deletes (`secure_delete`). But where it distributes rows over its pages anew, it leaves copies
of moved rows between a page's cell pointers and its cells. They are cleared when a page is written to the file, which is at a
checkpoint; the log is emptied after each forget.
"""

from __future__ import annotations

from typing import Any

import apsw

VFS = "keepstone"
CLEARED = "free space cleared"  # in the table meta: every page of the file was written through this VFS
_HEADER_BYTES = {2: 12, 5: 12, 10: 8, 13: 8}  # by the first byte of a page of an index or a table: inner pages, leaves
_MAX_PAGES = 1 << 24  # in a larger file the first byte of an overflow page, part of a page number, may look like one of these
_PAGES_READ = 256  # at a time
_AUTOVACUUM_AT = 52  # of the file's header: not zero where there are pages of another kind, which may look alike as well


def vfs_for(encryption_key: str | None) -> str | None:
    """The VFS of a file. It is not for an encrypted one, whose log would not be encrypted through it."""
    return VFS if encryption_key is None else None


def clear_free_space(page: bytes, is_first: bool = False) -> bytes:
    """A page of the file with zeros between its cell pointers and its cells."""
    at = 100 if is_first else 0
    header = _HEADER_BYTES.get(page[at])
    if header is None:
        return page
    begin = at + header + 2 * int.from_bytes(page[at + 3 : at + 5], "big")
    end = int.from_bytes(page[at + 5 : at + 7], "big") or 65_536
    if begin >= end or end > len(page) or page.count(0, begin, end) == end - begin:
        return page
    return page[:begin] + bytes(end - begin) + page[end:]


def uncleared_pages(connection: apsw.Connection, encrypted: bool = False) -> int:
    """How many pages of the file have bytes in their free space: none, unless another program wrote them. The file is read
    through the engine's own handle: closing another one would release this process's locks on it."""
    size = int(connection.pragma("page_size"))
    if connection.pragma("auto_vacuum") or connection.pragma("page_count") > _MAX_PAGES:
        return int(connection.pragma("page_count"))
    found, at, whole = 0, 0, True
    step = size if encrypted else size * _PAGES_READ  # what is encrypted is read page by page
    while whole:
        whole, piece = connection.read("main", 0, at, step)
        for start in range(0, len(piece) - size + 1, size):
            page = piece[start : start + size]
            found += clear_free_space(page, not at + start) is not page
        at += step
    return found


class _ClearedFile(apsw.VFSFile):
    """The main file of a store."""

    def __init__(self, base: str, name: Any, flags: Any) -> None:
        super().__init__(base, name, flags)
        self._clears = not self._has_other_pages()

    def _has_other_pages(self) -> bool:
        return self.xFileSize() > _AUTOVACUUM_AT + 4 and any(self.xRead(4, _AUTOVACUUM_AT))

    def xWrite(self, data: bytes, offset: int) -> None:
        size = len(data)
        if self._clears and size >= 512 and not offset % size:
            if offset // size < _MAX_PAGES:
                data = clear_free_space(bytes(data), not offset)
            else:
                self._clears = False
        super().xWrite(data, offset)


class _ClearingVFS(apsw.VFS):
    def __init__(self) -> None:
        super().__init__(VFS, "")

    def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:
        kind = _ClearedFile if flags[0] & apsw.SQLITE_OPEN_MAIN_DB else apsw.VFSFile
        return kind("", name, flags)


_registered = _ClearingVFS()  # registered as long as it exists
