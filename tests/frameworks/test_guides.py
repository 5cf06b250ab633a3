"""The pages about the frameworks of this environment (conftest.py says which that is): every block of them runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import pages
from tests.docs.servers import Servers
from tests.frameworks.conftest import ASKED


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    with pages.models() as models:
        yield pages.environment_of(models)


@pytest.mark.parametrize("name", pages.FRAMEWORKS[ASKED or ""])
def test_every_block_of_a_guide_runs(name: str, tmp_path: Path, environment: dict[str, str]) -> None:
    with Servers(tmp_path / "servers") as servers:
        (tmp_path / "here").mkdir()
        pages.run_page(pages.INTEGRATIONS / f"{name}.md", tmp_path / "here", environment, servers, strict=False)
