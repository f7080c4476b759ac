"""The text that one Kafka client commits beside an offset is read by the other as it was written, to the character."""

import pytest
from broker_clients import Clients, Owner

from producer_sdk.broker import Committed, TopicPartition
from producer_sdk.kafka import KafkaBroker
from producer_sdk.rdkafka import RdKafkaBroker

pytestmark = pytest.mark.kafka
Kind = type[KafkaBroker] | type[RdKafkaBroker]
LENGTHS = [0, 1, 8, 100, 4000, 4092]  # the last is the longest that a worker writes


@pytest.mark.parametrize(
    ("writer", "reader"),
    [(KafkaBroker, RdKafkaBroker), (RdKafkaBroker, KafkaBroker)],
    ids=["from aiokafka", "from librdkafka"],
)
async def test_the_next_owner_and_who_asks_get_the_text_exactly(
    kafka_broker: KafkaBroker, prefix: str, writer: Kind, reader: Kind
) -> None:
    servers, wrote, reads = kafka_broker.bootstrap_servers, Owner(), Owner()
    async with Clients(writer(servers), prefix) as before, Clients(reader(servers), prefix) as after:
        topic = await before.topic(len(LENGTHS))
        texts = {TopicPartition(topic, n): Committed(n, "x" * length) for n, length in enumerate(LENGTHS)}
        member = await before.member(topic, wrote)
        await wrote.until_it_owns(len(LENGTHS))
        await member.commit(texts)
        await member.stop()
        assert await (await after.admin()).committed(after.group) == texts
        await after.member(topic, reads)
        await reads.until_it_owns(len(LENGTHS))
        assert reads.starts == texts
