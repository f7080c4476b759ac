"""A record that is given up is kept whole beside its error reply, and can be sent again once the fault is gone."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from broker_clients import Clients, read
from model_folders import DEADLY, POISONABLE, python_model
from worker_rig import running_worker

from headrace.dead_judge import Wishes
from headrace.dead_reader import Letter, open_letters
from headrace.dead_redrive import Choice, Redrive
from producer_sdk import Client, HeadraceError
from producer_sdk.broker import Broker, Outgoing, TopicPartition
from producer_sdk.dead_letters import original_headers
from producer_sdk.records import decode_reply_record
from producer_sdk.topics import Topics
from producer_sdk.wire import Reply


def row(*numbers: float) -> Mapping[str, object]:
    return {"x": np.array([numbers], np.float32)}


async def letters_of(broker: Broker, topics: Topics) -> list[Letter]:
    async with open_letters(broker, topics, "m") as dead:
        return [letter async for letter in dead.letters()]


async def redrive(clients: Clients, topics: Topics) -> int:
    """Publish every letter again; how many that were."""
    admin, producer = await clients.admin(), await clients.producer()
    async with open_letters(clients.broker, topics, "m") as dead:
        await dead.read_notes()
        run = Redrive(dead, producer, topics.lanes("m"), await admin.topics(), Wishes(), lambda letter, why: None)
        await run.run(Choice(lambda letter: True))
        return run.tally.published


@pytest.mark.timeout(180)
async def test_a_record_that_kills_every_runner_is_kept_with_its_attempts_and_answered_once_the_model_is_mended(
    broker: Broker, clients: Clients, prefix: str, tmp_path: Path
) -> None:
    topics = Topics(prefix)
    results = topics.results("m")
    models = python_model(tmp_path / "bad", "m", DEADLY, parameters={"log": str(tmp_path / "log")})
    async with running_worker(broker, models, prefix, attempt_limit=2), Client(broker, prefix=prefix) as client:
        await client.publish("m", row(9, 2), id="mine", reply_to=results)
        await read(await clients.reader(results, *range(8)), 1)
        (letter,) = await letters_of(broker, topics)  # answered, therefore kept already
    assert letter.facts is not None
    assert (letter.id, letter.facts.code, letter.facts.attempts) == ("mine", "RUNNER_CRASHED", 2)
    async with running_worker(broker, python_model(tmp_path / "good", "m"), prefix):
        assert await redrive(clients, topics) == 1
        records = await read(await clients.reader(results, *range(8)), 2)
    answers = [decode_reply_record(record.value) for record in sorted(records, key=lambda each: each.timestamp)]
    assert [(each.id, getattr(each, "code", "OK")) for each in answers] == [("mine", "RUNNER_CRASHED"), ("mine", "OK")]
    assert [each.outputs["y"].tolist() for each in answers if isinstance(each, Reply)] == [[[18, 4]]]


async def test_a_model_says_which_codes_leave_a_dead_letter(broker: Broker, prefix: str, tmp_path: Path) -> None:
    topics = Topics(prefix)
    codes = ["INFERENCE_FAILED", "INVALID_REQUEST"]
    models = python_model(tmp_path, "m", POISONABLE, dead_letter_codes=codes)
    async with running_worker(broker, models, prefix), Client(broker, prefix=prefix) as client:
        for inputs in (row(666, 1), row(1, 2, 3)):
            with pytest.raises(HeadraceError):
                await client.infer("m", inputs, deadline_s=15)
        await client.infer("m", row(1, 2), deadline_s=15)
        letters = await letters_of(broker, topics)
    assert [each.facts.code for each in letters if each.facts] == codes


async def test_a_letter_has_the_key_bytes_and_headers_of_its_record(
    broker: Broker, clients: Clients, prefix: str, tmp_path: Path
) -> None:
    topics = Topics(prefix)
    body = b'{"id": "a", "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [666, 1.50]}]}'
    headers = [("a", b"b"), ("a", b"\xff"), ("headrace-dead-code", b"forged")]
    async with running_worker(broker, python_model(tmp_path, "m", POISONABLE, dead_letter_codes=["INFERENCE_FAILED"]),
                              prefix):  # fmt: skip
        producer = await clients.producer()
        await producer.publish_batch(topics.requests("m", "bulk"), 1, [Outgoing(b"key", body, headers)])
        reader = await clients.reader(topics.dead("m"))
        (record,) = await read(reader, 1)
    assert (record.key, record.value, original_headers(record.headers)) == (b"key", body, headers[:2])
    facts = Letter(record).facts
    assert facts is not None
    assert (TopicPartition(facts.topic, facts.partition), facts.offset) == ((topics.requests("m", "bulk"), 1), 0)
    assert (facts.code, facts.attempts, facts.group) == ("INFERENCE_FAILED", 1, topics.group("m"))
