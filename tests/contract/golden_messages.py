"""The golden messages: bytes that every release must read as it is written down beside them."""

import json
from typing import Any, NamedTuple

import msgpack
import msgspec
import numpy as np

from producer_sdk.announcements import Announcement, ModelState, TensorAnnouncement, encode_announcement
from producer_sdk.cancels import Cancel, cancel_record
from producer_sdk.dataref import DataRef, S3Prefix
from producer_sdk.errors import DeadlineExceeded, InvalidRequest
from producer_sdk.oip import encode_json_error, encode_json_reply, encode_json_request
from producer_sdk.tensors import Datatype, Tensor
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import Form, Request, encode_error, encode_reply, encode_request

FALLBACK_ID = "headrace.m.async:0:7"
TIMESTAMP_MS = 1_700_000_000_000


class Golden(NamedTuple):
    """One message. `kind`: request, refused, undecodable, reply, error, announcement or cancel."""

    file: str
    kind: str
    shows: str
    value: bytes


ROW = Tensor.from_array(np.array([[1.5, -2.0]], "<f4"))
PIXELS = bytes(range(16))
STORED = DataRef(
    "s3://claims/headrace/m/golden-1.msgpack", "0123456789abcdef" * 4, 20_971_520, TIMESTAMP_MS + 86_400_000
)
STORE = S3Prefix("results", "nightly/")


def every_datatype() -> dict[str, Tensor]:
    """Each datatype with bits that are easily lost: extremes, NaN, -0.0, bytes that are no UTF-8."""
    tensors = {
        "bool": Tensor.from_array(np.array([True, False])),
        "fp16": Tensor.from_array(np.array([65504.0, -0.0, np.nan, np.inf], "<f2")),
        "bf16": Tensor(Datatype.BF16, (4,), b"\x80\x3f\x00\x80\xc0\x7f\x80\xff"),
        "fp32": Tensor.from_array(np.array([0.1, -0.0, np.nan, -np.inf, 7.038531e-26, 1e-45], "<f4")),
        "fp64": Tensor.from_array(np.array([0.1, -0.0, np.nan, np.inf, 5e-324])),
        "bytes": Tensor.from_array(np.array([b"", b"\xff\x00", "\u00e9".encode()], object)),
        "text": Tensor.from_array(np.array(["", 'a":{', "\u00e9\U0001f600"], object)),
        "scalar": Tensor.from_array(np.array(7, "<i4")),
        "empty": Tensor.from_array(np.zeros((2, 0, 3), "<f4")),
    }
    for name in ("UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"):
        info = np.iinfo(name.lower())
        tensors[name.lower()] = Tensor.from_array(np.array([info.min, info.max], info.dtype))
    return tensors


def _request(form: Form, **fields: Any) -> Request:
    values: dict[str, Any] = {"id": "golden-1", "inputs": {"x": ROW}, "form": form}
    return Request(**(values | fields))


def _full(form: Form) -> Request:
    return _request(
        form,
        deadline_ms=TIMESTAMP_MS + 2500 if form is Form.MSGPACK else None,
        reply_to=ReplyTo("headrace.replies", 3),
        tenant="tenant-1",
        version="2",
        parameters={"text": "\u00e9", "whole": 2**63, "real": 0.5, "flag": True},
        outputs=("y", "z"),
    )


def late() -> DeadlineExceeded:
    return DeadlineExceeded("the deadline passed while the request waited for a batch")


def _packed(*elements: Any) -> bytes:
    return bytes(msgpack.packb(elements))


def _body(**fields: Any) -> bytes:
    item = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1.5, -2.0]}
    return json.dumps(
        {"id": "golden-1", "parameters": {"reply_to": "headrace.replies:3"}, "inputs": [item]} | fields
    ).encode()


