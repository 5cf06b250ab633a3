"""The options, each written once, and the decorator that gives every command the common ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from keepstone.cli.invocation import Invocation

P = ParamSpec("P")
HERE = ("serve", "index", "postgres")  # commands on the store itself: they do not go to a server
Body = Callable[Concatenate[Invocation, P], int | None]


def _common(flag: str, metavar: str, text: str, default: str) -> Any:
    note = f"{text}  [env: KEEPSTONE_{flag[2:].upper()}; default: {default}]"
    return Annotated[str | None, typer.Option(flag, metavar=metavar, help=note, show_default=False)]


COMMON: dict[str, Any] = {
    "db": _common("--db", "FILE", "The store.", "keepstone.db"),
    "tenant": _common("--tenant", "NAME", "Whose memory: the tenant.", "local"),
    "agent": _common("--agent", "NAME", "Whose memory: the agent.", "default"),
    "user": _common("--user", "NAME", "Whose memory: the user.", "none"),
    "embedder": _common("--embedder", "NAME", "What makes vectors: auto, static, minilm, none.", "auto"),
    "json": Annotated[bool, typer.Option("--json", help="Answer with one JSON document.", show_default=False)],
}


def common_parameters() -> list[inspect.Parameter]:
    """The common options as parameters of a function."""
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=False if name == "json" else None)
        for name, kind in COMMON.items()
    ]


def command(app: typer.Typer, name: str, *, epilog: str | None = None) -> Callable[[Body[P]], Body[P]]:
    """Register a function as a command: its first argument is the Invocation made from the common options, the others
    become the command's own arguments and options, its docstring the help."""

    def register(body: Body[P]) -> Body[P]:
        app.command(name, epilog=epilog)(_called(body))
        return body

    return register


def alone(app: typer.Typer) -> Callable[[Body[P]], Body[P]]:
    """Register a function as what a group of commands does when none of them is named."""

    def register(body: Body[P]) -> Body[P]:
        app.callback(invoke_without_command=True)(_called(body))
        return body

    return register


def _called(body: Body[P]) -> Callable[..., int | None]:
    own = list(inspect.signature(body, eval_str=True).parameters.values())[1:]

    def call(context: typer.Context, **given: Any) -> int | None:
        before = context.obj or {}
        common = {each: given.pop(each) for each in COMMON}
        if context.invoked_subcommand is not None:  # a group's own options hold for its commands
            context.obj = {each: before.get(each) if common[each] in (None, False) else common[each] for each in COMMON}
            return None
        settled = Invocation.of(before, common)
        if context.command_path.split()[1] in HERE:
            settled.here(context.command_path)
        return body(settled, **given)  # type: ignore[call-arg]

    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
    call.__signature__ = inspect.Signature([first, *own, *common_parameters()])  # type: ignore[attr-defined]
    call.__doc__ = body.__doc__
    return call


# -- arguments ----------------------------------------------------------------------------------------------------
Content = Annotated[str | None, typer.Argument(metavar="[CONTENT]", help="The text; - or nothing reads it from a pipe.")]
Query = Annotated[str | None, typer.Argument(metavar="QUERY", help="The question; - reads it from a pipe.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="The id of a record.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The key.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="The file.")]

# -- who answers --------------------------------------------------------------------------------------------------
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="SPEC",
        help="The model: anthropic:NAME, openai:NAME, openai:NAME@URL, ollama:NAME, none.  [env: KEEPSTONE_MODEL; default: none]",
        show_default=False,
    ),
]
Number = Annotated[int, typer.Argument(metavar="NUMBER", help="The number of an item of the list.")]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="The ids of records.")]
JobNumber = Annotated[int, typer.Argument(metavar="NUMBER", help="The number of a job.")]

# -- what a record is ---------------------------------------------------------------------------------------------
Kind = Annotated[str, typer.Option(metavar="KIND", help="What it is: fact, note, episode …")]
Tag = Annotated[str, typer.Option(metavar="TAG", help="The category it belongs to.")]
KeyOption = Annotated[
    str | None, typer.Option("--key", metavar="KEY", help="A name for the value; a later write with the same key supersedes it.")
]
Importance = Annotated[float, typer.Option(metavar="0..1", help="How much it matters.")]
NewImportance = Annotated[float | None, typer.Option("--importance", metavar="0..1", help="How much it matters.")]
Metadata = Annotated[str | None, typer.Option(metavar="JSON", help="Anything else about it, as a JSON object.")]
Ttl = Annotated[str | None, typer.Option(metavar="TIME", help="How long it holds: 30d, 12h, 90s or seconds.")]
Source = Annotated[str, typer.Option(metavar="NAME", help="Where it comes from: user, agent, tool, web:… It sets the trust.")]
InSession = Annotated[str | None, typer.Option("--session", metavar="NAME", help="The conversation it was said in.")]
OccurredAt = Annotated[str | None, typer.Option(metavar="TIME", help="When it happened, in ISO 8601.")]
IdempotencyKey = Annotated[str | None, typer.Option(metavar="KEY", help="Makes repeating the same write harmless.")]
ChangedAt = Annotated[
    str | None, typer.Option("--occurred-at", metavar="TIME", help="Since when the new text holds (ISO 8601; default: now).")
]
ExpectedVersion = Annotated[int | None, typer.Option(metavar="N", help="Refuse unless the record is at this version.")]

# -- what is looked for -------------------------------------------------------------------------------------------
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", help="How many at the most.")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", metavar="KIND", help="Only this kind; may be repeated.")]
OnlyKind = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only this kind.")]
OnlyTag = Annotated[str | None, typer.Option("--tag", metavar="TAG", help="Only this category.")]
OnlySession = Annotated[str | None, typer.Option("--session", metavar="NAME", help="Only what was said there.")]
Filter = Annotated[str | None, typer.Option(metavar="JSON", help="""Conditions on the metadata: '{"age": {"gte": 18}}'.""")]
MinSimilarity = Annotated[float | None, typer.Option(metavar="0..1", help="Relevance below which nothing is shown; 0 shows all.")]
MinImportance = Annotated[float, typer.Option(metavar="0..1", help="Only what matters at least this much.")]
MinTrust = Annotated[float | None, typer.Option(metavar="0..1", help="Only from sources trusted at least this much.")]
MaxTokens = Annotated[int | None, typer.Option(metavar="N", help="Stop before the texts pass this many tokens.")]
AsOf = Annotated[str | None, typer.Option(metavar="TIME", help="What was true then (ISO 8601).")]
AskedAt = Annotated[str | None, typer.Option(metavar="TIME", help="When it is asked, for 'last week' (ISO 8601; default: now).")]
KnownAt = Annotated[str | None, typer.Option(metavar="TIME", help="What was known then (ISO 8601).")]
Since = Annotated[str | None, typer.Option(metavar="TIME", help="Only what was done since (ISO 8601).")]
Cursor = Annotated[str | None, typer.Option(metavar="CURSOR", help="The next page, as named by the one before.")]
Category = Annotated[str, typer.Option(metavar="NAME", help="The category it belongs to.")]

# -- how a store is kept ------------------------------------------------------------------------------------------
OlderThan = Annotated[str, typer.Option(metavar="TIME", help="Only what was left alone for so long: 30d, 12h …")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")]
