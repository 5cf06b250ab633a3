"""The rows of the fault table by name. Each is a function of `Options`, found when it is run."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from bench.torture.verdict import Options, Verdict

Row = Callable[[Options], Verdict]


def _row(where: str) -> Row:
    """A row by module and function: a module is imported when its row is run, and no sooner."""

    def run(options: Options) -> Verdict:
        module, _, name = where.partition(":")
        found: Verdict = getattr(importlib.import_module(f"bench.torture.{module}"), name)(options)
        return found

    run.__name__ = where
    return run


ROWS: dict[str, Row] = {
    "kill": _row("kill:run"),
    "kill-postgres": _row("kill:postgres"),
    "upkeep": _row("upkeep:run"),
    "upkeep-postgres": _row("upkeep:postgres"),
    "power": _row("power:run"),
    "power-postgres": _row("power_postgres:run"),
    "processes": _row("processes:run"),
    "processes-postgres": _row("processes:postgres"),
    "threads": _row("threads:run"),
    "threads-postgres": _row("threads:postgres"),
    "clock": _row("clock:run"),
    "upgrade": _row("upgrade:run"),
    "disk-full": _row("disk_full:run"),
    "io-errors": _row("io_errors:run"),
    "postgres-restarts": _row("restarts:run"),
    "redis": _row("redis_faults:run"),
    "providers": _row("providers:run"),
    "damaged": _row("damaged:run"),
    "model-change": _row("model_change:run"),
    "random": _row("at_random:run"),
    "http": _row("fuzz:run"),
}
