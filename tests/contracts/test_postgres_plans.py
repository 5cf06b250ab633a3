"""What the server does for a statement: every table of tenants is entered by an index and by the tenant, in a database of many.

The plans are those of a role under row-level security, with the values at hand and, for what is prepared, without them. A small
scope is compared whole; one with an index of its own is searched by it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import numpy as np
import psycopg
import pytest
from psycopg import RawCursor

from keepstone.ports.filters import All, parse
from keepstone.ports.maintenance import Age, Flag
from keepstone.ports.queue import JobDraft
from keepstone.ports.values import Limit, ListQuery, Revision, Selector, Vector, Write
from keepstone.stores.common.transaction import Values
from keepstone.stores.postgres import connections, transaction
from keepstone.stores.postgres.connections import PostgresDriver
from keepstone.stores.postgres.statements import Statement, sql, statement
from keepstone.stores.postgres.store import PostgresStore
from keepstone.stores.postgres.transaction import PostgresTransaction
from keepstone.testing.builders import add, draft, merging
from keepstone.text.passages import passage_number
from keepstone.types import Scope
from tests.contracts.test_postgres_statements import (
    PARTS,
    SCRIPTS,
    SHARED,
    TABLES,
    TYPES,
    WHOLE,
    blocks,
    nested,
    references,
    used,
)
from tests.server_processes import PostgresServer

TENANTS, SCOPES, RECORDS, WIDTH, LARGE = 200, 2, 100, 64, 5_000
NOW = 1_800_000_000_000_000
MANY = f"generate_series(1, {TENANTS}) AS t, generate_series(1, {SCOPES}) AS s, generate_series(1, {RECORDS}) AS n"
HASH = "decode(md5(said), 'hex')"
FILL = f"""
CREATE TEMP TABLE made AS SELECT 't' || t AS tenant, s::bigint AS scope, ((t * {SCOPES} + s) * 1000 + n)::bigint AS sequence,
    n, 'm_' || t || '_' || s || '_' || n AS id, 'fact ' || n || ' of ' || t || ' likes tea' AS said
FROM {MANY} WHERE t > 1 OR s > 1;
INSERT INTO made SELECT 't1', 1, 900000 + n, n, 'm_large_' || n, 'fact ' || n || ' of many likes tea'
FROM generate_series(1, {LARGE}) AS n;
INSERT INTO tenant (tenant, start, rows) SELECT 't' || t, 0, 1 FROM generate_series(1, 3000) AS t;
INSERT INTO scope (tenant, scope, agent, "user")
SELECT 't' || t, s, 'a', 'u' || s FROM generate_series(1, 3000) AS t, generate_series(1, {SCOPES}) AS s;
INSERT INTO record (tenant, sequence, scope, changed, id, kind, tag, key, content, hash, gist, metadata, importance, source,
    trust, session, occurred_at, created_at, updated_at, valid_from, expires_at, version, status, parents, action, aside_at,
    aside_why, ticket)
SELECT tenant, sequence, scope, sequence, id, CASE n % 3 WHEN 0 THEN 'message' ELSE 'fact' END, 'tag' || n % 5,
    CASE WHEN n % 10 = 1 THEN 'key' || n END, said, {HASH}, {HASH}, '{{"n":' || n || '}}', 0.5,
    'user', 1.0, CASE WHEN n % 2 = 0 THEN 's' || n % 20 END, n, n, n, n, CASE WHEN n % 7 = 0 THEN n END, 2,
    CASE WHEN n % 10 = 9 THEN 'archived' WHEN n % 10 = 8 THEN 'quarantined' ELSE 'active' END, '[]', 'added',
    CASE WHEN n % 10 = 9 THEN n END, CASE WHEN n % 10 = 9 THEN 'faded' END, CASE WHEN n % 10 = 9 THEN sequence END FROM made;
