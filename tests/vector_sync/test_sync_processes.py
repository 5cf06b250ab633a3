"""Real processes write to one store and feed one index; some are killed while they do. Nothing is lost and nothing stays."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any

import pytest

from keepstone.testing.builders import AWAY, HOME
from keepstone.types import Scope
from keepstone.vector_sync.sync import IndexSync
from tests.faults.support import environment
from tests.vector_sync.exact_index import ExactIndex
from tests.vector_sync.support import in_step, opened

ROUNDS = 12
CHILD = """
import random, sys
from keepstone.errors import IndexUnavailable
from keepstone.vector_sync.sync import FedElsewhere, IndexSync
from keepstone.ports.values import Selector
from keepstone.testing.builders import AWAY, HOME, add_id, wording
from tests.vector_sync.support import opened
from tests.vector_sync.test_sync_processes import Remote, engine_at
from pathlib import Path
path, port, seed, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
chance, store, index = random.Random(seed), opened(Path(path)), Remote(engine_at(port).client())
sync, mine = IndexSync(store, index, chunk=2), {HOME: [], AWAY: []}
for turn in range(rounds):
    scope = chance.choice((HOME, AWAY))
    for n in range(4):
        mine[scope].append(add_id(store, f"{seed} {turn} {n}", scope))
    for id in chance.sample(mine[scope], 3):
        store.revise(scope, id, wording(f"{id} in {turn}"))
    store.forget(scope, Selector(id=mine[scope].pop(0)))
    for _ in range(2):
        try:
            sync.feed(scope, patience=0.5)
        except FedElsewhere:
            pass
        print("fed", flush=True)
"""


class _Manager(BaseManager):
    """Lends clients of one engine to other processes."""


class Served(ExactIndex):
    """An index whose prints can cross to another process."""

    def all_hashes(self, scope: Scope) -> list[tuple[int, str]]:
        return list(self.vector_hashes(scope))


class Remote:
    """The same index, in another process."""

    name = "exact in memory"

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def vector_hashes(self, scope: Scope) -> Iterator[tuple[int, str]]:
        return iter(self._client.all_hashes(scope))


_Manager.register("client", exposed=("open", "put", "drop", "clear", "existing", "all_hashes", "search", "close"))


def engine_at(port: int) -> Any:
    """The engine that another process serves."""
    manager = _Manager(("127.0.0.1", port), authkey=b"test")
    manager.connect()
    return manager


@pytest.fixture
def served() -> Iterator[tuple[ExactIndex, int]]:
    """(an index of this process, the port at which others get clients of its engine)."""
    index = ExactIndex()

    class Serving(BaseManager):
        pass

    def client() -> Served:
        made = Served()
        made._engine = index._engine
        return made

    Serving.register("client", client, exposed=("open", "put", "drop", "clear", "existing", "all_hashes", "search", "close"))
    server = Serving(("127.0.0.1", 0), authkey=b"test").get_server()
    threading.Thread(target=_serve, args=(server,), daemon=True).start()
    yield index, server.address[1]
    server.stop_event.set()


def _serve(server: Any) -> None:
    with contextlib.suppress(SystemExit):  # that is how it ends
        server.serve_forever()


def test_processes_that_feed_one_index_leave_it_as_the_store_says(path: Path, served: tuple[ExactIndex, int]) -> None:
    index, port = served
    store = opened(path)
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path), str(port), str(seed), str(ROUNDS)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), cwd=Path(__file__).parents[2],
        )
        for seed in range(3)
    ]  # fmt: skip
    victim = children[0]
    assert victim.stdout is not None
    for _ in range(ROUNDS):
        assert victim.stdout.readline() == "fed\n", victim.communicate()[1]
    victim.kill()
    victim.communicate(timeout=60)
    for child in children[1:]:
        out, error = child.communicate(timeout=120)
        assert (child.returncode, out.count("fed"), error) == (0, ROUNDS * 2, "")
    store.close()
    store = opened(path, ahead=100)  # the lease of the killed process has expired
    last = IndexSync(store, index)
    for scope in (HOME, AWAY):
        last.feed(scope)
        assert in_step(store, index, last, scope)
        assert not last.is_behind(scope)
    assert sum(len(index.entries(scope, last.space())) for scope in (HOME, AWAY)) >= ROUNDS * 2 * 3
    store.close()
