"""`keepstone test` as a process: suites that pass, each check that fails for its reason, reports, and isolation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from keepstone import Memory
from tests.cli.support import process

SUITE = """
version: 1
memory: {user: dana}
given:
  - remember: "Dana prefers dark mode."
    at: 2026-01-05
    id: theme
  - say:
      - user: "My name is Dana and I work at Acme."
      - assistant: "Nice to meet you."
    session: s1
  - remember: "Dana lives in Lisbon."
    at: 2026-03-01
    key: home
  - remember: "Dana lives in Porto."
    at: 2026-06-01
    occurred_at: 2026-05-20
    key: home
  - remember: "Bob prefers light mode."
    as: bob
  - remember: "Omar prefers sepia mode."
    as: {tenant: acme}
  - remember: "The guest code is 1234."
    ttl: 2d
    id: code
  - set: plan
    value: {name: pro, seats: 3}
  - remember: "Dana has a cat."
    id: pet
  - update: pet
    content: "Dana has two cats."
  - remember: "Dana owes Rui 20 euros."
    id: debt
  - forget: debt
tests:
"""
PASSING = """
  - name: theme
    ask: "Which theme does Dana like?"
    must_recall: ["DARK  mode", {id: theme, rank: 1, kind: fact, tag: general, source: user}]
    must_not_recall: ["light mode", "sepia mode"]
  - name: where Dana lived in spring
    ask: "Where does Dana live?"
    as_of: 2026-04-01
    must_recall: [Lisbon]
    must_not_recall: [Porto]
  - name: what was true before it was known
    ask: "Where does Dana live?"
    as_of: 2026-05-25
    must_recall: {content: Porto, key: home}
  - name: what was known then
    ask: "Where does Dana live?"
    as_of: 2026-05-25
    known_at: 2026-05-25
    must_recall: [Lisbon]
  - name: where Dana lives
    ask: "Where does Dana live?"
    must_recall: [{content: Porto, rank: 1}]
    must_not_recall: [Lisbon]
  - name: learned
    ask: "Where does Dana work?"
    must_recall: [Acme]
  - name: code
    ask: "What is the guest code?"
    must_recall: ["1234"]
  - name: the code has expired
    ask: "What is the guest code?"
    asked_at: 2026-06-10
    must_not_recall: ["1234"]
  - name: pets
    ask: "What pets does Dana have?"
    must_recall: [two cats]
    must_not_recall: [a cat]
  - name: debts
    ask: "Whom does Dana owe money?"
    must_not_recall: [Rui]
  - name: plan
    value: plan
    must_be: {name: pro, seats: 3}
  - name: bob
    as: bob
    ask: "Which theme do I like?"
    must_recall: [light]
    must_not_recall: [dark, sepia]
  - name: a stranger
    as: {agent: other}
    ask: "Which theme does Dana like?"
    must_recall_nothing: true
  - name: apart
    isolation: true
  - name: budget
    context: "Where does Dana live, and which theme does she like?"
    max_tokens: 200
    must_contain: [Porto, dark mode]
    must_not_contain: [light mode]