INSERT INTO vector SELECT tenant, scope, sequence, 2, '\\x', 1, ARRAY(SELECT random() - 0.5 + 0 * n
    FROM generate_series(1, {WIDTH}))::halfvec FROM made WHERE n % 50 <> 7 AND sequence < 900000;
INSERT INTO vector SELECT tenant, scope, sequence, 2, '\\x', NULL, NULL FROM made WHERE n % 50 = 7 AND sequence < 900000;
INSERT INTO vector_next SELECT tenant, sequence, version, vector FROM vector WHERE vector IS NOT NULL AND sequence % 2 = 0;
INSERT INTO history SELECT tenant, sequence, 1, said, {HASH}, '{{}}', 0.5, 'fact', 'general', 'user', 1.0, NULL, NULL, NULL, n,
    n, n, NULL, 'added', '\\x', NULL, NULL FROM made;
INSERT INTO words (tenant, scope, sequence, text) SELECT tenant, scope, sequence, said FROM made;
INSERT INTO access SELECT tenant, sequence, n, n FROM made;
INSERT INTO audit SELECT tenant, sequence, scope, n * 3600000000, CASE n % 9 WHEN 0 THEN 'forget' ELSE 'remember' END, 'added',
    sequence, id, 1, 'user', '[]', NULL FROM made;
INSERT INTO idempotency SELECT tenant, scope, 'i' || n, '', '[]', id, n FROM made;
INSERT INTO state SELECT tenant, scope, 'name' || n, 'value', 's' || n, n FROM made;
INSERT INTO job SELECT tenant, sequence, scope, 'learn', 's' || n, '["' || id || '"]',
    CASE n % 3 WHEN 0 THEN 'waiting' ELSE 'failed' END, 0, 0, n, NULL, n, NULL FROM made;
INSERT INTO lineage SELECT tenant, scope, id, sequence + 1, 2, 0, 's' || n % 20 FROM made WHERE n % 10 = 2;
INSERT INTO bucket SELECT tenant, scope, 'name' || n, 1, n FROM made;
INSERT INTO review SELECT tenant, sequence, scope, sequence, 2, 'quarantined', 'why', '[]', n,
    CASE n % 4 WHEN 0 THEN 'open' ELSE 'kept' END FROM made;
