"""The contract of every store, by subject."""

from __future__ import annotations

from keepstone.testing.stores.changing import ChangingContract, RedactingContract
from keepstone.testing.stores.embedding import EmbeddingContract, NextEmbedderContract
from keepstone.testing.stores.exporting import ExportingContract
from keepstone.testing.stores.forgetting import CompactingContract, ForgettingContract
from keepstone.testing.stores.limits import LimitsContract
from keepstone.testing.stores.lineage import LineageContract
from keepstone.testing.stores.maintenance import AuditLogContract, LeasesContract, ReviewsContract
from keepstone.testing.stores.message_log import MessageLogContract
from keepstone.testing.stores.queue import JobsContract, StatesContract
from keepstone.testing.stores.ranking import NeighboursContract, PastContract, RankingContract
from keepstone.testing.stores.reading import FilteringContract, ReadingContract
from keepstone.testing.stores.retention import ArchivedContract, RetentionContract, StatsContract
from keepstone.testing.stores.scopes import ScopeContract
from keepstone.testing.stores.writing import RepeatingContract, WritingContract

__all__ = ["StoreContract"]


class StoreContract(
    WritingContract,
    RepeatingContract,
    ChangingContract,
    RedactingContract,
    ForgettingContract,
    CompactingContract,
    LineageContract,
    ReadingContract,
    FilteringContract,
    RankingContract,
    NeighboursContract,
    PastContract,
    EmbeddingContract,
    NextEmbedderContract,
    ScopeContract,
    ExportingContract,
    MessageLogContract,
    StatesContract,
    JobsContract,
    LimitsContract,
    RetentionContract,
    ArchivedContract,
    StatsContract,
    ReviewsContract,
    LeasesContract,
    AuditLogContract,
):
    """Inherit this in a class named Test…, and give it a `store` fixture: an open, empty store, closed afterwards.

    Where the protocol says Sequence, return a list: that is what the tests compare with. All tests use the real clock and only
    the Store protocol, so that every engine can run them unchanged.
    """
