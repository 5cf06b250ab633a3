"""Every regular expression of keepstone against texts that are made to be slow for it.

    python -m tests.guard.hostile_patterns          # a table of the slowest, by how their time grows
    python -m tests.guard.hostile_patterns guard    # only those whose place has this word in it

Patterns are found in the modules (their names, and what stands inside tuples, lists, dictionaries and dataclasses there; those
that are compiled when they are first needed are asked for) and, for those of the guard's rules, by having it look at a text with
the beginning of each. Texts are made from each pattern: what its repeated parts take, many times, with an end that does not
fit. A search that takes more CPU than it may is stopped by a signal, which the engine looks for while it backtracks.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from re import _parser  # type: ignore[attr-defined]  # a pattern as a tree: there is no public name
from types import FrameType, ModuleType
from typing import Any

import keepstone
from keepstone.text.lexicon import Lexicon

SIZE = 4_096  # characters; a content may have 64 KB, and what is quadratic shows already
_ENDS = ("", "!", "\n", "\x00", "a", "0", "é")
_USUAL = (
    "a",
    "A",
    "0",
    " ",
    "\t",
    "\n",
    "-",
    ".",
    "_",
    "@",
    ":",
    "/",
    "=",
    "'",
    '"',
    ",",
    "a ",
    "0 ",
    "0-",
    "a.",
    "a@",
    "a:a",
    "é",
    "\u200b",
)


# Contracts for tests, and what imports frameworks and other engines, which takes seconds; their patterns are asked for by name.
_PASSED_OVER = ("keepstone.testing", "keepstone.vector_indexes.", "keepstone.embedders.sentence", "keepstone.memtest.plugin")


class TooSlow(Exception):
    """A search took more CPU than it may."""


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """TooSlow once so much CPU has been used; only the main thread may ask for it."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


# -- finding them -----------------------------------------------------------------------------------------------------
def modules() -> Iterator[ModuleType]:
    """Every module of keepstone that can be imported here; frameworks that are not installed are passed over."""
    for found in pkgutil.walk_packages(keepstone.__path__, "keepstone."):
        if found.name.startswith(_PASSED_OVER) or found.name.endswith(".__main__"):
            continue
        try:
            yield importlib.import_module(found.name)
        except Exception:  # a framework of another environment
            continue


@cache
def patterns() -> dict[str, re.Pattern[str]]:
    """Every pattern by its place: module and name."""
    found: dict[tuple[str, int], str] = {}
    for module in modules():
        for name, value in list(vars(module).items()):
            for place, each in _inside(value, f"{module.__name__}.{name}", 0, set()):
                if isinstance(each.pattern, str):
                    found.setdefault((each.pattern, each.flags), place)
    for place, each in _of_the_guard():
        found.setdefault((each.pattern, each.flags), place)
    return {place: re.compile(source, flags & ~re.UNICODE) for (source, flags), place in found.items()}


def _of_the_guard() -> Iterator[tuple[str, re.Pattern[str]]]:
    """What the rules of the guard are compiled to."""
    from keepstone.guard import instructions, numbers, secrets

    for gate, name, rule in secrets.RULES:
        yield f"keepstone.guard.secrets.RULES[{name}]", secrets._compile(gate, rule)
        yield f"keepstone.guard.secrets.RULES[{name}] begins", secrets._compile_prefix(gate)
        yield f"keepstone.guard.secrets.RULES[{name}] loose", secrets._compile_loose(rule)
    for rule in (*instructions.RULES, *instructions.JOINED):
        yield f"keepstone.guard.instructions {rule.anchors[:30]!r}", instructions._compile(rule.pattern)
    for name, value in vars(instructions).items():
        if name.startswith("_") and name[1:].isupper() and isinstance(value, str) and name != "_SIGNS":
            yield f"keepstone.guard.instructions.{name}", instructions._compile(value)
    for count in (15, 22, 34):
        yield f"keepstone.guard.numbers._iban_pattern({count})", numbers._iban_pattern(count)


def _inside(value: Any, place: str, depth: int, seen: set[int]) -> Iterator[tuple[str, re.Pattern[str]]]:
    if isinstance(value, re.Pattern):
        yield place, value
        return
    if getattr(getattr(value, "__wrapped__", None), "__qualname__", "") == "pattern.<locals>.<lambda>":  # guard/normal.py
        yield place, value()
        return
    if depth > 4 or id(value) in seen or isinstance(value, (str, bytes, int, float, type, ModuleType)):
        return
    seen.add(id(value))
    if isinstance(value, Lexicon):
        for name in value.data.get("patterns", {}):
            value.patterns[name]  # compiled when it is asked for
    if isinstance(value, dict):
        parts: Any = list(value.items())[:200]
        parts = [*((f"[{key!r:.30}]", each) for key, each in parts), *(("{key}", key) for key, _ in parts)]
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts = [(f"[{at}]", each) for at, each in enumerate(list(value)[:200])]
    elif dataclasses.is_dataclass(value):
        parts = [(f".{each.name}", getattr(value, each.name, None)) for each in dataclasses.fields(value)]
    elif type(value).__module__.startswith("keepstone") and hasattr(value, "__dict__"):
        parts = [(f".{name}", each) for name, each in vars(value).items()]
    else:
        return
    for name, each in parts:
        yield from _inside(each, place + name, depth + 1, seen)