"""
SMALL, BIG, USED = Scope("t7", "a", "u1"), Scope("t1", "a", "u1"), Scope("t8", "a", "u1")
Plan = dict[str, Any]


def clustered(count: int, seed: int) -> Vector:
    """Unit vectors around a hundred places, as texts are around their topics."""
    random = np.random.default_rng(seed)
    places = np.random.default_rng(1).normal(size=(100, WIDTH))
    rows = places[random.integers(0, len(places), count)] + random.normal(size=(count, WIDTH)) * 0.4
    unit: Vector = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16).astype(np.float32)
    return unit


@pytest.fixture(scope="module")
def filled(postgres_server: PostgresServer) -> str:
    """A database of many tenants; the URL of a role that owns nothing there."""
    url = postgres_server.database("keepstone_plans")
    store = PostgresStore.open(url)
    store.bind_embedder("fake", WIDTH)
    path = store._driver.session.path
    store.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT set_config('search_path', %s, false)", (path,))
        connection.execute(FILL.encode())
        with connection.cursor().copy("COPY vector (tenant, scope, sequence, version, terms, model, vector) FROM STDIN") as rows:
            for number, each in enumerate(clustered(LARGE, 2), 900_001):
                rows.write_row(("t1", 1, number, 2, b"", 1, str(each.tolist())))
        connection.execute("DROP ROLE IF EXISTS planner_role")
        connection.execute("CREATE ROLE planner_role LOGIN; GRANT keepstone_app TO planner_role; ANALYZE")
    return postgres_server.url_as("planner_role", "keepstone_plans")


@dataclass
class Asked:
    """A statement as the store has sent it."""

    name: str
    text: str
    values: Any
    tenant: str


class Explainer:
    """A store whose statements are noted, and explained afterwards."""

    def __init__(self, url: str) -> None:
        self.store = PostgresStore.open(url)
        self.store.bind_embedder("fake", WIDTH)
        self.driver: PostgresDriver = self.store._driver
        self.asked: dict[str, Asked] = {}

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Keep what the store sends, by name; the first of each."""
        names: dict[str, str] = {}

        def named(name: str, parts: tuple[tuple[str, str], ...] = ()) -> Statement:
            made = statement(name, parts)
            names[made.text] = name
            return made

        def noted(db: PostgresTransaction, made: Statement, values: Values, *rest: Any, **more: Any) -> Any:
            text = made.text.split(" CURSOR FOR ")[-1]
            if text in names:
                asked = Asked(names[text], text, made.values(values, db.tenant), db.tenant)
                self.asked.setdefault(asked.name, asked)
            return execute(db, made, values, *rest, **more)

        execute = PostgresTransaction._queue
        places = [patch.object(module, "statement", named) for module in (transaction, connections)]
        with places[0], places[1], patch.object(PostgresTransaction, "_queue", noted):
            yield

    def plan(self, text: str, values: Any = (), *, tenant: str = "t7", how: str = "", settings: Mapping[str, str] = {}) -> Plan:
        """What the server would do in a transaction of this tenant."""
        with self.driver.connection() as connection:
            self.driver.begin(connection, tenant, "BEGIN")
            connection.exchange()
            connection.pgconn.exit_pipeline_mode()  # only the simple protocol explains a plan without values
            for name, value in settings.items():
                connection.execute(f"SET LOCAL {name} = {value}".encode())
            found = RawCursor(connection).execute(f"EXPLAIN (FORMAT JSON{how}) {text}".encode(), values).fetchone()
            connection.execute(b"ROLLBACK")
            connection.pgconn.enter_pipeline_mode()
        assert found is not None
        told = found[0] if isinstance(found[0], list) else json.loads(found[0])
        plan: Plan = told[0]["Plan"]
        return plan


@pytest.fixture(scope="module")
def explainer(filled: str) -> Iterator[Explainer]:
    made = Explainer(filled)
    yield made
    made.store.close()


def nodes(plan: Plan) -> Iterator[Plan]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


def astray(plan: Plan) -> list[str]:
    """Where a plan enters a table of tenants by another way than an index and the tenant."""
    found = []
    for node in nodes(plan):
        kind, table, condition = node["Node Type"], node.get("Relation Name"), node.get("Index Cond", "")
        if table in TABLES and kind in ("Seq Scan", "Parallel Seq Scan", "Sample Scan", "Tid Scan"):
            found.append(f"{kind} of {table}")
        elif kind in ("Index Scan", "Index Only Scan") and table in TABLES and "tenant = " not in condition:
            found.append(f"{kind} of {table} by {node['Index Name']}: {condition or 'no condition'}")
        elif kind == "Bitmap Index Scan" and "tenant = " not in condition:
            found.append(f"{kind} by {node['Index Name']}: {condition or 'no condition'}")
    return found


