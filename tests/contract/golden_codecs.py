"""The golden messages of the codecs: protobuf and FlatBuffers, each with the same content."""

from typing import Any

from golden_messages import FALLBACK_ID, ROW, STORE, STORED, TIMESTAMP_MS, Golden, every_datatype, late, own_messages

from producer_sdk._protobuf_schema import ModelInferRequest
from producer_sdk.errors import HeadraceError
from producer_sdk.flatbuffers_codec import FlatBuffers
from producer_sdk.oip_protobuf import CODEC
from producer_sdk.records import decode_record, decode_reply_record
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import Codec, Refused, Reply, Request

CODECS: dict[str, Codec] = {"protobuf": CODEC, "flatbuffers": FlatBuffers()}
TO = ReplyTo("headrace.replies", 3)
FULL = Request(
    "golden-1",
    {"x": ROW},
    reply_to=TO,
    tenant="tenant-1",
    version="2",
    parameters={"text": "\u00e9", "whole": 2**63, "real": 0.5, "flag": True},
    outputs=("y", "z"),
)


def codec_of(file: str) -> Codec | None:
    """The codec that the message is in. Not looked up as a plug-in, which needs an install."""
    return CODECS.get(file.rpartition(".")[2])


def read_request(golden: Golden) -> Request | Refused:
    codec = codec_of(golden.file)
    if codec is None:
        return decode_record(golden.value, (), FALLBACK_ID, TIMESTAMP_MS)
    return codec.decode_request(golden.value, FALLBACK_ID, TIMESTAMP_MS)


def read_reply(golden: Golden) -> Reply | HeadraceError:
    codec = codec_of(golden.file)
    return decode_reply_record(golden.value) if codec is None else codec.decode_reply(golden.value)


def all_messages() -> list[Golden]:
    return [*own_messages(), *_of("protobuf"), *_protobuf(), *_of("flatbuffers")]


def _of(name: str) -> list[Golden]:
    codec = CODECS[name]

    def encode(request: Request, deadline_s: float | None = None) -> bytes:
        return codec.encode_request(request, deadline_s=deadline_s)

    facts: dict[str, Any] = {"batch_rows": 4, "queue_ms": 2.5, "run_ms": 0.75}
    minimal = encode(Request("golden-1", {"x": ROW}))
    golden = [
        ("request-minimal", "request", "an id and one input", minimal),
        ("request-full", "request", "every field", encode(FULL, 2.5)),
        ("request-datatypes", "request", "every datatype, no dimension, a dimension of 0",
         encode(Request("golden-1", every_datatype()))),
        ("request-by-reference", "request", "inputs that are stored",
         encode(Request("golden-1", {}, reply_to=TO, ref=STORED))),
        ("request-to-store", "request", "a result that is to be stored",
         encode(Request("golden-1", {"x": ROW}, store=STORE))),
        ("refused-id", "refused", "a bad id, answered under the derived one",
         encode(Request("no spaces", {"x": ROW}, reply_to=TO))),
        ("refused-both", "refused", "inputs, and a reference to stored ones",
         encode(Request("golden-1", {"x": ROW}, reply_to=TO, ref=STORED))),
        ("undecodable-cut", "undecodable", "a message cut short", minimal[:-1] if name == "protobuf" else minimal[:40]),
        ("reply-datatypes", "reply", "a result with every datatype",
         codec.encode_reply("golden-1", "m", "2", every_datatype(), facts)),
        ("reply-pointer", "reply", "a result that is stored",
         codec.encode_reply("golden-1", "m", "2", {}, facts, STORED)),
        ("error-deadline", "error", "an error", codec.encode_error("golden-1", "m", "2", late())),
        ("error-stored", "error", "an error that is stored too",
         codec.encode_error("golden-1", "m", "2", late(), STORED)),
    ]  # fmt: skip
    return [Golden(f"{file}.{name}", kind, shows, value) for file, kind, shows, value in golden]


def _protobuf() -> list[Golden]:
    typed = ModelInferRequest(id="golden-1", model_name="m", model_version="2")
    item = typed.inputs.add(name="x", datatype="FP32", shape=[1, 2])
    item.contents.fp32_contents.extend([1.5, -2.0])
    typed.inputs.add(name="t", datatype="BYTES", shape=[2]).contents.bytes_contents.extend([b"", b"\xff\x00"])
    both = ModelInferRequest.FromString(typed.SerializeToString())
    both.raw_input_contents.extend([bytes(8), bytes(4)])
    return [
        Golden("request-typed.protobuf", "request", "typed contents in place of raw ones", typed.SerializeToString()),
        Golden("refused-contents.protobuf", "refused", "raw contents beside typed ones", both.SerializeToString()),
    ]
