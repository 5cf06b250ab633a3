"""Escaping of JSON data that message blocks cannot hold."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from keepstone.integrations.message_items import escape, is_storable, unescape

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | st.text("\0\x01a0\ud800é", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("\0\x01pairsnumbe", max_size=8), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@given(ANY, st.integers(5, 9), st.integers(0, 40))
def test_any_json_can_be_escaped_and_restored(value: Any, depth: int, levels: int) -> None:
    for _ in range(levels):
        value = {"": [value]}
    trees = escape(value, depth)
    assert is_storable(trees, depth + 1)
    assert unescape(trees) == value
