"""Writes docs/reference/python.md and docs/reference/values.md from the code: signatures, docstrings, fields, errors.

    python tools/make_python_reference.py                  # write the files
    python tools/make_python_reference.py --print python   # show one of them

A test compares the files with what this prints; a public name that python_names.py does not list ends it.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from python_names import ARGUMENTS, BROUGHT, FUNCTIONS, MEANINGS, PARTS, VALUES, VERBS

import keepstone
from keepstone import errors

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
PLACES = {name: module for group in VALUES.values() for name, module in group.items()}
ERRORS = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, errors.KeepstoneError)]
WIDTH = 100  # of a signature that stands on one line
USED: set[str] = set()  # the meanings that a field was found for

HEAD = """# Python

<!-- Made by tools/make_python_reference.py; do not edit. -->

Everything here is typed, and what it gives back are frozen dataclasses: [values and errors](values.md). The verbs are the same in
`Memory` (a store in this process), `AsyncMemory` (the same for asyncio), `Client` and `AsyncClient` (the same over HTTP).

In signatures a `Time` is a `datetime` or ISO 8601 text, a `Path` a `str` or `PathLike`, a `Reranker` a function from a question
and texts to scores, a `Progress` a function that is told how many of how many are done.
"""
VALUES_HEAD = """# Values and errors

<!-- Made by tools/make_python_reference.py; do not edit. -->

What the [verbs](python.md) take and give: frozen dataclasses. Times are aware `datetime`s in UTC; scores, importances and trust
lie between 0 and 1. The six you will name yourself are in `keepstone` (`Scope`, `Record`, `Message`, `Receipt`, `Recall`, `Hit`);
the others come back from verbs.
"""
ASYNC = """## AsyncMemory

{doc}

The verbs of `Memory` with `await` in front, from the same code: {waits}. Not awaited, because they only look or hand something
out: {plain}; what these hand out has coroutines in its turn.

```python
import asyncio
from keepstone import AsyncMemory


async def main() -> None:
    async with AsyncMemory.open(":memory:", user="dana") as memory:
        await memory.remember("Dana prefers dark mode.")
        assert (await memory.recall("Which theme?"))[0].content == "Dana prefers dark mode."


asyncio.run(main())
```
"""


# -- the pages ----------------------------------------------------------------------------------------------------------
def python_page() -> str:
    """The verbs, the parts they hand out, and the functions beside them."""
    parts = [HEAD, *_contents(), "", "## Memory", "", *_told(keepstone.Memory)]
    _complete(keepstone.Memory, [name for _, names in VERBS.values() for name in names])
    for title, (see, names) in VERBS.items():
        parts += ["", f"## {title}", *(["", see] if see else [])]
        for name in names:
            parts += _member(keepstone.Memory, name, "memory")
    _used(ARGUMENTS, "arguments")
    parts += ["", _asynchronous().rstrip("\n")]
    for each in (keepstone.Client, keepstone.AsyncClient):
        parts += ["", f"## {each.__name__}", "", *_signature(each.__name__, each.__init__, ""), *_told(each)]
        parts += ["", *_prose(inspect.getdoc(each.__init__) or "")]
    for name, (module, called, how) in PARTS.items():
        part = getattr(import_module(module), name)
        parts += ["", f"## {name}", "", how, ""]
        if name == "MemoryAgent":
            parts += _signature(name, part.__init__, "")
        parts += _told(part)
        for member in _public(part):
            parts += _member(part, member, called)
    parts += ["", "## Functions"]
    for module, names in FUNCTIONS.items():
        for name in names:
            function = getattr(import_module(module), name)
            parts += ["", f"### {name}", "", f"`from {module} import {name}`", "", *_signature(name, function), *_told(function)]
            parts += _gives(function, str(inspect.signature(function).return_annotation))
    parts += ["", "## What you may bring", "", "Any object with these members will do; nothing has to be inherited."]
    for name, module in BROUGHT.items():
        protocol = getattr(import_module(module), name)
        parts += ["", f"### {name}", "", *_told(protocol), ""]
        for member in _public(protocol):
            parts += _listed(protocol, member)
    return "\n".join(parts) + "\n"


def values_page() -> str:
    """The values with their fields, and the errors."""
    parts = [VALUES_HEAD.rstrip("\n")]
    for title, group in VALUES.items():
        parts += ["", f"## {title}"]
        for name, module in group.items():
            parts += ["", f"### {name}", "", *_told(getattr(import_module(module), name))]
            parts += ["", *_fields(getattr(import_module(module), name))]
    parts += [
        "",
        "## Errors",
        "",
        "All of them in `keepstone.errors`; `except KeepstoneError` takes every one. A message says what was",
    ]
    parts += ["wrong, with which value, and what to do next. HTTP status and exit codes: [limits and errors](limits.md#errors)."]
    for each in ERRORS:
        above = [base.__name__ for base in each.__bases__ if base is not Exception]
        kinds = ", ".join(f"[`{name}`](#{name.lower()})" if hasattr(errors, name) else f"`{name}`" for name in above)
        parts += ["", f"### {each.__name__}", "", *_told(each), *(["", f"Is a {kinds}."] if kinds else [])]
    _used(MEANINGS, "fields")
    return "\n".join(parts) + "\n"


# -- classes and functions ----------------------------------------------------------------------------------------------
def _complete(owner: type, listed: list[str]) -> None:
    missing = set(_public(owner)) ^ set(listed)
    if missing:
        raise SystemExit(f"python_names.py and {owner.__name__} differ in {', '.join(sorted(missing))}: put it right there.")


def _used(words: dict[str, str], what: str) -> None:
    unused = set(words) - USED
    if unused:
        raise SystemExit(f"python_names.py has words for {what} that are not there: {', '.join(sorted(unused))}.")


def _public(owner: type) -> list[str]:
    """The public members of a class in the order they are written, those of its parents first."""
    named = [name for each in reversed(owner.__mro__) for name in vars(each) if each is not object]
    noted = [name for name in getattr(owner, "__annotations__", {}) if getattr(owner, "_is_protocol", False)]
    return [name for name in dict.fromkeys([*noted, *named]) if not name.startswith("_")]


def _contents() -> list[str]:
    """A table of all verbs of Memory with their first sentences."""
    lines = ["| verb | what it does |", "|---|---|"]
    for _, names in VERBS.values():
        for name in names:
            first = _sentences(inspect.getdoc(getattr(keepstone.Memory, name)) or "")[0]
            brief = first if len(first) < 90 else re.split(r"[;:] ", first)[0].rstrip(".") + "."
            lines.append(f"| [`{name}`](#memory{name}) | {brief} |")
    return lines


def _member(owner: type, name: str, called: str) -> list[str]:
    """A method or property: heading, signature, what it says, what it gives."""
    static = inspect.getattr_static(owner, name)
    lines = ["", f"### {owner.__name__}.{name}", ""]
    if isinstance(static, property):
        assert static.fget is not None
        given = str(inspect.signature(static.fget).return_annotation)
        return [*lines, f"    {called}.{name} -> {given}", "", *_told(static), *_gives(owner, given)]
    function = getattr(owner, name)
    arguments = _arguments(name, function) if owner is keepstone.Memory else []
    given = str(inspect.signature(function).return_annotation)
    shown = f"{owner.__name__ if inspect.ismethod(function) else called}.{name}"
    return [*lines, *_signature(shown, function), *_told(function), *arguments, *_gives(function, given)]


def _arguments(verb: str, function: Callable[..., Any]) -> list[str]:
    """A table of what a verb's arguments mean, where it has three or more that are not told of in its own words."""
    rows = []
    for name in inspect.signature(function).parameters:
        key = next((key for key in (f"{verb}.{name}", name) if key in ARGUMENTS), None)
        if key is not None:
            rows.append((key, f"| `{name}` | {ARGUMENTS[key]} |"))
    if len(rows) < 3:
        return []
    USED.update(key for key, _ in rows)
    return ["", "| argument | |", "|---|---|", *(row for _, row in rows)]


