"""The page of /metrics: names that dashboards rely on, and no more series than there are codes."""

from prometheus_client.parser import text_string_to_metric_families

from producer_sdk.broker import Outgoing, TopicPartition
from producer_sdk.errors import Code
from producer_sdk.topics import Lane, ReplyTo
from producer_sdk.wire import Form
from workers.commit import PartitionLedger
from workers.metrics import MAX_SERIES, ModelMetrics, WorkerMetrics
from workers.work import Outcome, Source

LABELS = ("model", "lane", "outcome", "le")
SOURCE = Source(PartitionLedger(TopicPartition("p.m.async", 0)), 0)


def outcome(code: str, lane: Lane = Lane.ASYNC, arrived: float = 0.0) -> Outcome:
    return Outcome("a", code, ReplyTo("p.replies", 0), Outgoing(None, b""), SOURCE, lane, arrived, Form.MSGPACK)


def model_metrics(name: str = "m") -> ModelMetrics:
    return ModelMetrics(name, backlog=lambda: 5, lag=lambda: 70, deaths=lambda: 2)


def samples(*models: ModelMetrics) -> dict[tuple[str, tuple[str, ...]], float]:
    metrics = WorkerMetrics()
    metrics.models = list(models)
    families = text_string_to_metric_families(metrics.text().decode())
    return {
        (sample.name, tuple(sample.labels[name] for name in LABELS if name in sample.labels)): sample.value
        for family in families
        for sample in family.samples
    }


def test_requests_are_counted_by_model_lane_and_outcome() -> None:
    metrics = model_metrics()
    metrics.count([outcome("OK"), outcome("OK"), outcome(Code.CANCELLED, Lane.BULK)], 1.0)
    page = samples(metrics)
    assert page["headrace_requests_total", ("m", "async", "OK")] == 2
    assert page["headrace_requests_total", ("m", "bulk", "CANCELLED")] == 1


def test_request_times_batch_rows_and_run_times_are_histograms_by_model() -> None:
    metrics = model_metrics()
    metrics.count([outcome("OK", arrived=0.96), outcome("OK", arrived=-9.0)], 1.0)
    metrics.batch_rows.add(32)
    metrics.run_seconds.add(0.2)
    page = samples(metrics)
    assert page["headrace_request_seconds_bucket", ("m", "0.05")] == 1
    assert page["headrace_request_seconds_bucket", ("m", "+Inf")] == page["headrace_request_seconds_count", ("m",)] == 2
    assert page["headrace_request_seconds_sum", ("m",)] == 10.04
    assert [page["headrace_batch_rows_bucket", ("m", bound)] for bound in ("16.0", "32.0")] == [0, 1]
    assert page["headrace_run_seconds_sum", ("m",)] == 0.2


def test_backlog_lag_and_deaths_are_asked_for_at_the_scrape() -> None:
    page = samples(model_metrics("m"), model_metrics("n"))
    names = ("headrace_backlog_requests", "headrace_lag_records", "headrace_runner_deaths_total")
    assert [page[name, (model,)] for model in "mn" for name in names] == [5, 70, 2] * 2


def test_codes_that_model_code_makes_up_become_one_series() -> None:
    metrics = model_metrics()
    made_up = [outcome(f"MY_{number}") for number in range(1000)]
    for each in [outcome("OK"), *made_up]:
        metrics.count([each], 1.0)
    assert len(metrics.outcomes) <= MAX_SERIES
    metrics.count(made_up, 1.0)
    assert metrics.outcomes[Lane.ASYNC, "OTHER"] > 1900
    assert sum(metrics.outcomes.values()) == 2001
    assert metrics.outcomes[Lane.ASYNC, "OK"] == 1
