"""get, search, stats, users, entities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from keepstone.cli import options as o
from keepstone.cli import render
from keepstone.cli.arguments import resolve_id
from keepstone.cli.invocation import Invocation
from keepstone.cli.output import Output
from keepstone.cli.recall_commands import known_kinds
from keepstone.errors import NotFound, ValidationError
from keepstone.ports.serialize import document
from keepstone.types import Entity, ScopeSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from keepstone.memory import Memory

app = typer.Typer()
_BARS = 30  # characters of the longest bar


@o.command(app, "get")
def get(
    call: Invocation,
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="The id of a record, or its beginning.")] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="The record with this key.")] = None,
) -> None:
    """Show one record, whole."""
    if (id is None) == (key is None):
        raise ValidationError("get needs either an ID or --key: give one of them.")
    with call.open(missing="empty") as memory:
        record = memory.get(key=key) if id is None else memory.get(resolve_id(memory, id))
    if record is None:
        what = f"key {key!r:.80}" if id is None else f"record {id!r:.80}"
        raise NotFound(f"there is no {what} in this scope ({call.place}): 'keepstone list' shows what there is.")
    call.answer(document(record), lambda out: render.records(out, [record]))


@o.command(app, "search")
def search(
    call: Invocation,
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="Texts that a record has to contain, all of them.")],
    tag: o.OnlyTag = None,
    kind: o.OnlyKind = None,
    limit: o.Limit = 20,
    cursor: o.Cursor = None,
) -> None:
    """Find records by the words in them, newest first.

    Upper and lower case are the same. 'keepstone recall' finds what answers a question, whatever its words.
    """
    spellings = [dict.fromkeys((word, word.lower(), word.capitalize(), word.upper())) for word in words]
    condition = {"and": [{"or": [{"contains": each} for each in same]} for same in spellings]}

    def find(memory: Memory) -> Any:
        page = memory.list(tag=tag, kind=kind, filter=condition, limit=limit, cursor=cursor)
        return known_kinds(memory, page, [kind] if kind else None)

    def show(out: Output, page: Any) -> None:
        if not page.records:
            out.line(f"No record contains {' and '.join(map(repr, words))} ({call.place}).")
        render.records(out, page.records)
        if page.cursor is not None:
            out.line((f"Next page: add --cursor {page.cursor}", "dim"))

    call.show(find, show)


@o.command(app, "stats")
def stats(
    call: Invocation,
    days: Annotated[int, typer.Option(metavar="N", help="Days of growth to show, today included.")] = 30,
) -> None:
    """Show the scope in numbers: records by kind and tag, conversations, growth, and what waits."""
    with call.open(missing="empty") as memory:
        if call.url is not None:
            found = cast(Any, memory)._request("GET", "/v1/stats", {"days": days})
        else:
            from keepstone.backend import backend_of
            from keepstone.server.stats import overview

            found = document(overview(backend_of(memory), memory.scope, days))
    call.answer(found, lambda out: _render_stats(out, found, call.place))


def _render_stats(out: Output, found: dict[str, Any], place: str) -> None:
    out.line((render.plural(found["records"], "record"), "bold"), f"  {place}")
    for title, counts in (
        ("kinds", list(found["kinds"].items())),
        ("tags", [(each["tag"], each["count"]) for each in found["tags"]]),
    ):
        if counts:
            out.line(f"    {title:<8}", ", ".join(f"{name} {count:,}" for name, count in counts))
    waiting = {
        "conversations": found["sessions"],
        "quarantined": found["quarantined"],
        "to review": found["reviews"],
        "jobs waiting": found["jobs"]["waiting"],
        "jobs failed": found["jobs"]["failed"],
    }
    shown = [f"{count:,} {name}" for name, count in waiting.items() if count]
    if shown:
        out.line("    " + ", ".join(shown))
    most = max((day["added"] for day in found["growth"]), default=0)
    for day in found["growth"]:
        if day["added"]:
            bar = "#" * max(1, round(_BARS * day["added"] / most))
            out.line(f"    {day['day']}  {day['added']:>7,}  ", (bar, "cyan"))


@o.command(app, "users")
def users(call: Invocation) -> None:
    """List the users and agents of the tenant, with counts, size and last activity.

    A name that differs from another in case or spaces only is pointed out.
    """
    call.show(lambda memory: memory.scopes(), lambda out, found: _render_users(out, found, call.place), field="scopes")


def _render_users(out: Output, found: Sequence[ScopeSummary], place: str) -> None:
    if not found:
        out.line(f"No user has memories yet ({place}).")
    names = [(each.scope.user or "(no user)", each.scope.agent) for each in found]
    wide, agents = (max((len(pair[at]) for pair in names), default=0) for at in (0, 1))
    for each, (user, agent) in zip(found, names, strict=True):
        counts = f"{each.memories:>8,} memories  {each.messages:>8,} messages  {each.bytes / 1024:>8,.1f} KiB"
        last = "" if each.last_activity is None else f"  {render.format_time(each.last_activity)}"
        out.line((f"{user:<{wide}}", "bold"), f"  {agent:<{agents}}  {counts}", (last, "dim"))
        for other in each.resembles:
            out.line((f"    like user {other.user!r} of agent {other.agent!r}: only case or spaces differ", "yellow"))


@o.command(app, "entities")
def entities(
    call: Invocation,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="Only person, place, project or topic.")] = None,
    limit: o.Limit = 30,
) -> None:
    """List the people, places, projects and topics that the memories name, the most named first."""
    call.show(
        lambda memory: memory.entities(kind=kind, limit=limit),
        lambda out, found: _render_entities(out, found, call.place),
        field="entities",
    )


def _render_entities(out: Output, found: Sequence[Entity], place: str) -> None:
    if not found:
        out.line(f"The memories name nothing yet ({place}).")
    wide = max((len(each.name) for each in found), default=0)
    for each in found:
        related = ", ".join(name for name, _ in each.related[:5])
        count = render.plural(each.memories, "memory", "memories")
        out.line(
            (f"{each.name:<{wide}}", "bold"), f"  {each.kind:<8}{count:>12}", (f"  with {related}" if related else "", "dim")
        )
