"""Counters of the gateway. Label values are bounded: names that are no model count as `unknown`."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

OK = "OK"
UNKNOWN_MODEL = "unknown"
NO_MODEL = ""

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class GatewayMetrics:
    """Counted by the event loop, read by the admin thread.

    Args:
        inflight: number of HTTP requests being answered, read at each scrape.
    """

    def __init__(self, inflight: Callable[[], float]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "headrace_gateway_requests_total",
            "HTTP requests answered",
            ["model", "surface", "code"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "headrace_gateway_request_seconds",
            "Time from the head of an HTTP request to its answer",
            ["model", "surface"],
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        gauge = Gauge("headrace_gateway_inflight", "HTTP requests being answered", registry=self._registry)
        gauge.set_function(inflight)
        self._children: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}

    def count(self, model: str, surface: str, code: str, seconds: float) -> None:
        """Count one answered request."""
        key = (model, surface, code)
        children = self._children.get(key)
        if children is None:
            # labels() costs more than the counting itself: it is done once for each combination.
            children = self._requests.labels(*key), self._seconds.labels(model, surface)
            self._children[key] = children
        children[0].inc()
        children[1].observe(seconds)

    def text(self) -> bytes:
        """Everything, as Prometheus text."""
        return generate_latest(self._registry)
