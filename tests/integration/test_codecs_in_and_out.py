"""A request in a codec is answered in that codec: a result, an error, after a retry, by a bucket; or is kept whole."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from broker_clients import Clients, read
from codec_plug_ins import FLAT, plug_ins
from model_folders import python_model
from s3 import S3Server
from worker_rig import running_worker, until

from producer_sdk import Client
from producer_sdk.broker import Broker, Headers, Outgoing, Record
from producer_sdk.errors import Code, HeadraceError, InvalidRequest
from producer_sdk.forms import form_named, headers_of
from producer_sdk.payloads import Payloads, S3Settings
from producer_sdk.records import decode_reply_record
from producer_sdk.tensors import Tensor
from producer_sdk.wire import Codec, Form, Reply, Request

# Doubles; fails the first run of a row whose first number is 7, for a while, and each whose first is 9.
FAILING = """
class Away(Exception):
    code = "MODEL_NOT_READY"
    retry_after_s = 0.3

class Model:
    def load(self, context):
        self.failed = set()

    def predict(self, inputs):
        return [self.answer(row) for row in inputs["x"]]

    def answer(self, row):
        if row[0] == 9:
            raise ValueError("cannot digest 9")
        if row[0] == 7 and row[1] not in self.failed:
            self.failed.add(row[1])
            return Away("it is away")
        return {"y": row * 2}
"""


@pytest.fixture(params=["protobuf", "flatbuffers"])
def codec(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Codec]:
    with plug_ins(tmp_path / "installed", FLAT):
        form = form_named(request.param)
        assert not isinstance(form, Form)
        yield form


def asked(codec: Codec, id: str, *row: float, headers: Headers = (), **fields: Any) -> Outgoing:
    inputs = {"x": Tensor.from_array(np.array([row], np.float32))}
    value = codec.encode_request(Request(id, inputs, **fields), deadline_s=20.0)
    return Outgoing(b"k", value, [*headers_of(codec), *headers])


async def answers(clients: Clients, models: Path, sent: Sequence[Outgoing], topic: str = "results") -> list[Record]:
    async with running_worker(clients.broker, models, clients.prefix, partitions=1):
        producer = await clients.producer()
        await producer.publish_batch(f"{clients.prefix}.m.async", 0, sent)
        return await read(await clients.reader(f"{clients.prefix}.m.{topic}"), len(sent))


def told(records: Sequence[Record]) -> dict[str, Reply | HeadraceError]:
    found = [decode_reply_record(record.value, record.headers) for record in records]
    return {str(each.id): each for each in found}


async def test_results_errors_and_retries_come_in_the_codec(clients: Clients, tmp_path: Path, codec: Codec) -> None:
    models = python_model(tmp_path / "models", "m", FAILING, retry={"in_place_s": 0})
    sent = [
        asked(codec, "good", 1, 2),
        asked(codec, "retried", 7, 1),
        asked(codec, "no-version", 1, 2, version="5"),
        asked(codec, "misfit", 1, 2, 3),
        asked(codec, "", 3, 4),
    ]
    records = await answers(clients, models, sent)
    assert {tuple(record.headers) for record in records} == {tuple(headers_of(codec))}
    found = told(records)
    derived = f"{clients.prefix}.m.async:0:4"
    outputs = {id: each.outputs["y"].tolist() for id, each in found.items() if isinstance(each, Reply)}
    assert outputs == {"good": [[2, 4]], "retried": [[14, 2]], derived: [[6, 8]]}
    errors = {id: each.code for id, each in found.items() if isinstance(each, HeadraceError)}
    assert errors == {"no-version": Code.UNKNOWN_MODEL, "misfit": Code.INVALID_REQUEST}


async def test_what_cannot_be_read_is_a_dead_letter_with_its_bytes_and_headers(
    clients: Clients, tmp_path: Path, codec: Codec
) -> None:
    models = python_model(tmp_path / "models", "m")
    other = Outgoing(b"k", b"\x08\x96\x01", [("content-type", b"application/x-thrift")])
    sent = [Outgoing(b"k", b"\xff\xff\xff\xff", headers_of(codec)), other]
    letters = await answers(clients, models, sent, "dead")
    assert [letter.value for letter in letters] == [each.value for each in sent]
    messages = []
    for letter, each in zip(letters, sent, strict=True):
        facts = dict(letter.headers)
        assert facts["content-type"] == dict(each.headers)["content-type"]
        messages.append((facts["headrace-dead-message"] or b"").decode())
    assert "'application/x-thrift' is not known here" in messages[1]
    assert codec.content_types[0] in messages[1]


async def test_an_event_with_the_data_of_a_codec_is_answered_by_one(
    clients: Clients, tmp_path: Path, codec: Codec
) -> None:
    event: Headers = [("ce_specversion", b"1.0"), ("ce_id", b"e-1"), ("ce_source", b"/s"), ("ce_type", b"t")]
    sent = [
        asked(codec, "", 1, 2, headers=event),
        asked(codec, "late", 1, 2, headers=[*event, ("ce_expirytime", b"no")]),
    ]
    records = await answers(clients, python_model(tmp_path / "models", "m"), sent)
    found = told(records)
    assert isinstance(found["e-1"], Reply)
    assert isinstance(found["late"], InvalidRequest)
    kinds = {(record.key or b"").decode(): dict(record.headers) for record in records}
    assert (kinds["e-1"]["ce_type"], kinds["late"]["ce_type"]) == (b"headrace.reply.v1", b"headrace.error.v1")
    assert {each["content-type"] for each in kinds.values()} == {codec.content_types[0].encode()}


async def test_large_inputs_and_results_of_a_client_go_by_the_bucket_in_the_codec(
    broker: Broker, prefix: str, tmp_path: Path, s3: S3Server, codec: Codec
) -> None:
    bucket = s3.new_bucket()
    wide = [{"name": name, "datatype": "FP32", "shape": [-1]} for name in "xy"]
    models = python_model(tmp_path / "models", "m", inputs=wide[:1], outputs=wide[1:])
    store = Payloads(S3Settings(s3.url, frozenset([bucket]), bucket))
    row = np.arange(500_000, dtype=np.float32).reshape(1, -1)
    async with (
        running_worker(broker, models, prefix, s3_endpoint_url=s3.url, s3_claim_bucket=bucket),
        Client(broker, prefix=prefix, s3=store, encoding=codec.name) as client,
    ):
        reply = await client.infer("m", {"x": row}, deadline_s=30)
        await client.publish("m", {"x": row[:, :2]}, reply_to=f"s3://{bucket}/out/", id="a-1")
        await until(lambda: f"out/a-1.{codec.name}" in s3.keys(bucket))
    await store.close()
    np.testing.assert_array_equal(reply.outputs["y"], row * 2)
    whole = codec.decode_reply(s3.data(bucket, f"out/a-1.{codec.name}"))
    assert isinstance(whole, Reply)
    assert whole.outputs["y"].tolist() == [[0, 2]]