def use(store: PostgresStore) -> None:
    """Read, and write a little, in every way that there is."""
    scope, day = USED, datetime(2026, 1, 1, tzinfo=UTC)
    near = clustered(1, 3)[0]
    ids = [record.id for _, record in store.list(scope, ListQuery(limit=100, exclude_kind="message"))]
    first, sequence = ids[0], store.sequence_of(scope, ids[0]) or 0
    store.list(scope, ListQuery(order="occurred"))
    store.list(scope, ListQuery(tag="tag1", kind="fact", session="s2", filter=parse({"n": {"gt": 3}})))
    store.get(scope, first), store.by_key(scope, "key1"), store.fetch(scope, [sequence]), store.count(scope), store.tags(scope)
    store.history(scope, first), store.audit(scope), store.stamp(scope), store.changes(scope, 0), store.changes(scope, sequence)
    store.matching(scope, parse({"n": 3}) or All(())), store.snapshot(scope, day, day), store.index_size(scope)
    store.search_recent(scope, 5), store.search_words(scope, ["tea", "fact"], 5), store.search_vectors(scope, near, 5)
    store.index_rows(scope, [sequence]), store.neighbours(scope, [sequence + 1, sequence], 2)
    list(store.export_records(scope)), list(store.export_records(scope, ids[:2]))
    (
        store.message_log.page(scope, "s2"),
        store.message_log.page(scope, None),
        store.message_log.count(scope, "s2"),
        store.message_log.count(scope, None),
    )
    store.message_log.sessions(scope), store.states.get(scope, "name1"), store.states.all(scope)
    store.states.put(scope, "name1", "new", expected="value", made_from=[(first, 2)]), store.states.drop(scope, "name2")
    store.jobs.add(scope, JobDraft("learn", "s3", day), [first]), store.jobs.list(scope), store.jobs.list(scope, state="failed")
    job = store.jobs.claim({"learn"}, timedelta(minutes=1), scope=scope)
    assert job is not None
    store.jobs.put_back(job, "no", day), store.jobs.finish(job), store.jobs.retry(scope), store.jobs.drop(scope, job.number)
    store.jobs.next_due({"learn"}), store.pending(5), store.pending_count(), store.pending_count(next=True)
    (
        store.retention.scopes("t8"),
        store.retention.summaries("t8"),
        store.retention.old(scope, Age(day)),
        store.retention.lapsed(scope),
        store.retention.archived(scope),
    )
    (
        store.retention.faded(scope, 0.9, 5, day),
        store.retention.excess(scope, 10, ("fact",)),
        store.retention.archived(scope, why=("faded",)),
        store.retention.stats(scope, day),
        store.retention.scopes_with_record("t8", first),
        store.retention.lineage(scope),
        store.retention.lineage(scope, [first]),
    )
    _, ticket = store.retention.archive(scope, ids[1:3])
    store.retention.undo(scope, ticket), store.retention.restore(scope, [first])
    store.reviews.add(scope, [Flag(first, "stale", "old")]), store.reviews.list(scope), store.reviews.confirm(scope, first)
    open_one = store.reviews.list(scope)[0]
    store.reviews.get(scope, open_one.number), store.reviews.settle(scope, open_one.number, "kept", "user")
    store.reviews.release(scope, store.reviews.list(scope)[-1].id)
    (
        store.audit_log.last(scope),
        store.audit_log.count(scope),
        store.audit_log.places(scope, [sequence]),
        store.audit_log.number_at(scope, 1),
        store.audit_log.feed(scope, 0, 10),
        store.audit_log.stamps(scope, [first]),
        store.audit_log.forgotten(scope, [first]),
        store.audit_log.days(scope, day),
        store.audit_log.verify("t8"),
        store.audit_log.note_foreign(scope, [("get", "m_8_2_1")]),
    )
    limits = (Limit("writes", 10, 10),)
    told = add(store, "Dana has tea", scope, key="drink", parents=(first,), vector=near)
    add(store, "Dana has coffee", scope, key="drink", vector=near)
    item = Write(
        draft("a new fact", dedup_key=b"gist", vector=near), merging(), "key", "print", made_from=((first, 2),), limits=limits
    )
    store.write(scope, [item, Write(draft("a quarantined fact", status="quarantined", trust=0.1, vector=near))])
    store.revise(scope, first, Revision(content="other words", terms=("other", "words"), vector=near))
    (
        store.forget(scope, Selector(id=told.id)),
        store.forget(scope, Selector(session="s4")),
        store.forget(scope, Selector(source="x")),
    )
    long = store.sequence_of(scope, add(store, "Dana has tea at noon. " * 200, scope, vector=None).id or "") or 0
    assert {long, passage_number(long, 1)} <= {each.sequence for each in store.pending(1000)}
    store.index_rows(scope, [long], whole=True), store.index_rows(scope, [passage_number(long, 1)])


