"""Fixtures of the command-line tests."""

from tests.surfaces.conftest import cli, full, source  # noqa: F401
