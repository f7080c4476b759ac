"""What a worker counts. Plain numbers on the hot path; Prometheus' form is made when somebody scrapes."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from producer_sdk.errors import Code
from producer_sdk.topics import Lane

from .claims import Claims
from .lessons import Lessons
from .reception import Reception
from .reply import MOVED
from .reply_index import ReplyIndex
from .storage import Storage
from .work import OK, Batch, Outcome

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
OTHER = "OTHER"
KNOWN = frozenset((OK, OTHER, *Code))
MAX_SERIES = len(Lane) * len(KNOWN)  # model code can raise errors with codes of its own, which must not fill memory
ROWS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)


GAUGES = {
    "suspects": ("headrace_suspect_records", "Records tried apart, for a worker ended while they were in flight."),
    "postponed": ("headrace_postponed_requests", "Requests that wait in the worker for their next attempt."),
    "quarantined": ("headrace_quarantined_inputs", "Inputs that are answered with their error instead of a run."),
    "row_caps": ("headrace_row_caps", "Kinds of batches that are kept smaller, for larger ones ran out of memory."),
    "skew_s": ("headrace_clock_skew_seconds", "How far a record's timestamp lay ahead of this worker's clock, lately."),
}


COUNTERS = {
    "retries": ("headrace_retries", "Attempts put off after a failure."),
    "refused_early": ("headrace_refused_early", "Requests not run, for they could not have been answered in time."),
    "over_quota": ("headrace_over_quota", "Requests not run, for as many of their tenant waited as may."),
    "elements": ("headrace_padded_input_elements", "Elements of inputs that are padded, with what they are padded by."),
    "padding": ("headrace_padding_elements", "Those of them that are padding, which runs for nothing."),
    "fetched": ("headrace_payloads_fetched", "Stored inputs that were fetched."),
    "unfetched": ("headrace_payloads_not_fetched", "Requests whose stored inputs could not be had."),
    "stored": ("headrace_outcomes_stored", "Outcomes that were stored in S3."),
    "unstored": ("headrace_outcomes_not_stored", "Outcomes that could not be stored, and were told as an error."),
    "ooms": ("headrace_out_of_memory_runs", "Runs that failed for memory; what was in them ran again in parts."),
}

LEFT_OUT = {
    "cancels_unreadable": ("headrace_cancels_unreadable", "Records of the cancels topic that are no cancel."),
    "cancels_crowded_out": ("headrace_cancels_crowded_out", "Cancels forgotten before their hour, for too many came."),
    "events_dropped": ("headrace_events_dropped", "Events of starts and commits that were not kept."),
}


class Distribution:
    """Counts of values by upper bound: a tenth of the cost of a labelled Prometheus histogram."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts by bound, as Prometheus wants them."""
        total, buckets = 0, []
        for bound, count in zip([*self._bounds, float("inf")], self._counts, strict=True):
            total += count
            buckets.append(("+Inf" if bound == float("inf") else repr(bound), float(total)))
        return buckets

    @property
    def sum(self) -> float:
        return self._sum


class ModelMetrics:
    """What is counted for one model. One event loop writes; the admin thread reads."""

    def __init__(
        self,
        model: str,
        *,
        backlog: Callable[[], int],
        lag: Callable[[], int | None],
        deaths: Callable[[], int],
        index: ReplyIndex | None = None,
    ) -> None:
        self.model = model
        self.backlog = backlog
        self.lag = lag
        self.deaths = deaths
        self.index = index
        self.gauges: dict[str, Callable[[], float]] = {}  # by the keys of GAUGES
        self.counters: dict[str, Callable[[], float]] = {"refused_early": lambda: self.refused_early}  # of COUNTERS
        self.outcomes: Counter[tuple[Lane, str]] = Counter()
        self.seconds = Distribution(SECONDS)
        self.batch_rows = Distribution(ROWS)
        self.run_seconds = Distribution(SECONDS)
        self.batches = 0
        self.refused_early = 0

    def took(self, batch: Batch) -> None:
        """A batch starts."""
        self.batch_rows.add(batch.rows)
        self.batches += 1

    def watch(self, reception: Reception, suspects: Sized, postponed: Sized, lessons: Lessons) -> None:
        """Show how much waits apart, what the reception has seen, and what runs have taught."""
        self.counters |= {
            "retries": lambda: reception.retries,
            "over_quota": lambda: reception.over_quota,
            "elements": lambda: lessons.elements,
            "padding": lambda: lessons.padding,
            "ooms": lambda: lessons.ooms,
        }
        self.gauges = {
            "suspects": suspects.__len__,
            "postponed": postponed.__len__,
            "quarantined": lessons.quarantine.__len__,
            "row_caps": lessons.caps.__len__,
            "skew_s": lambda: reception.skew_s,
        }

    def watch_store(self, claims: Claims | None, storage: Storage | None) -> None:
        """Show what is fetched and stored, where there is a payload store."""
        if claims is not None:
            self.counters |= {"fetched": lambda: claims.fetched, "unfetched": lambda: claims.failed}
        if storage is not None:
            self.counters |= {"stored": lambda: storage.stored, "unstored": lambda: storage.failed}

    def count(self, outcomes: Sequence[Outcome], now: float) -> None:
        """Count acknowledged outcomes."""
        counts = self.outcomes
        alike = Counter([(each.lane, each.code, each.arrived) for each in outcomes])  # a haul's arrived together
        for (lane, code, arrived), times in alike.items():
            if code != MOVED:  # else it has not ended
                counts[lane, code] += times
                self.seconds.add(now - arrived, times)
        if len(counts) > MAX_SERIES:
            for lane, code in [key for key in counts if key[1] not in KNOWN]:
                counts[lane, OTHER] += counts.pop((lane, code))


