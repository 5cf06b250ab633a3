"""What `leases` promises: of several one does a piece of work."""

from __future__ import annotations

from datetime import timedelta

from keepstone.ports.stores import Store
from keepstone.testing.builders import NeedsStore, together

HOUR = timedelta(hours=1)
OVER = timedelta(0)  # a lease that ends as it begins


class LeasesContract(NeedsStore):
    def test_one_has_it_and_the_other_waits(self, store: Store) -> None:
        assert store.leases.acquire("upkeep", "a", HOUR)
        assert not store.leases.acquire("upkeep", "b", HOUR)
        assert store.leases.acquire("another", "b", HOUR), "names are apart"
        store.leases.release("upkeep", "a")
        assert store.leases.acquire("upkeep", "b", HOUR)
        assert not store.leases.acquire("upkeep", "a", HOUR)

    def test_only_its_holder_gives_it_back(self, store: Store) -> None:
        store.leases.acquire("upkeep", "a", HOUR)
        store.leases.release("upkeep", "b")
        store.leases.release("none", "a")
        assert not store.leases.acquire("upkeep", "b", HOUR)

    def test_its_holder_makes_it_longer_or_shorter(self, store: Store) -> None:
        assert store.leases.acquire("upkeep", "a", OVER)
        assert store.leases.acquire("upkeep", "a", HOUR)
        assert not store.leases.acquire("upkeep", "b", HOUR)
        assert store.leases.acquire("upkeep", "a", OVER)
        assert store.leases.acquire("upkeep", "b", HOUR)

    def test_one_that_is_over_goes_to_the_next(self, store: Store) -> None:
        assert store.leases.acquire("upkeep", "a", OVER)
        assert store.leases.acquire("upkeep", "b", HOUR)
        assert not store.leases.acquire("upkeep", "a", HOUR)

    def test_a_longer_wish_takes_nothing_away(self, store: Store) -> None:
        assert store.leases.acquire("upkeep", "a", timedelta(minutes=1))
        assert not store.leases.acquire("upkeep", "b", timedelta(days=30))

    def test_of_many_at_once_one_gets_it(self, store: Store) -> None:
        assert sum(together(8, lambda n: store.leases.acquire("upkeep", f"holder {n}", HOUR))) == 1
