"""memtest files as they are read: what can be written, and what is said about what cannot."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from keepstone import Scope
from keepstone.errors import ConfigurationError, KeepstoneError, ValidationError
from keepstone.memtest.cases import Ask, Context, Isolation, Value, Wanted, Who
from keepstone.memtest.parser import find_files, parse_file

WHOLE = """
version: 1
memory: {store: ../agent.db, embedder: none, user: dana, settings: {min_trust: 0.3}}
given:
  - remember: "Dana prefers dark mode."
    id: theme
    at: 2026-01-05
    tag: preferences
    ttl: 30d
    metadata: {since: 2025-12-24, sure: true}
  - say: "My name is Dana."
    session: s1
  - say: [{user: "I moved."}, {assistant: "Where to?"}]
    session: s1
    extract: false
    as: {tenant: acme, agent: support, user: omar}
  - set: plan
    value: {name: pro, seats: 3}
    tag: account
  - learn: "I live in Porto."
    occurred_at: "2026-01-01T10:00:00+01:00"
    at: 2026-02-01
  - update: theme
    content: "Dana prefers light mode."
  - forget: theme
  - forget: {key: plan}
tests:
  - ask: "Which theme does Dana like?"
    must_recall: dark mode
    limit: 3
    as_of: 2026-01-10
    kinds: fact
    filter: {sure: true}
  - name: strict
    ask: "Which theme?"
    must_recall: [{content: Dark, rank: 2, kind: fact, id: theme}]
    must_not_recall: [light, {tag: secret}]
    asked_at: 2026-03-01
  - name: none
    as: bob
    ask: "Which theme?"
    must_recall_nothing: true
  - context: "What about Dana?"
    max_tokens: 200
    must_contain: [dark]
    must_not_contain: card
  - value: plan
    must_be: null
  - isolation: true
  - name: these
    isolation: [bob, {tenant: other}]
