"""Expand the reference directives in docs/reference: each becomes Markdown taken from the code.

A directive is a comment on a line of its own: `<!-- ::: keepstone.types.Record -->` documents one object of the package,
`<!-- ::: cli commands -->` a part of the command line, `<!-- ::: http operations -->` a part of the HTTP API,
`<!-- ::: rights verbs -->` the table of rights.
tools/make_site.py expands directives when it builds the site; the expanded pages are not committed.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
DIRECTIVE = re.compile(r"^<!-- ::: (.+?) -->$", re.MULTILINE)
MAX_SIGNATURE_CHARS = 100  # a longer signature has one parameter a line


def expand(text: str) -> str:
    """A page with every directive replaced by what it stands for."""
    return DIRECTIVE.sub(lambda directive: "\n".join(render(directive[1])).strip("\n"), text)


def render(name: str) -> Iterator[str]:
    """The Markdown lines for one directive."""
    source, _, part = name.partition(" ")
    if source == "cli":
        yield from {"commands": cli_commands, "exit codes": exit_codes}[part]()
    elif source == "http":
        from http_reference import SECTIONS

        yield from SECTIONS[part]()
    elif source == "rights":
        import rights_probe

        yield from rights_probe.SECTIONS[part]()
    elif source == "settings":
        yield from settings_table()
    else:
        yield from render_object(source, part)


# -- Python objects -----------------------------------------------------------------------------------------------------
@cache
def documented() -> dict[str, str]:
    """The page of every object that a directive names, by the object's name."""
    pages: dict[str, str] = {}
    for page in sorted(FOLDER.glob("*.md")):
        for name in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            if name == "keepstone.errors":
                pages |= {error.__name__: page.name for error in error_classes()}
            elif name.startswith("keepstone"):
                pages[name.partition(" ")[0].rpartition(".")[2]] = page.name
    return pages


def render_object(path: str, instance: str) -> Iterator[str]:
    """A class, function or module of errors; `instance` is what an example calls an object of the class."""
    if path == "keepstone.errors":
        for error in error_classes():
            bases = [base.__name__ for base in error.__bases__ if base is not Exception]
            yield from ["", f"### {error.__name__}", "", *prose(error)]
            yield from ["", f"Base: {', '.join(link(base) for base in bases)}."] if bases else []
        return
    module, _, name = path.rpartition(".")
    thing = getattr(import_module(module), name)
    if inspect.isfunction(thing):
        yield from [
            f"### {name}",
            "",
            f"`from {module} import {name}`",
            "",
            *signature(name, thing),
            *prose(thing),
            *returns(thing),
        ]
    elif dataclasses.is_dataclass(thing):
        yield from [f"### {name}", "", *prose(thing), "", *fields_table(thing)]
    elif getattr(thing, "_is_protocol", False):
        yield from [f"### {name}", "", *prose(thing), "", *(protocol_member(thing, member) for member in public_names(thing))]
    elif instance == "only":
        yield from [f"## {name}", "", *signature(name, thing.__init__), *prose(thing), "", *prose(thing.__init__)]
    else:
        yield from [f"## {name}", "", *prose(thing)]
        for member in public_names(thing):
            yield from render_member(thing, member, instance or name.lower())


def render_member(owner: type, name: str, instance: str) -> Iterator[str]:
    static = inspect.getattr_static(owner, name)
    yield from ["", f"### {owner.__name__}()" if name == "__call__" else f"### {owner.__name__}.{name}", ""]
    if isinstance(static, property):
        hint = inspect.signature(static.fget).return_annotation if static.fget else ""
        yield from [f"    {instance}.{name} -> {hint}", "", *prose(static), *returns(static.fget)]
        return
    function = getattr(owner, name)
    called = instance if name == "__call__" else f"{owner.__name__ if inspect.ismethod(function) else instance}.{name}"
    yield from [*signature(called, function), *prose(function), *returns(function)]


def public_names(owner: type) -> list[str]:
    """Public members in the order they are written, those of base classes first."""
    written = [name for kind in reversed(owner.__mro__) if kind is not object for name in vars(kind)]
    annotated = list(getattr(owner, "__annotations__", {})) if getattr(owner, "_is_protocol", False) else []
    return [name for name in dict.fromkeys([*annotated, *written]) if not name.startswith("_") or name == "__call__"]


def protocol_member(owner: type, name: str) -> str:
    static = inspect.getattr_static(owner, name, None)
    text = " ".join((inspect.getdoc(static) or "").split()) if static is not None else ""
    if inspect.isfunction(static):
        shown = f"{name}({', '.join(parameters(static))}) -> {inspect.signature(static).return_annotation}"
    elif isinstance(static, property):
        shown = f"{name}: {inspect.signature(static.fget).return_annotation}" if static.fget else name
    else:
        shown = f"{name}: {owner.__annotations__[name]}"
    return f"- `{shown}`{': ' + text if text else ''}"


def signature(name: str, function: Callable[..., Any]) -> list[str]:
    """A signature as an indented block."""
    arguments, result = parameters(function), inspect.signature(function).return_annotation
    arrow = "" if result is inspect.Signature.empty or function.__name__ == "__init__" else f" -> {result}"
    line = f"{name}({', '.join(arguments)}){arrow}"
    if len(line) <= MAX_SIGNATURE_CHARS:
        return [f"    {line}", ""]
    return [f"    {name}(", *(f"        {argument}," for argument in arguments), f"    ){arrow}", ""]


