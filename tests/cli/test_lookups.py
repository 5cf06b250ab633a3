"""get, search, stats, users, entities; beginnings of ids, times in words, errors in the words of the command line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.support import Cli, remembered


def test_a_record_is_shown_by_its_id_its_beginning_or_its_key(cli: Cli) -> None:
    id = remembered(cli, "Ana lives in Porto.")
    cli("remember", "Oslo", "--key", "home")
    for given in (id, id[:10]):
        assert cli("get", given, "--json").json["content"] == "Ana lives in Porto."
    assert cli("get", "--key", "home", "--json").json["content"] == "Oslo"
    assert cli("history", id[:10], "--json").json["id"] == id
    assert cli("update", id[:10], "Ana lives in Faro.", "--json").json["id"] == id
    assert cli("why", "Where does Ana live?", id[:10], "--json").json["recalled"] is True
    several = cli("get", "m_")
    assert several.code == 2
    assert "more than one id begins with 'm_'" in several.err
    assert cli("get", "m_nothing").code == 3
    assert cli("forget", id[:10], "--json").json["ids"] == [id]


def test_search_finds_words_whatever_their_case(cli: Cli) -> None:
    remembered(cli, "Ana lives in Porto.")
    remembered(cli, "Bert lives in Oslo.")
    found = cli("search", "ana", "porto", "--json").json
    assert [record["content"] for record in found["records"]] == ["Ana lives in Porto."]
    assert "No record contains" in cli("search", "ana", "oslo").out


def test_users_are_listed_and_twins_pointed_out(cli: Cli) -> None:
    remembered(cli, "Tea.", "--user", "Dana")
    remembered(cli, "Coffee.", "--user", "dana")
    shown = cli("users").out
    assert "like user 'dana' of agent 'default': only case or spaces differ" in shown
    found = cli("users", "--json").json["scopes"]
    assert [each["scope"]["user"] for each in found] == ["Dana", "dana"]


def test_a_scope_in_numbers(cli: Cli) -> None:
    remembered(cli, "Ana lives in Porto.")
    remembered(cli, "Ana rows.", "--tag", "sport")
    assert cli("stats", "--json").json["kinds"] == {"fact": 2}
    shown = cli("stats").out
    assert shown.startswith("2 records")
    assert "sport 1" in shown
    assert "person" in cli("entities").out


@pytest.mark.parametrize(("words", "days"), [("yesterday", 1), ("3 days ago", 3)])
def test_times_may_be_said_in_words(cli: Cli, words: str, days: int) -> None:
    id = remembered(cli, "Ana rowed.", "--occurred-at", words)
    at = datetime.fromisoformat(cli("get", id, "--json").json["occurred_at"])
    assert abs(datetime.now(UTC) - timedelta(days=days) - at) <= timedelta(days=1)


def test_errors_name_options_and_say_what_to_use(cli: Cli) -> None:
    remembered(cli, "Ana rows.")
    wrong = {
        ("recall", "x", "--limit", "0"): "--limit is 0: use a whole number from 1 to 100.",
        ("recall", "x", "--limit", "abc"): "Invalid value for '--limit' / '-n': it is not a whole number.",
        ("recall", "x", "--min-similarity", "7"): "--min-similarity is 7.0: use a number from 0 to 1.",
        ("remember", "x", "--occurred-at", "blah"): "--occurred-at 'blah' is not a time: use 2026-03-01",
        ("list", "--kind", "fcat"): "--kind 'fcat': no memory of this scope is of that kind.",
        ("recall", "Ana", "--kind", "fcat"): "--kind 'fcat': no memory of this scope is of that kind.",
    }
    for arguments, message in wrong.items():
        done = cli(*arguments)
        assert message in done.err
        assert done.code == 2
    cli("remember", "A recipe.", "--kind", "recipe")
    assert cli("list", "--kind", "recipe", "--tag", "none").code == 0  # a kind of one's own
