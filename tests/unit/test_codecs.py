"""A content type chooses the codec; a plug-in is found, and its faults are those of one record alone."""

import ast
import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from codec_plug_ins import FLAT, plug_ins

from producer_sdk import Client, _protobuf_schema, codecs
from producer_sdk._messages import Codec
from producer_sdk.broker import Headers
from producer_sdk.errors import DeadlineExceeded, HeadraceError, InferenceFailed, InvalidRequest
from producer_sdk.forms import error_value, form_named, headers_of, name_of, request_value, result_value
from producer_sdk.oip_protobuf import CODEC
from producer_sdk.records import decode_record, decode_reply_record
from producer_sdk.tensors import Tensor
from producer_sdk.testing import FakeWorker, MemoryBroker
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import Form, Refused, Reply, Request, Undecodable, encode_request

INPUTS = {"x": Tensor.from_array(np.array([[1.5, -2]], np.float32))}
ASKED = Request("a", INPUTS, reply_to=ReplyTo("h.r", 3))
PROTOBUF = CODEC.encode_request(ASKED, deadline_s=None)
ROOT = Path(__file__).resolve().parents[2]

BAD = """
class Bad:
    name, content_types = "bad", ("application/x-bad",)

    def decode_request(self, *args):
        return 7 if args[0] == b"7" else {}["none"]

    decode_reply = encode_reply = encode_error = encode_request = decode_request
"""
UNNAMED = """
class Unnamed:
    name, content_types = "JSON", ("application/x-unnamed",)
"""


def typed(content_type: str) -> Headers:
    return [("content-type", content_type.encode())]


def read(value: bytes, headers: Headers) -> Request | Refused:
    return decode_record(value, headers, "fallback", 0)


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[None]:
    entries = {"bad": "bad_codec:Bad", "unnamed": "unnamed_codec:Unnamed", "gone": "no_such_module:Codec", **FLAT}
    with plug_ins(tmp_path, entries, bad_codec=BAD, unnamed_codec=UNNAMED):
        yield


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[Codec]:
    """The example of the docs, installed."""
    code = (ROOT / "docs/codecs.md").read_text().split("```python\n")[2].split("```")[0]
    with plug_ins(tmp_path, {"lines": "your_package:Lines"}, your_package=code):
        codec = form_named("lines")
        assert not isinstance(codec, Form)
        yield codec


@pytest.mark.parametrize(
    "content_type",
    [
        "application/x-protobuf",
        "Application/PROTOBUF",
        ' application/x-protobuf ; charset="utf-8"; message=inference.ModelInferRequest',
    ],
)
def test_the_content_type_chooses_the_codec_whatever_its_case_and_parameters(content_type: str) -> None:
    found = read(PROTOBUF, [("Content-Type", content_type.encode()), ("other", b"")])
    assert isinstance(found, Request)
    assert (found.form, found.id, found.reply_to) == (CODEC, "a", ReplyTo("h.r", 3))


@pytest.mark.parametrize("content_type", ["", "application/octet-stream", "application/x-msgpack", "text/plain", "a/b"])
def test_a_value_that_tells_its_form_is_read_whatever_its_type(content_type: str) -> None:
    found = read(encode_request(ASKED), typed(content_type))
    assert isinstance(found, Request)
    assert found.form is Form.MSGPACK


def test_an_unknown_type_is_named_with_those_that_are_known(installed: None) -> None:
    with pytest.raises(Undecodable) as caught:
        read(b"\x08\x01", typed("application/x-thrift"))
    for part in ("application/x-thrift", "application/x-protobuf", "application/x-flatbuffers", "plug-in gone"):
        assert part in caught.value.message
    assert caught.value.id == "fallback"


def test_a_value_of_no_known_form_without_a_type_is_told_of_the_header() -> None:
    with pytest.raises(Undecodable, match="any other form needs its header content-type"):
        read(PROTOBUF, ())


def test_another_protobuf_message_is_refused_by_name() -> None:
    with pytest.raises(Undecodable, match=r"send inference\.ModelInferRequest"):
        read(PROTOBUF, typed("application/x-protobuf; message=shop.Order"))


def test_a_record_of_a_codec_without_a_value_is_undecodable() -> None:
    with pytest.raises(Undecodable, match="no value"):
        decode_record(None, typed("application/x-protobuf"), "fallback", 0)


def test_a_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(codecs._BUILT_IN, "application/x-protobuf", "no_such_module")
    with pytest.raises(Undecodable, match=r"pip install 'headrace\[protobuf\]'"):
        read(PROTOBUF, typed("application/x-protobuf"))


def test_both_projects_name_the_plug_in_that_comes_with_headrace() -> None:
    ((name, target),) = FLAT.items()
    for file in ("pyproject.toml", "producer_sdk/pyproject.toml"):
        text = (ROOT / file).read_text()
        assert f'[project.entry-points."{codecs.GROUP}"]\n{name} = "{target}"\n' in text


def test_a_plug_in_is_one_object_however_it_is_asked_for(installed: None) -> None:
    codec = codecs.codec_of("application/x-flatbuffers; v=1")
    assert codec is codecs.codec_named("flatbuffers") is codecs.codec_named("application/flatbuffers")
    assert codec is not None
    value = codec.encode_request(ASKED, deadline_s=None)
    assert read(value, typed("application/x-flatbuffers")).form is codec


