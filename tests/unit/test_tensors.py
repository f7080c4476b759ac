"""Tensors keep every bit, whatever the array's memory looks like, in both forms of the wire."""

import builtins
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from producer_sdk.errors import InvalidRequest
from producer_sdk.oip import decode_json_reply, decode_json_request, encode_json_reply, encode_json_request
from producer_sdk.tensors import (
    MAX_DIMENSIONS,
    TENSOR_EXT,
    Array,
    Datatype,
    Tensor,
    check_size,
    datatype_of,
    numpy_dtype,
    pack_bytes,
    read_tensor,
    tensor_ext,
    unpack_bytes,
)
from producer_sdk.wire import Reply, Request, decode_reply, decode_request, encode_reply, encode_request

BITS = np.random.default_rng(7)
SPECIAL = [0.0, -0.0, 1.0, -1.5, float("inf"), float("-inf"), float("nan"), 1e-7, 3.0e4]


def sample(datatype: Datatype) -> Array:
    """A 3 x 4 x 5 array with extremes, special numbers, and texts that are no UTF-8."""
    if datatype is Datatype.BYTES:
        elements = [b"", b"\xff\x00", "\u00e9\U0001f600".encode(), b"trailing\x00", b'"\\{:']
        array = np.empty(60, dtype=object)
        array[:] = [elements[place % 5] + b"%d" % place if place > 4 else elements[place] for place in range(60)]
        return array.reshape(3, 4, 5)
    dtype = numpy_dtype(datatype)
    if datatype is Datatype.BOOL:
        return BITS.integers(0, 2, 60).astype(bool).reshape(3, 4, 5)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = BITS.integers(info.min, info.max, 60, dtype=dtype, endpoint=True)
        values[:2] = info.min, info.max
        return values.reshape(3, 4, 5)
    values = BITS.normal(size=60)
    values[: len(SPECIAL)] = SPECIAL
    return values.astype(dtype).reshape(3, 4, 5)


def mapped(array: Array, folder: Path) -> Array:
    if array.dtype == object or array.dtype.name == "bfloat16":
        return array
    copy = np.memmap(folder / "array", array.dtype, "w+", shape=array.shape)
    copy[:] = array
    copy.flush()
    return np.memmap(folder / "array", array.dtype, "r", shape=array.shape)


def read_only(array: Array) -> Array:
    copy = array.copy()
    copy.setflags(write=False)
    return copy


MEMORIES: dict[str, Callable[[Array, Path], Array]] = {
    "contiguous": lambda array, _: array,
    "zero-dimensional": lambda array, _: array[0, 0, 1, ...],
    "zero-size": lambda array, _: array[:, :0],
    "non-contiguous": lambda array, _: array[::2, :, 1::2],
    "fortran": lambda array, _: np.asfortranarray(array),
    "negative-stride": lambda array, _: array[::-1, :, ::-1],
    "big-endian": lambda array, _: array if array.dtype == object else array.astype(array.dtype.newbyteorder(">")),
    "read-only": lambda array, _: read_only(array),
    "memory-mapped": mapped,
}


def bits(array: Array) -> Any:
    """What must survive: the elements as bytes, row-major and little-endian."""
    if array.dtype == object:
        return array.reshape(-1).tolist()
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


def through_msgpack(request: Request) -> Array:
    read = decode_request(encode_request(request), "fallback")
    assert isinstance(read, Request)
    ext = {"x": read.inputs["x"].to_ext()}
    reply = decode_reply(encode_reply("a", "m", "1", ext, {}))
    assert isinstance(reply, Reply)
    return reply.outputs["x"]


def through_json(request: Request) -> Array:
    read = decode_json_request(encode_json_request(request, deadline_s=None), "fallback", 0)
    assert isinstance(read, Request), read.error
    reply = decode_json_reply(encode_json_reply("a", "m", "1", read.inputs, {}))
    assert isinstance(reply, Reply), reply
    return reply.outputs["x"]


@pytest.mark.parametrize("through", [through_msgpack, through_json])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("datatype", Datatype)
def test_every_bit_arrives(
    datatype: Datatype, memory: str, through: Callable[[Request], Array], tmp_path: Path
) -> None:
    sent = MEMORIES[memory](sample(datatype), tmp_path)
    got = through(Request("a", {"x": Tensor.from_array(sent)}))
    assert datatype_of(got.dtype) is datatype
    assert got.shape == sent.shape
    assert bits(got) == bits(np.asarray(sent))
    assert not got.flags.writeable


def test_nan_payloads_survive_msgpack() -> None:
    sent = np.array([0x7FC00001, 0xFFC12345, 0x7F800001], "<u4").view("<f4")
    got = through_msgpack(Request("a", {"x": Tensor.from_array(sent)}))
    assert got.tobytes() == sent.tobytes()


def test_decoding_copies_no_tensor_data() -> None:
    value = encode_request(Request("a", {"x": Tensor.from_array(np.arange(12.0))}))
    read = decode_request(value, "fallback")
    assert isinstance(read, Request)
    assert np.shares_memory(read.inputs["x"].to_array(), np.frombuffer(value, np.uint8))


def test_decoding_a_reply_copies_no_tensor_data() -> None:
    value = encode_reply("a", "m", "1", {"y": Tensor.from_array(np.arange(12.0)).to_ext()}, {})
    reply = decode_reply(value)
    assert isinstance(reply, Reply)
    assert np.shares_memory(reply.outputs["y"], np.frombuffer(value, np.uint8))


