"""Origins that cannot be read, names with line breaks, and redirects: refused in order, with nothing unforeseen in the log."""

from __future__ import annotations

import logging

import pytest

from keepstone.errors import ValidationError
from keepstone.server.dashboard.sessions import is_own_page
from keepstone.server.dashboard.sign_in import local_path
from keepstone.server.mcp.http import check_origin
from keepstone.server.problems import RequestRefused
from keepstone.types import clean_name
from tests.server.conftest import server  # noqa: F401  (a fixture)
from tests.server.dashboard import visitor
from tests.server.running import Running

ODD = ("http://[", "http://[::1", "http://evil.example", "https://127.0.0.1.evil.example", "http://127.0.0.1@evil.example", "x",
       "http://evil.example\\@127.0.0.1", "http://evil.example\\@127.0.0.1:8700", "http://u:p@127.0.0.1:8700")  # fmt: skip
ELSEWHERE = ("//evil.example", "/\\evil.example", "https://evil.example", "/\t/evil.example", "\\/evil.example", "/sign-out", "")


@pytest.mark.parametrize("origin", ODD)
def test_an_odd_origin_is_not_ours(origin: str) -> None:
    assert not is_own_page({"origin": origin, "host": "127.0.0.1:8700"}, "http://127.0.0.1:8700")
    with pytest.raises(RequestRefused):
        check_origin(origin, "127.0.0.1:8700", "http://127.0.0.1:8700", "127.0.0.1")


def test_a_form_from_an_odd_origin_is_refused_in_order(server: Running, caplog: pytest.LogCaptureFixture) -> None:  # noqa: F811
    inside = visitor(server, server.key("dana"))
    for origin in ODD:
        answer = inside.send("/memories", {"content": "x"}, "/memories", origin=origin)
        assert answer.status_code == 403
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\x1b[31m", "a\x00b", "\u2028", "a\x85b"], ids=ascii)
def test_a_name_cannot_break_a_line_of_the_log(name: str) -> None:
    with pytest.raises(ValidationError):
        clean_name(name, "name")


@pytest.mark.parametrize("path", ELSEWHERE)
def test_nobody_is_sent_elsewhere(path: str) -> None:
    assert local_path(path) == "/"
