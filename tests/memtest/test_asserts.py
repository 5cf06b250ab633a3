"""The assertions of keepstone.testing on real memories: what passes, and what is said when something does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from keepstone import Client, Memory
from keepstone.testing import assert_isolated, assert_not_recalled, assert_recalls, assert_within_budget
from tests.server.running import running

THEME = "Which theme does Dana like?"


@pytest.fixture
def dana(memory: Memory) -> Memory:
    view = memory.with_scope(user="dana")
    view.remember("Dana prefers dark mode.", tag="preferences")
    view.remember("Dana lives in Lisbon.", key="home", occurred_at="2026-03-01")
    view.remember("Dana lives in Porto.", key="home", occurred_at="2026-06-01")
    return view


def failing(*lines: str) -> object:
    """An AssertionError whose text has these lines in it."""
    return pytest.raises(AssertionError, match="(?s)" + ".*".join(re.escape(line) for line in lines))


def test_what_is_recalled(dana: Memory) -> None:
    hits = assert_recalls(dana, THEME, "DARK mode", "dana", within=1)
    assert [hit.content for hit in hits] == ["Dana prefers dark mode."]
    assert_recalls(dana, "Where does Dana live?", "Lisbon", as_of="2026-04-01")
    with failing("'Lisbon' is not among the first 5 recalled", "no memory in this scope says it", "1  Dana lives in Porto."):
        assert_recalls(dana, "Where does Dana live?", "Lisbon")
    with failing("would do: Dana lives in Porto.", "only the first 1 are returned: raise limit", "1  Dana prefers dark mode."):
        assert_recalls(dana, THEME, "Porto", within=1)
    with failing("without tag it is number 1: what the test asks for leaves it out"):
        assert_recalls(dana, THEME, "dark mode", tag="work")
    with failing("the test looks at as_of 2026-04-01: this holds since 2026-06-01"):
        assert_recalls(dana, "Where does Dana live?", "Porto", as_of="2026-04-01")


def test_what_is_not_recalled(dana: Memory) -> None:
    assert_not_recalled(dana, THEME, "light mode", "sepia")
    assert_not_recalled(dana, "How do submarines dive?")
    with failing("'dark' is recalled as number 1", "1  Dana prefers dark mode."):
        assert_not_recalled(dana, THEME, "light", "dark")
    with failing("recalled, and nothing may be"):
        assert_not_recalled(dana, THEME)


def test_isolation(dana: Memory, tmp_path: Path) -> None:
    others = [dana.with_scope(user="bob"), dana.with_scope(tenant="acme"), dana.with_scope(agent="other")]
    others[0].remember("Dana prefers dark mode.")  # his own knowledge of the same is no leak
    with Memory.open(tmp_path / "other.db", user="dana") as elsewhere:
        assert_isolated(dana, [*others, elsewhere], THEME, "Where does Dana live?")
    with failing("asked as tenant local, agent default, user dana recalls m_", "can read m_", "the context of"):
        assert_isolated(dana, dana.with_scope(user="dana"), THEME)
    with failing("recalls nothing as tenant acme, agent default, user dana, so there is nothing that others could see"):
        assert_isolated(others[1], dana, THEME)


def test_a_budget(dana: Memory) -> None:
    block = assert_within_budget(dana, THEME, 120, "dark mode")
    assert "Dana prefers dark mode." in block
    with failing("'dark mode' is not in the context of 0 tokens", "Dana prefers dark mode."):
        assert_within_budget(dana, THEME, 20, "dark mode")
    with failing("'sepia' is not in the context", "no memory in this scope says it"):
        assert_within_budget(dana, THEME, 120, "sepia")


def test_a_memory_on_a_server(memory: Memory, dana: Memory) -> None:
    with running(memory) as server, Client(server.url, server.key("bot", tenant="local", service=True), user="dana") as client:
        assert_recalls(client, THEME, "dark mode", within=1)
        assert_not_recalled(client, THEME, "light mode")
        assert_isolated(client, [client.with_scope(user="bob"), client.with_scope(agent="other")], THEME)
        assert_within_budget(client, THEME, 120, "dark mode")
        with failing("would do: Dana lives in Porto.", "only the first 1 are returned: raise limit"):
            assert_recalls(client, THEME, "Porto", within=1)
        with failing("can read m_"):
            assert_isolated(client, client.with_scope(user="dana"), THEME)


def test_an_assertion_of_nothing_is_an_error(dana: Memory) -> None:
    with pytest.raises(TypeError, match="assert_recalls was given nothing to look for"):
        assert_recalls(dana, THEME)
    with pytest.raises(TypeError, match="assert_isolated was given nothing"):
        assert_isolated(dana, [], THEME)
    with pytest.raises(TypeError, match="assert_isolated was given nothing"):
        assert_isolated(dana, [dana.with_scope(user="bob")])


@pytest.mark.parametrize("text", ["", "  ", ["dark mode"], None], ids=["empty", "blank", "list", "None"])
def test_a_text_that_says_nothing_is_an_error(dana: Memory, text: object) -> None:
    for check in (
        lambda: assert_recalls(dana, THEME, text),
        lambda: assert_not_recalled(dana.with_scope(user="nobody"), THEME, text),
        lambda: assert_within_budget(dana, THEME, 500, text),
    ):
        with pytest.raises(TypeError, match="is nothing to look for: give each text by itself"):
            check()
