"""A Postgres that is stopped, killed or cut off while it is written to: nothing lost, nothing twice, no error for a caller."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from bench.restarts import Restarts, everything
from keepstone import Memory, Receipt
from keepstone.errors import StoreError
from tests.server_processes import HOST, PostgresServer

SHORT = {"busy_timeout": 5, "statement_timeout": 1}  # a transaction may last for as long as both
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer(tmp_path_factory.mktemp("postgres"), durable=True) as started:
        yield started


@pytest.fixture
def url(server: PostgresServer) -> str:
    """A database of the test's own, on a server that is up."""
    server.start()
    return server.database(f"restarts{next(_numbers)}")


class Proxy:
    """Stands between a store and its server. Once armed, it cuts the first connection that a COMMIT comes along on.

    `before`: it is not passed on; `while`: it is, and no client waits for the answer; `after`: the answer has come, and is kept;
    `answered`: it is the last thing that is given back. `silent` is as before, and the server is not told that its client has
    gone. `meanwhile` is run at the cut; new connections wait for that."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._when = ""
        self._meanwhile: Callable[[], None] = lambda: None
        self._open = threading.Event()
        self._open.set()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server((HOST, 0))
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, url: str) -> str:
        """The same database by way of this proxy."""
        return url.replace(f":{self._server.port}/", f":{self._listener.getsockname()[1]}/")

    def arm(self, when: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        self._when, self._meanwhile = when, meanwhile

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._join, args=(client,), daemon=True).start()

    def _join(self, client: socket.socket) -> None:
        self._open.wait()
        try:
            server = socket.create_connection((HOST, self._server.port))
        except OSError:
            client.close()
            return
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets.append(each)
        cut, answered, last = threading.Event(), threading.Event(), threading.Event()
        threading.Thread(target=self._back, args=(client, server, cut, answered, last), daemon=True).start()
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self._when == "answered" and b"COMMIT\0" in data:
                    self._when = ""
                    last.set()
                elif self._when and b"COMMIT\0" in data:
                    self._cut(client, server, data, cut, answered)
                    return
                server.sendall(data)
        _close(client, server)

    def _cut(
        self, client: socket.socket, server: socket.socket, data: bytes, cut: threading.Event, answered: threading.Event
    ) -> None:
        when, self._when = self._when, ""
        self._open.clear()
        cut.set()  # from here on nothing comes back
        if when in ("while", "after"):
            server.sendall(data)
        if when == "after":
            client.settimeout(0.02)
            while not answered.is_set():  # it comes once the client has said that it waits
                with contextlib.suppress(TimeoutError):
                    server.sendall(client.recv(65536))
        _close(client, *([] if when == "silent" else [server]))
        self._meanwhile()
        self.cuts += 1
        self._open.set()

    def _back(self, client: socket.socket, server: socket.socket, *states: threading.Event) -> None:
        cut, answered, last = states
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                is_last = last.is_set() and b"COMMIT\0" in data
                self.cuts += is_last  # before the client may go on
                if not cut.is_set():
                    client.sendall(data)
                if b"COMMIT\0" in data:
                    answered.set()
                if is_last:
                    break
        _close(client, server)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        _close(self._listener, *self._sockets)


def _close(*sockets: socket.socket) -> None:
    for each in sockets:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


def sound(url: str, tenant: str = "local") -> bool:
    """Whether the trail is whole and the doctor finds nothing, seen by a process that has not touched the store yet."""
    with Memory.open(url, tenant=tenant, embedder="none") as memory:
        report, diagnosis = memory.audit.verify(), memory.upkeep.doctor()
    assert report.whole, report.problem
    assert not diagnosis.findings, diagnosis.findings
    return True


# -- restarts -----------------------------------------------------------------------------------------------------
def test_restarts_under_writers_and_readers(server: PostgresServer) -> None:
    server.start()
    result = Restarts(server, seed=3).run(["immediate", "immediate", "immediate", "kill", "fast"], longest=1.0)
    assert result.problems == []
    assert (result.lost, result.doubled, result.errors) == (0, 0, 0)
    assert result.whole
    assert result.healthy
    assert result.restarts == {"immediate": 3, "kill": 1, "fast": 1}
    assert len(result.recovery) == 5, "a caller waited for every restart and got no error"
    assert result.acknowledged > 100


# -- cut off in mid-commit ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("when", ["before", "while", "after", "answered"])
def test_a_connection_that_is_lost_while_committing(server: PostgresServer, url: str, when: str) -> None:
    with Proxy(server) as proxy, Memory.open(proxy.url(url), embedder="none") as memory:
        talk = memory.conversation("desk")
        first = memory.remember("The kettle has the number 1 on it.")
        verbs: list[Callable[[], Receipt]] = [
            lambda: memory.remember("Item zqcut1q is in box 811."),
            lambda: memory.remember("Item zqcut2q is in box 812.", idempotency_key="two"),
            lambda: talk.add("user", "Parcel zqcut3q is on its way to hall 813."),
            lambda: memory.update(str(first.id), "The kettle has the number 2 on it."),
            lambda: memory.set("gate", "814"),
        ]
        receipts = []
        for at, verb in enumerate(verbs, 1):
            proxy.arm(when)
            receipts.append(verb())
            assert proxy.cuts == at, "no COMMIT was seen"
        assert [(each.action, each.version) for each in receipts] == [("added", 1)] * 3 + [("updated", 2), ("added", 1)]
        assert sorted(record.content for record in everything(memory)) == [
            "814",
            "Item zqcut1q is in box 811.",
            "Item zqcut2q is in box 812.",
            "Parcel zqcut3q is on its way to hall 813.",
            "The kettle has the number 2 on it.",
        ]
        assert [version.version for version in memory.history(str(first.id))] == [1, 2]
    assert sound(url)


@pytest.mark.parametrize("when", ["before", "while", "after", "answered"])
def test_a_shared_commit_that_is_lost_gives_each_caller_its_own_receipt(server: PostgresServer, url: str, when: str) -> None:
    """One caller of many is refused; a repeat of the commit must neither forget that nor refuse another."""
    outcomes: dict[int, str] = {}
    with Proxy(server) as proxy, Memory.open(proxy.url(url), embedder="none") as memory:
        first = memory.remember("The kettle has the number 1 on it.")

        def call(number: int) -> None:
            try:
                if number % 4 == 3:
                    receipt = memory.update(str(first.id), f"Number {number}.", expected_version=7)
                else:
                    receipt = memory.conversation("desk").add("user", f"Parcel zqmany{number}q is in hall {number * 37}.")
                outcomes[number] = receipt.action
            except Exception as error:
                outcomes[number] = type(error).__name__

        for round_ in range(2):
            threads = [threading.Thread(target=call, args=(round_ * 12 + number,)) for number in range(12)]
            proxy.arm(when)
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert proxy.cuts == 2
        assert outcomes == {number: "Conflict" if number % 4 == 3 else "added" for number in range(24)}
        said = sorted(message.content for message in memory.conversation("desk").last(100))
        assert said == sorted(f"Parcel zqmany{number}q is in hall {number * 37}." for number in range(24) if number % 4 != 3)
    assert sound(url)


@pytest.mark.parametrize("neighbour", [True, False])
def test_the_number_of_a_transaction_that_a_crash_undid_may_be_anothers(
    server: PostgresServer, url: str, neighbour: bool
) -> None:
    """Numbers are not written down when they are given out: after a crash the next transaction gets the one that was lost."""
    with (
        Proxy(server) as proxy,
        Memory.open(url, embedder="none", tenant="next door") as other,
        Memory.open(proxy.url(url), embedder="none") as memory,
    ):
        memory.remember("Item zqfirst1q is in box 811.")
        other.remember("Item zqfirst2q is in box 812.")

        def crash() -> None:
            server.kill()
            server.start()
            if neighbour:
                other.remember("Item zqfirst3q is in box 813.")

        proxy.arm("before", crash)
        receipt = memory.remember("Item zqfirst4q is in box 814.")
        assert proxy.cuts == 1
        assert receipt.action == "added"
        record = memory.get(str(receipt.id))
        assert record is not None, "acknowledged and lost"
        assert record.content == "Item zqfirst4q is in box 814."
        assert len(everything(memory)) == 2
    assert sound(url)
    assert sound(url, "next door")


def test_a_server_that_is_not_told_that_its_client_is_gone(server: PostgresServer, url: str) -> None:
    """Its transaction keeps the tenant: no other may wait for it for ever."""
    with Proxy(server) as proxy, Memory.open(url, embedder="none") as other:
        with Memory.open(proxy.url(url), embedder="none", settings=SHORT) as memory:
            memory.remember("Item zqgone1q is in box 811.")
            proxy.arm("silent")
            written: list[str] = []
            thread = threading.Thread(target=lambda: written.append(_outcome(memory, "Item zqgone2q is in box 812.")))
            thread.start()
            thread.join(60)
            assert not thread.is_alive(), "still waiting for a transaction that will not end"
            assert proxy.cuts == 1
            assert written in (["added"], ["StoreBusy"], ["StoreUnreachable"])
        assert other.remember("Item zqgone3q is in box 813.").action == "added"
        there = [record.content for record in everything(other)]
        assert len(there) == len(set(there)) == 2 + (written == ["added"])
    assert sound(url)


def _outcome(memory: Memory, text: str) -> str:
    try:
        return memory.remember(text).action
    except StoreError as error:
        return type(error).__name__