def msgpack_messages() -> list[Golden]:
    ext = msgpack.ExtType(1, b"\x0b\x02\x01\x00\x00\x00\x02\x00\x00\x00" + bytes(ROW.data))
    short = msgpack.ExtType(1, b"\x0b\x01\x03\x00\x00\x00" + bytes(8))
    to = "headrace.replies:3"
    minimal = encode_request(_request(Form.MSGPACK))
    twice = _packed(1, "golden-1", None, to, None, None, None, None) + b"\x82" + 2 * (b"\xa1x" + msgpack.packb(ext))
    outputs = {name: tensor.to_ext() for name, tensor in every_datatype().items()}
    facts = {"batch_rows": 4, "queue_ms": 2.5, "run_ms": 0.75}
    return [
        Golden("request-minimal.msgpack", "request", "an id and one input", minimal),
        Golden("request-full.msgpack", "request", "every element", encode_request(_full(Form.MSGPACK))),
        Golden("request-datatypes.msgpack", "request", "every datatype, no dimension, a dimension of 0",
               encode_request(_request(Form.MSGPACK, inputs=every_datatype()))),
        Golden("request-no-id.msgpack", "request", "an id derived from the record's place",
               _packed(1, None, None, None, None, None, None, None, {"x": ext})),
        Golden("request-by-reference.msgpack", "request", "inputs that are stored",
               encode_request(_request(Form.MSGPACK, inputs={}, reply_to=ReplyTo("headrace.replies", 3), ref=STORED))),
        Golden("request-by-bare-reference.msgpack", "request", "a reference with what is needed alone, no inputs",
               _packed(1, "golden-1", None, to, None, None, None, None, None, {"dataref": STORED.uri})),
        Golden("request-to-store.msgpack", "request", "a result that is to be stored",
               encode_request(_request(Form.MSGPACK, store=STORE))),
        Golden("request-later.msgpack", "request", "elements of a later release, to be ignored",
               _packed(1, "golden-1", None, None, None, None, {}, None, {"x": ext}, {"later": [1]}, 2)),
        Golden("refused-shape.msgpack", "refused", "fewer bytes than the shape takes",
               _packed(1, "golden-1", None, to, None, None, None, None, {"x": short})),
        Golden("refused-id.msgpack", "refused", "a bad id, answered under the derived one",
               _packed(1, "no spaces", None, to, None, None, None, None, {"x": ext})),
        Golden("refused-reply-to.msgpack", "refused", "a bad return address, answered on the results topic",
               _packed(1, "golden-1", None, "a:b:c", None, None, None, None, {"x": ext})),
        Golden("refused-twice.msgpack", "refused", "one input name twice", b"\x99" + twice[1:]),
        Golden("refused-reserved.msgpack", "refused", "a parameter with a reserved name",
               _packed(1, "golden-1", None, to, None, None, {"tenant": "t"}, None, {"x": ext})),
        Golden("refused-both.msgpack", "refused", "inputs, and a reference to stored ones",
               _packed(1, "golden-1", None, to, None, None, None, None, {"x": ext}, STORED.fields())),
        Golden("refused-reference.msgpack", "refused", "a reference that could name another object",
               _packed(1, "golden-1", None, to, None, None, None, None, {}, {"dataref": "s3://claims/../a"})),
        Golden("refused-store.msgpack", "refused", "a store that is no folder, answered on the results topic",
               _packed(1, "golden-1", None, "s3://results/nightly", None, None, None, None, {"x": ext})),
        Golden("undecodable-wire-2.msgpack", "undecodable", "a wire version that is not known",
               b"\x99\x02" + minimal[2:]),
        Golden("undecodable-trailing.msgpack", "undecodable", "a byte behind the array", minimal + b"\x00"),
        Golden("undecodable-cut.msgpack", "undecodable", "a message cut short", minimal[:-1]),
        Golden("reply-datatypes.msgpack", "reply", "a result with every datatype",
               encode_reply("golden-1", "m", "2", outputs, facts)),
        Golden("reply-pointer.msgpack", "reply", "a result that is stored",
               encode_reply("golden-1", "m", "2", {}, facts, STORED)),
        Golden("error-stored.msgpack", "error", "an error that is stored too",
               encode_error("golden-1", "m", "2", late(), STORED)),
        Golden("error-deadline.msgpack", "error", "an error", encode_error("golden-1", "m", "2", late())),
        Golden("error-later.msgpack", "error", "a code of a later release",
               _packed(1, "golden-1", "m", "2", "NOVEL", "something new", {}, {})),
    ]  # fmt: skip


