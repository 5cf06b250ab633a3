"""From a memtest file to its cases. Every error names the file, the line, the field, its value and what to write instead; a
field that is not known is an error."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from keepstone.errors import ConfigurationError, ValidationError
from keepstone.memtest import NAMES
from keepstone.memtest.cases import Ask, Case, Context, Given, Isolation, Opening, Suite, Value, Wanted, Who
from keepstone.memtest.cells import Cell, open_cells
from keepstone.types import Scope, clean_name

VERSION = 1
Base = tuple[str, int | None, Who, datetime | None]  # what every case has
_RECORD_ID = re.compile(r"m_[0-9a-z]{16}")
_SKIPPED = {"node_modules", "venv", "env", "site-packages", "__pycache__"}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}  # seconds
_WHO = ("tenant", "agent", "user")
_WANTED = ("content", "rank", "kind", "tag", "key", "source", "id")
_ROLES = ("user", "assistant", "system", "tool")
_RECORD = ("metadata", "source", "session", "occurred_at")
_GIVEN = {  # the fields of each verb; `at` and `as` go with all
    "remember": ("id", "kind", "tag", "key", "importance", "ttl", *_RECORD),
    "learn": ("id", *_RECORD),
    "say": ("session", "extract"),
    "set": ("value", "tag"),
    "update": ("content", "importance", "metadata", "occurred_at"),
    "forget": (),
}
_RECALL = (
    "limit", "kinds", "tag", "filter", "session", "min_similarity", "min_confidence", "min_importance", "min_trust", "max_tokens",
    "as_of",
    "known_at",
)  # fmt: skip
_TESTS = {  # the fields of each kind of test; `name`, `as` and `asked_at` go with all
    "ask": (*_RECALL, "must_recall", "must_not_recall", "must_recall_nothing"),
    "context": ("max_tokens", "must_contain", "must_not_contain"),
    "value": ("must_be",),
    "isolation": (),
}


def find_files(named: Iterable[str]) -> list[Path]:
    """The memtest files that are named, and those in the folders that are; of none the ones below this folder."""
    files: list[Path] = []
    for each in list(named) or ["."]:
        path = Path(each)
        below = sorted(_below(path)) if path.is_dir() else [path]
        if not below:
            raise ConfigurationError(f"there is no memtest file in {path.resolve()}: write a memtest.yaml, or name the file.")
        files += [file for file in below if file not in files]
    return files


def _below(folder: Path) -> Iterable[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _SKIPPED]
        yield from (Path(here) / name for name in names if NAMES.fullmatch(name))


def parse_file(path: Path) -> Suite:
    """The suite that a file is. Raises ValidationError, and ConfigurationError where the file or PyYAML is not there."""
    whole = open_cells(path)
    top = whole.fields(("version", "memory", "given", "tests"), "'version: 1' and a list of tests")
    version = top.get("version")
    if version is None or version.value != VERSION or isinstance(version.value, bool):
        raise (version or whole).wrong(f"must say 'version: {VERSION}': this keepstone reads no other.")
    opening = _opening(top["memory"], path) if "memory" in top else Opening()
    given = _given(top["given"]) if "given" in top else ()
    if "tests" not in top:
        raise whole.wrong("has no tests: add 'tests:' with a list of them.")
    cases = [_case(each, given) for each in top["tests"].items("a list of tests")]
    _check(top["tests"], cases, {each.label for each in given})
    return Suite(path, opening, given, tuple(cases))


def _check(tests: Cell, cases: list[Case], labels: set[str | None]) -> None:
    """What no test can see for itself: names that stand twice, a test of isolation with no question, and ids that nothing has:
    what must not be recalled by such an id never is."""
    if not cases:
        raise tests.wrong("is empty: add a test.")
    names: set[str] = set()
    for cell, case in zip(tests.items("a list"), cases, strict=True):
        if case.name in names:
            raise cell.wrong(f"has the name {case.name!r:.60}, which another test has: give it a name of its own with 'name:'.")
        names.add(case.name)
        if isinstance(case, Isolation) and not any(isinstance(each, Ask) for each in cases):
            raise cell.wrong("needs a question that others could ask: add a test with 'ask:'.")
        for wanted in case.must_not if isinstance(case, Ask) else ():
            if wanted.id is not None and wanted.id not in labels and not _RECORD_ID.fullmatch(wanted.id):
                raise cell.wrong(f"must not recall the id {wanted.id!r:.60}, which no entry of 'given' has: give one that id.")


# -- the memory -----------------------------------------------------------------------------------------------------
def _opening(cell: Cell, path: Path) -> Opening:
    held = cell.fields(("store", "embedder", *_WHO, "settings"), "{user: dana}")
    store = held["store"].text() if "store" in held else None
    if store is not None and "://" not in store:
        store = None if store == ":memory:" else str((path.parent / store).absolute())
    settings = held["settings"].plain() if "settings" in held else {}
    if not isinstance(settings, dict):
        raise held["settings"].unlike("settings by their names, such as {min_trust: 0.5}")
    scope = _who({name: held[name] for name in _WHO if name in held}).of(Scope())
    return Opening(store, held["embedder"].text() if "embedder" in held else "auto", scope, settings)


def _who(parts: Mapping[str, Cell]) -> Who:
    return Who(**{name: _named(part, empty=name == "user") for name, part in parts.items()})


def _named(cell: Cell, *, empty: bool = False) -> str:
    try:
        return clean_name(cell.text(empty=empty), "it", empty=empty)
    except ValidationError:
        raise cell.unlike("a name of up to 256 characters, without control characters") from None


def _as(cell: Cell) -> Who:
    """As whom: a user's name, or tenant, agent and user."""
    if isinstance(cell.value, str):
        return Who(user=_named(cell, empty=True))
    parts = cell.fields(_WHO, "{user: bob}, or a user's name")
    if not parts:
        raise cell.unlike("a user's name, or {tenant: …, agent: …, user: …}")
    return _who(parts)


