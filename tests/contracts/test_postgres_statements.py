"""The statements of PostgresStore: each is one that the server takes, each names its tenant for every table that tenants share,
and the ledger finds all that it asks for in both engines.

The checker reads the text of a statement, not its plan: a table of tenants is bound when its own `tenant` is compared with the
transaction's, or joined to one that is. What it does not understand it does not let pass.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from keepstone.stores import common, postgres
from keepstone.stores.postgres.statements import sql, statement
from keepstone.stores.postgres.store import PostgresStore
from keepstone.stores.sqlite.transaction import sql as sqlite_sql
from tests.server_processes import PostgresServer

FOLDER = Path(postgres.__file__).parent
LEDGER = Path(common.__file__).parent
PARTS = (("filter", "TRUE"), ("order", "DESC"), ("dimension", "8"), ("schema", "keepstone"), ("app", "keepstone_app"),
    ("name", "of_a_test"), ("tenant", "'a'"), ("scope", "1"), ("model", "1"), ("path", "'keepstone'"), ("role", "'none'"),
    ("statement", "'0'"), ("patience", "'0'"), ("commit", "'on'"))  # fmt: skip
SHARED = {
    "record",
    "state",
    "search_filter",
    "job",
    "index",
    "review",
    "listed",
}  # beginnings and conditions of others, never run as they are
WHOLE = {"tenants_all", "tenants_jobs", "tenants_pending"}  # the names of the tenants: what looks past one of them
SCRIPTS = {"grants", "index_make", "index_drop"}  # what cannot be prepared is run
TYPES = {"next_switch": "(bigint)"}  # a number is sent as one; the server alone would take it for a text
OPEN = {"meta", "lease"}  # tables without tenants
RUN = [name for name in list(sql.texts) if name not in SHARED]


def tenant_tables() -> set[str]:
    """Every table of the migrations but those without tenants."""
    scripts = "\n".join(file.read_text(encoding="utf-8") for file in sorted((FOLDER / "migrations").glob("*.sql")))
    return set(re.findall(r"^CREATE TABLE (\w+)", scripts, re.MULTILINE)) - OPEN


TABLES = tenant_tables()

# -- reading a statement --------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|::|:?[A-Za-z_]\w*|\$\d+|\d+(?:\.\d+)?|[<>=!?@|&#+\-*/]+|\S")
_TAKES = {"FROM", "JOIN", "UPDATE", "INTO"}
_ENDS = {"WHERE", "ORDER", "GROUP", "LIMIT", "RETURNING", "FOR", "HAVING", "SET", "SELECT", "VALUES"}
_JOINS = {"JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL"}
_OURS = ":tenant"
Tokens = list[Any]  # texts, and tuples for what stands in parentheses


def nested(text: str) -> Tokens:
    """The tokens of a statement, parentheses as tuples."""
    levels: list[Tokens] = [[]]
    for token in _TOKEN.findall(text):
        if token == "(":
            levels.append([])
        elif token == ")":
            inner = levels.pop()
            levels[-1].append(tuple(inner))
        else:
            levels[-1].append(token if token[0] in "'\"" else token.upper() if token.upper() in _WORDS else token)
    assert len(levels) == 1, "parentheses that do not match"
    return levels[0]


_WORDS = _TAKES | _ENDS | _JOINS
_WORDS |= {"UNION", "AND", "OR", "NOT", "ON", "USING", "AS", "DO", "DISTINCT", "ALL", "INSERT", "DELETE", "LATERAL", "ONLY"}


def blocks(tokens: Sequence[Any]) -> Iterator[Tokens]:
    """Every query in a statement: what stands between parentheses is one of its own, and so is each side of a UNION."""
    block: Tokens = []
    for token in [*tokens, "UNION"]:
        if isinstance(token, tuple):
            yield from blocks(token)
        if token in ("UNION", ";"):
            yield block
            block = []
        else:
            block.append(token)


@dataclass
class Reference:
    """A table in a query: by which name, and what it is joined by."""

    table: str
    alias: str
    inserted: bool = False
    using: Sequence[Any] = ()
    on: Tokens = field(default_factory=list)
    bound: bool = False


def references(block: Tokens) -> Iterator[Reference]:
    """Every table of tenants that a query reads or writes."""
    listing = False  # between FROM and its end, where a comma brings another table
    for at, token in enumerate(block):
        before = block[at - 1] if at else ""
        if token == "FROM":
            listing = before != "DISTINCT"  # IS DISTINCT FROM compares
        elif token in _ENDS:
            listing = False
        taking = (token in _TAKES and before not in ("FOR", "DO", "DISTINCT")) or (token == "," and listing)
        if not taking:
            continue
        rest = [each for each in block[at + 1 : at + 5] if each not in ("ONLY", "LATERAL")]
        if rest and isinstance(rest[0], str) and rest[0].strip('"') in TABLES:
            alias = rest[2] if rest[1:2] == ["AS"] else rest[1] if _is_name(rest[1:2]) else rest[0]
            found = Reference(rest[0], alias, inserted=token == "INTO")
            behind = block[at + 1 :]
            stop = next((n for n, each in enumerate(behind) if each in _JOINS | _ENDS or each == ","), len(behind))
            joined = behind[:stop]
            if "USING" in joined:
                found.using = joined[joined.index("USING") + 1]
            elif "ON" in joined:
                found.on = joined[joined.index("ON") + 1 :]
            yield found


def _is_name(tokens: Tokens) -> bool:
    return bool(tokens) and isinstance(tokens[0], str) and bool(re.fullmatch(r"[a-z_]\w*", tokens[0]))


def conjuncts(condition: Tokens) -> list[Tokens]:
    """What must all hold; nothing if an OR on the same level may excuse it."""
    if "OR" in condition:
        return []
    parts: list[Tokens] = [[]]
    for token in condition:
        if token == "AND":
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def where(block: Tokens) -> Tokens:
    """The condition of a query."""
    if "WHERE" not in block:
        return []
    rest = block[block.index("WHERE") + 1 :]
    stop = next((at for at, token in enumerate(rest) if token in _ENDS or token == "ON"), len(rest))
    return rest[:stop]


def unbound(text: str) -> list[str]:
    """The tables of tenants that a statement touches without naming the tenant."""
    loose = []
    for block in blocks(nested(text)):
        found = list(references(block))
        read = [each for each in found if not each.inserted]
        held = conjuncts(where(block))
        for each in read:
            named = [[each.alias, ".", "tenant", "=", _OURS]] + ([["tenant", "=", _OURS]] if len(read) == 1 else [])
            each.bound = any(name in held or name in conjuncts(each.on) for name in named)
        for _ in read:  # a join hands it on
            for at, each in enumerate(read):
                for other in read:
                    same = "tenant" in each.using and other in read[:at]
                    equal = [[each.alias, ".", "tenant", "=", other.alias, ".", "tenant"]]
                    equal += [[other.alias, ".", "tenant", "=", each.alias, ".", "tenant"]]
                    if same or any(one in conjuncts(each.on) for one in equal):
                        each.bound = other.bound = each.bound or other.bound
        for each in found:
            if each.inserted:
                each.bound = _inserts(block, read)
        loose += [f"{each.table} as {each.alias}" for each in found if not each.bound]
    return loose


def _inserts(block: Tokens, read: Sequence[Reference]) -> bool:
    """Whether an INSERT puts the tenant into the column tenant."""
    after = block[block.index("INTO") + 2 :]
    if not after or not isinstance(after[0], tuple) or after[0][0] != "tenant":
        return False
    if after[1:2] == ["VALUES"]:
        return isinstance(after[2], tuple) and after[2][0] == _OURS and after[3:4] != [","]
    if after[1:2] != ["SELECT"]:
        return False
    return after[2] == _OURS or (after[2:4] == ["tenant", ","] and len(read) == 1 and read[0].bound)


# -- the tests ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database with the tables, which are found as a process finds them."""
    url = postgres_server.database("keepstone_statements")
    store = PostgresStore.open(url)
    path = store._driver.session.path
    store.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT set_config('search_path', %s, false)", (path,))
        yield connection