@pytest.mark.parametrize("dtype", ["<f4", "<i8", "?", "<f2"])
def test_a_contiguous_array_is_sent_without_a_copy(dtype: str) -> None:
    array = np.ones((3, 4), dtype)
    assert np.shares_memory(np.frombuffer(Tensor.from_array(array).data, np.uint8), array)


@pytest.mark.parametrize(
    ("value", "elements"),
    [
        ([b"a\x00", "b\x00"], [b"a\x00", b"b\x00"]),
        ("text", [b"text"]),
        (b"x\x00", [b"x\x00"]),
        (np.array(["\u00e9", "b"]), ["\u00e9".encode(), b"b"]),
        (np.array(["a", "bc"], np.dtypes.StringDType()), [b"a", b"bc"]),
        (np.array([memoryview(b"abcd"), bytearray(b"e")], object), [b"abcd", b"e"]),
        ("\udcff", [b"\xff"]),
    ],
)
def test_text_and_bytes_of_any_kind_become_bytes(value: Any, elements: list[bytes]) -> None:
    assert Tensor.from_array(value).to_array().reshape(-1).tolist() == elements


@pytest.mark.parametrize(
    "value",
    [
        [[1, 2], [3]],
        [b"a", 1],
        [None],
        "\ud800",
        np.zeros(2, complex),
        np.zeros(2, "M8[s]"),
        np.zeros(2, [("a", "u1")]),
        np.zeros((1,) * (MAX_DIMENSIONS + 1)),
        np.zeros(2, ml_dtypes.float8_e4m3),
        2**70,
    ],
    ids=str,
)
def test_what_no_datatype_carries_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRequest):
        Tensor.from_array(value)


def test_a_bool_of_any_nonzero_byte_is_sent_as_one() -> None:
    array = np.array([0, 1, 2, 255], np.uint8).view(bool)
    assert bytes(Tensor.from_array(array).data) == b"\x00\x01\x01\x01"


def test_a_bool_that_is_neither_zero_nor_one_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="neither 0 nor 1"):
        Tensor(Datatype.BOOL, (2,), b"\x00\x02").to_array()


def without_ml_dtypes(name: str, *args: Any, **kwargs: Any) -> Any:
    if name == "ml_dtypes":
        raise ImportError(name)
    return REAL_IMPORT(name, *args, **kwargs)


REAL_IMPORT = builtins.__import__


def test_bf16_without_ml_dtypes_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    value = encode_reply("a", "m", "1", {"y": Tensor(Datatype.BF16, (1,), b"\x80\x3f").to_ext()}, {})
    monkeypatch.setattr(builtins, "__import__", without_ml_dtypes)
    error = decode_reply(value)
    assert isinstance(error, InvalidRequest)
    assert error.id == "a"
    assert "pip install ml-dtypes" in error.message


def test_bf16_travels_in_json_without_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "__import__", without_ml_dtypes)
    body = encode_json_request(Request("a", {"x": Tensor(Datatype.BF16, (2,), b"\x80\x3f\x00\xc0")}), deadline_s=None)
    read = decode_json_request(body, "fallback", 0)
    assert isinstance(read, Request)
    assert bytes(read.inputs["x"].data) == b"\x80\x3f\x00\xc0"


@pytest.mark.parametrize(
    ("shape", "nbytes"),
    [((2, 3), 20), ((0,), 4), ((2**31, 2**31), 16), ((0, 2**31, 2**31), 0), ((2**16,) * 16, 0)],
)
def test_shape_and_bytes_must_agree(shape: tuple[int, ...], nbytes: int) -> None:
    with pytest.raises(InvalidRequest, match="shape"):
        check_size(Datatype.FP32, shape, nbytes)


@pytest.mark.parametrize(("shape", "nbytes"), [((3,), 11), ((0,), 4), ((2**31, 2**31), 64)])
def test_a_bytes_tensor_needs_room_for_its_lengths(shape: tuple[int, ...], nbytes: int) -> None:
    with pytest.raises(InvalidRequest, match="BYTES"):
        check_size(Datatype.BYTES, shape, nbytes)


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (2, b"\x0b\x00"),
        (TENSOR_EXT, b""),
        (TENSOR_EXT, b"\x0b"),
        (TENSOR_EXT, b"\x00\x00"),
        (TENSOR_EXT, b"\x0f\x00"),
        (TENSOR_EXT, b"\x0b\x02\x01\x00\x00\x00"),
        (TENSOR_EXT, b"\x0b\x11" + bytes(68)),
        (TENSOR_EXT, b"\x0b\x01\xff\xff\xff\xff\x00\x00\x00\x00"),
    ],
)
def test_a_broken_tensor_is_refused(code: int, body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read_tensor(code, memoryview(body))


def test_a_dimension_beyond_32_bits_cannot_be_sent() -> None:
    with pytest.raises(InvalidRequest, match="4294967295"):
        tensor_ext(Datatype.UINT8, (0, 2**32), b"")


@settings(deadline=None)
@given(st.lists(st.binary(max_size=20), max_size=20))
def test_bytes_elements_come_back_as_they_were(elements: list[bytes]) -> None:
    assert unpack_bytes(pack_bytes(list(elements)), len(elements)) == elements


@settings(deadline=None)
@given(st.binary(max_size=40), st.integers(0, 5))
def test_broken_bytes_data_is_refused_or_read_whole(data: bytes, count: int) -> None:
    try:
        elements = unpack_bytes(data, count)
    except InvalidRequest:
        return
    assert pack_bytes(list(elements)) == data


def test_check_content_finds_lengths_that_lead_nowhere() -> None:
    with pytest.raises(InvalidRequest, match="ends within element 0"):
        Tensor(Datatype.BYTES, (1,), b"\xff\xff\xff\xff").check_content()
