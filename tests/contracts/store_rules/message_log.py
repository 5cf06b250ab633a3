"""Random blocks of messages."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from keepstone.ports.stores import Store
from keepstone.ports.values import ImportRow
from keepstone.testing.builders import (
    AWAY,
    HOME,
    LONG_AGO,
    NOON,
    NeedsStore,
    present,
    vector,
)
from keepstone.testing.stores.message_log import LOOK, heard, say, with_blocks
from keepstone.text.words import record_terms
from tests.contracts.store_rules.any_order import ANY_ORDER

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "é", "with space"]), inner, max_size=3),
)  # fmt: skip


class MessageLogRules(NeedsStore):
    @settings(ANY_ORDER, max_examples=60)
    @given(st.lists(st.dictionaries(st.sampled_from(["type", "input", "ü", ""]), plain, min_size=1), min_size=1, max_size=3))
    def test_blocks_of_any_shape_come_back_exactly(self, bound: Store, blocks: list[Any]) -> None:
        record = present(bound, with_blocks(bound, blocks))
        assert repr([*(record.blocks or ())]) == repr(blocks)  # 1, 1.0 and True are equal and not the same
        ((sequence, turn),) = bound.message_log.page(HOME, "s", limit=1)
        assert record == bound.fetch(HOME, [sequence])[0] == turn
        assert turn.content == "Let me look."

    def test_messages_keep_order_and_blocks_when_they_move(self, bound: Store) -> None:
        say(bound, "before", occurred_at=NOON)
        with_blocks(bound, LOOK)
        say(bound, "after", occurred_at=LONG_AGO)
        rows = [
            ImportRow(each, record_terms(each.record.content, None), vector(each.record.content))
            for each in bound.export_records(HOME)
        ]
        assert bound.import_records(AWAY, rows) == (3, 0)
        assert heard(bound, "s", AWAY) == ["before", "Let me look.", "after"]
        moved = [record.blocks for _, record in bound.message_log.page(AWAY, "s")]
        assert moved == [None, tuple(LOOK), None]
