"""Reading a URL: what goes to the server, what is ours, and how it is shown to people.

`schema=` is ours: the schema the tables are in. Everything else is PostgreSQL's own (`sslmode`, `sslrootcert`, `options`, several
hosts). `pgbouncer=true`, which some providers put into their URLs, turns prepared statements off. A URL that cannot be read is
never quoted: there may be a password in any part of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import unquote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from keepstone.errors import ConfigurationError

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")
_HOST = re.compile(r"[\w.,:/~+\-\[\]%]*\Z")
_POOLED_PORTS = {"6432", "6543"}  # PgBouncer's own, and the one of a well-known hosted pooler
DEFAULT_SCHEMA = "keepstone"
_HOW = (
    "write it as postgresql://user:password@host:5432/name, with special characters of the password percent-encoded (%40 for @, "
    "%2F for /, %3A for :, %23 for #, %3F for ?, %25 for %)"
)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a store is: the connection string, the schema, whether statements may be prepared, and the URL for people to read."""

    conninfo: str = field(repr=False)  # with the password
    schema: str
    prepare: bool
    label: str

    @classmethod
    def of(cls, url: str) -> Target:
        """What a URL means; ConfigurationError if it cannot be read."""
        if not url.startswith(("postgresql://", "postgres://")):
            shown = url if "://" not in url else url.partition("://")[0] + "://…"
            raise ConfigurationError(f"{shown!r:.80} is no PostgreSQL database: name one as postgresql://owner@host:5432/name.")
        base, _, query = url.partition("?")
        pairs = [pair.partition("=") for pair in query.split("&") if pair]
        ours = {name: unquote(value) for name, _, value in pairs if name in ("schema", "pgbouncer")}
        rest = "&".join(f"{name}={value}" for name, _, value in pairs if name not in ours)
        conninfo = f"{base}?{rest}" if rest else base
        schema = ours.get("schema", DEFAULT_SCHEMA)
        if not _NAME.match(schema) or schema.startswith("pg_"):
            raise ConfigurationError(f"schema={schema!r:.80} is no name for a schema: use small letters, digits and underscores.")
        read = _read(conninfo)
        pooled = ours.get("pgbouncer", "").lower() in ("1", "true", "yes", "on")
        prepare = not pooled and not _POOLED_PORTS & set(read["port"].split(",")) and "pooler" not in read["host"]
        return cls(conninfo, schema, prepare, _shown(read, schema))


def _read(conninfo: str) -> dict[str, str]:
    """The parts that may be shown; what does not look like one was meant to be something else."""
    try:
        found = conninfo_to_dict(conninfo)
    except (psycopg.Error, UnicodeDecodeError):
        raise ConfigurationError(f"the database URL cannot be read: {_HOW}.") from None
    read = {name: str(found.get(name) or "") for name in ("user", "host", "port", "dbname")}
    odd = not _HOST.match(read["host"]) or not re.match(r"[\d,]*\Z", read["port"]) or any(c in read["dbname"] for c in "@?#/")
    if odd or "#" in conninfo or "@" in read["user"]:
        raise ConfigurationError(f"the database URL cannot be read for certain: {_HOW}.")
    return read


def _shown(read: dict[str, str], schema: str) -> str:
    """The URL without its password and its options."""
    ports = read["port"].split(",")
    hosts = read["host"].split(",")
    where = ",".join(f"{host}:{port}" if port else host for host, port in zip(hosts, ports * len(hosts), strict=False))
    label = f"postgresql://{read['user'] + '@' if read['user'] else ''}{where}/{read['dbname']}"
    return label if schema == DEFAULT_SCHEMA else f"{label}?schema={schema}"
