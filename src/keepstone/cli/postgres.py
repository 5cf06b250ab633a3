"""postgres: set up a database, print the set-up as SQL, and check it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from keepstone.cli import options as o
from keepstone.cli.exit_codes import OK, PROBLEMS
from keepstone.cli.invocation import Invocation
from keepstone.cli.output import Output
from keepstone.errors import ConfigurationError, ValidationError
from keepstone.ports.serialize import document
from keepstone.stores.postgres import psycopg_required
from keepstone.types import Finding

if TYPE_CHECKING:
    from keepstone.stores.postgres.administration import Check, SetUp

app = typer.Typer()
postgres = typer.Typer(no_args_is_help=True, help="Set up and check a PostgreSQL database as the store.")
app.add_typer(postgres, name="postgres")

PASSWORD = "KEEPSTONE_APP_PASSWORD"
_WIDTH = 13
_POLICIES = {True: "forced on every table", False: "not in force everywhere", None: "not known"}


@o.command(postgres, "setup")
def setup(
    call: Invocation,
    login: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Create or change a login for applications; its password comes from {PASSWORD} or a prompt.",
        ),
    ] = None,
    finish: Annotated[
        bool, typer.Option("--finish", help="Also finish migrations; only when every process runs this version.")
    ] = False,
) -> None:
    """Create or upgrade the tables and the role of applications.

    --db is the owner's URL. Running it again changes only the login's password, if one is given. A role without CREATEROLE
    creates the tables only. The extension 'vector' must exist, or the role must be allowed to create it.
    """
    with psycopg_required():
        from keepstone.stores.postgres import administration
    password = None if login is None else _password(call, login)
    made = administration.set_up(call.db, finish=finish, login=login, password=password)
    call.answer(document(made), lambda out: _render_setup(out, made))


@o.command(postgres, "sql")
def statements(
    call: Invocation,
    schema: Annotated[str, typer.Option(metavar="NAME", help="The schema of the tables.")] = "keepstone",
    shard: Annotated[bool, typer.Option("--shard", help="Distribute the tables by tenant, on a Citus cluster.")] = False,
    since: Annotated[int, typer.Option(metavar="N", help="Only changes after this schema version; 0: everything.")] = 0,
) -> None:
    """Print the statements that setup would run, for a database administrator.

    The script is one transaction for psql. No database is contacted.
    """
    if since < 0:
        raise ValidationError(f"--since is {since}: use the version that 'keepstone postgres check' shows, or 0.")
    with psycopg_required():
        from keepstone.stores.postgres import administration
    text = administration.script(schema, since=since, shard=shard)
    call = replace(call, db=":memory:")  # no note about a missing store
    call.answer({"schema": schema, "since": since, "shard": shard, "sql": text}, lambda out: out.block(text.rstrip("\n")))


@o.command(postgres, "check")
def check(call: Invocation) -> int:
    """Check the database as an application with this URL sees it; nothing is changed.

    It shows the role, row-level security, versions, encryption, prepared statements, and scopes that need an index. Problems
    exit with code 8; advice does not.
    """
    with psycopg_required():
        from keepstone.stores.postgres import administration
    found = administration.check(call.db)
    call.answer({**document(found), "fine": found.fine}, lambda out: _render_check(out, found))
    return OK if found.fine else PROBLEMS


def _password(call: Invocation, login: str) -> str | None:
    """The login's password from the environment or the terminal; None keeps the current one."""
    if password := os.environ.get(PASSWORD):
        return password
    from keepstone.stores.postgres import administration

    there = administration.login_there(call.db, login)
    if sys.stdin is not None and sys.stdin.isatty():
        text = f"Password of {login}" + (" (empty: unchanged)" if there else "")
        asked: str = typer.prompt(
            text, hide_input=True, confirmation_prompt=True, default="" if there else None, show_default=False, err=True
        )
        return asked or None
    if not there:
        raise ConfigurationError(f"--login {login} is new and needs a password: put it into {PASSWORD}.")
    return None


# -- for people -----------------------------------------------------------------------------------------------------
def _render_row(out: Output, name: str, text: str) -> None:
    out.line((f"    {name:<{_WIDTH}}", "dim"), text, indent=6 + _WIDTH)


def _render_setup(out: Output, made: SetUp) -> None:
    out.line(("set up" if made.done else "up to date", "bold green"), f"  {made.place}")
    _render_row(
        out, "schema", f"{made.schema}, version {made.version}" + (f" (now: {', '.join(made.done)})" if made.done else "")
    )
    _render_row(out, "extension", f"vector {made.extension}")
    if made.role is None:
        _render_row(
            out,
            "role",
            "none: this role may not create one. Applications connect as the owner; the policies bind it too.",
        )
    else:
        _render_row(out, "role", f"{made.role}: {', '.join(made.granted)}")
    if made.pending:
        _render_row(out, "later", f"{', '.join(made.pending)}: run setup --finish once every process runs this version")
    if made.login:
        _render_row(out, "login", f"{made.login}, a member of {made.role}")
        _render_row(out, "connect", f"{made.url}")
        out.line((f"    {'':<{_WIDTH}}Put the password into PGPASSWORD or a password file.", "dim"))


def _render_check(out: Output, found: Check) -> None:
    out.line(("fine" if found.fine else "not fine", "bold green" if found.fine else "bold red"), f"  {found.place}")
    who = found.who
    _render_row(out, "role", who.acts if who.acts == who.connects else f"{who.acts} (connects as {who.connects})")
    rights = [word for word, has in (("superuser or above the policies", who.above), ("owner of the tables", who.owner)) if has]
    _render_row(out, "connects as", " and ".join(rights) or "neither owner nor superuser")
    _render_row(out, "policies", _POLICIES[found.forced])
    _render_row(out, "schema", "none" if found.version is None else f"version {found.version} of {found.newest}")
    _render_row(out, "server", f"PostgreSQL {found.server}, vector {found.extension or 'missing'}")
    _render_row(out, "tls", found.tls)
    _render_row(
        out, "prepared", "statements are prepared" if found.prepared else "statements are not prepared: the URL names a pooler"
    )
    _render_findings(out, "problem", "bold red", found.problems)
    _render_findings(out, "advice", "bold yellow", found.advice)


def _render_findings(out: Output, word: str, style: str, findings: Sequence[Finding]) -> None:
    for finding in findings:
        out.line((f"{word}  ", style), f"{finding.check}: {finding.problem}")
        out.line(f"    {finding.remedy}")