def parameters(function: Callable[..., Any]) -> list[str]:
    """The parameters as they are written, without self and without quotes around types."""
    shown: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not any(argument.startswith("*") for argument in shown):
            shown.append("*")
        text = str(parameter).replace(": '", ": ", 1)
        shown.append(re.sub(r"^([^=]*?)'(?= =|$)", r"\1", text))
    return shown


def returns(function: Callable[..., Any] | None) -> list[str]:
    """Links to the documented types that a function returns."""
    hint = str(inspect.signature(function).return_annotation) if function else ""
    names = [name for name in dict.fromkeys(re.findall(r"[A-Z]\w+", hint)) if name in documented()]
    return ["", f"Returns {', '.join(link(name) for name in names)}."] if names else []


def link(name: str) -> str:
    page = documented().get(name)
    return f"[`{name}`]({page}#{name.lower()})" if page else f"`{name}`"


def prose(thing: Any) -> list[str]:
    """A docstring as Markdown: examples are fenced, names of errors are links."""
    lines: list[str] = []
    errors = "|".join(error.__name__ for error in error_classes())
    for paragraph in (inspect.getdoc(thing) or "").split("\n\n"):
        if paragraph.startswith(">>>"):
            code = (line[4:] if line.startswith((">>> ", "... ")) else f"# {line}" for line in paragraph.split("\n"))
            lines += ["```python", *code, "```", ""]
        elif paragraph.startswith("    "):
            lines += ["```text", *(line[4:] for line in paragraph.split("\n")), "```", ""]
        else:
            lines += [re.sub(rf"(?<![`\w])({errors})(?![`\w])", lambda name: link(name[1]), " ".join(paragraph.split())), ""]
    return lines[:-1]


def fields_table(value: type) -> Iterator[str]:
    """The fields and properties of a dataclass. A comment behind a field says what it means."""
    comments = dict(re.findall(r"^    (\w+): .*?  # (.+)$", inspect.getsource(value), re.MULTILINE))
    yield from ["| field | type | default | |", "|---|---|---|---|"]
    for field in dataclasses.fields(value):
        if not field.name.startswith("_"):
            factory = "" if field.default_factory is dataclasses.MISSING else f"`{field.default_factory()!r}`"
            made = f"{type(field.default).__name__}()" if dataclasses.is_dataclass(field.default) else repr(field.default)
            default = factory if field.default is dataclasses.MISSING else f"`{made}`"
            yield f"| `{field.name}` | {typed(str(field.type))} | {default} | {comments.get(field.name, '')} |"
    for name, static in vars(value).items():
        if isinstance(static, property) and static.fget and not name.startswith("_"):
            hint = str(inspect.signature(static.fget).return_annotation)
            yield f"| `{name}` | {typed(hint)} | | {' '.join((inspect.getdoc(static) or '').split())} |"


def typed(hint: str) -> str:
    """A type for a table cell, linked to its section; a bar would end the cell."""
    shown = hint.replace(" | ", " or ")
    name = next((name for name in re.findall(r"[A-Z]\w+", hint) if documented().get(name) == "values.md"), None)
    return f"[`{shown}`](#{name.lower()})" if name else f"`{shown}`"


def error_classes() -> list[type[Exception]]:
    from keepstone import errors

    return [thing for thing in vars(errors).values() if inspect.isclass(thing) and issubclass(thing, errors.KeepstoneError)]


# -- settings and command line ------------------------------------------------------------------------------------------
def settings_table() -> Iterator[str]:
    from keepstone.settings import Settings

    yield from ["| setting | what it does | default |", "|---|---|---|"]
    for field in dataclasses.fields(Settings):
        unset = field.default in (None, "", dataclasses.MISSING)
        least, most = field.metadata["least"], field.metadata["most"]
        bounds = "" if least is None else f" ({least:,} to {most:,})".replace(".0 ", " ").replace(".0)", ")")
        default = "unset" if unset else str(field.default).lower().removesuffix(".0")
        yield f"| `{field.name}` | {field.metadata['text']}{bounds} | {default} |"


def cli_commands() -> Iterator[str]:
    """Every command as Typer documents it. The options that all commands share are listed once, at the top."""
    import typer
    from typer.cli import get_docs_for_click
    from typer.main import get_command

    from keepstone.cli.app import build_app
    from keepstone.cli.options import COMMON

    root = get_command(build_app())
    text = get_docs_for_click(obj=root, ctx=typer.Context(root, info_name="keepstone"), name="keepstone")
    head, *commands = re.split(r"(?=^## )", text, flags=re.MULTILINE)
    shared = re.compile(rf"^\* `(?:--help|--(?:{'|'.join(COMMON)})\b)[^\n]*\n", re.MULTILINE)
    options = [line for line in head.partition("**Commands**:")[0].splitlines() if line.startswith("* `--")]
    yield from ["## Options of every command", "", *options, ""]
    for command in commands:
        body = shared.sub("", command).replace("```console\n$ ", "```text\n")
        yield re.sub(r"\*\*Options\*\*:\s+(?=\Z|#|\*\*|[A-Z])", "", body)


def exit_codes() -> Iterator[str]:
    from keepstone.cli.exit_codes import MEANINGS

    yield from ["| code | meaning |", "|---|---|"]
    yield from (f"| {code} | {meaning} |" for code, meaning in MEANINGS.items())
