"""The contract of every store, one room a file."""

from __future__ import annotations

from keepstone.testing.stores.archived import ArchivedContract
from keepstone.testing.stores.audit_log import AuditLogContract
from keepstone.testing.stores.changing import ChangingContract
from keepstone.testing.stores.compacting import CompactingContract
from keepstone.testing.stores.embedding import EmbeddingContract
from keepstone.testing.stores.filtering import FilteringContract
from keepstone.testing.stores.forgetting import ForgettingContract
from keepstone.testing.stores.jobs import JobsContract
from keepstone.testing.stores.leases import LeasesContract
from keepstone.testing.stores.limits import LimitsContract
from keepstone.testing.stores.lineage import LineageContract
from keepstone.testing.stores.mended import MendedContract
from keepstone.testing.stores.message_log import MessageLogContract
from keepstone.testing.stores.neighbours import NeighboursContract
from keepstone.testing.stores.past import PastContract
from keepstone.testing.stores.ranking import RankingContract
from keepstone.testing.stores.reading import ReadingContract
from keepstone.testing.stores.redacting import RedactingContract
from keepstone.testing.stores.repeating import RepeatingContract
from keepstone.testing.stores.retention import RetentionContract
from keepstone.testing.stores.reviews import ReviewsContract
from keepstone.testing.stores.scopes import ScopeContract
from keepstone.testing.stores.states import StatesContract
from keepstone.testing.stores.stats import StatsContract
from keepstone.testing.stores.store_copy import MovingContract
from keepstone.testing.stores.store_copy_embedders import MovingEmbeddersContract
from keepstone.testing.stores.writing import WritingContract

__all__ = ["StoreContract"]


class StoreContract(
    WritingContract,
    RepeatingContract,
    ChangingContract,
    ForgettingContract,
    ArchivedContract,
    ReadingContract,
    FilteringContract,
    RankingContract,
    NeighboursContract,
    PastContract,
    EmbeddingContract,
    ScopeContract,
    MovingContract,
    MessageLogContract,
    StatesContract,
    JobsContract,
    RetentionContract,
    StatsContract,
    CompactingContract,
    LineageContract,
    ReviewsContract,
    LeasesContract,
    LimitsContract,
    RedactingContract,
    AuditLogContract,
    MovingEmbeddersContract,
    MendedContract,
):
    """Inherit this in a class named Test…, and give it a `store` fixture: an open, empty store, closed afterwards.

    Where the protocol says Sequence, return a list: that is what the tests compare with.
    All tests run on the real clock, through the Store protocol alone, so that every engine can run them unchanged.
    """