def _listed(owner: type, name: str) -> list[str]:
    """A member of a protocol as a line."""
    static = inspect.getattr_static(owner, name, None)
    if callable(static):
        told = " ".join((inspect.getdoc(static) or "").split())
        return [f"- `{name}{_written(static)}`{': ' + told if told else ''}"]
    hint = inspect.signature(static.fget).return_annotation if isinstance(static, property) else owner.__annotations__[name]
    told = " ".join((inspect.getdoc(static) or "").split()) if isinstance(static, property) else ""
    return [f"- `{name}: {hint}`{': ' + told if told else ''}"]


def _signature(name: str, function: Callable[..., Any], given: str | None = None) -> list[str]:
    """A signature as an indented block: on one line, or a parameter a line."""
    whole = name + _written(function, given)
    if len(whole) <= WIDTH:
        return [f"    {whole}", ""]
    parameters, end = _parameters(function), _end(function, given)
    return [f"    {name}(", *(f"        {each}," for each in parameters), f"    ){end}", ""]


def _written(function: Callable[..., Any], given: str | None = None) -> str:
    return f"({', '.join(_parameters(function))}){_end(function, given)}"


def _end(function: Callable[..., Any], given: str | None) -> str:
    said = str(inspect.signature(function).return_annotation) if given is None else given
    return f" -> {said}" if said and "_empty" not in said else ""


def _parameters(function: Callable[..., Any]) -> list[str]:
    shown: list[str] = []
    starred = False
    for each in inspect.signature(function).parameters.values():
        if each.name in ("self", "cls"):
            continue
        if each.kind is each.VAR_POSITIONAL:
            starred = True
        elif each.kind is each.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        hint = "" if each.annotation is each.empty else f": {each.annotation}"
        default = "" if each.default is each.empty else f" = {_default(each.default)}"
        shown.append(f"{stars}{each.name}{hint}{default}")
    return shown