# What is asked for only in moments that the above does not bring about, and what goes over a whole tenant for upkeep: explained
# without values.
SELDOM = set("record_newest job_open job_fresh history_texts record_kind record_vector archived_as_compacted vector_kept".split())
SELDOM |= {"audit_last", "index_latest"}
UPKEEP = ("doctor_", "reindex_", "next_", "moving_", "moved_")


@pytest.fixture(scope="module")
def asked(explainer: Explainer) -> dict[str, Asked]:
    with explainer.noting():
        use(explainer.store)
    return explainer.asked


def touched(name: str) -> bool:
    """Whether a statement reads or changes a table of tenants."""
    text = sql.texts[name]
    found = any(list(references(block)) for block in blocks(nested(text)))
    return found and name not in SHARED | WHOLE | SCRIPTS and not (text.startswith("INSERT") and "SELECT" not in text)


def test_every_statement_enters_by_the_tenant_with_the_values_it_was_sent_with(
    explainer: Explainer, asked: dict[str, Asked]
) -> None:
    reads = {name for name in used() | {"stamp", "words_search", "words_count", "vectors_search"} if touched(name)}
    reads = {name for name in reads if not sql.texts[name].startswith(("INSERT", "UPDATE", "DELETE"))}
    unasked = reads - set(asked)
    assert {name for name in unasked if not name.startswith(UPKEEP)} <= SELDOM
    plans = {
        each.name: explainer.plan(each.text, each.values, tenant=each.tenant) for each in asked.values() if touched(each.name)
    }
    assert len(plans) > 90
    assert {name: wrong for name, plan in plans.items() if (wrong := astray(plan))} == {}


def test_every_statement_enters_by_the_tenant_without_values(explainer: Explainer) -> None:
    """As it is planned once it has been prepared and used for a while."""
    names = [name for name in list(sql.texts) if touched(name) and name not in TYPES]
    plans = {name: explainer.plan(statement(name, PARTS).text, how=", GENERIC_PLAN") for name in names}
    assert {name: wrong for name, plan in plans.items() if (wrong := astray(plan))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM record WHERE content = 'x'",
        "SELECT sequence FROM vector ORDER BY sequence",
        "SELECT 1 FROM audit WHERE at = 1",
    ],
)
def test_a_plan_that_goes_astray_is_seen(postgres_server: PostgresServer, filled: str, text: str) -> None:
    with psycopg.connect(postgres_server.url_as("postgres", "keepstone_plans")) as connection:  # above the policies
        connection.execute("SET search_path = keepstone, public")
        found = connection.execute(f"EXPLAIN (FORMAT JSON) {text}".encode()).fetchone()
    assert found is not None
    assert astray(found[0][0]["Plan"])


@pytest.mark.parametrize(
    ("name", "table", "condition"),
    [
        ("pending_passages", "record", "sequence = "),
        ("next_passages", "record", "sequence = "),
        ("index_passages", "vector", "sequence >= "),
    ],
)
def test_a_record_and_its_passages_find_each_other_by_number(explainer: Explainer, name: str, table: str, condition: str) -> None:
    """The policies keep an index from being entered by a condition that computes."""
    plan = explainer.plan(statement(name, PARTS).text, how=", GENERIC_PLAN")
    conditions = [node.get("Index Cond", "") for node in nodes(plan) if node.get("Relation Name") == table]
    assert [condition in each for each in conditions] == [True], conditions


def test_a_rare_word_reads_the_records_that_have_it(explainer: Explainer) -> None:
    explainer.asked.pop("words_search", None)
    with explainer.noting():
        explainer.store.search_words(BIG, ["4711"], 5)
    asked = explainer.asked["words_search"]
    plan = explainer.plan(asked.text, asked.values, tenant=asked.tenant)
    assert ["sequence = " in node.get("Index Cond", "") for node in nodes(plan) if node.get("Relation Name") == "record"] == [
        True
    ]


