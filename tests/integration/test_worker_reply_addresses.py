"""No return address makes a worker lose an outcome, make a topic, or hold up other callers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
from aiokafka.admin import AIOKafkaAdminClient
from model_folders import BULKY, SLEEPY, python_model
from worker_rig import running_worker, until

from producer_sdk import Client, HeadraceError, Reply
from producer_sdk.broker import Broker, Outgoing, Record, Topic, TopicPartition
from producer_sdk.kafka import KafkaBroker, KafkaOptions
from producer_sdk.records import decode_reply_record
from producer_sdk.tensors import Tensor
from producer_sdk.topics import ReplyTo, Topics
from producer_sdk.wire import Request, encode_request

RESULT_PARTITIONS = 8
ONE = {"x": np.array([[1, 2]], np.float32)}


class Desk:
    """Sends raw requests with any return address, and reads topics."""

    def __init__(self, broker: Broker, prefix: str) -> None:
        self.topics = Topics(prefix)
        self.broker = broker
        self.admin = broker.admin()
        self.producer = broker.producer()

    async def ask(self, id: str, reply_to: ReplyTo | None, x: Sequence[float] = (1, 2), lane: str = "async") -> None:
        tensor = Tensor.from_array(np.array([x], np.float32))
        value = encode_request(Request(id, {"x": tensor}, reply_to=reply_to))
        await self.producer.publish_batch(self.topics.requests("m", lane), 0, [Outgoing(None, value)])

    async def read(
        self, topic: str, count: int, partitions: int = RESULT_PARTITIONS
    ) -> dict[str, Reply | HeadraceError]:
        """That many answers of a topic, by id."""
        places = frozenset(TopicPartition(topic, n) for n in range(partitions))
        reader = self.broker.reader(places, from_end=False)
        await reader.start()
        records: list[Record] = []
        try:
            async with asyncio.timeout(10):
                while len(records) < count:
                    for polled in (await reader.poll(100, 1.0)).values():
                        records += polled
        finally:
            await reader.stop()
        assert len(records) == count
        return {(record.key or b"").decode(): decode_reply_record(record.value) for record in records}


@asynccontextmanager
async def desk_of(broker: Broker, prefix: str) -> AsyncIterator[Desk]:
    desk = Desk(broker, prefix)
    await desk.admin.start()
    await desk.producer.start()
    try:
        yield desk
    finally:
        await desk.producer.stop()
        await desk.admin.stop()


async def test_each_address_that_cannot_be_used_is_answered_on_the_results_topic(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    addresses = {
        "missing": (ReplyTo(f"{prefix}.nobody", None), "there is no such topic"),
        "beyond": (ReplyTo(f"{prefix}.replies", 4), "it has 4 partitions"),
        "foreign": (ReplyTo("elsewhere.replies", 0), "is not allowed"),
        "own": (ReplyTo(f"{prefix}.m.async", None), "is not allowed"),
        "results": (ReplyTo(f"{prefix}.m.results", 8), "it has 8 partitions"),
    }
    async with running_worker(broker, python_model(tmp_path, "m"), prefix), desk_of(broker, prefix) as desk:
        for id, (address, _) in addresses.items():
            await desk.ask(id, address)
        answers = await desk.read(desk.topics.results("m"), len(addresses))
        made = await desk.admin.topics()
    assert {id: getattr(answer, "code", "OK") for id, answer in answers.items()} == dict.fromkeys(
        addresses, "INVALID_REQUEST"
    )
    assert all(why in str(answers[id]) for id, (_, why) in addresses.items())
    assert not {f"{prefix}.nobody", "elsewhere.replies"} & made.keys()


async def test_an_answer_without_address_goes_to_the_results_topic(broker: Broker, prefix: str, tmp_path: Path) -> None:
    async with running_worker(broker, python_model(tmp_path, "m"), prefix), desk_of(broker, prefix) as desk:
        await desk.ask("a", None)
        answers = await desk.read(desk.topics.results("m"), 1)
    answer = answers["a"]
    assert isinstance(answer, Reply)
    assert answer.outputs["y"].tolist() == [[2, 4]]


async def test_a_topic_that_takes_smaller_records_gets_an_error_for_the_large_ones_and_the_others_whole(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    out = [{"name": "y", "datatype": "UINT8", "shape": [-1]}]
    models = python_model(tmp_path, "m", BULKY, outputs=out, max_batch_size=16, max_wait_ms=200)
    async with running_worker(broker, models, prefix), desk_of(broker, prefix) as desk:
        small = ReplyTo(f"{prefix}.small", 0)
        await desk.admin.create_topics([Topic(small.topic, 1, config={"max.message.bytes": "5000"})])
        for number in range(12):
            await desk.ask(str(number), small, (9000 if number in (2, 7) else number, 0))
        answers = await desk.read(small.topic, 12, 1)
    codes = {id: answer.code for id, answer in answers.items() if isinstance(answer, HeadraceError)}
    assert codes == {"2": "PAYLOAD_TOO_LARGE", "7": "PAYLOAD_TOO_LARGE"}
    sizes = {id: answer.outputs["y"].size for id, answer in answers.items() if isinstance(answer, Reply)}
    assert sizes == {str(number): number for number in range(12) if number not in (2, 7)}


async def test_a_reply_topic_that_is_deleted_in_mid_work_holds_up_nobody(
    kafka_broker: KafkaBroker, prefix: str, tmp_path: Path
) -> None:
    broker = KafkaBroker(kafka_broker.bootstrap_servers, options=KafkaOptions(send_timeout_s=3.0))
    models = python_model(tmp_path, "m", SLEEPY)
    async with running_worker(broker, models, prefix) as worker, desk_of(broker, prefix) as desk:
        doomed = ReplyTo(f"{prefix}.doomed", 0)
        await desk.admin.create_topics([Topic(doomed.topic, 1)])
        await desk.ask("before", doomed, (0, 1))
        assert isinstance((await desk.read(doomed.topic, 1, 1))["before"], Reply)
        await desk.ask("after", doomed, (1, 1))
        await until(lambda: "1 batches on the device" in worker.loops[0].blockers())
        await delete(broker, doomed.topic)
        async with Client(broker, prefix=prefix) as client:
            assert (await client.infer("m", {"x": np.zeros((1, 2), np.float32)})).outputs["y"].tolist() == [[0, 0]]
        answer = (await desk.read(desk.topics.results("m"), 1))["after"]
        assert doomed.topic not in await desk.admin.topics()
    assert "there is no such topic" in str(answer)


async def delete(broker: KafkaBroker, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    await admin.start()
    await admin.delete_topics([topic])
    await admin.close()


async def test_an_unreadable_record_as_large_as_may_be_is_a_dead_letter_with_its_facts(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    async with running_worker(broker, python_model(tmp_path, "m"), prefix), desk_of(broker, prefix) as desk:
        topic = desk.topics.requests("m", "async")
        records = [Outgoing(b"key", b"\xc1" * 1_047_850), Outgoing(None, None, [("large", b"h" * 900_000)])]
        for record in records:
            await desk.producer.publish_batch(topic, 1, [record])
        reader = desk.broker.reader(frozenset([TopicPartition(desk.topics.dead("m"), 0)]), from_end=False)
        await reader.start()
        letters: list[Record] = []
        async with asyncio.timeout(10):
            while len(letters) < 2:
                letters += [each for polled in (await reader.poll(10, 1.0)).values() for each in polled]
        await reader.stop()
        assert await desk_answers(desk)
    cut = [dict(letter.headers).get("headrace-dead-cut-from-bytes") for letter in letters]
    assert [len(letter.value or b"") for letter in letters] == [1024, 0]
    assert cut == [b"1047850", None]
    assert [dict(letter.headers)["headrace-dead-offset"] for letter in letters] == [b"0", b"1"]


async def desk_answers(desk: Desk) -> bool:
    await desk.ask("good", None)
    return isinstance((await desk.read(desk.topics.results("m"), 1))["good"], Reply)


async def test_a_dead_letter_keeps_a_header_without_content(
    kafka_broker: KafkaBroker, prefix: str, tmp_path: Path
) -> None:
    async with running_worker(kafka_broker, python_model(tmp_path, "m"), prefix), desk_of(kafka_broker, prefix) as desk:
        headers: list[tuple[str, bytes]] = [("empty", None)]  # type: ignore[list-item]
        await desk.producer.publish_batch(desk.topics.requests("m", "bulk"), 0, [Outgoing(None, b"\xc1", headers)])
        partition = TopicPartition(desk.topics.dead("m"), 0)
        reader = kafka_broker.reader(frozenset([partition]), from_end=False)
        await reader.start()
        letter = (await reader.poll(10, 10.0))[partition][0]
        await reader.stop()
    assert ("empty", None) in letter.headers
