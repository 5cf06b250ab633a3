"""What the server counts, for Prometheus.

Every application has a registry of its own. No label names a tenant, a user, an agent, a key or a session, and none takes a value
that a caller can choose: routes are templates, odd methods and addresses are "other". A worker process counts its own requests;
with several behind one port, name a folder that is empty when they start in PROMETHEUS_MULTIPROC_DIR, before they start, and
each answers with the sum of all (without the figures of the process, which have no sum).
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
_MOST_VERBS = 200


class Metrics:
    """The figures of one application. `store` is the kind of its store, `busy` tells how many worker threads are at work."""

    def __init__(self, store: str, busy: Callable[[], int] | None = None) -> None:
        self._folder = provider_variable("PROMETHEUS_MULTIPROC_DIR")
        self.registry = own = CollectorRegistry()
        self._requests = Counter(
            "keepstone_http_requests", "Requests that were answered.", ("method", "route", "status"), registry=own
        )
        self._seconds = Histogram(
            "keepstone_http_request_seconds", "Seconds until a request was answered.", ("route",), buckets=BUCKETS, registry=own
        )
        self.in_flight = Gauge(
            "keepstone_http_in_flight", "Requests that are being answered.", registry=own, multiprocess_mode="livesum"
        )
        self._verbs = Counter("keepstone_verbs", "Verbs that were asked for.", ("verb", "outcome"), registry=own)
        self._verb_seconds = Histogram(
            "keepstone_verb_seconds", "Seconds that a verb took.", ("verb",), buckets=BUCKETS, registry=own
        )
        self._refusals = Counter("keepstone_refusals", "Requests that were not let in.", ("reason",), registry=own)
        for reason in REFUSALS.values():
            self._refusals.labels(reason)
        self._about(store, busy)
        self._known: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._spoken: dict[tuple[str, str], tuple[Counter, Histogram]] = {}

    def _about(self, store: str, busy: Callable[[], int] | None) -> None:
        labels = ("version", "python", "store")
        build = Gauge("keepstone_build_info", "What is running.", labels, registry=self.registry, multiprocess_mode="max")
        build.labels(__version__, platform.python_version(), store).set(1)
        if self._folder is not None:
            return
        ProcessCollector(registry=self.registry)
        if busy is not None:
            threads = Gauge("keepstone_workers_busy", "Worker threads that are at work.", registry=self.registry)
            threads.set_function(busy)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        if method not in METHODS:
            method = OTHER
        known = self._known.get((method, route, status))
        if known is None:
            known = self._requests.labels(method, route, status), self._seconds.labels(route)
            self._known[method, route, status] = known
        known[0].inc()
        known[1].observe(seconds)
        if status in REFUSALS:
            self._refusals.labels(REFUSALS[status]).inc()

    def verb(self, verb: str, status: int, seconds: float) -> None:
        """Count a verb: it went well, was refused (4xx) or failed (5xx)."""
        outcome = "ok" if status < 400 else "refused" if status < 500 else "failed"
        known = self._spoken.get((verb, outcome))
        if known is None:
            if len(self._spoken) >= 3 * _MOST_VERBS:
                verb = OTHER
            known = self._verbs.labels(verb, outcome), self._verb_seconds.labels(verb)
            self._spoken[verb, outcome] = known
        known[0].inc()
        known[1].observe(seconds)

    def shown(self, accept: str = "") -> tuple[bytes, str]:
        """(everything in the format that is asked for, its content type)."""
        registry = self.registry
        if self._folder is not None:
            registry = CollectorRegistry()
            MultiProcessCollector(registry, self._folder)  # type: ignore[no-untyped-call]
        try:
            encoder, content_type = choose_encoder(accept)
        except (ValueError, TypeError):  # the library reads a header that is none less patiently than it should
            encoder, content_type = choose_encoder("")
        return encoder(registry), content_type