"""
FAILING: dict[str, tuple[str, list[str]]] = {
    "nobody says it": (
        'ask: "Which theme does Dana like?"\n    must_recall: [solarised]',
        ["no memory in this scope is like that"],
    ),
    "another says it": (
        'ask: "Which theme does Dana like?"\n    must_recall: [light mode]',
        ["given[4] says it in another scope: tenant local, agent default, user bob"],
    ),
    "it was forgotten": (
        'ask: "Whom does Dana owe money?"\n    must_recall: [Rui]',
        ["given[10] says it (added), and it does not hold"],
    ),
    "it is too far down": (
        'ask: "Which theme does Dana like?"\n    limit: 1\n    must_recall: [Porto]',
        ["would do: Dana lives in Porto.", "and only the first 1 are returned: raise limit", "1  Dana prefers dark mode."],
    ),
    "its rank": (
        'ask: "Which theme does Dana like?"\n    limit: 9\n    min_similarity: 0\n    must_recall: [{content: Porto, rank: 1}]',
        ["'Porto' among the first 1: recalled as number"],
    ),
    "it is not relevant": (
        'ask: "How do submarines dive?"\n    must_recall: [Porto]',
        ["nothing was recalled", "the best relevance is", "min_similarity=0"],
    ),
    "the test leaves it out": (
        'ask: "Which theme does Dana like?"\n    tag: work\n    must_recall: [dark mode]',
        ["without tag it is number 1: what the test asks for leaves it out"],
    ),
    "not yet": (
        'ask: "Where does Dana live?"\n    as_of: 2026-04-01\n    must_recall: [Porto]',
        ["the test looks at as_of 2026-04-01", "holds since 2026-05-20 00:00, known since"],
    ),
    "another kind": (
        'ask: "Where does Dana live?"\n    must_recall: {content: Porto, kind: note}',
        ["'Porto', kind note: not among"],
    ),
    "no such label": ('ask: "Where does Dana live?"\n    must_recall: {id: house}', ["no entry of 'given' has the id 'house'"]),
    "unwanted": (
        'ask: "Which theme does Dana like?"\n    must_not_recall: [dark mode]',
        ["must_not_recall: 'dark mode': recalled as number 1 (m_"],
    ),
    "not nothing": ('ask: "Which theme does Dana like?"\n    must_recall_nothing: true', ["must_recall_nothing: ", "recalled"]),
    "no room": (
        'context: "Where does Dana live?"\n    max_tokens: 30\n    must_contain: [Porto]',
        ["must_contain: 'Porto': the block is empty", "it is number 1 of what is recalled, and did not fit: raise max_tokens"],
    ),
    "in the block": (
        'context: "Which theme does Dana like?"\n    must_not_contain: [DARK]',
        ["must_not_contain: 'DARK': in the block"],
    ),
    "another value": ("value: plan\n    must_be: pro", ["the value of plan is {'name': 'pro', 'seats': 3}, and must be 'pro'"]),
    "no value": ("value: plans\n    must_be: pro", ["the value of plans is None"]),
    "cannot be run": ("ask: x\n    filter: {a: {near: 3}}\n    must_recall: y", ["cannot be run: ValidationError: "]),
}


def test_a_suite_that_passes(tmp_path: Path) -> None:
    (tmp_path / "memtest.yaml").write_text(SUITE + PASSING)
    done = process("test", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    names = [each["name"] for each in yaml.safe_load(SUITE + PASSING)["tests"]]
    assert done.stdout.splitlines() == [
        "memtest.yaml  a fresh memory", *(f"  passed  {name}" for name in names), f"{len(names)} passed",
    ]  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["memtest.yaml"]


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """Every test of FAILING, run once: the report as JSON, and where the XML is."""
    folder = tmp_path_factory.mktemp("failing")
    tests = "".join(f"  - name: {name}\n    {body}\n" for name, (body, _) in FAILING.items())
    (folder / "memtest.yaml").write_text(SUITE + tests + "  - name: fine\n    value: plan\n    must_be: {name: pro, seats: 3}\n")
    done = process("test", "memtest.yaml", "--json", "--junit", "out.xml", cwd=folder)
    assert (done.returncode, done.stderr) == (8, "")
    return json.loads(done.stdout), folder


@pytest.mark.parametrize("name", list(FAILING))
def test_a_check_that_fails_says_why(failed: tuple[dict[str, Any], Path], name: str) -> None:
    (file,) = failed[0]["files"]
    (test,) = (each for each in file["tests"] if each["name"] == name)
    assert not test["passed"]
    lines = [test["error"] or "", *(f"{each['rank']}  {each['content']}" for each in test["recalled"])]
    for problem in test["problems"]:
        lines += [f"{problem['check']}: {problem['what']}", *problem["why"]]
    said = "\n".join(lines)
    for each in FAILING[name][1]:
        assert each.removeprefix("cannot be run: ") in said


def test_the_report_for_people(failed: tuple[dict[str, Any], Path]) -> None:
    shown = process("test", cwd=failed[1])
    assert shown.returncode == 8
    assert shown.stdout.endswith(f"  passed  fine\n1 passed, {len(FAILING)} failed\n")
    for name, (_, said) in FAILING.items():
        assert f"  FAILED  {name}\n" in shown.stdout
        assert all(each in shown.stdout for each in said)


def test_the_report_for_ci(failed: tuple[dict[str, Any], Path]) -> None:
    (suite,) = ElementTree.parse(failed[1] / "out.xml").getroot()
    errors = 1
    assert suite.attrib["name"] == "memtest.yaml"
    assert [int(suite.attrib[name]) for name in ("tests", "failures", "errors")] == [
        len(FAILING) + 1,
        len(FAILING) - errors,
        errors,
    ]
    cases = {case.attrib["name"]: case for case in suite}
    assert list(cases["fine"]) == []
    assert int(cases["fine"].attrib["line"]) > int(cases["unwanted"].attrib["line"]) > 1
    assert [each.tag for each in cases["cannot be run"]] == ["error"]
    (failure,) = cases["it is too far down"]
    assert failure.attrib["message"] == "must_recall: 'Porto': not among the 1 recalled"
    assert failure.text is not None
    assert "raise limit" in failure.text


def test_what_xml_cannot_hold_is_not_in_it(tmp_path: Path) -> None:
    given = {"remember": "Dana's \x1b[31m theme \x00is".replace("\x00", "") + " <dark> & ]]> \ufffe"}
    suite = {"version": 1, "given": [given], "tests": [{"ask": "Dana's theme", "must_recall": "\x02light"}]}
    (tmp_path / "memtest.json").write_text(json.dumps(suite))
    done = process("test", "--junit", "out.xml", cwd=tmp_path)
    assert done.returncode == 8
    assert "\x1b" not in done.stdout
    (failure,) = ElementTree.parse(tmp_path / "out.xml").getroot()[0][0]
    assert "\ufffd[31m theme is <dark> & ]]> \ufffd" in (failure.text or "")


def test_a_value_is_what_it_is_all_the_way_down(tmp_path: Path) -> None:
    held = {"on": [True, 1, "1"]}
    cases = [
        {"name": str(at), "value": "k", "must_be": each}
        for at, each in enumerate((held, {"on": [1, True, "1"]}, {"on": [True, 1.0, "1"]}))
    ]
    (tmp_path / "memtest.json").write_text(json.dumps({"version": 1, "given": [{"set": "k", "value": held}], "tests": cases}))
    done = process("test", "--json", cwd=tmp_path)
    assert [each["passed"] for each in json.loads(done.stdout)["files"][0]["tests"]] == [True, False, False]


def test_one_test_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "memtest.yaml").write_text(SUITE + PASSING)
    some = process("test", "-k", "THEME", cwd=tmp_path)
    assert some.stdout.splitlines()[1:] == ["  passed  theme", "1 passed"]
    alone = process("test", "-k", "apart", cwd=tmp_path)  # asks the questions of the others all the same
    assert alone.stdout.splitlines()[1:] == ["  passed  apart", "1 passed"]
    none = process("test", "-k", "nothing like it", cwd=tmp_path)
    assert (none.returncode, none.stdout) == (2, "")
    assert "no test name contains it" in none.stderr


def test_several_files_each_with_a_memory_of_its_own(tmp_path: Path) -> None:
    asks = {"ask": "Which theme does Dana like?"}
    one = {"version": 1, "given": [{"remember": "Dana prefers dark mode."}], "tests": [{**asks, "must_recall": "dark"}]}
    two = {"version": 1, "tests": [{**asks, "must_recall_nothing": True}]}
    lost = {"version": 1, "memory": {"store": "nowhere.db"}, "tests": [{**asks, "must_recall": "dark"}]}
    for name, suite in (("memtest.json", one), ("memtest_two.json", two), ("memtest_3.json", lost)):
        (tmp_path / name).write_text(json.dumps(suite))
    fine = process("test", "memtest.json", "memtest_two.json", cwd=tmp_path)
    assert (fine.returncode, fine.stdout.splitlines()[-1]) == (0, "2 passed")
    every = process("test", "--junit", "out.xml", cwd=tmp_path)
    assert (every.returncode, every.stdout.splitlines()[-1]) == (8, "2 passed, 1 file could not be run")
    assert "cannot be run  ConfigurationError: there is no store at" in every.stdout
    assert [suite.attrib["errors"] for suite in ElementTree.parse(tmp_path / "out.xml").getroot()] == ["0", "1", "0"]
    assert not (tmp_path / "nowhere.db").exists()


def test_what_is_given_and_cannot_be_done_is_named(tmp_path: Path) -> None:
    suite = {"version": 1, "given": [{"forget": {"key": "nothing"}}], "tests": [{"ask": "x", "must_recall": "y"}]}
    (tmp_path / "memtest.json").write_text(json.dumps(suite))
    done = process("test", cwd=tmp_path)
    assert done.returncode == 8
    assert "NotFound: memtest.json: given[0] (forget) cannot be done: " in done.stdout


def test_what_has_no_time_is_told_before_it_is_asked_about(tmp_path: Path) -> None:
    suite = """