def json_messages() -> list[Golden]:
    nested = [
        {"name": "x", "datatype": "INT64", "shape": [2, 2, 1], "data": [[[1], ["-9007199254740993"]], [[2], [3]]]}
    ]
    spelled = [{"name": "x", "datatype": "FP16", "shape": [3], "data": ["NaN", "-Infinity", -0.0]}]
    base64 = [
        {"name": "x", "datatype": "BYTES", "shape": [2], "parameters": {"content_type": "base64"}, "data": ["/wA=", ""]}
    ]
    one = {"name": "x", "datatype": "FP32", "shape": [], "data": 1.5}
    facts = {"batch_rows": 4, "queue_ms": 2.5, "run_ms": 0.75}
    return [
        Golden("request-minimal.json", "request", "one input, the id derived from the record's place",
               b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1.5,-2]}]}'),
        Golden("request-full.json", "request", "every field", encode_json_request(_full(Form.JSON), deadline_s=2.5)),
        Golden("request-datatypes.json", "request", "every datatype, no dimension, a dimension of 0",
               encode_json_request(_request(Form.JSON, inputs=every_datatype()), deadline_s=None)),
        Golden("request-by-reference.json", "request", "inputs that are stored",
               encode_json_request(_request(Form.JSON, inputs={}, ref=STORED), deadline_s=None)),
        Golden("request-by-bare-reference.json", "request", "a reference with what is needed alone, inputs empty",
               _body(inputs=[], dataref=STORED.uri, sha256=None)),
        Golden("request-to-store.json", "request", "a result that is to be stored",
               encode_json_request(_request(Form.JSON, store=STORE), deadline_s=None)),
        Golden("request-nested.json", "request", "nested data, a 64-bit integer as string", _body(inputs=nested)),
        Golden("request-spelled.json", "request", "numbers that JSON lacks, as strings", _body(inputs=spelled)),
        Golden("request-base64.json", "request", "bytes as base64", _body(inputs=base64)),
        Golden("request-later.json", "request", "unknown keys, a byte order mark, a bare scalar",
               b"\xef\xbb\xbf" + _body(inputs=[one], later={"id": [1]})),
        Golden("refused-count.json", "refused", "fewer elements than the shape takes",
               _body(inputs=[one | {"shape": [3], "data": [1.5]}])),
        Golden("refused-twice.json", "refused", "a key twice, once spelled with an escape",
               _body().replace(b'"id"', b'"\\u0069d": "golden-2", "id"')),
        Golden("refused-id.json", "refused", "a bad id, answered under the derived one", _body(id="no spaces")),
        Golden("refused-overflow.json", "refused", "a number that FP16 cannot hold",
               _body(inputs=[one | {"datatype": "FP16", "data": 65520}])),
        Golden("refused-deadline.json", "refused", "a deadline that is no number",
               _body(parameters={"reply_to": "headrace.replies:3", "deadline_s": "soon"})),
        Golden("refused-nan.json", "refused", "a bare NaN, which is no JSON",
               _body(inputs=[one | {"data": float("nan")}])),
        Golden("refused-both.json", "refused", "inputs, and a reference to stored ones", _body(**STORED.fields())),
        Golden("refused-reference.json", "refused", "a reference of another scheme",
               _body(inputs=None, dataref="file:///etc/passwd")),
        Golden("undecodable-array.json", "undecodable", "JSON, but no object", b" [1]"),
        Golden("undecodable-cut.json", "undecodable", "a message cut short", _body()[:-1]),
        Golden("reply-datatypes.json", "reply", "a result with every datatype",
               encode_json_reply("golden-1", "m", "2", every_datatype(), facts)),
        Golden("reply-pointer.json", "reply", "a result that is stored",
               encode_json_reply("golden-1", "m", "2", {}, facts, STORED)),
        Golden("error-stored.json", "error", "an error that is stored too",
               encode_json_error("golden-1", InvalidRequest("input 'x' is missing"), STORED)),
        Golden("error-invalid.json", "error", "an error",
               encode_json_error("golden-1", InvalidRequest("input 'x' is missing"))),
    ]  # fmt: skip


def announcements() -> list[Golden]:
    row = TensorAnnouncement("x", Datatype.FP32, (-1, 2))
    fixed = TensorAnnouncement("k", Datatype.INT64, (), batched=False)
    loading = Announcement("w-1", "m", ("1",), ModelState.LOADING, TIMESTAMP_MS, 5.0)
    ready = msgspec.structs.replace(
        loading,
        state=ModelState.READY,
        platform="onnx_onnxv1",
        inputs=(row, fixed),
        outputs=(row,),
        max_batch_size=32,
        max_record_bytes=1_048_576,
    )
    return [
        Golden("announcement-loading.json", "announcement", "a model that loads", encode_announcement(loading)),
        Golden("announcement-ready.json", "announcement", "a model that is served", encode_announcement(ready)),
    ]


def cancels() -> list[Golden]:
    written = cancel_record(Cancel("golden-1", TIMESTAMP_MS)).value or b""
    later = b'{"at_ms": %d, "why": {"later": [1]}, "id": "golden-1"}' % TIMESTAMP_MS
    return [
        Golden("cancel.json", "cancel", "the end of a request", written),
        Golden("cancel-later.json", "cancel", "keys of a later release, to be ignored", later),
    ]


def own_messages() -> list[Golden]:
    return [*msgpack_messages(), *json_messages(), *announcements(), *cancels()]
