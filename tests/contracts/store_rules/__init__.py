"""What keepstone's own engines keep beyond the published contract: rare combinations, clocks that are wrong, random data."""

from __future__ import annotations

from keepstone.testing import StoreContract
from tests.contracts.store_rules.changing import ChangingRules
from tests.contracts.store_rules.embedding import EmbeddingRules
from tests.contracts.store_rules.exporting import ExportingRules
from tests.contracts.store_rules.lineage import LineageRules
from tests.contracts.store_rules.maintenance import MaintenanceRules
from tests.contracts.store_rules.message_log import MessageLogRules
from tests.contracts.store_rules.queue import QueueRules
from tests.contracts.store_rules.ranking import RankingRules
from tests.contracts.store_rules.reading import ReadingRules
from tests.contracts.store_rules.retention import RetentionRules
from tests.contracts.store_rules.writing import WritingRules

__all__ = ["StoreRules"]


class StoreRules(
    ChangingRules,
    EmbeddingRules,
    ExportingRules,
    LineageRules,
    MaintenanceRules,
    MessageLogRules,
    QueueRules,
    RankingRules,
    ReadingRules,
    RetentionRules,
    WritingRules,
    StoreContract,
):
    """The contract and these rules, for a test class that has a `store` fixture."""
