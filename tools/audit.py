"""Checks what keepstone is built on: known vulnerabilities of every pinned package, licences, and that the core stays small.

python tools/audit.py            # every requirements/*.txt
python tools/audit.py --json     # the same as one JSON object

Advisories come from PyPI's JSON API, which carries those of the Python Packaging Advisory Database and of GitHub for each
release. A release that PyPI says nothing about is named as unchecked, never taken as sound; and before anything is believed, a
release with advisories that everybody knows has to be reported with them.

Exit code 0: every pin was checked and nothing speaks against it. 1: an advisory, a licence or a dependency does. 2: the data
could not be had, for all pins or for some.
"""

from __future__ import annotations

import argparse
import json
import re
import ssl
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
CORE = ("apsw", "numpy", "rich", "typer")  # the direct dependencies of `pip install keepstone`, and no more
KNOWN_BAD = ("pycrypto", "2.6.1", "CVE-2013-7459")  # abandoned with open advisories: it will be in the data for ever
# Advisories that do not concern us, each with its reason. Every name of an advisory (CVE, GHSA, PYSEC) counts.
_CHROMA = (
    "in Chroma's own HTTP server: keepstone is a client that gives it no embedding function, and starts one only in tests, "
    "on loopback. No release mends it: keep a Chroma server that others can reach behind something that knows who asks"
)
ACCEPTED = {
    ("chromadb", "CVE-2026-45829"): _CHROMA,
    ("chromadb", "CVE-2026-45830"): _CHROMA,
    ("chromadb", "CVE-2026-45831"): _CHROMA,
    ("chromadb", "CVE-2026-45833"): _CHROMA,
}
# In requirements/run.txt because `pip install -e` needs them; no user gets them.
BUILDS = ("editables", "hatchling", "pathspec", "pluggy", "tomlkit", "trove-classifiers")
# Packages of the runtime whose metadata says less than their licence file.
LICENCES = {"apsw": "any OSI-approved licence, as its metadata says"}
_FREE = re.compile(r"\b(MIT|MIT-0|BSD|0BSD|Apache|ISC|ISCL|PSF|Python Software Foundation|Zlib|CC0|any OSI)\b", re.IGNORECASE)
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)")
_SECONDS, _AT_ONCE, _BYTES, _SUMMARY = 30.0, 8, 32 << 20, 160
_TRUST = ssl.create_default_context()


class Unreachable(Exception):
    """The data cannot be had."""


