"""Fixtures of the tests of the scope index."""

from __future__ import annotations

from tests.scope_index.large import growing_scope as growing_scope
