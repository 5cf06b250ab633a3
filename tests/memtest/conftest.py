"""Fixtures shared with the integrations."""

from tests.integrations.conftest import either  # noqa: F401