# -- what is given --------------------------------------------------------------------------------------------------
def _given(cell: Cell) -> tuple[Given, ...]:
    entries: list[Given] = []
    last: datetime | None = None
    for each in cell.items("a list of what happens before the questions"):
        entry = _entry(each, {known.label for known in entries if known.label is not None})
        if entry.at is not None and last is not None and entry.at < last:
            raise each.fields(each.value, "")["at"].wrong(
                f"is {entry.at:%Y-%m-%d}, before the {last:%Y-%m-%d} of an entry above it: write them in the order in which they "
                "are told; 'occurred_at' is for what happened earlier."
            )
        last = entry.at or last
        entries.append(entry)
    return tuple(entries)


def _one_of(
    cell: Cell, kinds: Mapping[str, tuple[str, ...]], common: tuple[str, ...], example: str
) -> tuple[str, dict[str, Cell]]:
    """Which kind of thing it is, and its fields."""
    every = dict.fromkeys([*kinds, *common, *(name for names in kinds.values() for name in names)])
    named = [kind for kind in kinds if isinstance(cell.value, dict) and kind in cell.value]
    held = cell.fields([*named, *common, *kinds[named[0]]] if named else list(every), example)
    if len(named) != 1:
        raise cell.wrong(f"has {' and '.join(named) or 'none'} of {', '.join(kinds)}: use exactly one.")
    return named[0], held