def _gauges(metrics: ModelMetrics) -> Mapping[str, Callable[[], float]]:
    return metrics.gauges


def _counters(metrics: ModelMetrics) -> Mapping[str, Callable[[], float]]:
    return metrics.counters


class WorkerMetrics:
    """All models' numbers as a Prometheus collector."""

    def __init__(self) -> None:
        self.models: list[ModelMetrics] = []
        self.left_out: dict[str, Callable[[], int]] = {}  # by the keys of LEFT_OUT
        self._registry = CollectorRegistry()
        self._registry.register(self)
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)

    def text(self) -> bytes:
        """The page of /metrics."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "headrace_requests", "Requests that ended, by outcome: OK or an error code.",
            labels=["model", "lane", "outcome"],
        )  # fmt: skip
        deaths = CounterMetricFamily("headrace_runner_deaths", "Runner processes that died.", labels=["model"])
        backlog = GaugeMetricFamily("headrace_backlog_requests", "Requests that wait for a batch.", labels=["model"])
        lag = GaugeMetricFamily(
            "headrace_lag_records", "Records in the assigned partitions that are not read yet.", labels=["model"]
        )
        for each in list(self.models):
            for (lane, outcome), count in each.outcomes.copy().items():
                requests.add_metric([each.model, lane, outcome], count)
            deaths.add_metric([each.model], each.deaths())
            backlog.add_metric([each.model], each.backlog())
            if (waiting := each.lag()) is not None:
                lag.add_metric([each.model], waiting)
        yield from (requests, deaths, backlog, lag)
        yield from self._reply_indexes()
        for kind, families, of in ((GaugeMetricFamily, GAUGES, _gauges), (CounterMetricFamily, COUNTERS, _counters)):
            yield from self._by_key(kind, families, of)
        for key, (name, text) in LEFT_OUT.items():
            yield CounterMetricFamily(name, text, value=self.left_out[key]() if key in self.left_out else 0)
        yield self._histogram("headrace_request_seconds", "From a record's arrival to its acknowledged outcome.",
                              lambda each: each.seconds)  # fmt: skip
        yield self._histogram("headrace_batch_rows", "Rows in a batch.", lambda each: each.batch_rows)
        yield self._histogram("headrace_run_seconds", "Time of a batch on the device.", lambda each: each.run_seconds)

    def _by_key(
        self,
        kind: type[GaugeMetricFamily | CounterMetricFamily],
        families: Mapping[str, tuple[str, str]],
        of: Callable[[ModelMetrics], Mapping[str, Callable[[], float]]],
    ) -> Iterator[Metric]:
        for key, (name, text) in families.items():
            family = kind(name, text, labels=["model"])
            for each in list(self.models):
                if (value := of(each).get(key)) is not None:
                    family.add_metric([each.model], value())
            yield family

    def _reply_indexes(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("headrace_reply_index_up", "Whether Redis answered the last question.", labels=["model"])
        hits = CounterMetricFamily("headrace_reply_index_hits", "Requests answered without a run.", labels=["model"])
        failures = CounterMetricFamily(
            "headrace_reply_index_failures", "Questions that Redis did not answer.", labels=["model"]
        )
        for each in list(self.models):
            if each.index is not None:
                up.add_metric([each.model], each.index.up)
                hits.add_metric([each.model], each.index.hits)
                failures.add_metric([each.model], each.index.failures)
        return iter((up, hits, failures))

    def _histogram(self, name: str, text: str, of: Callable[[ModelMetrics], Distribution]) -> Metric:
        family = HistogramMetricFamily(name, text, labels=["model"])
        for each in list(self.models):
            distribution = of(each)
            family.add_metric([each.model], buckets=distribution.buckets(), sum_value=distribution.sum)
        return family
