"""Prometheus metrics of the server.

Every application has its own registry. No label names a tenant, user, agent, key or session, and callers choose no label: routes
are templates, unknown methods and addresses are "other". Workers that share the folder of PROMETHEUS_MULTIPROC_DIR, as those of
`keepstone serve` do, answer with the sum of all of them (process metrics are left out then).
"""

from __future__ import annotations

import platform
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.process_collector import ProcessCollector

from keepstone import __version__
from keepstone.settings import provider_variable

OTHER = "other"
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
REFUSALS = {401: "unauthenticated", 403: "forbidden", 429: "rate_limited"}
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_MAX_VERBS = 200


class Metrics:
    """The metrics of one application. `store` is the kind of its store, `busy` counts the busy worker threads."""

    def __init__(self, store: str, busy: Callable[[], int] | None = None) -> None:
        self._folder = provider_variable("PROMETHEUS_MULTIPROC_DIR")
        self.registry = registry = CollectorRegistry()
        self._requests = Counter(
            "keepstone_http_requests", "Answered requests.", ("method", "route", "status"), registry=registry
        )
        self._seconds = Histogram(
            "keepstone_http_request_seconds", "Seconds to answer a request.", ("route",), buckets=BUCKETS, registry=registry
        )
        self.in_flight = Gauge(
            "keepstone_http_in_flight", "Requests in progress.", registry=registry, multiprocess_mode="livesum"
        )
        self._verbs = Counter("keepstone_verbs", "Calls of each verb.", ("verb", "outcome"), registry=registry)
        self._verb_seconds = Histogram(
            "keepstone_verb_seconds", "Seconds that a verb took.", ("verb",), buckets=BUCKETS, registry=registry
        )
        self._refusals = Counter("keepstone_refusals", "Refused requests.", ("reason",), registry=registry)
        for reason in REFUSALS.values():
            self._refusals.labels(reason)
        self._add_build_info(store, busy)
        self._route_metrics: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._verb_metrics: dict[tuple[str, str], tuple[Counter, Histogram]] = {}

    def _add_build_info(self, store: str, busy: Callable[[], int] | None) -> None:
        labels = ("version", "python", "store")
        build = Gauge("keepstone_build_info", "Versions and store.", labels, registry=self.registry, multiprocess_mode="max")
        build.labels(__version__, platform.python_version(), store).set(1)
        if self._folder is not None:
            return
        ProcessCollector(registry=self.registry)
        if busy is not None:
            threads = Gauge("keepstone_workers_busy", "Busy worker threads.", registry=self.registry)
            threads.set_function(busy)

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        if method not in METHODS:
            method = OTHER
        metrics = self._route_metrics.get((method, route, status))
        if metrics is None:
            metrics = self._requests.labels(method, route, status), self._seconds.labels(route)
            self._route_metrics[method, route, status] = metrics
        metrics[0].inc()
        metrics[1].observe(seconds)
        if status in REFUSALS:
            self._refusals.labels(REFUSALS[status]).inc()

    def count_verb(self, verb: str, status: int, seconds: float) -> None:
        """Count a call of a verb: ok, refused (4xx) or failed (5xx)."""
        outcome = "ok" if status < 400 else "refused" if status < 500 else "failed"
        metrics = self._verb_metrics.get((verb, outcome))
        if metrics is None:
            if len(self._verb_metrics) >= 3 * _MAX_VERBS:
                verb = OTHER
            metrics = self._verbs.labels(verb, outcome), self._verb_seconds.labels(verb)
            self._verb_metrics[verb, outcome] = metrics
        metrics[0].inc()
        metrics[1].observe(seconds)

    def all_workers(self) -> CollectorRegistry:
        """The metrics of this process, or of all workers if they share a folder."""
        if self._folder is None:
            return self.registry
        registry = CollectorRegistry()
        MultiProcessCollector(registry, self._folder)  # type: ignore[no-untyped-call]
        return registry

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """(the metrics in the format that the Accept header asks for, its content type)."""
        registry = self.all_workers()
        try:
            encoder, content_type = choose_encoder(accept)
        except (ValueError, TypeError):  # the library fails on a malformed header
            encoder, content_type = choose_encoder("")
        return encoder(registry), content_type
