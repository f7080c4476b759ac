"""A producer's session: a partition's queue is waited for no longer, and no shorter, than is said."""

import asyncio

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaTimeoutError

from producer_sdk._kafka_options import KafkaOptions
from producer_sdk._kafka_session import Session

PLACE = TopicPartition("t", 0)


def session(send_timeout_s: float) -> Session:
    """One that is not connected: what is queued stays until `drain` takes it out."""
    one = Session("127.0.0.1:1", KafkaOptions(send_timeout_s=send_timeout_s))
    one._accumulator._txn_manager = None
    one.producer._closed = True  # there is nothing to close, and its finalizer complains
    return one


def drain(session: Session) -> int:
    """Send what is first in the queue; how many that was."""
    if not session._accumulator._batches.get(PLACE):
        return 0
    session._accumulator._pop_batch(PLACE)
    return 1


def batch(session: Session, value: bytes) -> object:
    builder = session.producer.create_batch()
    builder.append(key=None, value=value, timestamp=None)
    builder.close()
    return builder


async def test_many_that_wait_for_one_partition_all_get_their_turn() -> None:
    one = session(send_timeout_s=20)  # all turns together take a twentieth of it
    sending = [asyncio.create_task(one.send_batch(PLACE, batch(one, b"%d" % number))) for number in range(200)]
    drained = 0
    while drained < len(sending):
        await asyncio.sleep(0.005)
        drained += drain(one)
        assert not [task for task in sending if task.done() and task.exception() is not None]
    await asyncio.gather(*sending)


async def test_a_queue_that_does_not_move_is_waited_for_no_longer_than_the_timeout() -> None:
    one = session(send_timeout_s=0.2)
    async with asyncio.timeout(15):
        await one.send_batch(PLACE, batch(one, b"first"))
        with pytest.raises(KafkaTimeoutError):
            await one.send_batch(PLACE, batch(one, b"second"))
