"""What many tests share: a path for a store, and a memory on it.

Hypothesis tries the same examples in every run, so that a run says something about the change and not about its luck;
HYPOTHESIS_PROFILE=explore looks for new ones.

Stores of tests stand in memory where there is room for them, so that nobody waits for a disk; --basetemp or
PYTEST_DEBUG_TEMPROOT names another place. Processes are killed there as on a disk, and a full one is made by who tests it.

The place is this suite's own. Every pytest that starts closes the folder that all of one user share to others; a Postgres, which
runs as another user where the tests run as root, would end at its next checkpoint. Tests start pytest, too.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from keepstone import Memory
from tests.security.plugin import pytest_runtest_makereport  # noqa: F401  (a hook: no key and no planted value in any output)
from tests.servers import postgres_server, postgres_url, redis_server  # noqa: F401  (fixtures)

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

QUICK = Path("/dev/shm")
ROOM = 4 << 30  # bytes; a whole run needs two
PLACE = "PYTEST_DEBUG_TEMPROOT"


@pytest.hookimpl(trylast=True)  # when pytest has made what gives out folders
def pytest_configure(config: pytest.Config) -> None:
    if PLACE in os.environ:
        return
    there = QUICK.is_dir() and shutil.disk_usage(QUICK).free > ROOM and not os.statvfs(QUICK).f_flag & os.ST_NOEXEC
    if there:
        tempfile.tempdir = str(QUICK)
    own = Path(tempfile.gettempdir()) / "rtests"  # short: messages cut long paths
    own.mkdir(exist_ok=True)
    os.environ[PLACE] = str(own)
    made: Path = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    del os.environ[PLACE]  # not for those that tests start
    for folder in (own, *(each for each in made.parents if own in each.parents)):  # another run of this suite may be using it
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) | stat.S_IXOTH)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store may be."""
    return tmp_path / "memory.db"


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    """An open memory on a new store."""
    with Memory.open(path) as opened:
        yield opened
