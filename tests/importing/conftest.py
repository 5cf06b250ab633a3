"""Fixtures shared with the integrations."""

from tests.integrations.conftest import either  # noqa: F401
from tests.surfaces.conftest import cli  # noqa: F401
