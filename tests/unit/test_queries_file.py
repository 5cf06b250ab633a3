"""queries.sql: every query is used, every use exists, each is described by a fixed text and fits the schema."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import apsw.ext
import pytest

from recollect.stores import sqlite
from recollect.stores.queries import Queries
from recollect.stores.sqlite.migrate import migrate

FOLDER = Path(sqlite.__file__).parent
FILES = ("queries.sql", "desk.sql", "care.sql")
TEXT = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in FILES)
QUERIES = Queries("recollect.stores.sqlite", *FILES)
TEMPORARY = [name for name in QUERIES.names() if getattr(QUERIES, name).startswith("CREATE VIRTUAL TABLE")]
SHARED = set(re.findall(r"^\{(\w+)\}", TEXT, re.MULTILINE))


def used() -> set[str]:
    """Every name that stands in the code as an attribute of `sql`."""
    return {
        node.attr
        for file in FOLDER.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sql"
    }


def test_every_use_names_a_query() -> None:
    assert used() - set(QUERIES.names()) == set()


@pytest.mark.parametrize("name", QUERIES.names())
def test_every_query_is_used(name: str) -> None:
    assert name in used() | SHARED


def test_names_stand_once() -> None:
    names = re.findall(r"^-- name: (\w+)", TEXT, re.MULTILINE)
    assert len(names) == len(set(names)) > 50
    assert names == QUERIES.names()


@pytest.mark.parametrize("name", QUERIES.names())
def test_a_query_has_no_hole_but_the_filter(name: str) -> None:
    statement = getattr(QUERIES, name)
    assert set(re.findall(r"\{.*?\}", statement)) <= {"{filter}", "{order}"}
    assert "%" not in statement


def test_only_searches_take_a_filter() -> None:
    filtered = {name for name in QUERIES.names() if "{filter}" in getattr(QUERIES, name)}
    assert filtered == {"record_page", "record_matching", "narrow", "words_search", "recent_search", "vectors_walk"}


@pytest.fixture(scope="module")
def db() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    migrate(connection, ":memory:")
    for name in TEMPORARY:
        connection.execute(getattr(QUERIES, name))
    yield connection
    connection.close()


@pytest.mark.parametrize("name", [name for name in QUERIES.names() if name not in {"state", "narrow", *TEMPORARY}])
def test_every_statement_fits_the_schema(db: apsw.Connection, name: str) -> None:
    rest: str | None = getattr(QUERIES, name).replace("{filter}", "TRUE").replace("{order}", "DESC")
    while rest is not None:
        info = apsw.ext.query_info(db, rest)
        rest = info.query_remaining
        assert rest is None or info.description == (), "what follows a statement that gives rows is not run"


def test_an_unknown_query_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="there is no query named 'nothing'"):
        QUERIES.nothing


def test_no_sql_stands_in_the_code() -> None:
    """Besides queries.sql only connections and transactions are spoken of, which take no values."""
    plain = re.compile(
        r"^(PRAGMA|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|DROP TABLE temp\.|SELECT count\(\*\) FROM meta$)", re.IGNORECASE
    )
    verbs = re.compile(
        r"^\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|WITH|PRAGMA|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE)\s"
    )
    found = [
        (file.name, node.value)
        for file in FOLDER.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and verbs.match(node.value)
        and not plain.match(node.value)
    ]
    assert found == []
