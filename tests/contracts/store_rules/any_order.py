"""Settings of property tests in contracts."""

from hypothesis import HealthCheck, settings

# Property tests of a contract: they share one store (each example takes a fresh scope or needs none), and the same test
# runs in every class that inherits it.
ANY_ORDER = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors])
