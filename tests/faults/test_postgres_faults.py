"""What goes wrong around a Postgres: not there, not let in, too slow, full, behind a pooler. Errors are typed, with no secret."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench.restarts import everything
from bench.torture.disk_full import tablespace
from bench.torture.support import Unavailable
from bench.torture.verdict import Verdict
from keepstone import Memory
from keepstone.errors import ConfigurationError, KeepstoneError, StoreBusy, StoreUnreachable
from tests.faults.pgbouncer import pooled
from tests.faults.support import until
from tests.server_processes import HOST, PostgresServer

SECRET = "s3cr3t-pass/word"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer(tmp_path_factory.mktemp("postgres"), durable=True) as started:
        yield started


@pytest.fixture
def url(server: PostgresServer) -> str:
    """A database of the test's own, on a server that is up."""
    server.start()
    return server.database(f"faults{next(_numbers)}")


def refused(call: Callable[[], object]) -> KeepstoneError:
    """The error of a call that cannot work; it must be ours, and say nothing that only the caller may know."""
    with pytest.raises(KeepstoneError) as caught:
        call()
    said = f"{caught.value} {caught.value!r}"
    for secret in (SECRET, SECRET.replace("/", "%2F"), "s3cr3t"):
        assert secret not in said
    return caught.value


# -- not there ----------------------------------------------------------------------------------------------------
def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    away = PostgresServer(tmp_path)  # never started: nothing listens at its port
    error = refused(lambda: Memory.open(away.url_as("postgres", "memories", SECRET)))
    assert type(error) is StoreUnreachable
    assert f"postgresql://postgres@{HOST}:{away.port}/memories" in str(error)
    assert "check that the server runs" in str(error)


def test_a_host_that_does_not_resolve() -> None:
    error = refused(lambda: Memory.open("postgresql://postgres:s3cr3t@nobody.invalid/memories"))
    assert type(error) is StoreUnreachable
    assert "nobody.invalid" in str(error)


