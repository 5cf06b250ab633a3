"""The names of the distribution, and how this copy of it was installed.

Every hint that names an install command takes it from here, so it works as printed: from a checkout it names the checkout, from
a package index it names the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

NAME = "keepstone"
FORMER_NAME = bytes.fromhex("7265636f6c6c656374").decode()  # the project's name in files written by 0.1


def export_format(document: Mapping[str, object]) -> object:
    """The format number of an export, whichever name of the project it was written under; None where there is none."""
    return document.get(NAME, document.get(FORMER_NAME))


def install_command(extra: str = "", *, upgrade: bool = False) -> str:
    """The shell command that installs keepstone with an extra, or upgrades it."""
    source, editable = _source()
    requirement = f"{source}[{extra}]" if extra else source
    options = ("-U " if upgrade else "") + ("-e " if editable else "")
    return f"pip install {options}'{requirement}'"


def _source() -> tuple[str, bool]:
    """What pip was given, and whether the install is editable (PEP 610)."""
    import json
    from importlib import metadata
    from urllib.parse import unquote, urlsplit

    try:
        recorded = metadata.distribution(NAME).read_text("direct_url.json")
    except metadata.PackageNotFoundError:  # run from a source tree
        root = Path(__file__).resolve().parents[2]
        return (str(root), True) if (root / "pyproject.toml").is_file() else (NAME, False)
    origin = json.loads(recorded) if recorded else {}
    url = urlsplit(origin.get("url", ""))
    folder = unquote(url.path)
    if url.scheme != "file" or not Path(folder, "pyproject.toml").is_file():
        return NAME, False
    return folder, bool(origin.get("dir_info", {}).get("editable"))