# -- vectors --------------------------------------------------------------------------------------------------------


def vectors_search(explainer: Explainer, scope: Scope) -> Asked:
    """The search as the store sends it."""
    explainer.asked.pop("vectors_search", None)
    with explainer.noting():
        explainer.store.search_vectors(scope, clustered(1, 4)[0], 10)
    return explainer.asked["vectors_search"]


@pytest.fixture(scope="module")
def near(postgres_server: PostgresServer, filled: str) -> None:
    """An index of the large scope's own."""
    with psycopg.connect(postgres_server.url_as("postgres", "keepstone_plans"), autocommit=True) as connection:
        connection.execute("SET search_path = keepstone, public")
        connection.execute(
            f"CREATE INDEX near ON vector USING hnsw ((vector::halfvec({WIDTH})) halfvec_ip_ops) "
            "WHERE tenant = 't1' AND scope = 1 AND model = 1"
        )
        connection.execute("ANALYZE vector")


@pytest.mark.usefixtures("near")
def test_a_small_scope_is_compared_whole_and_no_other_tenant_is_read(explainer: Explainer) -> None:
    for scope in (SMALL, Scope("t9", "a", "u2")):
        asked = vectors_search(explainer, scope)
        plan = explainer.plan(asked.text, asked.values, tenant=asked.tenant, how=", ANALYZE")
        assert astray(plan) == []
        read = [node for node in nodes(plan) if node.get("Relation Name") in ("vector", "record")]
        assert {node["Relation Name"] for node in read} == {"vector", "record"}
        assert not any(node.get("Index Name") == "near" for node in nodes(plan))
        for node in read:
            rows = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            assert rows <= RECORDS, f"{node['Node Type']} of {node['Relation Name']} reads {rows} rows"


def best(explainer: Explainer, scope: Scope, question: Vector) -> list[int]:
    """The ten nearest, by comparing all."""
    rows = explainer.store.changes(scope, 0).rows
    able = rows.embedded & rows.active & (rows.expires > NOW)
    order = np.argsort(-(rows.vectors[able] @ question), kind="stable")
    found: list[int] = rows.sequences[able][order][:10].tolist()
    return found


@pytest.mark.usefixtures("near")
def test_a_small_scope_is_searched_exactly(explainer: Explainer) -> None:
    for question in clustered(5, 5):
        assert set(explainer.store.search_vectors(SMALL, question, 10)) == set(best(explainer, SMALL, question))


@pytest.mark.usefixtures("near")
def test_a_large_scope_is_searched_by_its_own_index(explainer: Explainer) -> None:
    asked = vectors_search(explainer, BIG)
    plan = explainer.plan(asked.text, asked.values, tenant=asked.tenant)
    ways = [node for node in nodes(plan) if node.get("Relation Name") == "vector"]
    assert [(node["Node Type"], node.get("Index Name")) for node in ways] == [("Index Scan", "near")]
    assert "Order By" in ways[0]


@pytest.mark.usefixtures("near")
def test_the_index_finds_what_comparing_all_would(explainer: Explainer) -> None:
    questions = clustered(40, 6)
    found = [set(explainer.store.search_vectors(BIG, each, 10)) & set(best(explainer, BIG, each)) for each in questions]
    assert sum(map(len, found)) / (10 * len(questions)) >= 0.95


@pytest.mark.usefixtures("near")
def test_it_looks_among_more_than_it_gives(explainer: Explainer) -> None:
    """As many as are asked for come back, though the index alone stops at a few."""
    assert len(explainer.store.search_vectors(BIG, clustered(1, 7)[0], 256)) == 256
    with explainer.driver.connection() as connection:
        explainer.driver.begin(connection, "t1")
        ((width,),) = connection.rows(connection.queue("SELECT current_setting('hnsw.ef_search')::int"))
    assert width >= 100