def _entry(cell: Cell, labels: set[str]) -> Given:
    verb, held = _one_of(cell, _GIVEN, ("at", "as"), '{remember: "Dana prefers dark mode."}')
    options: dict[str, Any] = {
        name: _OPTIONS[name](held[name]) for name in _GIVEN[verb] if name in held and name not in ("id", "content", "value")
    }
    what: Any = None
    label = _named(held["id"]) if "id" in held else None
    if label in labels:
        raise held["id"].wrong(f"is {label!r}, which an entry above has: give each its own.")
    if verb in ("remember", "learn"):
        what = held[verb].text()
    elif verb == "say":
        what = _said(held["say"])
        if "session" not in held:
            raise cell.wrong("has no session: say in which conversation, such as 'session: s1'.")
    elif verb == "set":
        what = _named(held["set"])
        if "value" not in held:
            raise cell.wrong("has no value: add 'value:' with any JSON value.")
        options["value"] = held["value"].plain()
    elif verb == "update":
        what = _label(held["update"], labels)
        options |= {"content": held["content"].text()} if "content" in held else {}
        if not options:
            raise cell.wrong("changes nothing: add content, importance, metadata or occurred_at.")
    else:
        what = _selected(held["forget"], labels)
    at = held["at"].moment() if "at" in held else None
    return Given(cell.name, verb, what, options, _as(held["as"]) if "as" in held else Who(), at, label)


def _said(cell: Cell) -> list[dict[str, str]]:
    """Messages: a text of the user's, or a list of {role: text}."""
    if isinstance(cell.value, str):
        return [{"role": "user", "content": cell.text()}]
    messages = []
    for each in cell.items("a text, or a list such as [{user: …}, {assistant: …}]"):
        spoken = each.fields(_ROLES, '{user: "My name is Dana."}')
        if len(spoken) != 1:
            raise each.unlike("one role with its text, such as {assistant: …}")
        ((role, text),) = spoken.items()
        messages.append({"role": role, "content": text.text()})
    if not messages:
        raise cell.wrong("is empty: add a message.")
    return messages


def _label(cell: Cell, labels: set[str]) -> str:
    if cell.text() not in labels:
        raise cell.unlike(f"the id of an entry above ({', '.join(sorted(labels)) or 'none has one: give it an id'})")
    return cell.text()


def _selected(cell: Cell, labels: set[str]) -> dict[str, Any]:
    if isinstance(cell.value, str):
        return {"id": _label(cell, labels)}
    chosen = cell.fields(("key", "source", "session", "everything"), "the id of an entry, or {key: plan}")
    if len(chosen) != 1:
        raise cell.unlike("exactly one of key, source, session, everything")
    ((name, part),) = chosen.items()
    if name == "everything" and part.value is not True:
        raise part.unlike("true")
    return {name: True if name == "everything" else _named(part)}


# -- the tests ------------------------------------------------------------------------------------------------------
def _case(cell: Cell, given: tuple[Given, ...]) -> Case:
    kind, held = _one_of(cell, _TESTS, ("name", "as", "asked_at"), '{ask: "Which theme?", must_recall: [dark mode]}')
    asked_at = held["asked_at"].moment() if "asked_at" in held else None
    last = max((each.at for each in given if each.at is not None), default=None)
    if asked_at is not None and last is not None and asked_at < last:
        raise held["asked_at"].wrong(
            f"is {asked_at:%Y-%m-%d}, before the last of what is given ({last:%Y-%m-%d}): ask later; "
            "'as_of' and 'known_at' look back."
        )
    title = held[kind].value if isinstance(held[kind].value, str) else kind
    name = " ".join((held["name"].text() if "name" in held else title).split())
    base: Base = (name, cell.line, _as(held["as"]) if "as" in held else Who(), asked_at)
    return _KINDS[kind](cell, held, base)


def _ask(cell: Cell, held: Mapping[str, Cell], base: Base) -> Ask:
    options = {name: _OPTIONS[name](held[name]) for name in _RECALL if name in held}
    must, must_not = (_wanted(held.get(name), int(options.get("limit", 5))) for name in ("must_recall", "must_not_recall"))
    nothing = "must_recall_nothing" in held and held["must_recall_nothing"].truth()
    if nothing and must:
        raise held["must_recall_nothing"].wrong("does not go with must_recall: keep one.")
    if not (must or must_not or nothing):
        raise cell.wrong("checks nothing: add must_recall, must_not_recall or 'must_recall_nothing: true'.")
    return Ask(*base, held["ask"].text(), options, must, must_not, nothing)


