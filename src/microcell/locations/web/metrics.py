"""What Prometheus may know: counts and times, by route and status; never a place, a pseudonym or a client."""

from collections.abc import Callable, Iterator

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from microcell.locations.records import Status

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""Of the text format."""

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0)

_GAUGES = {
    "k": "Least number of devices in a cell.",
    "devices": "Devices that are signed up.",
    "waiting": "Devices that have no location to use yet.",
    "cells": "Cells.",
    "least_size": "Size of the smallest cell.",
    "generation": "Rebuilds and merges of cells so far; the same number means the same cells.",
    "rebuilt": "Time of the last rebuild, in seconds since 1970.",
    "rebuild_seconds": "Seconds that the last rebuild took.",
    "rebuilding": "Whether cells are being rebuilt.",
    "changes": "Sign-ups, moves and cancellations since the last rebuild.",
    "changes_until_rebuild": "Changes that are left until cells are rebuilt.",
}
_COUNTERS = {
    "rebuilds": "Rebuilds of all cells.",
    "merges": "Cells merged because they had fallen under k.",
    "sign_ups": "Devices signed up.",
    "moves": "Devices moved.",
    "cancellations": "Devices cancelled.",
}


class Metrics:
    """Requests as they are counted, and the status of the service as it is when asked.

    Routes are templates such as ``/devices/{pseudonym}/location``.

    Examples
    --------
    >>> metrics = Metrics(None)
    >>> metrics.count("GET", "/health", 200, 0.001)
    >>> 'requests_total{method="GET",route="/health",status="200"} 1.0' in metrics.text().decode()
    True
    """

    def __init__(self, status: Callable[[], Status] | None) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "microcell_locations_requests",
            "Requests.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "microcell_locations_request_seconds",
            "Seconds until a request was answered.",
            ("route",),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._counters: dict[tuple[str, str, int], Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        if status is not None:
            self._registry.register(_StatusCollector(status))

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        key = (method, route, status)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._requests.labels(method, route, str(status))
        histogram = self._histograms.get(route)
        if histogram is None:
            histogram = self._histograms[route] = self._seconds.labels(route)
        counter.inc()
        histogram.observe(seconds)

    def text(self) -> bytes:
        """All of it, in the text format of Prometheus."""
        return generate_latest(self._registry)


class _StatusCollector(Collector):
    """Reads the status when it is asked, so that nothing has to be kept up to date."""

    def __init__(self, status: Callable[[], Status]) -> None:
        self._status = status

    def describe(self) -> Iterator[Metric]:
        """Nothing: asking for the status when registering is not wanted."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The figures of the status; those that are not known are left out."""
        found = self._status()
        for name, text in _GAUGES.items():
            value = getattr(found, name)
            if value is not None:
                yield GaugeMetricFamily(f"microcell_locations_{name}", text, value=float(value))
        for name, text in _COUNTERS.items():
            yield CounterMetricFamily(
                f"microcell_locations_{name}", text, value=float(getattr(found, name))
            )
        yield GaugeMetricFamily(
            "microcell_locations_rebuild_failed",
            "Whether the last rebuild failed.",
            value=float(found.last_failure is not None),
        )
