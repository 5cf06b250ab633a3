"""Fixtures for the whole suite, the Hypothesis profile and the folder for temporary files.

Hypothesis tries the same 50 examples in every run; HYPOTHESIS_PROFILE=explore tries 300 new ones.

Temporary stores are in memory (/dev/shm) where 4 GB are free. --basetemp or PYTEST_DEBUG_TEMPROOT names another folder.
The suite has a folder of its own: every pytest closes the folder that all runs of one user share to other users, and a
Postgres that runs as another user could then not write. Tests start pytest, too.
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
from tests.security.plugin import pytest_runtest_makereport  # noqa: F401  (a hook)
from tests.servers import postgres_server, postgres_url, redis_server  # noqa: F401  (fixtures)

settings.register_profile("same", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("explore", deadline=None, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

SHARED_MEMORY = Path("/dev/shm")
MIN_FREE_BYTES = 4 << 30  # a whole run needs two gigabytes
TEMP_ROOT_VARIABLE = "PYTEST_DEBUG_TEMPROOT"


@pytest.hookimpl(trylast=True)  # after pytest has made its factory of folders
def pytest_configure(config: pytest.Config) -> None:
    if TEMP_ROOT_VARIABLE in os.environ:
        return
    if has_shared_memory():
        tempfile.tempdir = str(SHARED_MEMORY)
    root = Path(tempfile.gettempdir()) / f"ks{os.getuid()}"  # short: messages cut long paths; one for each user
    root.mkdir(exist_ok=True)
    os.environ[TEMP_ROOT_VARIABLE] = str(root)
    base: Path = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    del os.environ[TEMP_ROOT_VARIABLE]  # processes that tests start choose their own
    for folder in (root, *(parent for parent in base.parents if root in parent.parents)):
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) | stat.S_IXOTH)


def has_shared_memory() -> bool:
    if not os.access(SHARED_MEMORY, os.W_OK):
        return False
    return shutil.disk_usage(SHARED_MEMORY).free > MIN_FREE_BYTES and not os.statvfs(SHARED_MEMORY).f_flag & os.ST_NOEXEC


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A path for a new store."""
    return tmp_path / "memory.db"


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    """An open memory on a new store."""
    with Memory.open(path) as opened:
        yield opened
