"""What a producer was acknowledged is there, unchanged and in order; what cannot be is refused by name."""

import asyncio

import pytest
from broker_clients import Clients, read

from producer_sdk._kafka_producer import KafkaProducer
from producer_sdk.broker import AtOnce, BrokerError, Outgoing, Placed
from producer_sdk.errors import PayloadTooLarge


async def test_an_acknowledged_record_is_read_back_bit_for_bit(clients: Clients) -> None:
    topic, producer = await clients.topic(), await clients.producer()
    sent = Outgoing(b"\x00key", bytes(range(256)), (("traceparent", b"00-ab"), ("empty", b"")), 1_700_000_000_123)
    placed = await (await producer.publish(topic, sent, 0))
    record = (await read(await clients.reader(topic), 1))[0]
    assert placed == Placed(topic, 0, 0)
    assert (record.topic, record.partition, record.offset) == placed
    assert (record.key, record.value, tuple(record.headers), record.timestamp) == sent


async def test_a_record_without_a_value_is_a_tombstone(clients: Clients) -> None:
    topic, producer = await clients.topic(), await clients.producer()
    await (await producer.publish(topic, Outgoing(b"key", None)))
    record = (await read(await clients.reader(topic), 1))[0]
    assert (record.key, record.value) == (b"key", None)


async def test_a_record_of_nothing_is_a_mistake_of_the_program(clients: Clients) -> None:
    topic, producer = await clients.topic(), await clients.producer()
    with pytest.raises(ValueError, match="key or a value"):
        await producer.publish(topic, Outgoing(None, None))


async def test_a_batch_keeps_its_order_and_says_where_it_begins(clients: Clients) -> None:
    topic, producer = await clients.topic(2), await clients.producer()
    values = [b"%d" % number for number in range(100)]
    first = await producer.publish_batch(topic, 1, [Outgoing(None, value) for value in values])
    second = await producer.publish_batch(topic, 1, [Outgoing(None, b"last", (("a", b"b"),))])
    records = await read(await clients.reader(topic, 1), 101)
    assert (first, second) == (0, 100)
    assert [record.value for record in records] == [*values, b"last"]


async def test_what_is_handed_over_at_once_is_acknowledged_with_its_batch(clients: Clients) -> None:
    topic, producer = await clients.topic(2), await clients.producer()
    assert isinstance(producer, AtOnce) is isinstance(producer, KafkaProducer)
    if not isinstance(producer, AtOnce):
        return  # with others each record waits for its own acknowledgement
    await (await producer.publish(topic, Outgoing(None, b"first"), 1))
    acknowledged = [producer.publish_now(topic, Outgoing(None, b"%d" % number), 1) for number in range(3)]
    assert acknowledged[0] is not None
    assert acknowledged == [acknowledged[0]] * 3
    assert (await acknowledged[0]).offset == 1
    records = await read(await clients.reader(topic, 1), 4)
    assert [record.value for record in records] == [b"first", b"0", b"1", b"2"]
    with pytest.raises(PayloadTooLarge, match="at most 1048000 "):
        producer.publish_now(topic, Outgoing(None, bytes(1_048_000)), 1)
    assert producer.publish_now(topic, Outgoing(None, b"x"), 2) is None


async def test_a_batch_larger_than_a_request_keeps_its_order(clients: Clients) -> None:
    topic, producer = await clients.topic(), await clients.producer()
    values = [bytes([number]) * 400_000 for number in range(8)]
    assert await producer.publish_batch(topic, 0, [Outgoing(None, value) for value in values]) == 0
    records = await read(await clients.reader(topic), 8)
    assert [(record.offset, record.value) for record in records] == list(enumerate(values))


async def test_keyless_records_spread_evenly_and_keyed_ones_stay_together(clients: Clients) -> None:
    topic, producer = await clients.topic(4), await clients.producer()
    keyless = [await (await producer.publish(topic, Outgoing(None, b"x"))) for _ in range(8)]
    keyed = [await (await producer.publish(topic, Outgoing(b"21", b"x"))) for _ in range(3)]
    assert sorted(placed.partition for placed in keyless) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert {placed.partition for placed in keyed} == {-973932308 % (1 << 31) % 4}  # Kafka's own hash of "21"


