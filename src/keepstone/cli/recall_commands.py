"""recall, context, list, history, diff, why, get, search, stats, users, entities."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Annotated, Any, TypeVar, cast

import typer

from keepstone.cli import options as o
from keepstone.cli import render
from keepstone.cli.arguments import moment, resolve_id
from keepstone.cli.invocation import Invocation
from keepstone.cli.output import Output, Part, err
from keepstone.errors import NotFound, ValidationError
from keepstone.memory import Memory
from keepstone.ports.serialize import document
from keepstone.types import MESSAGE, Entity, Page, Recall, ScopeSummary, SessionCost

app = typer.Typer()
Found = TypeVar("Found", bound=Sized)
_BARS = 30  # characters of the longest bar
KINDS = frozenset(("fact", "note", "value", MESSAGE, "episode", "summary"))


_TEXTS = {"contains": o.Contains, "not_contains": o.NotContains}


@o.verb(app, "recall", Memory.recall, tag=o.OnlyTag, session=o.OnlySession, **_TEXTS)
def recall(call: Invocation, **given: Any) -> None:
    """Find the memories that answer a question, best first."""
    arguments = _with_texts(**given)
    kinds = arguments["kinds"]
    call.show(
        lambda memory: known_kinds(memory, memory.recall(**arguments), kinds),
        lambda out, recall: _render_recall(out, recall, call.place),
    )


def known_kinds(memory: Memory, found: Found, kinds: Sequence[str] | None) -> Found:
    """What was found; ValidationError if that is nothing and a kind that was named is neither a usual one nor in use."""
    if not len(found):
        for kind in set(kinds or ()) - KINDS:
            if not memory.list(kind=kind, limit=1):
                usual = ", ".join(sorted(KINDS))
                raise ValidationError(f"--kind {kind!r:.60}: no memory of this scope is of that kind. Usual ones are {usual}.")
    return found


def _with_texts(contains: list[str] | None, not_contains: list[str] | None, **arguments: Any) -> dict[str, Any]:
    """The arguments of a verb, with the texts that records have to contain or not in the filter."""
    texts = [{"contains": text} for text in contains or ()] + [{"not_contains": text} for text in not_contains or ()]
    if texts:
        arguments["filter"] = {"and": [*([arguments["filter"]] if arguments["filter"] else []), *texts]}
    return arguments


def _render_recall(out: Output, recall: Recall, place: str) -> None:
    for note in recall.notes:
        err().line((f"note: {note}", "yellow"))
    if recall.hits or recall.left_out:
        render.recall(out, recall)
    else:
        render.no_hits(out, recall, place)


@o.verb(
    app,
    "context",
    Memory.context,
    max_tokens=Annotated[int, typer.Option(metavar="N", help="Maximum tokens of the block.")],
    limit=Annotated[int | None, typer.Option(metavar="N", help="Maximum number of memories in it.")],
    tag=o.OnlyTag,
)
def context(call: Invocation, query: str, **arguments: Any) -> None:
    """Print the memories about a question as a block for a prompt."""
    with call.open(missing="empty") as memory:
        block = memory.context(query, **arguments)
    answer = {"query": query, "context": str(block), "tokens": block.tokens, "ids": list(block.ids)}
    call.answer(answer, lambda out: _render_block(out, block))


def _render_block(out: Output, block: str) -> None:
    if block:
        out.block(block)
    else:
        err().line(("No memory matches: the block is empty.", "dim"))


@o.verb(app, "list", Memory.list, tag=o.OnlyTag, kind=o.OnlyKind, **_TEXTS)
def list_(call: Invocation, **given: Any) -> None:
    """List records, newest first, in pages."""
    arguments = _with_texts(**given)
    kinds = [arguments["kind"]] if arguments["kind"] else None
    advice = ("Try fewer filters, or another --tenant, --agent, --user or --db.", "dim")
    empty: list[Part] = [f"No records found ({call.place}).", advice]
    call.show(
        lambda memory: known_kinds(memory, memory.list(**arguments), kinds), lambda out, page: _render_page(out, page, *empty)
    )


def _render_page(out: Output, page: Page, *empty: Part) -> None:
    for line in () if page.records else empty:
        out.line(line)
    render.records(out, page.records)
    if page.cursor is not None:
        out.line((f"Next page: add --cursor {page.cursor}", "dim"))


@o.command(app, "history")
def history(call: Invocation, id: o.Id) -> None:
    """Show every version of a record, oldest first."""
    with call.open(missing="empty") as memory:
        id = resolve_id(memory, id)
        versions = memory.history(id)
    call.answer({"id": id, "versions": document(list(versions))}, lambda out: render.history(out, versions))


@o.command(app, "diff")
def diff(
    call: Invocation,
    since: Annotated[str, typer.Option(metavar="TIME", help="The start: 2026-03-01, yesterday, '3 days ago'.")],
    until: Annotated[str | None, typer.Option(metavar="TIME", help="The end (default: now).", show_default=False)] = None,
    kinds: o.Kinds = None,
) -> None:
    """Show what was added, changed and removed between two times."""
    start, end = moment(since, "--since") or since, moment(until, "--until")
    call.show(lambda memory: memory.audit.diff(start, end, kinds=kinds or None), render.diff)


@o.command(app, "why")
def why(
    call: Invocation,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The question.")],
    id: o.Id,
) -> None:
    """Explain why a question recalls a record, or does not."""
    call.show(lambda memory: memory.why(query, resolve_id(memory, id)), render.explanation)


@o.command(app, "get")
def get(
    call: Invocation,
    id: Annotated[str | None, typer.Argument(metavar="ID", help="The id of a record, or its beginning.")] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="The record with this key.")] = None,
) -> None:
    """Show one whole record."""
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
    words: Annotated[list[str], typer.Argument(metavar="WORD", help="Texts that a record has to contain, all of them.")],
    tag: o.OnlyTag = None,
    kind: o.OnlyKind = None,
    limit: o.Limit = 20,
    cursor: o.Cursor = None,
) -> None:
    """Find records by the words in them, newest first.

    Upper and lower case are the same. 'keepstone recall' finds what answers a question in other words too.
    """
    spellings = [dict.fromkeys((word, word.lower(), word.capitalize(), word.upper())) for word in words]
    condition = {"and": [{"or": [{"contains": each} for each in same]} for same in spellings]}

    def find(memory: Memory) -> Any:
        page = memory.list(tag=tag, kind=kind, filter=condition, limit=limit, cursor=cursor)
        return known_kinds(memory, page, [kind] if kind else None)

    empty = f"No record contains {' and '.join(map(repr, words))} ({call.place})."
    call.show(find, lambda out, page: _render_page(out, page, empty))


@o.command(app, "stats")
def stats(
    call: Invocation,
    days: Annotated[int, typer.Option(metavar="N", help="Days of growth to show, today included.")] = 30,
) -> None:
    """Show the scope in numbers. Records by kind and tag, conversations, growth, and what waits."""
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
        "conversation" if found["sessions"] == 1 else "conversations": found["sessions"],
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


@o.command(app, "costs")
def costs(
    call: Invocation,
    days: Annotated[int, typer.Option(metavar="N", help="Days to show, today included.")] = 30,
) -> None:
    """Show the tokens that memories took in prompts. By day and session: injected by hooks, recalled over MCP."""
    call.show(lambda memory: memory.costs(days=days), _render_costs, field="costs")


def _render_costs(out: Output, found: Sequence[SessionCost]) -> None:
    if not found:
        out.line("No tokens were counted: hooks and the MCP server count them.")
        return
    out.line((f"{'day':<12}{'injected':>10}{'recalled':>10}{'times':>7}  session", "bold"))
    for cost in found:
        out.line(f"{cost.day:<12}{cost.injected:>10,}{cost.recalled:>10,}{cost.times:>7,}  {cost.session}")
    injected, recalled = sum(cost.injected for cost in found), sum(cost.recalled for cost in found)
    out.line((f"{'together':<12}{injected:>10,}{recalled:>10,}{sum(cost.times for cost in found):>7,}", "bold"))


@o.command(app, "users")
def users(call: Invocation) -> None:
    """List the users and agents of the tenant. Each with counts, size and last activity.

    Names that differ only in case or spaces are marked.
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
    """List the people, places, projects and topics in memories. The most named come first."""
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