def test_the_server_takes_every_statement(server: psycopg.Connection[Any]) -> None:
    refused = {}
    for name in RUN:
        if name in SCRIPTS:
            continue
        try:
            server.execute(f"PREPARE one {TYPES.get(name, '')} AS {statement(name, PARTS).text}".encode())
            server.execute("DEALLOCATE one")
        except psycopg.Error as error:
            refused[name] = str(error)
    assert refused == {}


def test_it_takes_the_scripts(server: psycopg.Connection[Any]) -> None:
    for name in ("grants", "index_make", "index_drop"):
        server.execute(statement(name, PARTS).text.encode())
    assert server.execute("SELECT to_regclass('of_a_test')").fetchone() == (None,)


def test_a_statement_that_does_not_fit_the_schema_is_refused(server: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.UndefinedColumn):
        server.execute(b"PREPARE one AS SELECT color FROM record")


def test_the_tables_of_tenants_are_those_with_policies(server: psycopg.Connection[Any]) -> None:
    rows = server.execute(
        "SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity, EXISTS (SELECT 1 FROM pg_attribute AS a WHERE "
        "a.attrelid = c.oid AND a.attname = 'tenant') FROM pg_class AS c WHERE c.relnamespace = 'keepstone'::regnamespace "
        "AND c.relkind IN ('r', 'p')"
    ).fetchall()
    assert {name for name, _, _ in rows} == TABLES | OPEN
    assert {name for name, forced, _ in rows if forced} == TABLES
    assert {name for name, _, tenant in rows if tenant} == TABLES