def test_a_plug_in_that_fails_spoils_one_record(installed: None, caplog: pytest.LogCaptureFixture) -> None:
    for value, reason in ((b"x", "KeyError"), (b"7", "gave int")):
        with pytest.raises(Undecodable, match=f"codec bad .*{reason}"):
            read(value, typed("application/x-bad"))
    with pytest.raises(Undecodable, match="codec bad could not read the reply"):
        decode_reply_record(b"x", typed("application/x-bad"))
    with pytest.raises(InferenceFailed, match="codec bad could not write"):
        result_value(form_named("bad"), "a", "m", "1", {}, {})
    with pytest.raises(InvalidRequest, match="codec bad could not write"):
        request_value(Request("a", {}, form_named("bad")), deadline_s=None)
    assert b"no time" in error_value(form_named("bad"), "a", "m", "1", DeadlineExceeded("no time"))
    assert codecs.codec_of("application/x-unnamed") is None


@pytest.mark.parametrize("name", ["protobuf", "flatbuffers"])
def test_every_reply_comes_back_with_its_content_type(installed: None, name: str) -> None:
    form = form_named(name)
    result = decode_reply_record(result_value(form, "a", "m", "1", INPUTS, {"batch_rows": 1}), headers_of(form))
    assert isinstance(result, Reply)
    assert (result.outputs["x"].tolist(), result.content_type) == ([[1.5, -2]], f"application/x-{name}")
    error = decode_reply_record(error_value(form, "a", "m", "1", DeadlineExceeded("too\ud800 late")), headers_of(form))
    assert isinstance(error, DeadlineExceeded)
    assert (error.id, error.message) == ("a", "too? late")


def test_an_event_may_hold_the_data_of_a_codec() -> None:
    event = [("ce_specversion", b"1.0"), ("ce_id", b"e-1"), ("ce_source", b"/s"), ("ce_type", b"t")]
    without_id = PROTOBUF.replace(b"\x1a\x01a", b"")
    found = read(without_id, [*event, *typed("application/x-protobuf"), ("ce_expirytime", b"2030-01-01T00:00:00Z")])
    assert isinstance(found, Request)
    assert (found.form, found.id, found.deadline_ms) == (CODEC, "e-1", 1_893_456_000_000)
    refused = read(PROTOBUF, [*event[1:], *typed("application/x-protobuf")])
    assert isinstance(refused, Refused)
    assert (refused.form, refused.reply_to) == (CODEC, ReplyTo("h.r", 3))


@pytest.mark.parametrize("encoding", ["protobuf", "flatbuffers"])
async def test_a_client_asks_and_is_answered_in_a_codec(installed: None, encoding: str) -> None:
    broker = MemoryBroker()
    worker = FakeWorker(broker, "m", lambda inputs: {"y": inputs["x"] * 2})
    async with worker, Client(broker, encoding=encoding) as client:
        reply = await client.infer("m", {"x": np.ones((1, 2))}, deadline_s=20.0, tenant="t")
    assert reply.outputs["y"].tolist() == [[2, 2]]
    assert (name_of(worker.received[0].form), worker.received[0].tenant) == (encoding, "t")


def test_an_encoding_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="encoding 'xml' is not known"):
        Client(MemoryBroker(), encoding="xml")


async def test_the_codec_of_the_docs_works(lines: Codec) -> None:
    broker = MemoryBroker()
    async with FakeWorker(broker, "m", lambda inputs: {"y": inputs["x"] * 2}), Client(broker, encoding="lines") as one:
        good, bad = await asyncio.gather(
            one.infer("m", {"x": [[1.5]]}, outputs=["y"]), one.infer("m", {"z": [1]}), return_exceptions=True
        )
    assert isinstance(good, Reply)
    assert good.outputs["y"].tolist() == [[3.0]]
    assert isinstance(bad, HeadraceError)
    error = decode_reply_record(lines.encode_error("a", "m", "1", DeadlineExceeded("\ud800 late")), headers_of(lines))
    assert isinstance(error, DeadlineExceeded)
    cut = lines.encode_request(ASKED, deadline_s=1.0)[:-3]
    refused = read(cut, headers_of(lines))
    assert isinstance(refused, Refused)
    assert refused.reply_to == ReplyTo("h.r", 3)


def test_who_needs_no_codec_loads_none() -> None:
    code = (
        "import sys; from producer_sdk import Client; from producer_sdk.records import decode_record\n"
        "decode_record(b'{\"inputs\": []}', [('content-type', b'application/json')], 'f', 0)\n"
        "print({'google.protobuf', 'flatbuffers', 'importlib.metadata'} & sys.modules.keys())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout == "set()\n"


async def test_a_plain_kafka_client_asks_as_the_docs_say(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (ROOT / "docs/codecs.md").read_text().split("```python\n")[1].split("```")[0]
    made = ModuleType("oip.v1_pb2")
    vars(made).update(ModelInferRequest=_protobuf_schema.ModelInferRequest,
                      ModelInferResponse=_protobuf_schema.ModelInferResponse)  # fmt: skip
    monkeypatch.setitem(sys.modules, "oip", ModuleType("oip"))
    monkeypatch.setitem(sys.modules, "oip.v1_pb2", made)
    sent: list[Request | Refused] = []

    async def send_and_wait(topic: str, value: bytes, headers: Headers) -> None:
        sent.append(read(value, headers))

    totals = {"total": Tensor.from_array(np.array([6.5], np.float32))}
    names: dict[str, Any] = {
        "np": np,
        "producer": SimpleNamespace(send_and_wait=send_and_wait),
        "record": SimpleNamespace(value=CODEC.encode_reply("a-1", "sum", "1", totals, {})),
    }
    await eval(compile(code, "docs", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    (request,) = sent
    assert isinstance(request, Request)
    assert (request.id, request.reply_to) == ("a-1", ReplyTo("my.replies", None))
    assert request.inputs["x"].to_array().tolist() == [[1, 2, 3.5]]
    assert (names["error"], names["total"].tolist()) == ("", [6.5])
