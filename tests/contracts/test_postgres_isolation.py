"""No caller reaches another scope or tenant: not by an id, a filter, a cursor, a key or a number, not under threads, and not with
SQL of their own under the role that processes have."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors as pg

from keepstone import Memory
from keepstone.errors import KeepstoneError, NotFound, ValidationError
from keepstone.ports.filters import parse
from keepstone.ports.maintenance import Flag
from keepstone.ports.queue import JobDraft
from keepstone.ports.values import ImportRow, ListQuery, SearchFilter, Selector, Write
from keepstone.stores.postgres.store import PostgresStore
from keepstone.testing.builders import DIMENSION, EMBEDDER, NOON, add, add_id, contents, draft, merging, vector, wording
from keepstone.text.words import record_terms
from keepstone.types import Scope
from tests.server_processes import PostgresServer

ADA, EVE, MAL = Scope("harbour", "default", "ada"), Scope("harbour", "default", "eve"), Scope("rivals", "default", "ada")
OTHERS = {"another user": EVE, "another tenant": MAL, "another agent": Scope("harbour", "other", "ada")}
ABSENT = "m_0000000000000000"
SECRET = "Ada keeps the key of the boat under the bucket."
TABLES = "scope audit record access history vector words idempotency state job lineage bucket review vector_next".split()


@pytest.fixture(scope="module")
def url(postgres_server: PostgresServer) -> str:
    """As a role that owns nothing, in a database of its own."""
    PostgresStore.open(postgres_server.database("keepstone_isolation")).close()
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS isolated")
        connection.execute("CREATE ROLE isolated LOGIN; GRANT keepstone_app TO isolated")
    return postgres_server.url_as("isolated", "keepstone_isolation")


@pytest.fixture
def above(url: str) -> str:
    """As the superuser."""
    return url.replace("isolated@", "postgres@")


@pytest.fixture
def empty(above: str) -> None:
    with psycopg.connect(above, autocommit=True) as connection:
        for table in ("tenant", *TABLES, "lease"):
            connection.execute(f"DELETE FROM keepstone.{table}".encode())
        connection.execute("DELETE FROM keepstone.meta WHERE name = 'embedder'")


@pytest.fixture
def store(url: str, empty: None) -> Iterator[PostgresStore]:
    store = PostgresStore.open(url)
    store.bind_embedder(EMBEDDER, DIMENSION)
    yield store
    store.close()


@pytest.fixture
def id(store: PostgresStore) -> str:
    """A record of Ada's, with something of hers in every table."""
    first = add_id(store, "Ada has a boat.", ADA, session="s1")
    id = add_id(store, SECRET, ADA, key="boat", session="s1", metadata={"private": True}, parents=(first,))
    store.revise(ADA, id, wording(SECRET + " Since May.", "boat"))
    store.write(ADA, [Write(draft("Heron is its name."), None, "once", "body")])
    store.states.put(ADA, "notes", SECRET, session="s1")
    store.jobs.add(ADA, JobDraft("learn", "s1", NOON), [id])
    store.reviews.add(ADA, [Flag(id, "stale", "old")])
    store.touch(ADA, {store.sequence_of(ADA, id) or 0: 3}, NOON)
    return id


def answer(ask: Callable[[], Any], id: str) -> str:
    """What comes of asking, without the id itself."""
    try:
        return repr(ask()).replace(id, "ID")
    except KeepstoneError as error:
        return f"{type(error).__name__}: {error}".replace(id, "ID")


def whole(store: PostgresStore, scope: Scope) -> list[Any]:
    """All that a scope has."""
    listed = [record for _, record in store.list(scope, ListQuery(limit=100))]
    pasts = [store.history(scope, record.id) for record in listed]
    return [listed, pasts, store.states.all(scope), store.jobs.list(scope), store.reviews.list(scope), store.count(scope)]