def _wanted(cell: Cell | None, limit: int) -> tuple[Wanted, ...]:
    if cell is None:
        return ()
    made = []
    for each in [cell] if isinstance(cell.value, (str, dict)) else cell.items("a text, or a list of texts"):
        if not isinstance(each.value, dict):
            made.append(Wanted(each.text()))
            continue
        parts = each.fields(_WANTED, "{content: dark mode, rank: 1}")
        if not set(parts) - {"rank"}:
            raise each.unlike(f"at least one of {', '.join(name for name in _WANTED if name != 'rank')}")
        rank = parts["rank"].whole(1, limit) if "rank" in parts else None
        made.append(Wanted(**{name: part.text() for name, part in parts.items() if name != "rank"}, rank=rank))
    return tuple(made)


def _context(cell: Cell, held: Mapping[str, Cell], base: Base) -> Context:
    must, must_not = (_texts(held[name]) if name in held else () for name in ("must_contain", "must_not_contain"))
    if not (must or must_not or "max_tokens" in held):
        raise cell.wrong("checks nothing: add max_tokens, must_contain or must_not_contain.")
    return Context(*base, held["context"].text(), _tokens(held["max_tokens"]) if "max_tokens" in held else 1500, must, must_not)


def _value(cell: Cell, held: Mapping[str, Cell], base: Base) -> Value:
    if "must_be" not in held:
        raise cell.wrong("has no must_be: add the value that is expected, null for none.")
    return Value(*base, _named(held["value"]), held["must_be"].plain())


def _isolation(cell: Cell, held: Mapping[str, Cell], base: Base) -> Isolation:
    others = held["isolation"]
    if "as" in held:
        raise held["as"].wrong("does not go with isolation: each question is asked as it says itself; others stand in a list.")
    if others.value is True:
        return Isolation(*base)
    if not isinstance(others.value, list) or not others.value:
        raise others.unlike("true, or a list of others such as [bob, {tenant: other}]")
    return Isolation(*base, tuple(_as(each) for each in others.items("a list")))


# -- values ---------------------------------------------------------------------------------------------------------
def _texts(cell: Cell) -> tuple[str, ...]:
    return (
        (cell.text(),) if isinstance(cell.value, str) else tuple(each.text() for each in cell.items("a text, or a list of texts"))
    )


def _names(cell: Cell) -> list[str]:
    return [_named(cell)] if isinstance(cell.value, str) else [_named(each) for each in cell.items("a name, or a list of names")]


def _tokens(cell: Cell) -> int:
    return cell.whole(1, 10_000_000)


def _table(cell: Cell) -> dict[str, Any]:
    if not isinstance(cell.value, dict):
        raise cell.unlike("fields with their values, such as {city: Rome}")
    made: dict[str, Any] = cell.plain()
    return made


def _lifetime(cell: Cell) -> timedelta:
    """Seconds, or a text such as 30d."""
    value = cell.value
    read = re.fullmatch(r"(\d{1,9})([smhdw])", value.strip()) if isinstance(value, str) else None
    if read is not None:
        value = int(read[1]) * _UNITS[read[2]]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 3_155_760_000:
        raise cell.unlike("a length of time up to 100 years, such as 30d, 12h, 15m, 90s or a number of seconds")
    return timedelta(seconds=value)


_OPTIONS: dict[str, Callable[[Cell], Any]] = {
    **dict.fromkeys(("kind", "tag", "key", "source", "session"), _named),
    **dict.fromkeys(("importance", "min_similarity", "min_confidence", "min_importance", "min_trust"), Cell.fraction),
    **dict.fromkeys(("metadata", "filter"), _table),
    **dict.fromkeys(("occurred_at", "as_of", "known_at"), Cell.moment),
    "ttl": _lifetime,
    "extract": Cell.truth,
    "kinds": _names,
    "limit": lambda cell: cell.whole(1, 100),
    "max_tokens": _tokens,
}
_KINDS: dict[str, Callable[[Cell, Mapping[str, Cell], Base], Case]] = {
    "ask": _ask,
    "context": _context,
    "value": _value,
    "isolation": _isolation,
}