@dataclass(frozen=True, slots=True, order=True)
class Pin:
    """A package at a version."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


@dataclass(frozen=True, slots=True)
class Advisory:
    """What is known against a release, under all its names."""

    names: tuple[str, ...]
    summary: str
    fixed_in: tuple[str, ...]

    def accepted(self, package: str) -> str | None:
        """Why it does not apply, where it was reviewed."""
        return next((ACCEPTED[package, name] for name in self.names if (package, name) in ACCEPTED), None)


@dataclass(slots=True)
class Report:
    """What came of it. `problems` speak against the pins; `unchecked` are pins that nothing is known about."""

    pins: int = 0
    problems: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    licences: dict[str, str] = field(default_factory=dict)
    unreachable: str | None = None

    @property
    def code(self) -> int:
        return 1 if self.problems else 2 if self.unreachable or self.unchecked else 0

    def as_json(self) -> dict[str, Any]:
        return {
            "pins": self.pins, "problems": self.problems, "accepted": self.accepted, "unchecked": self.unchecked,
            "licences": self.licences, "unreachable": self.unreachable, "exit": self.code,
        }  # fmt: skip


# -- what is pinned ---------------------------------------------------------------------------------------------------
def pins_of(files: Iterable[Path]) -> dict[Pin, list[str]]:
    """Every pin, and the files it stands in."""
    found: dict[Pin, list[str]] = {}
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            if (match := _PIN.match(line)) is not None:
                found.setdefault(Pin(_plain(match[1]), match[2]), []).append(file.name)
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# -- what is known about it -------------------------------------------------------------------------------------------
def fetched(index: str, path: str) -> dict[str, Any] | None:
    """A document of the index; None where it has none. Unreachable."""
    try:
        with urllib.request.urlopen(f"{index}/pypi/{path}/json", timeout=_SECONDS, context=_TRUST) as answer:
            found = json.loads(answer.read(_BYTES))
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise Unreachable(f"{index} answers {error.code}") from None
    except (OSError, ValueError) as error:
        raise Unreachable(f"{index} does not answer: {error}") from None
    return found if isinstance(found, dict) else None


def advisories(index: str, pin: Pin) -> list[Advisory] | None:
    """What is known against a release; None where the index does not say. Some mirrors have the newest release only."""
    found = fetched(index, f"{pin.name}/{pin.version}") or fetched(index, pin.name)
    if found is None or found.get("info", {}).get("version") != pin.version or "vulnerabilities" not in found:
        return None
    return list(_merged(each for each in found["vulnerabilities"] if not each.get("withdrawn")))


def _merged(listed: Iterable[dict[str, Any]]) -> Iterator[Advisory]:
    """The same advisory comes from two databases: one of each."""
    groups: list[tuple[set[str], list[dict[str, Any]]]] = []
    for each in listed:
        names = {each["id"], *(each.get("aliases") or ())}
        for held, members in groups:
            if held & names:
                held |= names
                members.append(each)
                break
        else:
            groups.append((names, [each]))
    for names, members in groups:
        summary = next((str(said) for one in members if (said := one.get("summary") or one.get("details"))), "")[:_SUMMARY]
        fixed = {version for one in members for version in one.get("fixed_in") or ()}
        yield Advisory(tuple(sorted(names)), summary, tuple(sorted(fixed)))


def check_pins(report: Report, pins: dict[Pin, list[str]], index: str) -> None:
    """Every pin against the index."""
    report.pins = len(pins)
    name, version, known = KNOWN_BAD
    try:
        found = advisories(index, Pin(name, version))
        if not any(known in each.names for each in found or ()):
            raise Unreachable(f"{index} has no advisories: {name} {version} is known for {known}, and it does not say so")
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            listed = list(pool.map(lambda pin: advisories(index, pin), pins))
    except Unreachable as error:
        report.unreachable = str(error)
        report.unchecked = sorted(map(str, pins))
        return
    for (pin, files), known_of in zip(pins.items(), listed, strict=True):
        if known_of is None:
            report.unchecked.append(f"{pin} ({', '.join(files)})")
        for each in known_of or ():
            said = f"{pin} ({', '.join(files)}): {', '.join(each.names)}: {each.summary}".rstrip(": ")
            reason = each.accepted(pin.name)
            if reason is None:
                report.problems.append(f"{said}; fixed in {', '.join(each.fixed_in) or 'no release yet'}")
            else:
                report.accepted.append(f"{said}; {reason}")


# -- licences, and the size of the core -------------------------------------------------------------------------------
def licence_of(name: str) -> str | None:
    """What an installed package says its licence is; None where it is not installed."""
    try:
        metadata = distribution(name).metadata
    except PackageNotFoundError:
        return None
    if (said := LICENCES.get(name)) is not None:
        return said
    listed = [each.rpartition(" :: ")[2] for each in metadata.get_all("Classifier") or () if each.startswith("License ::")]
    said = metadata.get("License-Expression") or ", ".join(listed) or (metadata.get("License") or "").partition("\n")[0]
    return str(said).strip()[:80] or "none said"


def check_licences(report: Report, pins: Iterable[Pin]) -> None:
    """What users of the server install must be free to use beside Apache-2.0 code; what only builds the package is not."""
    for name in sorted({pin.name for pin in pins}):
        if (said := licence_of(name)) is None:
            continue  # of another system
        report.licences[name] = said
        if not _FREE.search(said) and name not in BUILDS:
            report.problems.append(
                f"{name} has the licence {said!r}: look whether it may be a dependency, then say so in LICENCES"
            )


def check_core(report: Report, pyproject: Path) -> None:
    """The core has the dependencies it has."""
    listed = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["dependencies"]
    names = sorted(_plain(re.split(r"[\s<>=!~;\[]", each, maxsplit=1)[0]) for each in listed)
    if names != sorted(CORE):
        report.problems.append(f"the core depends on {', '.join(names)}: it is to be {', '.join(CORE)} and nothing else")


def audited(root: Path, index: str) -> Report:
    """All of it."""
    report = Report()
    check_core(report, root / "pyproject.toml")
    check_licences(report, pins_of([root / "requirements" / "run.txt"]))
    check_pins(report, pins_of(sorted((root / "requirements").glob("*.txt"))), index)
    return report


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("--root", type=Path, default=ROOT, help="where pyproject.toml and the requirements are")
    parser.add_argument("--index", default="https://pypi.org", help="whose JSON API is asked")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args(given)
    report = audited(options.root, options.index.rstrip("/"))
    if options.json:
        print(json.dumps(report.as_json(), indent=2))
    else:
        _show(report)
    return report.code


def _show(report: Report) -> None:
    for title, lines in (("does not concern us", report.accepted), ("unchecked", report.unchecked), ("PROBLEM", report.problems)):
        if title == "unchecked" and report.unreachable:
            continue
        for line in lines:
            print(f"{title}: {line}")
    print(f"licences of {len(report.licences)} packages of the runtime: {', '.join(sorted(set(report.licences.values())))}")
    print(f"the core depends on {', '.join(CORE)}")
    if report.unreachable:
        print(f"the advisories cannot be had ({report.unreachable}): nothing was checked, so nothing is known. Try again online.")
        return
    checked = report.pins - len(report.unchecked)
    print(f"{checked} of {report.pins} pins were checked, {len(report.problems)} problems, {len(report.accepted)} accepted")
    if report.unchecked:
        print(f"{len(report.unchecked)} pins are unchecked: this index says nothing about those releases, so nothing is known.")


if __name__ == "__main__":
    sys.exit(main())