def test_an_outage_that_is_longer_than_the_busy_timeout(server: PostgresServer, url: str) -> None:
    """Everybody who waits is told, nothing was written, and the same memory works when the server is back."""
    with Memory.open(url, embedder="none", settings={"busy_timeout": 5}) as memory:
        id = str(memory.remember("Item zqout1q is in box 811.").id)
        server.stop()
        calls: list[Callable[[], object]] = [
            lambda: memory.remember("Item zqout2q is in box 812."),
            lambda: memory.get(id),
            lambda: memory.recall("item"),
            lambda: memory.conversation("desk").messages(),
        ]
        errors: list[type[Exception]] = []
        threads = [threading.Thread(target=lambda call=call: errors.append(type(refused(call)))) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == [StoreUnreachable] * len(calls)
        server.start()
        assert memory.remember("Item zqout4q is in box 814.").action == "added"
        assert sorted(record.content for record in everything(memory)) == [
            "Item zqout1q is in box 811.",
            "Item zqout4q is in box 814.",
        ]
        assert memory.audit.verify().whole


def test_a_restart_between_two_reads_is_not_noticed(server: PostgresServer, url: str) -> None:
    with Memory.open(url) as memory:
        talk = memory.conversation("desk")
        id = str(memory.remember("Noor keeps the spare key in box 811.").id)
        talk.add("user", "The parcel is in hall 813.")
        memory.set("gate", 4)
        reads: dict[str, Callable[[], Any]] = {
            "get": lambda: memory.get(id),
            "recall": lambda: [hit.content for hit in memory.recall("Where is the spare key?", limit=1)],
            "list": lambda: [record.id for record in memory.list()],
            "messages": talk.messages,
            "last": lambda: [message.content for message in talk.last(5)],
            "value": lambda: memory.value("gate"),
            "history": lambda: [version.content for version in memory.history(id)],
            "audit": lambda: [row.verb for row in memory.audit()],
        }
        memory.recall("Where is the spare key?")
        before = {name: read() for name, read in reads.items()}
        for (name, read), how in zip(reads.items(), itertools.cycle(("immediate", "fast", "kill"))):
            server.kill() if how == "kill" else server.stop(how)
            server.start()
            after = read()
            assert (name == "get" and after.content == before[name].content) or after == before[name], name


# -- not let in ---------------------------------------------------------------------------------------------------
@pytest.fixture
def locked(server: PostgresServer, url: str) -> Iterator[str]:
    """A database whose role of the same name needs a password, and has one."""
    name = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as admin:
        rules = Path(str(admin.execute("SHOW hba_file").fetchone()[0]))  # type: ignore[index]
        before = rules.read_text()
        rules.write_text(f"host {name} {name} 127.0.0.1/32 scram-sha-256\n{before}")
        admin.execute(f"CREATE ROLE {name} LOGIN SUPERUSER PASSWORD '{SECRET}'")
        admin.execute("SELECT pg_reload_conf()")
        until(lambda: "no password" in _told(server.url_as(name, name)), "the new rules")
        yield name
        rules.write_text(before)
        admin.execute("SELECT pg_reload_conf()")


def _told(url: str) -> str:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError as error:
        return str(error)
    return ""


def test_a_wrong_password(server: PostgresServer, locked: str) -> None:
    error = refused(lambda: Memory.open(server.url_as(locked, locked, f"not {SECRET}")))
    assert type(error) is ConfigurationError
    assert "check user, password and database" in str(error)
    error = refused(lambda: Memory.open(server.url_as(locked, locked)))
    assert type(error) is ConfigurationError
    with Memory.open(server.url_as(locked, locked, SECRET), embedder="none") as memory:
        assert memory.remember("The right password lets one in.").action == "added"
        assert "s3cr3t" not in repr(memory)


def test_a_password_that_was_changed_under_an_open_store(server: PostgresServer, url: str, locked: str) -> None:
    """Waiting does not mend it, so the caller is told at once what is wrong; the old connection was all that let one in."""
    with Memory.open(server.url_as(locked, locked, SECRET), embedder="none", settings={"busy_timeout": 5}) as memory:
        memory.remember("Item zqpass1q is in box 811.")
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(f"ALTER ROLE {locked} PASSWORD 'another'")
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", (locked,))
        error = refused(lambda: memory.remember("Item zqpass2q is in box 812."))
        assert type(error) is ConfigurationError, error
        assert "password" in str(error)


def test_a_database_and_a_role_that_are_not_there(server: PostgresServer) -> None:
    server.start()
    for url in (server.url_as("postgres", "nowhere", SECRET), server.url_as("nobody", "postgres", SECRET)):
        error = refused(lambda url=url: Memory.open(url))  # type: ignore[misc]
        assert type(error) is ConfigurationError, error
        assert "nowhere" in str(error) or "nobody" in str(error)


# -- too slow -----------------------------------------------------------------------------------------------------
def test_a_statement_that_takes_too_long(url: str) -> None:
    with (
        Memory.open(url, embedder="none", settings={"statement_timeout": 1}) as memory,
        psycopg.connect(url) as holder,
    ):
        id = str(memory.remember("Item zqslow1q is in box 811.").id)
        holder.execute("LOCK TABLE keepstone.record IN ACCESS EXCLUSIVE MODE")
        for call in (lambda: memory.get(id), lambda: memory.remember("Item zqslow2q is in box 812.")):
            error = refused(call)
            assert type(error) is StoreBusy
            assert "took too long" in str(error)
        holder.rollback()
        assert memory.remember("Item zqslow3q is in box 813.").action == "added"
        assert len(everything(memory)) == 2
        assert memory.audit.verify().whole


# -- full ---------------------------------------------------------------------------------------------------------
def test_a_full_disk_stores_nothing_by_half(server: PostgresServer) -> None:
    verdict = Verdict("disk-full", "postgres")
    try:
        tablespace(verdict, server)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert verdict.problems == []
    assert verdict.whole
    assert verdict.acknowledged > 2


# -- behind a pooler ----------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def bouncer(server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a pooler."""
    with pooled(server, tmp_path_factory.mktemp("pgbouncer")) as port:
        yield port


@pytest.mark.parametrize("told", ["?pgbouncer=true", ""])
def test_everything_works_behind_a_pooler(server: PostgresServer, url: str, bouncer: int, told: str) -> None:
    """Callers of two tenants share three sessions. Without being told, the store finds out that nothing can be prepared."""
    behind = url.replace(f":{server.port}/", f":{bouncer}/")
    problems: list[str] = []
    with Memory.open(behind + told) as one, Memory.open(behind + told, tenant="next door") as other:

        def call(memory: Memory, label: str) -> None:
            talk = memory.conversation(f"desk {label}")
            try:
                for number in range(12):
                    id = memory.remember(f"Item zq{label}n{number}q is in box {number * 37}.").id
                    talk.add("user", f"Parcel zq{label}m{number}q is in hall {number * 41}.")
                    memory.update(str(id), f"Item zq{label}n{number}q is in crate {number * 43}.")
                    memory.set(label, number)
                    assert memory.value(label) == number
                    assert memory.recall(f"item zq{label}n{number}q", limit=1)[0].content.endswith(f"crate {number * 43}.")
                    assert len(talk.last(100)) == number + 1
            except Exception as error:
                problems.append(f"{label}: {type(error).__name__}: {error}")

        callers = [(memory, f"{side}{number}") for side, memory in (("a", one), ("b", other)) for number in range(4)]
        threads = [threading.Thread(target=call, args=caller) for caller in callers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        for side, memory in (("a", one), ("b", other)):
            words = [record.content for record in everything(memory) if "zq" in record.content]
            assert len(words) == len(set(words)) == 4 * 24
            assert all(f"zq{side}" in each for each in words), "a text of the other tenant"
            assert memory.audit.verify().whole
        assert one.upkeep.doctor().healthy
    with psycopg.connect(behind, autocommit=True, prepare_threshold=None) as client:
        for _ in range(6):  # no settings of another user are left in any of the three
            left = client.execute(
                "SELECT coalesce(current_setting('keepstone.tenant', true), ''), current_user, current_setting('search_path'), "
                "current_setting('statement_timeout'), current_setting('lock_timeout'), current_setting('synchronous_commit')"
            ).fetchone()
            assert left == ("", "postgres", '"$user", public', "0", "0", "on")


def test_a_restart_behind_a_pooler(server: PostgresServer, url: str, bouncer: int) -> None:
    with Memory.open(url.replace(f":{server.port}/", f":{bouncer}/") + "?pgbouncer=true", embedder="none") as memory:
        memory.remember("Item zqpool1q is in box 811.")
        for how in ("immediate", "fast"):
            server.stop(how)
            written: list[Any] = []
            thread = threading.Thread(target=lambda: written.append(_outcome(memory, "Item zqpool2q is in box 812.")))  # noqa: B023
            thread.start()
            server.start()
            thread.join()
            assert written == ["added"]
            assert [record.content for record in memory.list(limit=1)] == ["Item zqpool2q is in box 812."]
            memory.forget(memory.list(limit=1)[0].id)
        assert memory.audit.verify().whole


def _outcome(memory: Memory, text: str) -> str:
    try:
        return memory.remember(text).action
    except KeepstoneError as error:
        return f"{type(error).__name__}: {error}"
