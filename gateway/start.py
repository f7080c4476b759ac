"""The wait for Kafka at the start: it may come after the gateway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

from producer_sdk.broker import Broker, BrokerError, Misconfigured, NotAllowed

from .app import App
from .parts import Parts

TRY_AGAIN_S = 1.0

log = logging.getLogger("headrace.gateway")


async def open_in_time(parts: Parts, broker: Broker, opened: AsyncExitStack) -> App:
    """Open the parts, again and again until Kafka answers; `opened` closes them.

    Raises:
        Misconfigured, NotAllowed: it does not take this gateway, now or later.
        BrokerError: it did not within `start_timeout_s`; the sentence says what went wrong last.
    """
    timeout_s = parts.settings.start_timeout_s
    fault: BrokerError | None = None
    try:
        async with asyncio.timeout(timeout_s):
            with _quiet_client():
                while True:
                    try:
                        return await opened.enter_async_context(parts.open(broker))
                    except (Misconfigured, NotAllowed):
                        raise
                    except BrokerError as err:
                        if fault is None:
                            _tell(err, timeout_s)
                        fault = err
                        parts.health.starting = f"waiting for Kafka: {err.message}"
                    await asyncio.sleep(TRY_AGAIN_S)
    except TimeoutError as err:
        what = f"{broker.name} does not answer" if fault is None else fault.message
        raise BrokerError(f"{what} (tried for {timeout_s:g} s)") from fault or err


def _tell(err: BrokerError, timeout_s: float) -> None:
    log.warning(
        "The gateway waits for Kafka, at most %g s: %s.", timeout_s, err.message, extra={"action": "kafka_awaited"}
    )


@contextmanager
def _quiet_client() -> Iterator[None]:
    """Keep out what the client of Kafka logs at each attempt: one line of ours says it all."""
    client = logging.getLogger("aiokafka")
    before = client.level
    client.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        client.setLevel(before)
