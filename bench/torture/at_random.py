"""Random operations on a store against a dictionary that does the same, on both stores."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from bench.torture.targets import databases
from bench.torture.verdict import Options, Verdict
from keepstone.ports.stores import Store
from keepstone.ports.values import StoreOptions
from keepstone.stores.postgres.store import PostgresStore
from keepstone.stores.sqlite.store import SqliteStore
from tests.contracts.store_machine import store_machine

STEPS = 50
QUICK = StoreOptions(durable=False)  # no power cut in this test
RUNS = 25  # runs on SQLite for each round: the table wants 500 for 20
SLOWER = 5  # so many times fewer on PostgreSQL, where each run begins with an empty database's worth of deleting


def run(options: Options) -> Verdict:
    """So many runs of fifty steps."""
    verdict = Verdict("random", "both")
    begun = time.monotonic()
    folder = options.folder / "random"
    folder.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()

    def on_files(name: str) -> Store:
        return SqliteStore.open(str(folder / f"{name}.db"), QUICK)

    def many(store: str, open_store: Callable[[str], Store], runs: int) -> None:
        """A round at a time, so that there is an end to it, each with a seed of its own."""
        for number in range(options.rounds):
            if options.seconds is not None and time.monotonic() - begun > options.seconds:
                break
            counts[store] += walk_randomly(verdict, open_store, runs, options.seed * 1000 + number)
            for file in folder.iterdir():
                file.unlink()

    many("sqlite", on_files, RUNS)
    with databases(options) as there:
        many("postgres", _fresh(there.fresh("random")), RUNS // SLOWER)
    verdict.figures = {"runs": dict(counts), "steps": STEPS}
    verdict.seconds = time.monotonic() - begun
    return verdict


def _fresh(url: str) -> Callable[[str], Store]:
    """Opens the store; emptied when it is asked for by a name that is new."""
    from tests.servers import emptied

    last: list[str] = []

    def open_named(name: str) -> Store:
        if last[-1:] != [name]:
            last.append(name)
            emptied(url)
        return PostgresStore.open(url)

    return open_named


def walk_randomly(verdict: Verdict, open_store: Callable[[str], Store], runs: int, number: int) -> int:
    """Walk so many times; where the store and the dictionary part, the way there is a problem of the verdict. It is not made
    shorter: that may take longer than all the walking, and the same seed goes the same way. How often it was walked."""
    counts: Counter[str] = Counter()

    class Counted(store_machine(open_store)):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            counts["runs"] += 1

    chosen = settings(
        max_examples=runs, stateful_step_count=STEPS, deadline=None, database=None, derandomize=False, print_blob=False,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    try:
        run_state_machine_as_test(seed(number)(Counted), settings=chosen)
    except Exception as error:
        notes = "\n".join(getattr(error, "__notes__", []))
        verdict.errors += 1
        verdict.problems.append(f"{type(error).__name__}: {error}\n{notes}"[:4000])
    verdict.tries += counts["runs"]
    return counts["runs"]
