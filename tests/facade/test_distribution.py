"""Install hints name what this copy of keepstone was installed from."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest

from keepstone.distribution import FORMER_NAME, NAME, export_format, install_command


class Distribution:
    """A distribution whose installer recorded where it came from (PEP 610), or nothing."""

    def __init__(self, origin: object) -> None:
        self._origin = origin

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self._origin is None else json.dumps(self._origin)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    return folder


@pytest.mark.parametrize(("editable", "option"), [(True, "-e "), (False, "")])
def test_a_copy_from_a_checkout_names_the_checkout(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, editable: bool, option: str
) -> None:
    origin = {"url": checkout.as_uri(), "dir_info": {"editable": editable}}
    monkeypatch.setattr(metadata, "distribution", lambda name: Distribution(origin))
    assert install_command("redis") == f"pip install {option}'{checkout}[redis]'"


@pytest.mark.parametrize("origin", [None, {"url": "https://example.com/keepstone.whl"}, {"url": "file:///nowhere/keepstone"}])
def test_a_copy_from_an_index_names_the_package(monkeypatch: pytest.MonkeyPatch, origin: object) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda name: Distribution(origin))
    assert install_command("redis") == "pip install 'keepstone[redis]'"
    assert install_command(upgrade=True) == "pip install -U 'keepstone'"


def test_a_source_tree_that_is_not_installed_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert install_command("server").startswith("pip install -e '/")


def test_an_export_is_known_under_both_names_of_the_project() -> None:
    assert (export_format({NAME: 1}), export_format({FORMER_NAME: 1}), export_format({"other": 1})) == (1, 1, None)