def test_every_statement_names_its_tenant() -> None:
    assert {name: loose for name in RUN if (loose := unbound(sql.texts[name]))} == {name: ["tenant as tenant"] for name in WHOLE}


def test_the_tenant_is_never_a_callers_to_give() -> None:
    """A statement on a tenant's table takes the tenant from the transaction."""
    touching = [name for name in RUN if any(list(references(block)) for block in blocks(nested(sql.texts[name])))]
    assert len(touching) > 100
    given = {name for name in touching if statement(name, PARTS).tenant or "tenant" in (statement(name, PARTS).names or ())}
    assert set(touching) - given == WHOLE


BAD = {
    "no condition": "SELECT id FROM record",
    "only the scope": "SELECT id FROM record WHERE scope = $1",
    "a caller's tenant": "SELECT id FROM record WHERE tenant = $1",
    "its own tenant": "SELECT r.id FROM record AS r WHERE r.tenant = r.tenant",
    "excused by OR": "SELECT id FROM record WHERE tenant = :tenant AND scope = $1 OR id = $2",
    "excused inside": "SELECT id FROM record WHERE (tenant = :tenant OR scope = $1)",
    "negated": "SELECT id FROM record WHERE NOT tenant = :tenant",
    "another's tenant": "SELECT r.id FROM record AS r JOIN scope AS s ON s.scope = r.scope WHERE s.tenant = :tenant",
    "joined by number": "SELECT r.id FROM record AS r JOIN vector AS v USING (sequence) WHERE r.tenant = :tenant",
    "joined by a comma": "SELECT r.id FROM record AS r, vector AS v WHERE r.tenant = :tenant AND v.sequence = r.sequence",
    "a part of a union": "SELECT id FROM record WHERE tenant = :tenant UNION ALL SELECT id FROM record WHERE scope = $1",
    "a query inside": "SELECT 1 FROM scope AS s WHERE s.tenant = :tenant AND EXISTS (SELECT 1 FROM record AS r WHERE r.id = $1)",
    "a query as a table": "SELECT x.id FROM (SELECT id FROM record) AS x",
    "a query as a value": "UPDATE tenant SET rows = (SELECT count(*) FROM record) WHERE tenant = :tenant",
    "a name for later": "WITH all_of AS (SELECT id FROM record) SELECT id FROM all_of",
    "an update": "UPDATE record SET changed = $2 WHERE sequence = $1",
    "an update from": "UPDATE vector SET model = 1 FROM record AS r WHERE vector.tenant = :tenant AND r.id = $1",
    "a deletion": "DELETE FROM words WHERE sequence = $1",
    "a deletion of all": "DELETE FROM words",
    "values of a caller": "INSERT INTO state (tenant, scope) VALUES ($1, $2)",
    "a second row": "INSERT INTO state (tenant, scope) VALUES (:tenant, $1), ($2, $3)",
    "another column first": "INSERT INTO state (scope, tenant) VALUES (:tenant, $2)",
    "no columns": "INSERT INTO state VALUES (:tenant, $2)",
    "from everybody": "INSERT INTO access (tenant, sequence) SELECT tenant, sequence FROM record WHERE sequence = $1",
    "for update": "SELECT head FROM tenant WHERE scope = $1 FOR UPDATE",
}  # fmt: skip
GOOD = {
    "by name": "SELECT r.id FROM record AS r WHERE r.tenant = :tenant AND (r.scope = $1 OR r.id = $2)",
    "without a name": "SELECT id FROM record WHERE tenant = :tenant ORDER BY id",
    "joined": "SELECT 1 FROM record AS r LEFT JOIN access AS a USING (tenant, sequence) WHERE r.tenant = :tenant",
    "joined on": "SELECT 1 FROM vector AS v JOIN scope AS s ON s.tenant = v.tenant AND s.scope = $1 WHERE v.tenant = :tenant",
    "values": "INSERT INTO state (tenant, scope) VALUES (:tenant, $1) ON CONFLICT (tenant, scope) DO UPDATE SET value = $2",
    "without tenants": "SELECT value FROM meta WHERE name = $1",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_the_checker_finds_what_names_no_tenant(text: str) -> None:
    assert unbound(text)


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD.keys())
def test_the_checker_lets_the_others_pass(text: str) -> None:
    assert unbound(text) == []