async def test_a_record_above_the_limit_is_refused_naming_both_sizes(clients: Clients) -> None:
    topic, producer = await clients.topic(), await clients.producer()
    for publishing in (
        producer.publish(topic, Outgoing(None, bytes(1_048_000))),
        producer.publish_batch(topic, 0, [Outgoing(None, b"small"), Outgoing(None, bytes(1_048_000))]),
    ):
        with pytest.raises(PayloadTooLarge, match=r"10480\d\d bytes: at most 1048000 "):
            await publishing


async def test_a_record_above_the_limit_of_its_topic_fails_nothing_after_it(clients: Clients) -> None:
    topic, producer = await clients.topic(max_message_bytes="1000"), await clients.producer()
    with pytest.raises(PayloadTooLarge, match="bytes"):
        await (await producer.publish(topic, Outgoing(None, bytes(2000)), 0))
    with pytest.raises(PayloadTooLarge, match="bytes"):
        await producer.publish_batch(topic, 0, [Outgoing(None, bytes(2000))])
    await (await producer.publish(topic, Outgoing(None, b"small"), 0))
    assert [record.value for record in await read(await clients.reader(topic), 1)] == [b"small"]


async def test_batches_are_refused_for_their_own_size_whatever_is_sent_beside_them(clients: Clients) -> None:
    topic, producer = await clients.topic(max_message_bytes="1000"), await clients.producer()

    async def publish(nbytes: int) -> type[Exception] | None:
        try:
            await producer.publish_batch(topic, 0, [Outgoing(None, bytes(nbytes))])
        except BrokerError:  # behind one that was refused
            return await publish(nbytes)
        except PayloadTooLarge as err:
            return type(err)
        return None

    sizes = [2000 if number % 4 == 0 else 300 for number in range(16)]
    refusals = await asyncio.gather(*map(publish, sizes))
    assert [refusal is None for refusal in refusals] == [size < 1000 for size in sizes]


async def test_an_unknown_topic_is_refused_by_name_and_not_created(clients: Clients) -> None:
    producer, admin = await clients.producer(), await clients.admin()
    unknown = f"{clients.prefix}.unknown"
    for publishing in (
        producer.publish(unknown, Outgoing(None, b"x")),
        producer.publish_batch(unknown, 0, [Outgoing(None, b"x")]),
    ):
        with pytest.raises(BrokerError, match=f"{unknown}.* does not exist"):
            await publishing
    await asyncio.sleep(0.2)
    assert unknown not in await admin.topics()


async def test_an_unknown_partition_is_refused(clients: Clients) -> None:
    topic, producer = await clients.topic(2), await clients.producer()
    with pytest.raises(BrokerError, match="has no partition 2: it has 2"):
        await producer.publish(topic, Outgoing(None, b"x"), 2)
    with pytest.raises(BrokerError, match="has no partition 2: it has 2"):
        await producer.publish_batch(topic, 2, [Outgoing(None, b"x")])


async def test_a_topic_made_after_the_start_of_the_producer_is_found(clients: Clients) -> None:
    producer = await clients.producer()
    topic = await clients.topic()
    assert (await (await producer.publish(topic, Outgoing(None, b"x")))).offset == 0


async def test_stopping_sends_what_was_handed_over_and_refuses_the_rest(clients: Clients) -> None:
    topic, producer = await clients.topic(), await clients.producer()
    acknowledgements = [await producer.publish(topic, Outgoing(None, b"x")) for _ in range(50)]
    await producer.stop()
    assert [(await acknowledgement).offset for acknowledgement in acknowledgements] == list(range(50))
    with pytest.raises(BrokerError):
        await producer.publish(topic, Outgoing(None, b"x"))
