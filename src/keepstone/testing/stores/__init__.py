"""The contract of every store, by subject."""

from __future__ import annotations

from keepstone.testing.stores.changing import ChangingContract, ForgettingContract, RedactingContract
from keepstone.testing.stores.embedding import EmbeddingContract, PassagesContract
from keepstone.testing.stores.exporting import ExportingContract
from keepstone.testing.stores.lineage import LineageContract
from keepstone.testing.stores.maintenance import MaintenanceContract
from keepstone.testing.stores.message_log import MessageLogContract
from keepstone.testing.stores.queue import QueueContract
from keepstone.testing.stores.ranking import RankingContract
from keepstone.testing.stores.reading import ReadingContract
from keepstone.testing.stores.retention import RetentionContract
from keepstone.testing.stores.writing import WritingContract

__all__ = ["StoreContract"]


class StoreContract(
    WritingContract,
    ChangingContract,
    RedactingContract,
    ForgettingContract,
    LineageContract,
    ReadingContract,
    RankingContract,
    EmbeddingContract,
    ExportingContract,
    MessageLogContract,
    PassagesContract,
    QueueContract,
    RetentionContract,
    MaintenanceContract,
):
    """Inherit this in a class named Test…, and give it a `store` fixture: an open, empty store, closed afterwards.

    Where the protocol says Sequence, return a list: that is what the tests compare with. All tests use the real clock and only
    the Store protocol, so that every engine can run them unchanged.
    """