version: 1
given:
  - remember: "Dana bought a bike."
  - remember: "The code is 1234."
    ttl: 1h
tests:
  - {name: soon, ask: "What is the code?", must_recall: ["1234"]}
  - {name: at once, ask: "What is the code?", must_recall: ["1234"], asked_at: "2026-03-01T00:00:00Z"}
  - {name: later, ask: "What is the code?", must_not_recall: ["1234"], asked_at: "2026-03-01T02:00:00Z"}
  - {name: last week, ask: "What did Dana buy last week?", must_recall: [bike], asked_at: 2026-03-06}
  - {name: known, ask: "What did Dana buy?", must_recall: [bike], known_at: 2026-03-02}
  - {name: not known, ask: "What did Dana buy?", must_recall_nothing: true, known_at: 2026-02-28}
"""
    (tmp_path / "memtest.yaml").write_text(suite)
    done = process("test", cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "6 passed"), done.stdout


# -- isolation ------------------------------------------------------------------------------------------------------
def test_a_leak_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a memory that takes everybody for the first, every scope of the file and every stranger sees what is not theirs."""
    from keepstone.memtest.parser import parse_file
    from keepstone.memtest.runner import run
    from keepstone.memtest.stage import Stage

    (tmp_path / "memtest.yaml").write_text(SUITE + PASSING)
    suite = parse_file(tmp_path / "memtest.yaml")
    (case,) = (each for each in suite.cases if each.name == "apart")
    with Stage(suite) as stage:
        assert run(stage, case).passed
        real = Memory.with_scope

        def leaky(self: Memory, **scope: str) -> Memory:
            view = real(self, user="dana", tenant="local", agent="default")
            monkeypatch.setattr(type(view), "scope", property(lambda self: self._scope.narrowed(**self._said)))
            view._said = scope  # type: ignore[attr-defined]
            return view

        monkeypatch.setattr(Memory, "with_scope", leaky)
        outcome = run(stage, case)
    said = [each.what for each in outcome.problems]
    for other in ("tenant acme,", "user bob", "agent somebody-else-entirely", "tenant somebody-else-entirely"):
        assert any(other in each and "recalls m_" in each for each in said), other
        assert any(other in each and "can read m_" in each for each in said), other
    assert any(each.startswith("the context of 'Where does Dana live?'") for each in said)


def test_isolation_of_nothing_proves_nothing(tmp_path: Path) -> None:
    suite = {"version": 1, "tests": [{"ask": "x", "must_recall_nothing": True}, {"isolation": ["bob"]}]}
    (tmp_path / "memtest.json").write_text(json.dumps(suite))
    done = process("test", cwd=tmp_path)
    assert done.returncode == 8
    assert "FAILED  isolation\n      isolation: no question of the file recalls anything" in done.stdout
