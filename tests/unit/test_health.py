"""/livez and /readyz: None is yes, a sentence says why not."""

import asyncio
import time
from typing import Any

import pytest
from msgspec.structs import replace

from workers import health
from workers.health import Health, ModelHealth

READY = ModelHealth("m", ready=True, reason="", assigned=True, polled_at=None)


def model(**fields: Any) -> ModelHealth:
    return replace(READY, **fields)


def health_of(*models: ModelHealth, started: bool = True) -> Health:
    answers = Health(lambda: models, longest_poll_s=300.0)
    answers.started = started
    return answers


def test_a_worker_is_ready_when_each_model_is_loaded_and_has_its_place_in_the_group() -> None:
    assert health_of(READY, READY).ready() is None


@pytest.mark.parametrize(
    ("models", "sentence"),
    [
        ([], "the worker is starting: it waits for its models"),
        ([READY, model(ready=False)], "model m is not ready: it is loading"),
        ([model(ready=False, reason="killed by signal 9")], "model m is not ready: killed by signal 9"),
        ([model(assigned=False)], "model m waits for partitions"),
    ],
)
def test_what_is_missing_is_said(models: list[ModelHealth], sentence: str) -> None:
    assert health_of(*models).ready() == sentence


def test_a_worker_that_starts_or_stops_is_not_ready_but_lives() -> None:
    starting, stopping = health_of(READY, started=False), health_of(READY)
    stopping.stopping = True
    assert (starting.ready(), stopping.ready()) == (
        "the worker is starting: it waits for its models",
        "the worker is stopping",
    )
    assert (starting.live(), stopping.live()) == (None, None)


def test_a_worker_that_kafka_does_not_answer_is_not_ready_and_lives() -> None:
    health = health_of(READY)
    health.kafka_seen_at = lambda: time.monotonic() - 12
    assert (health.ready(), health.live()) == ("Kafka has not acknowledged anything for 12 s", None)


async def test_becoming_unready_is_logged_once_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    seen = [time.monotonic()]
    health = health_of(READY)
    health.kafka_seen_at = lambda: seen[0]
    with caplog.at_level("INFO", "headrace.worker"), pytest.MonkeyPatch.context() as patch:
        patch.setattr("workers.health.TICK_S", 0.001)
        ticking = asyncio.create_task(health.tick())
        await asyncio.sleep(0.02)
        seen[0] -= 20
        await asyncio.sleep(0.02)
        ticking.cancel()
    assert [record.message for record in caplog.records] == [
        "Ready",
        "Not ready: Kafka has not acknowledged anything for 20 s",
    ]


def test_a_model_that_is_loading_or_failed_to_load_is_no_reason_to_restart() -> None:
    assert health_of(model(ready=False, polled_at=None)).live() is None


def test_a_model_that_has_not_polled_for_too_long_is_named() -> None:
    late = health_of(READY, model(name="slow", polled_at=time.monotonic() - 301))
    assert late.live() == "model slow has not polled Kafka for 301 s"
    assert health_of(model(polled_at=time.monotonic() - 299)).live() is None


def test_a_long_drain_polls_no_more_and_is_alive() -> None:
    draining = health_of(model(polled_at=time.monotonic() - 3000))
    draining.stopping = True
    assert draining.live() is None


async def test_an_event_loop_that_stands_still_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LONGEST_TICK_S", 0.05)
    monkeypatch.setattr(health, "TICK_S", 0.01)
    answers = health_of(READY)
    ticking = asyncio.create_task(answers.tick())
    await asyncio.sleep(0.1)
    assert answers.live() is None
    time.sleep(0.1)  # noqa: ASYNC251 - the loop stands still
    assert answers.live() == "the event loop has stood still for 0 s"
    ticking.cancel()


def test_startup_readiness_and_standby_are_told_apart() -> None:
    loading, standing_by = health_of(READY, started=False), health_of(READY, model(standby=True))
    assert loading.starting() == "the worker is starting: it waits for its models"
    assert (standing_by.starting(), standing_by.ready()) == (None, None)
    assert standing_by.standby() == "other workers have all partitions of model m"
    assert health_of(READY).standby() is None


def test_a_failed_model_ends_the_start_all_the_same() -> None:
    failed = health_of(model(ready=False, reason="no such file"))
    assert failed.starting() is None
    assert failed.ready() == "model m is not ready: no such file"


def test_a_quiet_worker_is_not_ready_and_lives() -> None:
    quiet = health_of(READY)
    quiet.quiet = lambda: True
    assert "quiet" in (quiet.ready() or "")
    assert quiet.live() is None


def test_an_intake_that_stays_stuck_is_no_life() -> None:
    assert "reads or commits nothing" in (health_of(model(stuck=True, polled_at=time.monotonic())).live() or "")
