"""queries.sql: every query is used, every use exists, each is described by a fixed text and fits the schema."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import apsw.ext
import pytest

from keepstone.stores import sqlite
from keepstone.stores.queries import Queries
from keepstone.stores.sqlite.migrate import migrate

FOLDER = Path(sqlite.__file__).parent
FILES = ("queries.sql", "queue.sql", "maintenance.sql", "store_copy.sql")
TEXT = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in FILES)
QUERIES = Queries(FOLDER, *FILES)
TEMPORARY = [name for name in list(QUERIES.texts) if QUERIES.texts[name].startswith("CREATE VIRTUAL TABLE")]
SHARED = set(re.findall(r"^\{(\w+)\}", TEXT, re.MULTILINE))


def strings() -> set[str]:
    """Every text in the code of the store and of the common rules, and every attribute of `sql`: a query is used by its name."""
    return {
        node.value if isinstance(node, ast.Constant) else node.attr
        for file in (*FOLDER.glob("*.py"), *(FOLDER.parent / "common").glob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Constant) and isinstance(node.value, str))
        or (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sql")
    }


def used() -> set[str]:
    """The statement name in every call of a transaction."""
    calls = {"one", "all", "walk", "stream", "each", "run", "count", "_found", "find_living"}
    return {
        argument.value
        for file in (*FOLDER.glob("*.py"), *(FOLDER.parent / "common").glob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in calls
        and isinstance(node.func.value, ast.Name) and node.func.value.id in ("db", "transaction")
        for argument in node.args[:1]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }  # fmt: skip


STRINGS = strings()


def test_every_use_names_a_query() -> None:
    assert used() - set(QUERIES.texts) == set()


@pytest.mark.parametrize("name", list(QUERIES.texts))
def test_every_query_is_used(name: str) -> None:
    assert name in STRINGS | SHARED


def test_names_stand_once() -> None:
    names = re.findall(r"^-- name: (\w+)", TEXT, re.MULTILINE)
    assert len(names) == len(set(names)) > 50
    assert names == list(QUERIES.texts)


@pytest.mark.parametrize("name", list(QUERIES.texts))
def test_a_query_has_no_hole_but_the_filter(name: str) -> None:
    statement = QUERIES.texts[name]
    assert set(re.findall(r"\{.*?\}", statement)) <= {"{filter}", "{order}"}
    assert "%" not in statement


def test_only_searches_take_a_filter() -> None:
    filtered = {name for name in list(QUERIES.texts) if "{filter}" in QUERIES.texts[name]}
    searches = {"search_filter", "words_search", "recent_search", "vectors_walk", "passages_walk"}
    assert filtered == {"listed", "record_page", "record_page_occurred", "record_matching", *searches}


@pytest.fixture(scope="module")
def db() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    migrate(connection, ":memory:")
    for name in TEMPORARY:
        connection.execute(QUERIES.texts[name])
    yield connection
    connection.close()


@pytest.mark.parametrize(
    "name", [name for name in list(QUERIES.texts) if name not in {"state", "search_filter", "listed", *TEMPORARY}]
)
def test_every_statement_fits_the_schema(db: apsw.Connection, name: str) -> None:
    rest: str | None = QUERIES.texts[name].replace("{filter}", "TRUE").replace("{order}", "DESC")
    while rest is not None:
        info = apsw.ext.query_info(db, rest)
        rest = info.query_remaining
        assert rest is None or info.description == (), "what follows a statement that gives rows is not run"


def test_no_sql_stands_in_the_code() -> None:
    """Besides queries.sql only connections and transactions are spoken of, which take no values."""
    plain = re.compile(r"^(PRAGMA|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE)", re.IGNORECASE)
    verbs = re.compile(
        r"^\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|WITH|PRAGMA|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE)\s"
    )
    found = [
        (file.name, node.value)
        for file in (*FOLDER.glob("*.py"), *(FOLDER.parent / "common").glob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and verbs.match(node.value)
        and not plain.match(node.value)
    ]
    assert found == []