# -- names ----------------------------------------------------------------------------------------------------------

_CALLS = {"one", "all", "walk", "stream", "each", "run", "count"}
_THROUGH = {"living": 2, "_found": 1, "_changed": 1}  # functions that are given a name, and where


def names_in(file: Path) -> set[str]:
    """The statements that a module of the ledger asks a hand for."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found: set[str] = set()
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for function in (node for body in (tree, *classes) for node in body.body if isinstance(node, ast.FunctionDef)):
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            by_hand = (
                isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id == "db"
            )
            at = 0 if name in _CALLS and by_hand else _THROUGH.get(name)
            if at is not None:
                found |= _texts(call.args[at], function)
    return found


def _texts(argument: ast.expr, function: ast.FunctionDef) -> set[str]:
    """The names that an argument may be; one that is a parameter itself is found where the function is called."""
    match argument:
        case ast.Constant(str(name)):
            return {name}
        case ast.IfExp(_, one, other):
            return _texts(one, function) | _texts(other, function)
        case ast.Starred(ast.IfExp(_, ast.Tuple([one, *_]), ast.Tuple([other, *_]))):
            return _texts(one, function) | _texts(other, function)
        case ast.Name(name):
            found: set[str] = set()
            for node in ast.walk(function):
                if isinstance(node, ast.Assign) and any(isinstance(each, ast.Name) and each.id == name for each in node.targets):
                    found |= _texts(node.value, function)
                if isinstance(node, ast.For) and isinstance(node.target, ast.Tuple) and isinstance(node.iter, ast.Tuple):
                    at = next((n for n, each in enumerate(node.target.elts) if getattr(each, "id", "") == name), None)
                    rows = [row.elts for row in node.iter.elts if isinstance(row, ast.Tuple)]
                    found |= set() if at is None else {text for row in rows for text in _texts(row[at], function)}
            given = {argument.arg for argument in function.args.args}
            assert found or name in given, f"{function.name} asks for {name}, which this test cannot follow"
            return found
        case ast.Attribute():
            return set()  # of a table of names: they are texts of their module
    raise AssertionError(f"{function.name} asks for {ast.unparse(argument)}, which this test cannot follow")


def used() -> set[str]:
    """The statements that the ledger uses: those that it asks for by name, and those whose names it keeps in tables."""
    known = {name for name in (*sql.texts, *sqlite_sql.texts) if "_" in name}
    kept = {
        node.value
        for file in LEDGER.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in known
    }
    return kept | {name for file in LEDGER.glob("*.py") for name in names_in(file)}


def test_the_ledger_finds_its_statements_in_both_engines() -> None:
    names = used()
    assert len(names) > 120, sorted(names)
    assert names - set(sql.texts) == set()
    assert names - set(sqlite_sql.texts) == set()


def test_every_statement_is_used() -> None:
    nodes = [node for file in FOLDER.glob("*.py") for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    begun = {node.values[0] for node in nodes if isinstance(node, ast.JoinedStr)}  # f"tenants_{having}"
    prefixes = tuple(each.value for each in begun if isinstance(each, ast.Constant) and re.fullmatch(r"[a-z]+_", str(each.value)))
    asked = used() | texts | SHARED
    assert [name for name in list(sql.texts) if name not in asked and not name.startswith(prefixes)] == []


def test_what_is_shared_stands_at_the_beginning_of_others() -> None:
    files = [file.read_text(encoding="utf-8") for file in FOLDER.glob("*.sql")]
    assert {name for text in files for name in re.findall(r"^\{(\w+)\}", text, re.MULTILINE)} == SHARED
