"""Contracts of adapters, run by our own, and what our own stores keep beyond them."""

import pytest

pytest.register_assert_rewrite("tests.contracts.store_rules")
