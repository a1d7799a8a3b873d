"""Prometheus metrics: counts and times by route and status; no places, pseudonyms or addresses."""

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
"""Media type of the text format."""

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0)

_GAUGES = {
    "k": "Minimum number of devices per cell.",
    "colluders": "Number of colluding devices that the guarantee allows for.",
    "k_over_history": "Smallest number of devices that share a location over an alias's life.",
    "devices": "Number of devices signed up.",
    "waiting": "Number of devices without a location to use.",
    "pending": "Number of devices that signed up or moved since the last publication.",
    "renewed": "Number of aliases replaced by the last publication.",
    "distance": "Mean distance between devices and their locations in kilometres.",
    "published_at": "Unix time of the last publication.",
    "next_publication_at": "Unix time of the next publication.",
    "cells": "Number of cells.",
    "smallest_cell": "Number of devices in the smallest cell.",
    "generation": "Number of publications, merges and suspensions; equal numbers mean equal cells.",
    "rebuilt_at": "Unix time of the last rebuild.",
    "rebuild_seconds": "Duration of the last rebuild in seconds.",
    "rebuilding": "1 while a publication is being computed, else 0.",
    "changes": "Devices that changed since the last rebuild, once per publication.",
    "changes_until_rebuild": "Changes left until the next rebuild.",
}
_COUNTERS = {
    "publications": "Total number of publications.",
    "rebuilds": "Total number of rebuilds.",
    "merges": "Total number of cells merged because they fell below k.",
    "sign_ups": "Total number of sign-ups.",
    "moves": "Total number of moves.",
    "cancellations": "Total number of cancellations.",
}


class Metrics:
    """Request counters, and the status of the service at the time of scraping.

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
            "Total number of requests.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "microcell_locations_request_seconds",
            "Response time in seconds.",
            ("route",),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._counters: dict[tuple[str, str, int], Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        if status is not None:
            self._registry.register(_StatusCollector(status))

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Record a completed request."""
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
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)


class _StatusCollector(Collector):
    """Collector that reads the status when scraped, so that nothing has to be kept up to date."""

    def __init__(self, status: Callable[[], Status]) -> None:
        self._status = status

    def describe(self) -> Iterator[Metric]:
        """Return nothing, so that registering does not read the status."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the figures of the status, omitting those that are None."""
        status = self._status()
        for name, description in _GAUGES.items():
            value = getattr(status, name)
            if value is not None:
                yield GaugeMetricFamily(
                    f"microcell_locations_{name}", description, value=float(value)
                )
        for name, description in _COUNTERS.items():
            yield CounterMetricFamily(
                f"microcell_locations_{name}", description, value=float(getattr(status, name))
            )
        yield GaugeMetricFamily(
            "microcell_locations_publication_failed",
            "1 if the last publication failed, else 0.",
            value=float(status.last_failure is not None),
        )
        alarms = GaugeMetricFamily(
            "microcell_locations_alarm", "1 for each current alarm.", labels=("code",)
        )
        for alarm in status.alarms:
            alarms.add_metric((alarm.code,), 1.0)
        yield alarms