# -- texts that are made to be slow -----------------------------------------------------------------------------------
def hostile(pattern: re.Pattern[str], size: int = SIZE, seed: int = 1) -> Iterator[str]:
    """Texts that a pattern may be slow for."""
    random = Random(seed)
    tree = _parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    pieces = dict.fromkeys(_USUAL)
    for repeated in _repeats(tree):
        for _ in range(2):
            pieces[_sample(repeated, random, 1)[:40]] = None
    wholes = [_sample(tree, random, times)[:400] for times in (1, 1, 2, 3)]
    for whole in wholes:
        pieces[whole] = None
        pieces[whole[: len(whole) * 2 // 3]] = None
    prefixes = dict.fromkeys(("", *(whole[: len(whole) // 2] for whole in wholes[:2]), *(whole[:1] for whole in wholes[:1])))
    for piece in filter(None, pieces):
        for prefix in prefixes:
            for end in _ENDS[:2] if prefix else _ENDS[:4]:
                yield (prefix + piece * (size // len(piece)))[: size - 1] + end


def _repeats(tree: Any) -> Iterator[Any]:
    for kind, given in tree:
        name = str(kind)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            if given[1] > 8:
                yield given[2]
            yield from _repeats(given[2])
        elif name == "SUBPATTERN":
            yield from _repeats(given[3])
        elif name == "BRANCH":
            for each in given[1]:
                yield from _repeats(each)
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from _repeats(given[1])
        elif name == "ATOMIC_GROUP":
            yield from _repeats(given)


_OF = {"DIGIT": "7", "NOT_DIGIT": "x", "SPACE": " ", "NOT_SPACE": "x", "WORD": "x", "NOT_WORD": "-"}


def _sample(tree: Any, random: Random, times: int) -> str:
    """A text that fits, more or less."""
    parts: list[str] = []
    for kind, given in tree:
        name = str(kind)
        if name == "LITERAL":
            parts.append(chr(given))
        elif name == "NOT_LITERAL":
            parts.append("x" if given != ord("x") else "y")
        elif name == "ANY":
            parts.append("x")
        elif name == "IN":
            parts.append(_one_of(given, random))
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, inner = given
            count = max(int(least), min(int(most), times))
            parts += [_sample(inner, random, times) for _ in range(min(count, 60))]
        elif name == "SUBPATTERN":
            parts.append(_sample(given[3], random, times))
        elif name == "ATOMIC_GROUP":
            parts.append(_sample(given, random, times))
        elif name == "BRANCH":
            parts.append(_sample(random.choice(given[1]), random, times))
    return "".join(parts)


def _one_of(given: Any, random: Random) -> str:
    if str(given[0][0]) == "NEGATE":
        return random.choice("x7 -")
    kind, value = random.choice(given)
    if str(kind) == "LITERAL":
        return chr(value)
    if str(kind) == "RANGE":
        return chr(random.randint(value[0], min(value[1], value[0] + 25)))
    return _OF.get(str(value).removeprefix("CATEGORY_"), "x")


# -- measuring --------------------------------------------------------------------------------------------------------
def uses(place: str) -> frozenset[str]:
    """How a pattern is used, as far as its module tells: "match" and "fullmatch" begin at one place, "search" anywhere."""
    module, _, name = place.rpartition(".")
    source = getattr(sys.modules.get(module), "__file__", None)
    if source is None or not name.isidentifier():
        return frozenset(("search",))
    text = Path(source).read_text(encoding="utf-8")
    found = set(re.findall(rf"\b{name}(?:\(\))?\.(match|fullmatch|search|finditer|findall|sub|split|subn)\(", text))
    return frozenset(each if each.endswith("match") else "search" for each in found) or frozenset(("search",))


def slowest(pattern: re.Pattern[str], seconds: float, size: int = SIZE, used: frozenset[str] = frozenset()) -> tuple[float, str]:
    """The most CPU that one text costs, and that text; looking for a pattern anywhere goes through the whole text."""
    worst, by = 0.0, ""
    for text in hostile(pattern, size):
        begun = time.thread_time()
        try:
            with bounded(seconds):
                for use in used or ("search",):
                    if use == "search":
                        for _ in pattern.finditer(text):
                            pass
                    else:
                        getattr(pattern, use)(text)
        except TooSlow:
            return seconds, text
        took = time.thread_time() - begun
        if took > worst:
            worst, by = took, text
    return worst, by


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    rows = []
    for place, pattern in patterns().items():
        if wanted in place:
            took, text = slowest(pattern, 2.0, SIZE, uses(place))
            half = slowest(pattern, 2.0, SIZE // 2, uses(place))[0] if took > 0.02 else 0.0
            rows.append((took, took / half if half else 0.0, place, text[:50]))
    print(f"{len(rows)} patterns, {SIZE} characters each; CPU of the slowest text, and how many times that of half its length")
    for took, ratio, place, text in sorted(rows, reverse=True)[:40]:
        print(f"{took * 1000:9.1f} ms  x{ratio:4.1f}  {place}  {text!r:.60}")


if __name__ == "__main__":
    main()
