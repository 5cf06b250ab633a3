"""kill -9 in the middle of upkeep: a job is done, or not begun, record by record, and running it again completes it.

What each job must never leave behind stands with it in bench/torture/upkeep_jobs.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.torture.targets import Databases, Files
from bench.torture.upkeep import ForkServer, JobKills, fork_server
from bench.torture.upkeep_jobs import JOBS
from keepstone.maintenance.upkeep import Upkeep
from tests.server_processes import PostgresServer

KILLS = 10  # of each job
FEWER = {"lapse": 3, "undo": 3, "verify": 3, "export": 3, "backup": 3, "import": 3, "move": 5}
SERVER = ("cap", "forget")  # putting aside and erasing; `bench torture --rows upkeep-postgres` has them all
ELSEWHERE = {
    "archived": "it reads", "doctor": "it reads", "health": "it reads",
    "restore": "a verb of test_kill.py", "archive": "as cap does", "schedule": "it runs `run`",
    "repair_index": "test_index_faults.py", "rebuild_index": "test_index_faults.py",
}  # fmt: skip


@pytest.fixture(scope="module")
def children() -> Iterator[ForkServer]:
    with fork_server() as started:
        yield started


@pytest.mark.parametrize("job", JOBS)
def test_a_job_that_is_killed_is_done_or_not_begun(job: str, tmp_path: Path, children: ForkServer) -> None:
    times = FEWER.get(job, KILLS)
    trial = JobKills(JOBS[job], Files(tmp_path), tmp_path, seed=1)
    trial.kills(children, times)
    assert trial.problems == []
    assert trial.killed == times
    assert sum(trial.left.values()) == times


@pytest.mark.parametrize("job", SERVER)
def test_a_job_that_is_killed_on_a_server(
    job: str, tmp_path: Path, children: ForkServer, postgres_server: PostgresServer
) -> None:
    place = Databases(postgres_server.url)
    trial = JobKills(JOBS[job], place, tmp_path, seed=2)
    trial.kills(children, 2)
    place.close()
    assert trial.problems == []
    assert trial.killed == 2


def test_every_job_of_upkeep_is_killed() -> None:
    jobs = {name for name in dir(Upkeep) if not name.startswith("_")}
    assert jobs - set(JOBS) == set(ELSEWHERE)
