"""PipelinedConnection: statements are queued, and sent in one message once a result is wanted.

psycopg's own pipeline sends each statement by itself and makes a cursor for it, which takes longer than most statements here run.
Only its wrapper of libpq and its adapters are used.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import Loader, PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper
from psycopg.types.string import BytesBinaryDumper, StrBinaryDumper
from psycopg.waiting import Ready, Wait

_PREPARED_AFTER = 5  # runs of a statement until it is prepared
_MAX_KNOWN = 1000  # statements, each with the types of its values; more are not prepared
_MAX_QUEUED = 1000  # statements in a message, so that neither side holds many


class Halves(bytes):
    """A vector as pgvector sends it: its width, then 16-bit floats."""

    __slots__ = ()


class HalvesLoader(Loader):
    """Halves come from the server as they are: many are made into a matrix at once."""

    format = Format.BINARY

    def load(self, data: Any) -> Halves:
        return Halves(data)


class Reply:
    """A queued statement and, once it has arrived, its result."""

    __slots__ = ("result",)

    def __init__(self) -> None:
        self.result: PGresult | None = None


class PipelinedConnection(psycopg.Connection[Any]):
    """A connection of the pool. After an error of the server it must be closed."""

    def __init__(self, pgconn: PGconn) -> None:
        super().__init__(pgconn)
        self._replies: deque[Reply] = deque()
        self._known: dict[tuple[str, tuple[int, ...] | None], int | bytes] = {}  # how often it was run, or its name
        self._prepares = False

    def adapt(self, halfvec: int | None, prepares: bool) -> None:
        """Say how values travel. `halfvec`: the number of that type; `prepares`: whether statements may be prepared."""
        self.adapters.register_dumper(int, Int8Dumper)  # in lists, which travel as text
        self.adapters.register_dumper(int, Int8BinaryDumper)
        self.adapters.register_dumper(str, StrBinaryDumper)
        if halfvec is not None:
            self.adapters.register_dumper(Halves, type("HalvesDumper", (BytesBinaryDumper,), {"oid": halfvec}))
            self.adapters.register_loader(halfvec, HalvesLoader)
        self._transformer, self._prepares = Transformer(self), prepares

    def queue(self, text: str, values: Sequence[Any] = (), prepare: bool = True) -> Reply:
        """Run a statement, at the latest before the next result is read."""
        if len(self._replies) >= _MAX_QUEUED:
            self.exchange()
        sent = self._transformer.dump_sequence(values, [PyFormat.AUTO] * len(values))
        types, formats = self._transformer.types, self._transformer.formats
        known: int | bytes = 0
        if prepare and self._prepares:
            known = self._known.get((text, types), 0)
            if known == _PREPARED_AFTER and len(self._known) <= _MAX_KNOWN:
                # By its text, so that a session that a pooler moves this to has no other statement of that name.
                known = hashlib.blake2b(f"{types}{text}".encode(), digest_size=16).hexdigest().encode()
                self.pgconn.send_prepare(known, text.encode(), types)
                self._replies.append(Reply())
            self._known[text, types] = known if isinstance(known, bytes) else known + 1
        if isinstance(known, bytes):
            self.pgconn.send_query_prepared(known, sent, formats, Format.BINARY)
        else:
            self.pgconn.send_query_params(text.encode(), sent, types, formats, Format.BINARY)
        self._replies.append(reply := Reply())
        return reply

    def rows(self, reply: Reply) -> list[Any]:
        """The rows of a statement."""
        result = self._awaited(reply)
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    def changed(self, reply: Reply) -> int:
        """How many rows a statement changed."""
        return self._awaited(reply).command_tuples or 0

    def _awaited(self, reply: Reply) -> PGresult:
        if reply.result is None:
            self.exchange()
        assert reply.result is not None
        return reply.result

    def exchange(self) -> None:
        """Send what is queued and read its results, in one round trip."""
        self.pgconn.pipeline_sync()
        self.wait(self._exchanged())

    def _exchanged(self) -> PQGen[None]:
        connection = self.pgconn
        while connection.flush():
            if (yield Wait.RW) & Ready.R:
                connection.consume_input()
        while True:
            while connection.is_busy():
                if (yield Wait.R):
                    connection.consume_input()
            result = connection.get_result()
            if result is None:  # the end of a statement's results
                continue
            if result.status == ExecStatus.PIPELINE_SYNC:
                return
            if result.status in (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED):
                raise error_from_result(result)
            self._replies.popleft().result = result
