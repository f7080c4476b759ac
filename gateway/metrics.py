"""Counters of the gateway. Label values are bounded: names that are no model count as `unknown`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Gauge, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

OK = "OK"
UNKNOWN_MODEL = "unknown"
NO_MODEL = ""

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class _Tally:
    """What came to one combination of labels. Plain numbers: a lock for each count costs more than the counting."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.counts = [0] * (len(_BUCKETS_S) + 1)  # by the bucket that each falls into


class GatewayMetrics(Collector):
    """Counted by the event loop, read by the admin thread.

    Args:
        inflight: number of HTTP requests being answered, read at each scrape.
    """

    def __init__(self, inflight: Callable[[], float]) -> None:
        self._registry = CollectorRegistry()
        self._tallies: dict[tuple[str, str, str], _Tally] = {}
        gauge = Gauge("headrace_gateway_inflight", "HTTP requests being answered", registry=self._registry)
        gauge.set_function(inflight)
        self._registry.register(self)

    def count(self, model: str, surface: str, code: str, seconds: float) -> None:
        """Count one answered request."""
        tally = self._tallies.get((model, surface, code))
        if tally is None:
            tally = self._tallies[model, surface, code] = _Tally()
        tally.seconds += seconds
        tally.counts[bisect_left(_BUCKETS_S, seconds)] += 1

    def collect(self) -> Iterator[Metric]:
        """What was counted, for the registry."""
        requests = CounterMetricFamily(
            "headrace_gateway_requests", "HTTP requests answered", labels=["model", "surface", "code"]
        )
        sums: dict[tuple[str, str], _Tally] = {}
        for (model, surface, code), tally in list(self._tallies.items()):
            requests.add_metric([model, surface, code], sum(tally.counts))
            both = sums.setdefault((model, surface), _Tally())
            both.seconds += tally.seconds
            both.counts = [one + other for one, other in zip(both.counts, tally.counts, strict=True)]
        seconds = HistogramMetricFamily(
            "headrace_gateway_request_seconds",
            "Time from the head of an HTTP request to its answer",
            labels=["model", "surface"],
        )
        bounds = [*map(str, _BUCKETS_S), "+Inf"]
        for labels, tally in sums.items():
            seconds.add_metric(labels, list(zip(bounds, accumulate(tally.counts), strict=True)), tally.seconds)
        yield requests
        yield seconds

    def text(self) -> bytes:
        """Everything, as Prometheus text."""
        return generate_latest(self._registry)
