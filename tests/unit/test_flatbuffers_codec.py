"""FlatBuffers are read as views, every offset checked: no bytes crash, or read what is not theirs."""

import random
import struct
from typing import Any

import flatbuffers
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer_sdk._flat_view import Broken, Table, root
from producer_sdk.dataref import DataRef
from producer_sdk.errors import DeadlineExceeded, HeadraceError, InferenceFailed, InvalidRequest
from producer_sdk.flatbuffers_codec import REPLY, REQUEST, FlatBuffers
from producer_sdk.tensors import Tensor
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import Refused, Reply, Request, Undecodable

NOW_MS = 1_700_000_000_000
CODEC = FlatBuffers()
X = np.arange(6, dtype=np.float32).reshape(2, 3)
INPUTS = {
    "x": Tensor.from_array(X),
    "t": Tensor.from_array(np.array([b"", b"\xff\x00"], object)),
    "scalar": Tensor.from_array(np.array(7, "<u2")),
    "empty": Tensor.from_array(np.zeros((2, 0, 3))),
}
FULL = Request(
    "a-1",
    INPUTS,
    reply_to=ReplyTo("h.r", 3),
    tenant="t",
    version="7",
    parameters={"whole": -(2**63), "large": 2**64 - 1, "real": 0.0, "text": "\u00e9", "flag": False, "none": 0},
    outputs=("y", "z"),
)
REF = DataRef("s3://claims/x", "0" * 64, 0, 99)
WRITTEN = CODEC.encode_request(FULL, deadline_s=2.5)


def refusal(value: bytes) -> str:
    found = CODEC.decode_request(value, "fallback", NOW_MS)
    assert isinstance(found, Refused)
    assert (type(found.error), found.reply_to) == (InvalidRequest, ReplyTo("h.r", 3))
    return found.error.message


def replaced(old: bytes, new: bytes) -> bytes:
    assert WRITTEN.count(old) == 1
    return WRITTEN.replace(old, new)


def test_a_request_comes_back_as_it_was_written() -> None:
    found = CODEC.decode_request(WRITTEN, "fallback", NOW_MS)
    assert isinstance(found, Request)
    for field in ("id", "inputs", "reply_to", "tenant", "version", "parameters", "outputs", "ref", "store"):
        assert getattr(found, field) == getattr(FULL, field), field
    assert found.deadline_ms == NOW_MS + 2500


def test_tensors_are_views_of_the_record() -> None:
    found = CODEC.decode_request(WRITTEN, "fallback", NOW_MS)
    assert isinstance(found, Request)
    data = found.inputs["x"].data
    assert isinstance(data, memoryview)
    assert data.obj is WRITTEN
    assert np.shares_memory(found.inputs["x"].to_array(), np.frombuffer(WRITTEN, np.uint8))


def test_a_request_may_refer_to_stored_inputs() -> None:
    value = CODEC.encode_request(Request("a", {}, ref=REF), deadline_s=None)
    found = CODEC.decode_request(value, "fallback", NOW_MS)
    assert isinstance(found, Request)
    assert (found.ref, found.inputs, found.outputs) == (REF, {}, None)


def test_a_pointer_and_a_stored_error_say_where_the_reply_lies() -> None:
    pointer = CODEC.decode_reply(CODEC.encode_reply("a", "m", "1", {}, {"batch_rows": 2, "run_ms": 0.5}, REF))
    assert isinstance(pointer, Reply)
    assert (pointer.ref, pointer.parameters, pointer.outputs) == (REF, {"batch_rows": 2, "run_ms": 0.5}, {})
    error = CODEC.decode_reply(CODEC.encode_error("a", "m", "1", DeadlineExceeded("late"), REF))
    assert isinstance(error, DeadlineExceeded)
    assert (error.ref, error.message, error.id) == (REF, "late", "a")


def test_a_reply_that_cannot_be_written_fails_its_request_alone() -> None:
    for name, parameters in (("y", {"k": [1]}), ("y", {"k": 2**64}), ("\ud800", {})):
        with pytest.raises(InferenceFailed, match="cannot be written"):
            CODEC.encode_reply("a", "m", "1", {name: Tensor.from_array(X)}, parameters)


