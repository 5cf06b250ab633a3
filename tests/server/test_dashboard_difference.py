"""How the dashboard shows the difference between two versions."""

from __future__ import annotations

import html
import re

from hypothesis import given
from hypothesis import strategies as st

from keepstone.server.dashboard.formatting import difference

WORDS = st.lists(st.sampled_from(["tea", "coffee", " ", ".", "!", "<b>"]), max_size=30).map("".join)


@given(WORDS, WORDS)
def test_both_versions_can_be_read_from_it(before: str, after: str) -> None:
    shown = str(difference(before, after))
    without = re.sub(r"<ins>.*?</ins>", "", shown), re.sub(r"<del>.*?</del>", "", shown)
    assert [html.unescape(re.sub(r"</?(?:ins|del)>", "", text)) for text in without] == [before, after]


def test_what_stayed_is_not_marked() -> None:
    assert difference("Dana likes tea.", "Dana likes coffee.") == "Dana likes <del>tea</del><ins>coffee</ins>."


def test_a_text_that_a_matcher_of_longest_blocks_takes_half_a_minute_for() -> None:
    shown = str(difference(". " * 990, "! " * 990))
    assert shown.count("<del>.</del>") == shown.count("<ins>!</ins>") == 990


def test_long_texts_follow_each_other() -> None:
    assert difference("a" * 30_000, "b") == f"<del>{'a' * 30_000}</del> <ins>b</ins>"
