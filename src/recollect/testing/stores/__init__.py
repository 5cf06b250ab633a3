"""The contract of every store, one room a file. Imports: ports and below, pytest, hypothesis."""

from __future__ import annotations

from recollect.testing.stores.aside import AsideContract
from recollect.testing.stores.census import CensusContract
from recollect.testing.stores.changing import ChangingContract
from recollect.testing.stores.compacting import CompactingContract
from recollect.testing.stores.embedding import EmbeddingContract
from recollect.testing.stores.filtering import FilteringContract
from recollect.testing.stores.forgetting import ForgettingContract
from recollect.testing.stores.jobs import JobsContract
from recollect.testing.stores.keeping import KeepingContract
from recollect.testing.stores.leases import LeasesContract
from recollect.testing.stores.limits import LimitsContract
from recollect.testing.stores.lineage import LineageContract
from recollect.testing.stores.mended import MendedContract
from recollect.testing.stores.moving import MovingContract
from recollect.testing.stores.moving_embedders import MovingEmbeddersContract
from recollect.testing.stores.neighbours import NeighboursContract
from recollect.testing.stores.past import PastContract
from recollect.testing.stores.ranking import RankingContract
from recollect.testing.stores.reading import ReadingContract
from recollect.testing.stores.redacting import RedactingContract
from recollect.testing.stores.repeating import RepeatingContract
from recollect.testing.stores.reviews import ReviewsContract
from recollect.testing.stores.scopes import ScopeContract
from recollect.testing.stores.states import StatesContract
from recollect.testing.stores.trail import TrailContract
from recollect.testing.stores.turns import TurnsContract
from recollect.testing.stores.writing import WritingContract

__all__ = ["StoreContract"]


class StoreContract(
    WritingContract,
    RepeatingContract,
    ChangingContract,
    ForgettingContract,
    AsideContract,
    ReadingContract,
    FilteringContract,
    RankingContract,
    NeighboursContract,
    PastContract,
    EmbeddingContract,
    ScopeContract,
    MovingContract,
    TurnsContract,
    StatesContract,
    JobsContract,
    KeepingContract,
    CensusContract,
    CompactingContract,
    LineageContract,
    ReviewsContract,
    LeasesContract,
    LimitsContract,
    RedactingContract,
    TrailContract,
    MovingEmbeddersContract,
    MendedContract,
):
    """Inherit this in a class named Test…, and give it a `store` fixture: an open, empty store, closed afterwards.

    Where the protocol says Sequence, return a list: that is what the tests compare with.
    All tests run on the real clock, through the Store protocol alone, so that every engine can run them unchanged.
    """
