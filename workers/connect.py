"""What a worker needs before it can load models: Kafka within reach, the topics, the optional services."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

from producer_sdk.broker import Admin, Broker, BrokerError, Misconfigured, Producer
from producer_sdk.model_topics import model_topics
from producer_sdk.payloads import Payloads
from producer_sdk.rights import Role, rights_of
from producer_sdk.setting import SettingsError
from producer_sdk.system_topics import ensure_system_topics
from producer_sdk.topics import Topics

from .artifacts import Artifacts
from .drain import Budget
from .event_log import EventLog
from .health import Health
from .redis_client import close_redis, connect_redis
from .run_times_file import cache_dir
from .runners.engine import ModelSpec
from .settings import WorkerSettings

REACH_PAUSE_S = 0.5
_log = logging.getLogger("headrace.worker")


class Clients(NamedTuple):
    """Clients that have reached Kafka."""

    producer: Producer
    admin: Admin


async def reach_kafka(
    broker: Broker, settings: WorkerSettings, health: Health, stack: AsyncExitStack, goodbyes: Budget
) -> Clients:
    """Clients that have reached Kafka, which may start later than the worker; the stack stops them.

    Raises:
        Misconfigured: it does not take this client, now or later.
        BrokerError: it is not there within `start_timeout_s`.
    """
    health.waits_for = f"Kafka at {settings.bootstrap_servers}"
    ends = time.monotonic() + settings.start_timeout_s
    said = False
    while True:
        admin, producer = broker.admin(), broker.producer()
        try:
            await admin.start()
            await producer.start()
        except BrokerError as err:
            await admin.stop()
            if isinstance(err, Misconfigured) or time.monotonic() >= ends:
                raise
            if not said:
                _log.warning("Waiting for Kafka: %s", err, extra={"action": "wait_for_kafka"})
            said = True
            await asyncio.sleep(REACH_PAUSE_S)
        else:
            health.waits_for = "its models"
            stack.push_async_callback(admin.stop)
            stack.push_async_callback(_say_goodbye, producer, goodbyes)
            return Clients(producer, admin)


async def _say_goodbye(producer: Producer, goodbyes: Budget) -> None:
    await producer.stop(goodbyes.left_s())


async def see_to_topics(admin: Admin, settings: WorkerSettings, specs: Sequence[ModelSpec]) -> None:
    """Create the topics that are missing; where that is not wanted, say which are.

    Raises:
        NotAllowed: the worker lacks rights that it will need; all of them are named.
        BrokerError: a topic is missing.
    """
    topics, copies = Topics(settings.prefix), settings.replication_factor
    wanted = [
        topic
        for spec in specs
        for topic in model_topics(topics, spec.name, partitions=settings.partitions, replication_factor=copies)
    ]
    rights = rights_of(Role.WORKER, settings.prefix, [spec.name for spec in specs], events=settings.events)
    if (refused := await admin.missing(rights)) is not None:
        raise refused
    if settings.create_topics:
        await ensure_system_topics(admin, topics, copies, settings.reply_partitions, events=settings.events)
        await admin.create_topics(wanted)
        return
    missing = {topics.control, *(topic.name for topic in wanted)} - (await admin.topics()).keys()
    if missing:
        names = ", ".join(sorted(missing))
        raise BrokerError(f"topics {names} do not exist: create them, or let the worker do it by create_topics")


def redis_for(settings: WorkerSettings, specs: Sequence[ModelSpec], stack: AsyncExitStack) -> Any:
    """A client of Redis where a model wants its replies remembered, else None; the stack closes it.

    Raises:
        SettingsError: a model wants it and no usable address is set.
    """
    wanted = [spec.name for spec in specs if spec.dedupe == "redis"]
    if not wanted:
        return None
    if settings.redis_url is None:
        raise SettingsError(f"Model {wanted[0]} has `dedupe: redis`, but redis_url is not set: set HEADRACE_REDIS_URL.")
    redis = connect_redis(settings.redis_url)
    stack.push_async_callback(close_redis, redis)
    return redis


def payloads_for(settings: WorkerSettings, specs: Sequence[ModelSpec], stack: AsyncExitStack) -> Payloads | None:
    """The payload store of the settings; the stack closes it. None where they name no bucket.

    Raises:
        SettingsError: a model's results are to go to a bucket that the settings do not name.
        Misconfigured: boto3 is not installed.
    """
    store = settings.payloads()
    for spec in specs:
        if spec.store is not None and (store is None or spec.store.bucket not in store.settings.allowed):
            raise SettingsError(
                f"Model {spec.name} has `reply_to: {spec.store}`, but s3_buckets does not name that bucket: set "
                f"HEADRACE_S3_BUCKETS={spec.store.bucket}."
            )
    if store is not None:
        stack.push_async_callback(store.close)
    return store


def artifacts_for(settings: WorkerSettings, stack: AsyncExitStack) -> Artifacts:
    """Where artifacts of models are fetched to; the stack ends it. boto3 is looked for when one has to be fetched."""
    artifacts = Artifacts(settings.model_s3(), cache_dir())
    stack.push_async_callback(artifacts.close)
    return artifacts


def event_log(settings: WorkerSettings, producer: Producer) -> EventLog | None:
    """Where events go, if they are wanted."""
    return EventLog(producer, Topics(settings.prefix).events, settings.worker_id) if settings.events else None