"""


def write(folder: Path, text: str, name: str = "memtest.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_everything_that_can_be_written(tmp_path: Path) -> None:
    suite = parse_file(write(tmp_path, WHOLE, "tests/memtest.yaml"))
    assert suite.opening.store == str(tmp_path / "tests" / ".." / "agent.db")
    assert (suite.opening.embedder, suite.opening.scope) == ("none", Scope(user="dana"))
    assert suite.opening.settings == {"min_trust": 0.3}
    remembered, said, talk, value, learned, updated, erased, unset = suite.given
    assert (remembered.what, remembered.label, remembered.at) == (
        "Dana prefers dark mode.",
        "theme",
        datetime(2026, 1, 5, tzinfo=UTC),
    )
    assert remembered.options["ttl"] == timedelta(days=30)
    assert remembered.options["metadata"] == {"since": "2025-12-24", "sure": True}  # JSON has no dates
    assert (said.what, said.options) == ([{"role": "user", "content": "My name is Dana."}], {"session": "s1"})
    assert [each["role"] for each in talk.what] == ["user", "assistant"]
    assert (talk.options["extract"], talk.who) == (False, Who("acme", "support", "omar"))
    assert (value.what, value.options) == ("plan", {"tag": "account", "value": {"name": "pro", "seats": 3}})
    assert learned.options["occurred_at"] == datetime(2026, 1, 1, 9, tzinfo=UTC)
    assert (updated.what, updated.options) == ("theme", {"content": "Dana prefers light mode."})
    assert (erased.what, unset.what) == ({"id": "theme"}, {"key": "plan"})
    plain, strict, none, context, plan, apart, these = suite.cases
    assert isinstance(plain, Ask)
    assert (plain.name, plain.must, plain.limit) == ("Which theme does Dana like?", (Wanted("dark mode"),), 3)
    assert plain.options["kinds"] == ["fact"]
    assert isinstance(strict, Ask)
    assert strict.must == (Wanted("Dark", 2, "fact", id="theme"),)
    assert strict.must_not == (Wanted("light"), Wanted(tag="secret"))
    assert strict.asked_at == datetime(2026, 3, 1, tzinfo=UTC)
    assert isinstance(none, Ask)
    assert (none.nothing, none.who) == (True, Who(user="bob"))
    assert isinstance(context, Context)
    assert (context.max_tokens, context.must, context.must_not) == (200, ("dark",), ("card",))
    assert isinstance(plan, Value)
    assert plan.must_be is None
    assert isinstance(apart, Isolation)
    assert apart.others == ()
    assert isinstance(these, Isolation)
    assert these.others == (Who(user="bob"), Who(tenant="other"))
    assert suite.cases[0].line == WHOLE.splitlines().index('  - ask: "Which theme does Dana like?"') + 1


def test_json_says_the_same_without_pyyaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = json.loads(json.dumps(yaml.safe_load(WHOLE), default=str))
    as_yaml = parse_file(write(tmp_path, WHOLE))
    as_json = write(tmp_path, json.dumps(plain), "memtest.json")
    monkeypatch.setitem(sys.modules, "yaml", None)  # as where it is not installed
    suite = parse_file(as_json)
    assert (suite.given, suite.opening) == (as_yaml.given, as_yaml.opening)
    assert [each.name for each in suite.cases] == [each.name for each in as_yaml.cases]
    with pytest.raises(ConfigurationError, match=r"PyYAML is not installed: pip install .*\[test\]', or write it as JSON"):
        parse_file(tmp_path / "memtest.yaml")


TEST = "tests:\n  - {ask: x, must_recall: y}\n"
BAD = {
    "no version": (TEST, r"memtest.yaml:1: the file must say 'version: 1'"),
    "another version": (f"version: 2\n{TEST}", r":1: version must say 'version: 1'"),
    "empty": ("", r"memtest.yaml is empty: begin with 'version: 1'"),
    "a list": ("- ask: x", r":1: the file is \[{'ask': 'x'}\]: use fields, such as 'version: 1'"),
    "no tests": ("version: 1", r"the file has no tests"),
    "empty tests": ("version: 1\ntests: []", r":2: tests is empty"),
    "unknown on top": (f"version: 1\ntest: 3\n{TEST}", r":2: test is not known: did you mean tests\?"),
    "unknown in memory": (f"version: 1\nmemory:\n  stor: x\n{TEST}", r":3: memory.stor is not known: did you mean store\?"),
    "settings": (f"version: 1\nmemory: {{settings: 3}}\n{TEST}", r"memory.settings is 3: use settings by their names"),
    "a bad name": (f'version: 1\nmemory: {{user: "a\\tb"}}\n{TEST}', r"memory.user is 'a\\tb': use a name"),
    "two verbs": (f"version: 1\ngiven:\n  - {{remember: x, learn: y}}\n{TEST}", r":3: given\[0\] has remember and learn"),
    "no verb": (f"version: 1\ngiven:\n  - {{at: 2026-01-01}}\n{TEST}", r":3: given\[0\] has none of remember, learn, say"),
    "a field of another verb": (
        f"version: 1\ngiven:\n  - {{set: k, value: 1, kind: t}}\n{TEST}",
        r"given\[0\].kind is not known: use set, at, as, value, tag",
    ),
    "an empty text": (f"version: 1\ngiven:\n  - remember: ' '\n{TEST}", r"given\[0\].remember is ' ': use text"),
    "a number for a text": (f"version: 1\ngiven:\n  - remember: 42\n{TEST}", r'is 42: use text; .* goes into quotes: "42"'),
    "yes for a text": ("version: 1\ntests:\n  - {ask: x, must_recall: [yes]}", r"must_recall\[0\] is True: use text; .* quotes"),
    "backwards": (
        f"version: 1\ngiven:\n  - {{remember: x, at: 2026-02-02}}\n  - {{remember: y, at: 2026-01-01}}\n{TEST}",
        r":4: given\[1\].at is 2026-01-01, before the 2026-02-02 of an entry above it",
    ),
    "no time": (f"version: 1\ngiven:\n  - {{remember: x, at: soon}}\n{TEST}", r"given\[0\].at is 'soon': use a time such as"),
    "no day": (f"version: 1\ngiven:\n  - {{remember: x, at: 2026-02-30}}\n{TEST}", r":3: '2026-02-30' cannot be read"),
    "no lifetime": (f"version: 1\ngiven:\n  - {{remember: x, ttl: long}}\n{TEST}", r"ttl is 'long': use a length of time"),
    "importance": (
        f"version: 1\ngiven:\n  - {{remember: x, importance: 3}}\n{TEST}",
        r"importance is 3: use a number from 0 to 1",
    ),
    "a label twice": (
        f"version: 1\ngiven:\n  - {{remember: x, id: a}}\n  - {{remember: y, id: a}}\n{TEST}",
        r":4: given\[1\].id is 'a', which an entry above has",
    ),
    "no such label": (
        f"version: 1\ngiven:\n  - {{update: a, content: y}}\n{TEST}",
        r"update is 'a': use the id of an entry above",
    ),
    "an update of nothing": (
        f"version: 1\ngiven:\n  - {{remember: x, id: a}}\n  - {{update: a}}\n{TEST}",
        r"given\[1\] changes nothing: add content",
    ),
    "forget two things": (f"version: 1\ngiven:\n  - forget: {{key: a, session: b}}\n{TEST}", r"use exactly one of key, source"),
    "forget not everything": (f"version: 1\ngiven:\n  - forget: {{everything: false}}\n{TEST}", r"everything is False: use true"),
    "a value that is missing": (f"version: 1\ngiven:\n  - set: plan\n{TEST}", r"given\[0\] has no value: add 'value:'"),
    "said nowhere": (f"version: 1\ngiven:\n  - say: hello\n{TEST}", r"given\[0\] has no session"),
    "said by nobody": (f"version: 1\ngiven:\n  - {{say: [{{dana: hi}}], session: s}}\n{TEST}", r"dana is not known: use user"),
    "two kinds": ("version: 1\ntests:\n  - {ask: x, context: y}", r":3: tests\[0\] has ask and context of ask"),
    "checks nothing": ("version: 1\ntests:\n  - ask: x", r":3: tests\[0\] checks nothing: add must_recall"),
    "a context without checks": ("version: 1\ntests:\n  - context: x", r"tests\[0\] checks nothing: add max_tokens"),
    "a value without checks": ("version: 1\ntests:\n  - value: x", r"tests\[0\] has no must_be"),
    "a field that is near": (
        "version: 1\ntests:\n  - ask: x\n    must_recal: y",
        r":4: tests\[0\].must_recal .* mean must_recall\?",
    ),
    "limit": ("version: 1\ntests:\n  - {ask: x, limit: 0, must_recall: y}", r"limit is 0: use a whole number from 1 to 100"),
    "a rank that cannot be": (
        "version: 1\ntests:\n  - {ask: x, limit: 3, must_recall: {content: y, rank: 4}}",
        r"must_recall.rank is 4: use a whole number from 1 to 3",
    ),
    "only a rank": ("version: 1\ntests:\n  - {ask: x, must_recall: {rank: 1}}", r"use at least one of content, kind, tag"),
    "nothing and something": (
        "version: 1\ntests:\n  - {ask: x, must_recall: y, must_recall_nothing: true}",
        r"must_recall_nothing does not go with must_recall",
    ),
    "truth": ("version: 1\ntests:\n  - {ask: x, must_recall_nothing: 1}", r"must_recall_nothing is 1: use true or false"),
    "nobody": ("version: 1\ntests:\n  - {ask: x, as: {}, must_recall: y}", r"tests\[0\].as is {}: use a user's name"),
    "names that are the same": (f"version: 1\n{TEST}  - {{ask: x, must_recall: z}}", r"has the name 'x', which another test has"),
    "isolation of nothing": ("version: 1\ntests:\n  - isolation: true", r"needs a question that others could ask"),
    "isolation from nobody": (f"version: 1\n{TEST}  - isolation: []", r"isolation is \[\]: use true, or a list of others"),
    "asked before": (
        "version: 1\ngiven: [{remember: x, at: 2026-02-02}]\ntests:\n  - {ask: x, must_recall: x, asked_at: 2026-01-01}",
        r"asked_at is 2026-01-01, before the last of what is given \(2026-02-02\)",
    ),
    "an id that nothing has": (
        "version: 1\ngiven: [{remember: x, id: theme}]\ntests:\n  - {ask: x, must_not_recall: [{id: them}]}",
        r":4: tests\[0\] must not recall the id 'them', which no entry of 'given' has",
    ),
    "isolation as somebody": (f"version: 1\n{TEST}  - {{isolation: true, as: bob}}", r"tests\[1\].as does not go with isolation"),
    "a life without end": (f"version: 1\ngiven:\n  - {{remember: x, ttl: 999999999w}}\n{TEST}", r"up to 100 years, such as 30d"),
    "no yaml": ("version: 1\ntests: [", r"memtest.yaml:\d: not YAML"),
    "two documents": (f"version: 1\n{TEST}---\nversion: 1\n", r"not YAML"),
    "a field twice": ("version: 1\ntests:\n  - ask: x\n    must_recall: y\n    ask: z", r":5: the field 'ask' stands twice"),
    "an object of Python": ("version: !!python/name:os.getcwd ''", r":1: not YAML \(could not determine a constructor"),
    "a circle": ("version: 1\ntests: &a [*a]", r"more than \d+ values or 30 levels"),
    "a bomb": (
        "version: 1\ngiven:\n" + "".join(f"  - &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 9)}]\n" for n in range(9)),
        r"more than 200000 values",
    ),
}


@pytest.mark.parametrize("text", [text for text, _ in BAD.values()], ids=list(BAD))
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str) -> None:
    said = next(said for given, said in BAD.values() if given == text)
    with pytest.raises(ValidationError, match=said) as caught:
        parse_file(write(tmp_path, text))
    assert str(caught.value).startswith(str(tmp_path / "memtest.yaml"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"version": 1,\n "tests": [}', r"memtest.json:2: not JSON"),
        ('{"version": 1, "version": 1}', r"the field 'version' stands twice"),
        ('{"version": NaN}', r"NaN is not JSON"),
        ('{"version": 1, "tests": [{"ask": "x", "must_recal": "y"}]}', r"memtest.json: tests\[0\].must_recal is not known"),
        ("[" * 100_000, r"not JSON as it is read here"),
        ('{"version": 1, "tests": ' + "[" * 500 + "]" * 500 + "}", r"nested deeper than 30 levels"),
    ],
    ids=["json", "twice", "nan", "unknown", "deep", "less deep"],
)
def test_what_is_wrong_in_json(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        parse_file(write(tmp_path, text, "memtest.json"))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        parse_file(tmp_path / "memtest.yaml")
    (tmp_path / "memtest.yaml").write_bytes(b"version: \xff")
    with pytest.raises(ValidationError, match="not UTF-8"):
        parse_file(tmp_path / "memtest.yaml")


def test_which_files_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = ["memtest.yaml", "memtest_theme.yml", "deep/er/memtest-home.json", "deep/MEMTEST.YAML"]
    others = ["memtest86.yaml", "my_memtest.yaml", "memtest.py", ".git/memtest.yaml", "node_modules/a/memtest.yaml", "a.yaml"]
    for name in (*ours, *others):
        write(tmp_path, "", name)
    monkeypatch.chdir(tmp_path)
    assert {str(path) for path in find_files(())} == set(ours)
    assert [str(path) for path in find_files(["a.yaml", "deep", "a.yaml"])] == [
        "a.yaml",
        "deep/MEMTEST.YAML",
        "deep/er/memtest-home.json",
    ]
    (tmp_path / "nothing").mkdir()
    with pytest.raises(KeepstoneError, match="there is no memtest file in"):
        find_files(["nothing"])