ASKED: Mapping[str, Callable[[PostgresStore, Scope, str], Any]] = {
    "get": lambda store, scope, id: store.get(scope, id),
    "history": lambda store, scope, id: store.history(scope, id),
    "revise": lambda store, scope, id: store.revise(scope, id, wording("mine now")),
    "forget": lambda store, scope, id: store.forget(scope, Selector(id=id)),
    "forget many": lambda store, scope, id: store.forget(scope, Selector(ids=(id, ABSENT))),
    "archives": lambda store, scope, id: list(store.export_records(scope, [id])),
    "put aside": lambda store, scope, id: store.retention.archive(scope, [id]),
    "bring back": lambda store, scope, id: store.retention.restore(scope, [id]),
    "flag": lambda store, scope, id: store.reviews.add(scope, [Flag(id, "stale", "x")]),
    "confirm": lambda store, scope, id: store.reviews.confirm(scope, id),
    "release": lambda store, scope, id: store.reviews.release(scope, id),
    "state made from it": lambda store, scope, id: store.states.put(scope, "x", "y", made_from=[(id, 2)]),
    "derived from it": lambda store, scope, id: store.write(scope, [Write(draft("derived"), made_from=((id, 2),))])[0].action,
    "replacing it": lambda store, scope, id: store.write(scope, [Write(draft("instead"), replaces=(id,))])[0].action,
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_a_foreign_id_is_answered_like_an_absent_one(store: PostgresStore, id: str, other: Scope) -> None:
    before = whole(store, ADA)
    add(store, "A fact of my own.", other)
    for name, ask in ASKED.items():
        assert answer(lambda ask=ask: ask(store, other, id), id) == answer(lambda ask=ask: ask(store, other, ABSENT), ABSENT), (
            name
        )
    assert whole(store, ADA) == before
    assert contents(store, other) == ["A fact of my own."]


@pytest.mark.parametrize("other", [*OTHERS.values(), Scope("nowhere", "default", "nobody")], ids=[*OTHERS, "nobody"])
def test_numbers_names_and_filters_reach_no_further(store: PostgresStore, id: str, other: Scope) -> None:
    sequence = store.sequence_of(ADA, id) or 0
    job, review = store.jobs.list(ADA)[0], store.reviews.list(ADA)[0]
    before = whole(store, ADA)
    store.touch(other, {sequence: 5}, NOON)
    assert store.fetch(other, [sequence]) == [None]
    assert len(store.index_rows(other, [sequence])) == 0
    assert list(store.neighbours(other, [sequence], 5)) == []
    assert len(store.changes(other, 0).rows) == 0
    assert store.changes(other, 0).removed == ()
    assert len(store.snapshot(other, None, None).records) == 0
    for trick in ({"private": True}, {"not": {"x": 1}}, {"or": [{"private": True}, {"private": {"exists": False}}]},
                  {"private": {"in": [True, "x' OR tenant <> '"]}}, {"tenant": {"ne": "x"}}):  # fmt: skip
        filter = parse(trick)
        assert filter is not None
        assert contents(store, other, filter=filter) == []
        assert len(store.matching(other, filter)) == 0
        assert list(store.search_recent(other, 10, SearchFilter(filter=filter))) == []
        assert list(store.search_vectors(other, vector(SECRET), 10, SearchFilter(filter=filter))) == []
        assert list(store.search_words(other, ["boat", "key"], 10, SearchFilter(filter=filter))) == []
    assert store.document_frequencies(other, ["boat"]) == [0]
    assert (store.by_key(other, "boat"), store.tags(other), store.count(other), store.index_size(other)) == (None, [], 0, 0)
    assert (list(store.message_log.page(other, "s1")), list(store.message_log.sessions(other)), list(store.audit(other))) == (
        [],
        [],
        [],
    )
    assert (store.states.get(other, "notes"), store.states.all(other), store.states.drop(other, "notes")) == (None, [], False)
    assert (store.jobs.list(other), store.jobs.drop(other, job.number), store.jobs.retry(other, job.number)) == ([], False, 0)
    assert store.jobs.claim({"learn"}, timedelta(minutes=1), early=True, scope=other) is None
    assert (store.reviews.list(other), store.reviews.get(other, review.number)) == ([], None)
    assert store.reviews.settle(other, review.number, "kept", "eve") is False
    assert store.retention.undo(other, sequence) == []
    assert list(store.retention.archived(other)) == []
    for selector in (Selector(everything=True), Selector(session="s1"), Selector(source="user"), Selector(key="boat")):
        assert store.forget(other, selector).forgotten == 0
    assert whole(store, ADA) == before


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_keys_and_contents_of_two_scopes_do_not_meet(store: PostgresStore, id: str, other: Scope) -> None:
    assert store.write(other, [Write(draft("another body"), None, "once", "another print")])[0].action == "added"
    assert add(store, SECRET + " Since May.", other, key="boat").action == "added"
    judged = Write(draft("Ada has a boat.", dedup_key=b"boat"), merging())
    assert store.write(other, [judged])[0].action == "added"
    assert store.write(ADA, [Write(draft("Heron is its name."), None, "once", "body")])[0].action == "added"  # repeated, not anew
    assert store.count(ADA) == 3
    store.forget(other, Selector(everything=True))
    assert store.count(ADA) == 3
    assert store.audit_log.verify(other.tenant).whole
    assert store.audit_log.verify(ADA.tenant).whole


def test_an_export_of_one_tenant_is_another_record_in_the_next(store: PostgresStore, id: str) -> None:
    rows = [ImportRow(each, record_terms(each.record.content, each.record.key), None) for each in store.export_records(ADA)]
    assert store.import_records(MAL, rows) == (3, 0)
    assert store.import_records(MAL, rows) == (0, 3)
    store.forget(MAL, Selector(everything=True))
    assert (store.get(ADA, id) is None, store.get(MAL, id)) == (False, None)


def test_a_thousand_requests_of_eight_tenants_see_their_own(store: PostgresStore) -> None:
    scopes = [Scope(f"tenant{n}", "default", "same") for n in range(8)]
    for scope in scopes:
        add(store, f"{scope.tenant} knows this", scope, key="k", metadata={"of": scope.tenant}, session="s")
        add(store, f"{scope.tenant} said that", scope, kind="message", session="s", role="user")

    def told(scope: Scope, found: Sequence[int]) -> list[str]:
        return [str(getattr(record, "content", "nothing")) for record in store.fetch(scope, found)]

    ways: list[Callable[[Scope, int], list[str]]] = [
        lambda scope, n: [str(add(store, f"{scope.tenant} adds {n}", scope).action).replace("added", f"{scope.tenant} added")],
        lambda scope, n: contents(store, scope),
        lambda scope, n: [str(getattr(store.by_key(scope, "k"), "content", "nothing"))],
        lambda scope, n: told(scope, store.search_vectors(scope, vector(f"tenant{n % 8} knows this"), 50)),
        lambda scope, n: told(scope, store.search_words(scope, ["know", "add", "said"], 50)),
        lambda scope, n: [record.content for record in store.snapshot(scope, None, None).records],
        lambda scope, n: [each.record.content for each in store.export_records(scope)],
        lambda scope, n: [text for _, text in store.states.all(scope)],
        lambda scope, n: [record.content for _, record in store.message_log.page(scope, None)],
        lambda scope, n: [f"{each.tenant} is a scope" for each in store.retention.scopes(scope.tenant)],
    ]

    def ask(number: int) -> list[str]:
        scope = random.Random(number).choice(scopes)
        if number % 10 == 7:
            store.states.put(scope, "now", f"{scope.tenant} at {number}")
        return [text for text in ways[number % 10](scope, number) if not text.startswith(f"{scope.tenant} ")]

    with ThreadPoolExecutor(24) as pool:
        strange = [text for each in pool.map(ask, range(1000)) for text in each]
    assert strange == []
    assert all(store.audit_log.verify(scope.tenant).whole for scope in scopes)
    assert settings_left(store) == {("", "")}


def settings_left(store: PostgresStore) -> set[tuple[str, str]]:
    """What every connection of the pool says outside of a transaction: the tenant, and whether it acts as another."""
    held = [store._driver._pool.getconn() for _ in range(store._driver._pool.get_stats()["pool_size"])]
    asked = b"SELECT current_setting('keepstone.tenant', true), nullif(current_user, session_user)"
    try:
        found = {each.execute(asked).fetchone() for each in held}
    finally:
        for each in held:
            store._driver._pool.putconn(each)
    return {(row[0] or "", row[1] or "") for row in found if row is not None}


# -- SQL of one's own -----------------------------------------------------------------------------------------------


@pytest.fixture
def session(url: str, store: PostgresStore, id: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the role that processes have, with Ada's tenant and another in the tables."""
    add(store, "A fact of the rivals.", MAL, key="boat")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET search_path = keepstone, public")
        yield connection


@pytest.mark.parametrize("named", [None, "", "nowhere", "harbou_", "%", "Harbour", "harbour ", "'harbour'"])
def test_without_its_tenant_nothing_is_seen_or_written(session: psycopg.Connection[Any], named: str | None) -> None:
    if named is not None:
        session.execute("SELECT set_config('keepstone.tenant', %s, false)", (named,))
    for table in TABLES:
        assert session.execute(f"SELECT count(*) FROM {table}".encode()).fetchone() == (0,)
        assert session.execute(f"UPDATE {table} SET tenant = tenant".encode()).rowcount == 0
        assert session.execute(f"DELETE FROM {table}".encode()).rowcount == 0
    for row in ("INSERT INTO state VALUES ('harbour', 1, 'x', 'y', NULL, 0)", "INSERT INTO tenant (tenant) VALUES ('new')"):
        with pytest.raises(pg.InsufficientPrivilege, match="row-level security"):
            session.execute(row.encode())
    # What is done to the whole store belongs to the tenant without a name.
    assert session.execute("UPDATE tenant SET rows = 0 WHERE tenant <> ''").rowcount == 0
    assert session.execute("DELETE FROM tenant WHERE tenant <> ''").rowcount == 0


def test_with_a_tenant_only_its_rows_are_there(session: psycopg.Connection[Any], above: str) -> None:
    session.execute("SET keepstone.tenant = 'rivals'")
    assert session.execute("SELECT DISTINCT tenant FROM record").fetchall() == [("rivals",)]
    assert session.execute("SELECT count(*) FROM record WHERE tenant = 'harbour'").fetchone() == (0,)
    assert session.execute("SELECT count(*) FROM record AS r JOIN history AS h USING (sequence)").fetchone() == (0,)
    assert session.execute("UPDATE record SET content = 'x' WHERE tenant = 'harbour'").rowcount == 0
    assert session.execute("DELETE FROM record WHERE tenant = 'harbour'").rowcount == 0
    stolen = "INSERT INTO record SELECT 'harbour', sequence + 1, scope, changed, id || 'x' FROM record"
    for attempt in ("UPDATE record SET tenant = 'harbour'", "INSERT INTO state VALUES ('harbour', 1, 'x', 'y', NULL, 0)",
                    "INSERT INTO state VALUES ('harbour', 1, 'notes', 'y', NULL, 0) ON CONFLICT (tenant, scope, name) DO NOTHING",
                    "INSERT INTO state VALUES ('harbour', 1, 'notes', 'y', NULL, 0) ON CONFLICT (tenant, scope, name) "
                    "DO UPDATE SET value = 'mine'", stolen):  # fmt: skip
        with pytest.raises(pg.InsufficientPrivilege, match="row-level security"):
            session.execute(attempt.encode())
    with pytest.raises(pg.FeatureNotSupported, match="row-level security"), session.cursor().copy("COPY state FROM STDIN"):
        pass
    with session.cursor().copy("COPY record (tenant, content) TO STDOUT") as rows:
        assert {bytes(row).split(b"\t")[0] for row in rows} == {b"rivals"}
    with psycopg.connect(above) as connection:
        kept = connection.execute("SELECT content FROM keepstone.record WHERE tenant = 'harbour' AND key = 'boat'").fetchone()
    assert kept == (SECRET + " Since May.",)


REFUSED = {
    "role": "SET ROLE postgres", "session": "SET SESSION AUTHORIZATION postgres",
    "off for the owner": "ALTER TABLE record NO FORCE ROW LEVEL SECURITY", "off": "ALTER TABLE record DISABLE ROW LEVEL SECURITY",
    "policy changed": "ALTER POLICY own_tenant ON record USING (true)", "policy dropped": "DROP POLICY own_tenant ON record",
    "policy added": "CREATE POLICY mine ON record USING (true)", "emptied": "TRUNCATE record", "dropped": "DROP TABLE record",
    "owner": "ALTER TABLE record OWNER TO isolated", "bypass": "ALTER ROLE isolated BYPASSRLS",
    "bypass of the app": "ALTER ROLE keepstone_app BYPASSRLS", "super": "ALTER ROLE isolated SUPERUSER",
    "more rights": "GRANT postgres TO isolated", "trigger": "CREATE TRIGGER spy BEFORE INSERT ON record EXECUTE FUNCTION now()",
    "rule": "CREATE RULE spy AS ON SELECT TO record DO INSTEAD SELECT 1", "statistics": "SELECT * FROM pg_statistic",
    "authentication": "SELECT rolpassword FROM pg_authid", "file": "SELECT pg_read_file('PG_VERSION')",
    "program": "COPY (SELECT 1) TO PROGRAM 'true'", "view": "CREATE VIEW keepstone.spy AS SELECT * FROM record",
    "function": "CREATE FUNCTION keepstone.spy() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM record'",
    "function for all": "CREATE FUNCTION public.spy() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'",
    "index": "CREATE INDEX spy ON record (content)",
}  # fmt: skip


@pytest.mark.parametrize("attempt", REFUSED.values(), ids=REFUSED.keys())
def test_it_may_not_lift_the_policies(session: psycopg.Connection[Any], attempt: str) -> None:
    session.execute("SET keepstone.tenant = 'rivals'")
    with pytest.raises(pg.InsufficientPrivilege):
        session.execute(attempt.encode())
    assert session.execute("SELECT DISTINCT tenant FROM record").fetchall() == [("rivals",)]


def test_policies_cannot_be_switched_off_or_gone_around(session: psycopg.Connection[Any]) -> None:
    session.execute("SET keepstone.tenant = 'rivals'")
    session.execute("SET row_security = off")
    with pytest.raises(pg.InsufficientPrivilege, match="row-level security"):
        session.execute("SELECT content FROM record")
    session.execute("SET row_security = on")
    # A function and a view of its own are no more than itself.
    theirs = "LANGUAGE sql SECURITY DEFINER AS 'SELECT tenant FROM keepstone.record'"
    session.execute(f"CREATE FUNCTION pg_temp.spy() RETURNS SETOF text {theirs}".encode())
    session.execute("CREATE TEMP VIEW spied AS SELECT tenant FROM keepstone.record")
    cheap = "LANGUAGE plpgsql COST 0.0001 AS 'BEGIN RAISE NOTICE ''seen %'', $1; RETURN true; END'"
    session.execute(f"CREATE FUNCTION pg_temp.tell(text) RETURNS boolean {cheap}".encode())
    told: list[str] = []
    session.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
    assert session.execute("SELECT DISTINCT * FROM pg_temp.spy()").fetchall() == [("rivals",)]
    assert session.execute("SELECT DISTINCT tenant FROM pg_temp.spied").fetchall() == [("rivals",)]
    session.execute("SELECT 1 FROM record WHERE pg_temp.tell(content)")  # cheap, so it would be asked first
    assert told == ["seen A fact of the rivals."]


def test_statistics_tell_nothing(session: psycopg.Connection[Any], above: str) -> None:
    with psycopg.connect(above, autocommit=True) as connection:
        connection.execute("ANALYZE keepstone.record")
        assert connection.execute("SELECT * FROM pg_stats WHERE schemaname = 'keepstone'").fetchall() != []
    session.execute("SET keepstone.tenant = 'rivals'")
    assert session.execute("SELECT * FROM pg_stats WHERE schemaname = 'keepstone'").fetchall() == []


def test_every_connection_is_left_clean(store: PostgresStore, id: str) -> None:
    with pytest.raises(NotFound):
        store.revise(ADA, ABSENT, wording("x"))
    with pytest.raises(KeepstoneError):
        store._driver.writing("harbour", lambda db: db.one("record_version", ("no number", id)))
    next(walk := store.export_records(ADA))
    walk.close()
    assert settings_left(store) == {("", "")}


@pytest.mark.parametrize("who", ["postgres", "owner_of_tables"])
def test_who_stands_above_the_policies_acts_as_the_app(postgres_server: PostgresServer, who: str) -> None:
    database = f"keepstone_as_{who}"
    postgres_server.database(database)
    with psycopg.connect(postgres_server.url_as("postgres", database), autocommit=True) as connection:
        if who != "postgres" and not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (who,)).fetchone():
            connection.execute(f"CREATE ROLE {who} LOGIN CREATEROLE".encode())
            connection.execute(f"GRANT keepstone_app TO {who} WITH ADMIN OPTION".encode())
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute(f"ALTER DATABASE {database} OWNER TO {who}".encode())
    store = PostgresStore.open(postgres_server.url_as(who, database))
    asked = "SELECT current_user::text, current_setting('keepstone.tenant'), row_security_active('record'), content FROM record"
    try:
        store.bind_embedder(EMBEDDER, DIMENSION)
        add(store, "tea", ADA)
        add(store, "coffee", MAL)
        seen = [("keepstone_app", "harbour", True, "tea")]
        assert store._driver.writing("harbour", lambda db: db.connection.rows(db.connection.queue(asked))) == seen
        with store._driver.reading("harbour", consistent=True) as db:
            assert db.connection.rows(db.connection.queue(asked)) == seen
        assert settings_left(store) == {("", "")}
    finally:
        store.close()


# -- memories -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_two_memories_never_mix(url: str, empty: None, tmp_path: Path, other: Scope) -> None:
    with Memory.open(url, tenant=ADA.tenant, agent=ADA.agent, user=ADA.user) as ada:
        told = ada.remember(SECRET, key="boat", idempotency_key="once", metadata={"private": True})
        ada.ingest([{"role": "user", "content": "The boat is called Heron."}], session="s1")
        ada.remember_many([f"Ada fact {n}" for n in range(10)])
        cursor = ada.list(limit=3).cursor
        before = [(record.id, record.version) for record in ada.list(limit=100)]
        eve = ada.with_scope(tenant=other.tenant, agent=other.agent, user=other.user)
        for own in ([], ["A fact of my own."]):
            for text in own:
                eve.remember(text, key="boat", idempotency_key="once")
            for query in ("Where is the key of the boat?", SECRET, "Heron", ""):
                assert [hit.content for hit in eve.recall(query, min_similarity=0, limit=50)] == own
                assert not {"bucket", "Heron"} & set(eve.context(query).replace(".", " ").split())
            assert [record.content for record in eve.list(limit=50, filter={"not": {"x": 1}})] == own
            assert {row.id for row in eve.audit()}.isdisjoint({id for id, _ in before})
            assert eve.export(tmp_path / "eve.jsonl") == len(own)
        for ask in (eve.get, eve.history, eve.forget, lambda id: eve.update(id, "mine"), lambda id: eve.why("boat", id)):
            assert answer(lambda ask=ask: ask(str(told.id)), str(told.id)) == answer(lambda ask=ask: ask(ABSENT), ABSENT)
        with pytest.raises(ValidationError, match="cursor"):
            eve.list(limit=3, cursor=cursor)
        eve.forget(everything=True)
        assert [(record.id, record.version) for record in ada.list(limit=100)] == before
        assert ada.recall("Where is the key of the boat?")[0].content == SECRET
        assert ada.audit.verify().whole