def _default(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _gives(thing: Any, given: str) -> list[str]:
    """A link to what a verb gives back, where that is a value or a part."""
    found = [name for name in re.findall(r"[A-Z]\w+", given) if name in PARTS or _meant(name, thing.__module__)]
    return ["", "Gives " + ", ".join(_linked(name) for name in dict.fromkeys(found)) + "."] if found else []


def _meant(name: str, module: str) -> bool:
    """Whether a name in a module is the value of that name on the page, and not another of the same name."""
    there = getattr(sys.modules[module], name, None)
    return name in PLACES and (there is None or there is getattr(import_module(PLACES[name]), name))


def _linked(name: str) -> str:
    return f"[`{name}`]({'values.md' if name in PLACES or hasattr(errors, name) else ''}#{name.lower()})"


# -- what is said of them -----------------------------------------------------------------------------------------------
def _told(thing: Any) -> list[str]:
    return _prose(inspect.getdoc(thing) or "")


def _prose(text: str) -> list[str]:
    """A docstring as Markdown: paragraphs joined, examples fenced, names of errors linked where they are raised."""
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith(">>>"):
            lines += ["```python", *_spaced(list(_example(paragraph))), "```", ""]
        elif paragraph.startswith("    "):
            lines += ["```text", *(line[4:] for line in paragraph.split("\n")), "```", ""]
        elif paragraph:
            said = _sentences(paragraph)
            plain = [each for each in said if not each.startswith("Raises ")]
            raised = [each for each in said if each.startswith("Raises ")]
            lines += [_raising(" ".join(plain)), ""] if plain else []
            lines += [f"**Raises** {_raising(each.removeprefix('Raises '))}" for each in raised] + ([""] if raised else [])
    return lines[:-1] if lines else lines


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?]) (?=[A-Z`\"'])", " ".join(text.split()))


def _raising(text: str) -> str:
    names = "|".join(each.__name__ for each in ERRORS)
    return re.sub(rf"(?<![`\w])({names})(?![`\w])", lambda found: _linked(found[1]), text)


def _spaced(lines: list[str]) -> list[str]:
    """Code as the formatter leaves it: a blank line after the imports."""
    imports = next((at for at, line in enumerate(lines) if not line.startswith(("from ", "import "))), 0)
    return [*lines[:imports], "", *lines[imports:]] if imports else lines


def _example(paragraph: str) -> Iterator[str]:
    """An example of a docstring as a program; what it shows becomes a comment."""
    for line in paragraph.split("\n"):
        if line.startswith((">>> ", "... ")):
            yield line[4:]
        else:
            yield f"# {line}"


def _fields(value: type) -> list[str]:
    """The fields and properties of a value as a table; columns that would be empty are left out."""
    rows = [["field", "type", "", "default"]]
    for each in dataclasses.fields(value):
        if each.name.startswith("_"):
            continue
        asked = (f"{value.__name__}.{each.name}", *([f"Record.{each.name}"] if value.__name__ == "Version" else []), each.name)
        named = next((name for name in asked if name in MEANINGS), "")
        USED.add(named)
        rows.append([f"`{each.name}`", _typed(str(each.type), value.__module__), MEANINGS.get(named, ""), _fallback(each)])
    for name, static in vars(value).items():
        if isinstance(static, property) and not name.startswith("_"):
            hint = str(inspect.signature(static.fget).return_annotation) if static.fget else ""
            told = " ".join((inspect.getdoc(static) or "a property").split())
            rows.append([f"`{name}`", _typed(hint, value.__module__), told, ""])
    kept = [at for at in range(4) if at < 2 or any(row[at] for row in rows[1:])]
    lines = ["| " + " | ".join(row[at] for at in kept) + " |" for row in rows]
    return [line.replace("  |", " |") for line in (lines[0], "|" + "---|" * len(kept), *lines[1:])]


def _typed(hint: str, module: str) -> str:
    """A type, linked where it is one of the values; a bar would end the cell of a table."""
    hint = hint.replace(" | ", " or ")
    named = next((name for name in re.findall(r"[A-Z]\w+", hint) if _meant(name, module)), None)
    return f"[`{hint}`](#{named.lower()})" if named else f"`{hint}`"


def _fallback(each: dataclasses.Field[Any]) -> str:
    if each.default is not dataclasses.MISSING:
        return f"`{_default(each.default)}`"
    return "" if each.default_factory is dataclasses.MISSING else f"`{each.default_factory()!r}`"


def _asynchronous() -> str:
    listed = [name for _, names in VERBS.values() for name in names]
    waits = [name for name in listed if inspect.iscoroutinefunction(getattr(keepstone.AsyncMemory, name))]
    plain = [name for name in listed if name not in waits]
    shown = [", ".join(f"`{name}`" for name in names) for names in (waits, plain)]
    return ASYNC.format(doc=" ".join(_told(keepstone.AsyncMemory)), waits=shown[0], plain=shown[1])


PAGES: dict[str, Callable[[], str]] = {"python": python_page, "values": values_page}

if __name__ == "__main__":
    if "--print" in sys.argv:
        print(PAGES[sys.argv[-1]](), end="")
    else:
        for name, page in PAGES.items():
            (FOLDER / f"{name}.md").write_text(page(), encoding="utf-8")
