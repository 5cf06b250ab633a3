"""Options and arguments of commands, and the decorator that adds the common options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from keepstone.cli.arguments import duration, json_object, moment, scope_parts, text_or_pipe
from keepstone.cli.invocation import Invocation

P = ParamSpec("P")
HERE = ("serve", "index", "postgres", "encrypt", "decrypt", "rekey")  # commands that need a store and refuse KEEPSTONE_URL
Body = Callable[Concatenate[Invocation, P], int | None]
Command = Callable[..., int | None]


def _common(flag: str, metavar: str, text: str, default: str) -> Any:
    note = f"{text}  [env: KEEPSTONE_{flag[2:].upper()}; default: {default}]"
    return Annotated[str | None, typer.Option(flag, metavar=metavar, help=note, show_default=False)]


COMMON: dict[str, Any] = {
    "db": _common("--db", "FILE", "The store: a file or a postgresql:// URL.", "keepstone.db"),
    "tenant": _common("--tenant", "NAME", "The tenant of the scope.", "local"),
    "agent": _common("--agent", "NAME", "The agent of the scope.", "default"),
    "user": _common("--user", "NAME", "The user of the scope.", "none"),
    "embedder": _common("--embedder", "NAME", "The embedder: auto, static, minilm, none.", "auto"),
    "reembed": Annotated[
        bool, typer.Option("--reembed", help="Move a store with vectors of another embedder to --embedder.", show_default=False)
    ],
    "json": Annotated[bool, typer.Option("--json", help="Print one JSON document.", show_default=False)],
}


FLAGS = ("reembed", "json")  # common options without a value


def common_parameters(db_default: str | None = None) -> list[inspect.Parameter]:
    """The common options as parameters of a function. `db_default`: the store of a command that has another default."""
    own = {} if db_default is None else {"db": _common("--db", "FILE", "The store: a file or a postgresql:// URL.", db_default)}
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=False if name in FLAGS else None)
        for name, kind in {**COMMON, **own}.items()
    ]


def command(
    app: typer.Typer, name: str, *, epilog: str | None = None, db_default: str | None = None
) -> Callable[[Body[P]], Body[P]]:
    """Register a function as a command. Its first argument is the Invocation with the common options; the others become
    arguments and options of the command, and the docstring its help."""

    def register(body: Body[P]) -> Body[P]:
        app.command(name, epilog=epilog)(_as_command(body, db_default))
        return body

    return register


def alone(app: typer.Typer) -> Callable[[Body[P]], Body[P]]:
    """Register a function as the action of a command group without a subcommand."""

    def register(body: Body[P]) -> Body[P]:
        app.callback(invoke_without_command=True)(_as_command(body))
        return body

    return register


def verb(app: typer.Typer, name: str, like: Callable[..., Any], **kinds: Any) -> Callable[[Command], Command]:
    """Register a function as the command of a verb of the library. Arguments, options and defaults are the verb's; `kinds` are
    those that differ from OPTIONS, and further options of the command. The function gets the arguments of the verb, parsed."""

    def register(body: Command) -> Command:
        first, *_ = inspect.signature(body).parameters.values()
        own = [parameter for parameter in inspect.signature(like).parameters.values() if parameter.name != "self"]
        parameters = [_as_option(parameter, kinds.get(parameter.name) or OPTIONS[parameter.name]) for parameter in own]
        named = {own.name for own in parameters}
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=None)
            for name, kind in kinds.items()
            if name not in named
        ]
        parsers = {own.name: PARSERS[own.annotation] for own in parameters if own.annotation in PARSERS}

        def parse_and_call(call: Invocation, /, **given: Any) -> int | None:
            return body(call, **{name: parsers[name](value) if name in parsers else value for name, value in given.items()})

        parse_and_call.__signature__ = inspect.Signature([first, *parameters])  # type: ignore[attr-defined]
        parse_and_call.__doc__ = body.__doc__
        app.command(name)(_as_command(parse_and_call))
        return parse_and_call

    return register


def _as_option(parameter: inspect.Parameter, kind: Any) -> inspect.Parameter:
    default = None if kind in (Content, Query) else parameter.default
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)


def _as_command(body: Body[P], db_default: str | None = None) -> Callable[..., int | None]:
    own = list(inspect.signature(body, eval_str=True).parameters.values())[1:]

    def call(context: typer.Context, **given: Any) -> int | None:
        before = context.obj or {}
        common = {name: given.pop(name) for name in COMMON}
        if context.invoked_subcommand is not None:  # options of a group apply to its commands
            context.obj = {name: before.get(name) if common[name] in (None, False) else common[name] for name in COMMON}
            return None
        invocation = Invocation.of(before, common)
        if context.command_path.split()[1] in HERE:
            invocation.require_store(context.command_path)
        return body(invocation, **given)  # type: ignore[call-arg]

    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    call.__signature__ = inspect.Signature([first, *own, *common_parameters(db_default)])  # type: ignore[attr-defined]
    call.__doc__ = body.__doc__
    return call


# -- arguments ----------------------------------------------------------------------------------------------------
Content = Annotated[str | None, typer.Argument(metavar="CONTENT", help="The text; by default standard input.")]
Query = Annotated[str | None, typer.Argument(metavar="QUERY", help="The question; - reads standard input.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="The id of a record, or its beginning.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The key.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="The file.")]

# -- models --------------------------------------------------------------------------------------------------
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="SPEC",
        help="The model: anthropic:NAME, openai:NAME, openai:NAME@URL, ollama:NAME, none.  [env: KEEPSTONE_MODEL; default: none]",
        show_default=False,
    ),
]
Number = Annotated[int, typer.Argument(metavar="NUMBER", help="The number of a review item.")]
Ids = Annotated[list[str], typer.Argument(metavar="ID", help="The ids of records.")]
JobNumber = Annotated[int, typer.Argument(metavar="NUMBER", help="The number of a job.")]

# -- fields of a record ---------------------------------------------------------------------------------------------
Kind = Annotated[str, typer.Option(metavar="KIND", help="The kind: fact, note, episode …")]
Tag = Annotated[str, typer.Option(metavar="TAG", help="The tag.")]
KeyOption = Annotated[
    str | None, typer.Option("--key", metavar="KEY", help="A key; a later write with the same key supersedes this one.")
]
Importance = Annotated[float, typer.Option(metavar="0..1", help="The importance.")]
NewTag = Annotated[str | None, typer.Option("--tag", metavar="TAG", help="The tag.")]
NewImportance = Annotated[float | None, typer.Option("--importance", metavar="0..1", help="The importance.")]
Metadata = Annotated[str | None, typer.Option(metavar="JSON", help="Additional fields, as a JSON object.")]
Ttl = Annotated[str | None, typer.Option(metavar="TIME", help="Time to live: 30d, 12h, 90s or seconds.")]
Source = Annotated[str, typer.Option(metavar="NAME", help="The source, which sets the trust: user, agent, tool, web:…")]
InSession = Annotated[str | None, typer.Option("--session", metavar="NAME", help="The session it belongs to.")]
OccurredAt = Annotated[str | None, typer.Option(metavar="TIME", help="When it happened: 2026-03-01, yesterday, '3 days ago'.")]
IdempotencyKey = Annotated[str | None, typer.Option(metavar="KEY", help="Repeating a write with the same key has no effect.")]
ChangedAt = Annotated[
    str | None,
    typer.Option("--occurred-at", metavar="TIME", help="When the new text became true: 2026-03-01, yesterday (default: now)."),
]
ExpectedVersion = Annotated[int | None, typer.Option(metavar="N", help="Refuse unless the record is at this version.")]

Project = Annotated[
    str,
    typer.Option(
        "--project", metavar="NAME", help="The project whose memory is used: a name, auto (the folder's git repository) or off."
    ),
]

# -- filters -------------------------------------------------------------------------------------------
Limit = Annotated[int, typer.Option("--limit", "-n", metavar="N", help="Maximum number of results.")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", metavar="KIND", help="Only this kind; may be repeated.")]
OnlyKind = Annotated[str | None, typer.Option("--kind", metavar="KIND", help="Only this kind.")]
OnlyTag = Annotated[str | None, typer.Option("--tag", metavar="TAG", help="Only this tag.")]
OnlySession = Annotated[str | None, typer.Option("--session", metavar="NAME", help="Only messages of this session.")]
Filter = Annotated[str | None, typer.Option(metavar="JSON", help="""Conditions on the metadata: '{"age": {"gte": 18}}'.""")]
MinSimilarity = Annotated[float | None, typer.Option(metavar="0..1", help="Minimum relevance; 0 shows everything.")]
MinConfidence = Annotated[
    float | None, typer.Option(metavar="0..1", help="Minimum probability that a memory answers; 0 shows the closest.")
]
MinImportance = Annotated[float, typer.Option(metavar="0..1", help="Minimum importance.")]
Contains = Annotated[
    list[str] | None, typer.Option(metavar="TEXT", help="Only records whose text contains this; may be repeated.")
]
NotContains = Annotated[
    list[str] | None, typer.Option(metavar="TEXT", help="Only records whose text does not contain this; may be repeated.")
]
MinTrust = Annotated[float | None, typer.Option(metavar="0..1", help="Minimum trust of the source.")]
MaxTokens = Annotated[int | None, typer.Option(metavar="N", help="Maximum tokens of all texts.")]
AsOf = Annotated[str | None, typer.Option(metavar="TIME", help="What was true at this time: 2026-03-01, yesterday.")]
AskedAt = Annotated[str | None, typer.Option(metavar="TIME", help="The time of the question (default: now).")]
KnownAt = Annotated[str | None, typer.Option(metavar="TIME", help="What was known at this time: 2026-03-01, yesterday.")]
Since = Annotated[str | None, typer.Option(metavar="TIME", help="Only entries since this time: 2026-03-01, yesterday.")]
Also = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SCOPE", help="Another scope to search too: user=NAME, agent=NAME or both, with a comma; may be repeated."
    ),
]
Prefix = Annotated[str | None, typer.Option(metavar="TEXT", help="Only records whose id begins with this.")]
Order = Annotated[
    str, typer.Option(metavar="ORDER", help="Newest first by the time of storing (stored) or of the event (occurred).")
]
Cursor = Annotated[str | None, typer.Option(metavar="CURSOR", help="The cursor that the previous page printed.")]

# -- maintenance ------------------------------------------------------------------------------------------
OlderThan = Annotated[str, typer.Option(metavar="TIME", help="Only memories neither changed nor read for this long: 30d, 12h …")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would happen, and change nothing.")]

# -- arguments of the library's verbs --------------------------------------------------------------------------------
NewContent = Annotated[str | None, typer.Argument(metavar="CONTENT", help="The new text; - reads standard input.")]
OPTIONS: dict[str, Any] = {
    "content": Content, "query": Query, "id": Id, "kind": Kind, "tag": Tag, "key": KeyOption, "importance": Importance,
    "metadata": Metadata, "ttl": Ttl, "source": Source, "session": InSession, "occurred_at": OccurredAt,
    "idempotency_key": IdempotencyKey, "expected_version": ExpectedVersion, "limit": Limit, "kinds": Kinds, "filter": Filter,
    "min_similarity": MinSimilarity, "min_confidence": MinConfidence,
    "min_importance": MinImportance, "min_trust": MinTrust, "max_tokens": MaxTokens,
    "as_of": AsOf, "asked_at": AskedAt, "known_at": KnownAt, "since": Since, "cursor": Cursor,
    "prefix": Prefix, "also": Also, "order": Order,
}  # fmt: skip
PARSERS: dict[Any, Callable[[Any], Any]] = {
    Content: partial(text_or_pipe, what="the content"),
    NewContent: lambda text: None if text is None else text_or_pipe(text, "the content"),
    Query: partial(text_or_pipe, what="the query"),
    Metadata: partial(json_object, what="--metadata"),
    Filter: partial(json_object, what="--filter"),
    Ttl: partial(duration, what="--ttl"),
    Kinds: lambda kinds: kinds or None,
    Also: lambda given: [scope_parts(each) for each in given] if given else None,
    OccurredAt: partial(moment, what="--occurred-at"),
    ChangedAt: partial(moment, what="--occurred-at"),
    AsOf: partial(moment, what="--as-of"),
    KnownAt: partial(moment, what="--known-at"),
    AskedAt: partial(moment, what="--asked-at"),
}