def test_faults_behind_the_return_address_are_told_to_it() -> None:
    assert "takes 36 bytes, not 24" in refusal(replaced(struct.pack("<3I", 2, 2, 3), struct.pack("<3I", 2, 3, 3)))
    assert "not UTF-8" in refusal(replaced(struct.pack("<I", 1) + b"z", struct.pack("<I", 1) + b"\xff"))
    assert "tenant' is there twice" in refusal(replaced(b"version\0", b"tenant\0\0").replace(
        struct.pack("<I", 7) + b"tenant", struct.pack("<I", 6) + b"tenant"))  # fmt: skip


@pytest.mark.parametrize(
    "value", [b"", b"HRQ1", WRITTEN[:12], WRITTEN[8:], b"\xff" * 64, WRITTEN.replace(REQUEST, REPLY)]
)
def test_what_is_no_such_buffer_is_undecodable(value: bytes) -> None:
    with pytest.raises(Undecodable, match="FlatBuffer is not valid"):
        CODEC.decode_request(value, "fallback", NOW_MS)


def buffer(write: Any) -> Table:
    builder = flatbuffers.Builder(64)
    builder.Finish(write(builder), file_identifier=REQUEST)
    return root(bytes(builder.Output()), REQUEST)


def vector_of_offsets(claimed: int) -> Table:
    """A table whose one vector of tables claims so many, and has one that leads far away."""

    def write(builder: Any) -> int:
        builder.StartVector(4, 1, 4)
        builder.PrependUint32(0x7FFFFFF0)
        vector = builder.EndVector()
        builder.StartObject(1)
        builder.PrependUOffsetTRelativeSlot(0, vector, 0)
        return int(builder.EndObject())

    table = buffer(write)
    place = bytes(table._bytes).index(struct.pack("<II", 1, 0x7FFFFFF0))
    changed = bytearray(table._bytes)
    changed[place : place + 4] = struct.pack("<I", claimed)
    return root(bytes(changed), REQUEST)


@pytest.mark.parametrize(
    ("claimed", "reason"), [(1, "outside"), (64, "outside"), (65, "at most 64"), (2**32 - 1, "64")]
)
def test_vectors_are_followed_within_the_buffer_and_the_limits_only(claimed: int, reason: str) -> None:
    with pytest.raises(Broken, match=reason):
        list(vector_of_offsets(claimed).tables(0, 64))
    with pytest.raises(Broken, match=r"outside|UTF-8|at most"):
        vector_of_offsets(claimed).texts(0, 64)


def test_strings_that_overlap_are_read_no_further_than_the_buffer_is_long() -> None:
    def write(builder: Any) -> int:
        text = builder.CreateString("x" * 1000)
        builder.StartVector(4, 64, 4)
        for _ in range(64):
            builder.PrependUOffsetTRelative(text)
        texts = builder.EndVector()
        builder.StartObject(1)
        builder.PrependUOffsetTRelativeSlot(0, texts, 0)
        return int(builder.EndObject())

    with pytest.raises(Broken, match="overlap"):
        buffer(write).texts(0, 64)


def test_every_offset_that_points_elsewhere_is_seen() -> None:
    """Each aligned word of a good buffer in turn holds what hostile ones hold; what is read lies within the buffer."""
    for place in range(0, len(WRITTEN) - 4, 2):
        for word in (0, 1, 3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(WRITTEN), len(WRITTEN) - place):
            value = bytearray(WRITTEN)
            value[place : place + 4] = struct.pack("<I", word)
            tried(bytes(value))


def tried(value: bytes) -> None:
    for decode in (lambda: CODEC.decode_request(value, "fallback", NOW_MS), lambda: CODEC.decode_reply(value)):
        try:
            found = decode()
        except Undecodable:
            continue
        assert isinstance(found, Request | Refused | Reply | HeadraceError)
        if isinstance(found, Request):
            assert sum(len(tensor.data) for tensor in found.inputs.values()) <= 64 * len(value)


@given(st.binary(max_size=200), st.sampled_from([REQUEST, REPLY]), st.integers(4, 60))
def test_no_bytes_do_harm(value: bytes, identifier: bytes, start: int) -> None:
    tried(value)
    tried(struct.pack("<I", start) + identifier + value)


def test_no_mutation_does_harm() -> None:
    rng = random.Random(7)
    whole = [WRITTEN, CODEC.encode_reply("a", "m", "1", INPUTS, {"k": 1, "s": "x"}, REF)]
    for _ in range(5000):
        value = bytearray(rng.choice(whole))
        for _ in range(rng.randint(1, 4)):
            value[rng.randrange(len(value))] = rng.randrange(256)
        tried(bytes(value[: rng.randint(1, len(value))] if rng.random() < 0.3 else value))
