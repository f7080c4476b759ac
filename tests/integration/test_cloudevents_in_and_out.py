"""A producer and a consumer of the public `cloudevents` package talk to a worker unchanged, in both modes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from broker_clients import Clients, read
from cloudevents.core.bindings.kafka import KafkaMessage, from_binary, to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from model_folders import python_model
from worker_rig import running_worker

from producer_sdk.broker import Broker, Outgoing, Record
from producer_sdk.records import decode_reply_record
from producer_sdk.tensors import Tensor
from producer_sdk.wire import Reply, Request, encode_request

FORMAT = JSONFormat()
BODY: dict[str, Any] = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.5, -2]}]}
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def event(id: str, data: Any = BODY, **attributes: str) -> CloudEvent:
    return CloudEvent({"id": id, "source": "/shop", "type": "shop.order", **attributes}, data)


def outgoing(message: KafkaMessage) -> Outgoing:
    """What any Kafka client makes of a message of the package."""
    key = message.key.encode() if isinstance(message.key, str) else message.key
    return Outgoing(key, message.value, list(message.headers.items()))


def consumed(record: Record) -> Any:
    return from_binary(KafkaMessage(dict(record.headers), record.key, record.value or b""), FORMAT)


async def answers(
    clients: Clients, models: Path, sent: Sequence[Outgoing], topic: str = "m.results"
) -> dict[str, Record]:
    """The records of the replies to requests that were published alike, by key."""
    async with running_worker(clients.broker, models, clients.prefix, partitions=1):
        producer = await clients.producer()
        await producer.publish_batch(f"{clients.prefix}.m.async", 0, sent)
        found = await read(await clients.reader(f"{clients.prefix}.{topic}"), len(sent))
    return {(record.key or b"").decode(): record for record in found}


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return python_model(tmp_path, "m")


async def test_events_in_both_modes_are_answered_by_events(clients: Clients, models: Path) -> None:
    envelope = Request("", {"x": Tensor.from_array(np.array([[1.5, -2]], np.float32))})
    packed = encode_request(envelope).replace(b"\xa0", b"\xc0", 1)
    sent = [
        to_binary(event("b-json", datacontenttype="application/json", partitionkey="k", traceparent=TRACE), FORMAT),
        to_binary(event("b-text", json.dumps(BODY)), FORMAT),
        to_binary(event("b-pack", packed, datacontenttype="application/msgpack"), FORMAT),
        to_structured(event("s-json", traceparent=TRACE), FORMAT),
        to_structured(event("s-bytes", json.dumps(BODY).encode()), FORMAT),
        to_structured(event("s-pack", packed, datacontenttype="application/vnd.msgpack"), FORMAT),
    ]
    found = await answers(clients, models, [outgoing(message) for message in sent])
    replies = {id: consumed(record) for id, record in found.items()}
    assert replies.keys() == {"b-json", "b-text", "b-pack", "s-json", "s-bytes", "s-pack"}
    for id, reply in replies.items():
        assert (reply.get_type(), reply.get_source()) == ("headrace.reply.v1", f"/{clients.prefix}/m")
        assert (reply.get_id(), reply.get_extension("causationid")) == (f"/shop#{id}", id)
        assert reply.get_time() is not None
        if id.endswith("pack"):
            assert reply.get_datacontenttype() == "application/vnd.msgpack"
            assert msgpack.unpackb(reply.get_data())[1] == id
        else:
            assert reply.get_data()["outputs"][0]["data"] == [3.0, -4.0]
    traced = {id for id, reply in replies.items() if reply.get_extension("traceparent") == TRACE}
    assert traced == {"b-json", "s-json"}


async def test_events_that_cannot_be_followed_are_answered_by_error_events(clients: Clients, models: Path) -> None:
    lacking = to_binary(event("lacking"), FORMAT)
    without_type = Outgoing(None, lacking.value, [pair for pair in lacking.headers.items() if pair[0] != "ce_type"])
    sent = [
        without_type,
        outgoing(to_binary(event("plain", datacontenttype="text/plain"), FORMAT)),
        outgoing(to_structured(event("late", expirytime="2020-01-01T00:00:00Z"), FORMAT)),
        outgoing(to_structured(event("empty", None), FORMAT)),
    ]
    found = await answers(clients, models, sent)
    told = {id: consumed(record) for id, record in found.items()}
    assert {id: each.get_data()["code"] for id, each in told.items()} == {
        "lacking": "INVALID_REQUEST",
        "plain": "INVALID_REQUEST",
        "late": "DEADLINE_EXCEEDED",
        "empty": "INVALID_REQUEST",
    }
    assert {each.get_type() for each in told.values()} == {"headrace.error.v1"}
    assert "type missing" in told["lacking"].get_data()["error"]


async def test_a_batch_of_events_is_a_dead_letter_with_its_headers(clients: Clients, models: Path) -> None:
    batch = b"[" + to_structured(event("a"), FORMAT).value + b"]"
    sent = Outgoing(b"k", batch, [("content-type", b"application/cloudevents-batch+json")])
    letter = (await answers(clients, models, [sent], "m.dead"))["k"]
    facts = dict(letter.headers)
    assert facts["content-type"] == b"application/cloudevents-batch+json"
    assert b"no batch mode" in facts["headrace-dead-message"]
    assert letter.value == batch


async def test_a_model_with_the_profile_answers_everybody_by_events_which_our_own_readers_take(
    broker: Broker, clients: Clients, tmp_path: Path
) -> None:
    models = python_model(tmp_path, "m", profile="cloudevents")
    sent = [Outgoing(None, json.dumps({"id": id, **BODY}).encode()) for id in ("r-1", "r-2")]
    found = await answers(clients, models, sent)
    assert [consumed(found[id]).get_id() for id in ("r-1", "r-2")] == ["r-1", "r-2"]
    assert isinstance(decode_reply_record(found["r-1"].value), Reply)


async def test_the_example_of_the_docs_is_answered(clients: Clients, models: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/cloudevents.md").read_text()
    example: dict[str, Any] = {}
    exec(page.split("```python\n")[1].split("```")[0], example)
    questions = [example["question"](id, rows) for id, rows in (("q-1", [[1, 2], [3, 4]]), ("q-2", [[1]]))]
    sent = [Outgoing(*example["record"](question)) for question in questions]
    found = await answers(clients, models, sent)
    told = dict(example["answer"](each.key, each.value, each.headers) for each in found.values())
    assert told["q-1"] == {"y": [2.0, 4.0, 6.0, 8.0]}
    assert told["q-2"][0] == "INVALID_REQUEST"
