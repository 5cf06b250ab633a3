"""Every object that a page of the reference documents exists."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

FOLDER = Path(__file__).parent.parent.parent / "docs" / "reference"


def test_reference_directives_name_objects_of_the_package() -> None:
    names = [
        (page.name, name)
        for page in FOLDER.glob("*.md")
        for name in re.findall(r"^<!-- ::: (keepstone\S*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(names) > 40
    for page, name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute), f"docs/reference/{page} documents {name}, which is not there"
