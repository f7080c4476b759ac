"""However the following of a partition ends, its Kafka consumer is closed."""

import asyncio
import gc
import warnings
from collections.abc import Awaitable, Callable

import pytest

from headrace.local_kafka import LocalKafka
from producer_sdk.directory import ModelDirectory
from producer_sdk.kafka import KafkaBroker
from producer_sdk.topics import Topics

Ending = Callable[[ModelDirectory], Awaitable[None]]


async def close(directory: ModelDirectory) -> None:
    await directory.start()
    await directory.close()


async def give_up_closing(directory: ModelDirectory) -> None:
    await directory.start()
    closing = asyncio.create_task(directory.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait({closing})


async def end_with_the_loop(directory: ModelDirectory) -> None:
    await directory.start()
    await asyncio.sleep(0.2)


async def give_up_starting(directory: ModelDirectory) -> None:
    for patience_s in (0.02, 0.04, 0.08, 0.16):
        try:
            async with asyncio.timeout(patience_s):
                await directory.start()
        except TimeoutError:
            continue
        break
    await directory.close()


@pytest.mark.parametrize("ending", [close, give_up_closing, end_with_the_loop, give_up_starting])
def test_no_consumer_is_left_open(kafka: LocalKafka, prefix: str, ending: Ending) -> None:
    async def run() -> None:
        await ending(ModelDirectory(KafkaBroker(kafka.bootstrap_servers), Topics(prefix)))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(run())
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
