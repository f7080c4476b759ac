"""Tensors on the wire: an Open Inference Protocol datatype, a shape, and raw little-endian row-major bytes.

The MessagePack ext type `TENSOR_EXT` holds: one byte datatype code, one byte number of dimensions, each dimension as
unsigned 32-bit little-endian, then the bytes. A BYTES element is a 4-byte little-endian length and that many bytes.

Arrays are views of those bytes, so this module needs a little-endian host, as every machine that runs it today is.
"""

from __future__ import annotations

import math
import struct
from enum import StrEnum
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ._bytes_elements import Buffer as Buffer
from ._bytes_elements import pack_bytes as pack_bytes
from ._bytes_elements import unpack_bytes as unpack_bytes
from .errors import InvalidRequest

TENSOR_EXT = 1
MAX_DIMENSIONS = 16
_HEADS = [struct.Struct(f"<BB{n}I") for n in range(MAX_DIMENSIONS + 1)]

Array = NDArray[Any]


class Datatype(StrEnum):
    """Open Inference Protocol datatypes. The order fixes the wire's codes: BOOL is 1."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    FP32 = "FP32"
    FP64 = "FP64"
    BYTES = "BYTES"
    BF16 = "BF16"


_NUMPY: dict[Datatype, np.dtype[Any]] = dict(
    zip(
        [d for d in Datatype if d not in (Datatype.BYTES, Datatype.BF16)],
        map(np.dtype, ["?", "u1", "<u2", "<u4", "<u8", "i1", "<i2", "<i4", "<i8", "<f2", "<f4", "<f8"]),
        strict=True,
    )
)
_DATATYPES = {dtype.str.lstrip("<|"): datatype for datatype, dtype in _NUMPY.items()}
_ITEM_BYTES: dict[Datatype, int] = {**{d: t.itemsize for d, t in _NUMPY.items()}, Datatype.BF16: 2, Datatype.BYTES: 0}
_BY_CODE = dict(enumerate(Datatype, start=1))
_CODES = {datatype: code for code, datatype in _BY_CODE.items()}


def item_bytes(datatype: Datatype) -> int:
    """Bytes of one element; 0 for BYTES, whose elements vary."""
    return _ITEM_BYTES[datatype]


def numpy_dtype(datatype: Datatype) -> np.dtype[Any]:
    """The little-endian NumPy dtype; object for BYTES.

    Raises:
        InvalidRequest: BF16 and the package ml_dtypes is not installed.
    """
    if datatype is Datatype.BYTES:
        return np.dtype(object)
    if datatype is Datatype.BF16:
        try:
            import ml_dtypes
        except ImportError as err:
            raise InvalidRequest("BF16 tensors need the package ml_dtypes here: pip install ml-dtypes") from err
        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return _NUMPY[datatype]


@lru_cache(maxsize=256)
def datatype_of(dtype: np.dtype[Any]) -> Datatype:
    """The datatype that carries a NumPy dtype, of either byte order.

    Raises:
        InvalidRequest: no datatype carries it (complex, datetime, structured).
    """
    if dtype.kind in "OSUT":
        return Datatype.BYTES
    if dtype.name == "bfloat16":
        return Datatype.BF16
    found = _DATATYPES.get(dtype.str.lstrip("<>|="))
    if found is None:
        raise InvalidRequest(f"arrays of dtype {dtype} cannot be sent: use one of {', '.join(Datatype)}")
    return found


class Tensor(msgspec.Struct, frozen=True, gc=False):
    """One tensor as it travels.

    Attributes:
        datatype: element type.
        shape: dimensions; the first is rows unless the model's manifest says otherwise.
        data: little-endian row-major bytes, a view where it was decoded; BYTES elements each with their length.
    """

    datatype: Datatype
    shape: tuple[int, ...]
    data: Buffer

    @staticmethod
    def from_array(array: Any) -> Tensor:
        """A tensor of anything NumPy takes: any byte order, strides or memory; 0-d and zero-size included.

        The bytes are those of a contiguous little-endian array without a copy; later changes of it show through.
        NumPy's own fixed-width `S` and `U` arrays have lost trailing NULs; lists and object arrays keep them.

        Raises:
            InvalidRequest: the dtype has no datatype, the lists are ragged, there are too many dimensions, or a BYTES
                element is neither bytes nor str.
        """
        array = _as_array(array)
        datatype = datatype_of(array.dtype)
        shape = array.shape
        if len(shape) > MAX_DIMENSIONS:
            raise InvalidRequest(f"a tensor of {len(shape)} dimensions cannot be sent: at most {MAX_DIMENSIONS}")
        if datatype is Datatype.BYTES:
            return Tensor(datatype, shape, pack_bytes(array.reshape(-1).tolist()))
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        data = _bytes_of(array)
        if datatype is Datatype.BOOL and np.frombuffer(data, np.uint8).max(initial=0) > 1:
            data = _bytes_of(np.frombuffer(data, np.uint8) != 0)
        return Tensor(datatype, shape, data)

    def to_array(self) -> Array:
        """A read-only view of the bytes as an array of the shape; BYTES becomes an object array of `bytes`.

        Raises:
            InvalidRequest: BYTES lengths do not fit the data, a BOOL is neither 0 nor 1, or BF16 without ml_dtypes.
        """
        if self.datatype is Datatype.BYTES:
            elements = unpack_bytes(self.data, math.prod(self.shape))
            array: Array = np.empty(len(elements), dtype=object)
            array[:] = elements
        else:
            self.check_content()
            array = np.frombuffer(self.data, dtype=numpy_dtype(self.datatype))
        array = array.reshape(self.shape)
        array.setflags(write=False)
        return array

    def check_content(self) -> None:
        """Check what size and shape alone do not show: BYTES lengths and BOOL values.

        Raises:
            InvalidRequest: saying which.
        """
        if self.datatype is Datatype.BYTES:
            unpack_bytes(self.data, math.prod(self.shape))
        elif self.datatype is Datatype.BOOL and np.frombuffer(self.data, np.uint8).max(initial=0) > 1:
            raise InvalidRequest("a BOOL element is neither 0 nor 1")

    def to_ext(self) -> msgspec.msgpack.Ext:
        return tensor_ext(self.datatype, self.shape, self.data)


def _as_array(value: Any) -> Array:
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    try:
        array = np.asarray(value)
        # S and U drop trailing NULs, which texts and bytes in lists may end with.
        return np.array(value, dtype=object) if array.dtype.kind in "SU" else array
    except (ValueError, TypeError) as err:
        raise InvalidRequest(f"a {type(value).__name__} cannot be sent as a tensor: {err}") from err


def _bytes_of(array: Array) -> memoryview:
    """The row-major bytes, without a copy where they lie so in memory."""
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    try:
        return array.data.cast("B")
    except (ValueError, TypeError):  # zero-size arrays and ml_dtypes have no plain buffer
        return array.reshape(-1).view(np.uint8).data


@lru_cache(maxsize=4096)
def tensor_head(datatype: Datatype, shape: tuple[int, ...]) -> bytes:
    """What comes before the bytes of a tensor in its ext value.

    Raises:
        InvalidRequest: a dimension does not fit 32 bits.
    """
    if any(size >= 2**32 for size in shape):
        raise InvalidRequest(f"shape {list(shape)} cannot be sent: a dimension is at most {2**32 - 1}")
    return _HEADS[len(shape)].pack(_CODES[datatype], len(shape), *shape)


def tensor_ext(datatype: Datatype, shape: tuple[int, ...], data: Buffer) -> msgspec.msgpack.Ext:
    """The ext value of a tensor given by its parts; `data` must already have the size that the shape asks for.

    Raises:
        InvalidRequest: a dimension does not fit 32 bits.
    """
    return msgspec.msgpack.Ext(TENSOR_EXT, b"".join((tensor_head(datatype, shape), data)))


def read_tensor(code: int, body: memoryview) -> Tensor:
    """The tensor in an ext value, its data a view of the body.

    Raises:
        InvalidRequest: another ext code, unknown datatype, or shape and bytes that do not agree.
    """
    if code != TENSOR_EXT:
        raise InvalidRequest(f"MessagePack ext type {code} is not a tensor: tensors are ext type {TENSOR_EXT}")
    if len(body) < 2:
        raise InvalidRequest("a tensor ends before its shape")
    head_bytes = 2 + 4 * body[1]
    datatype, shape, nbytes = _read_head(bytes(body[:head_bytes]))
    data = body[head_bytes:]
    if len(data) != nbytes:
        check_size(datatype, shape, len(data))
    return Tensor(datatype, shape, data)


@lru_cache(maxsize=4096)
def _read_head(head: bytes) -> tuple[Datatype, tuple[int, ...], int]:
    """Datatype, shape and the bytes that must follow; -1 for BYTES, whose length only the data tells."""
    dimensions = head[1]
    if dimensions > MAX_DIMENSIONS:
        raise InvalidRequest(f"a tensor claims {dimensions} dimensions: at most {MAX_DIMENSIONS}")
    datatype = _BY_CODE.get(head[0])
    if datatype is None:
        raise InvalidRequest(f"a tensor has the unknown datatype code {head[0]}")
    if len(head) < _HEADS[dimensions].size:
        raise InvalidRequest("a tensor ends before its shape")
    shape = _HEADS[dimensions].unpack(head)[2:]
    if datatype is Datatype.BYTES:
        return datatype, shape, -1
    nbytes = math.prod(shape) * _ITEM_BYTES[datatype]
    check_size(datatype, shape, nbytes)
    return datatype, shape, nbytes


def check_size(datatype: Datatype, shape: tuple[int, ...], nbytes: int) -> None:
    """Check that a shape and a number of bytes agree, without allocating anything.

    Raises:
        InvalidRequest: they do not, or the shape could not be held by any array.
    """
    elements = math.prod(shape)
    if elements == 0 and math.prod(size or 1 for size in shape) >= 2**50:
        raise InvalidRequest(f"shape {list(shape)} is larger than any array")
    if datatype is Datatype.BYTES:
        if nbytes < 4 * elements or (elements == 0 and nbytes):
            raise InvalidRequest(f"a BYTES tensor of shape {list(shape)} cannot lie in {nbytes} bytes")
    elif elements * _ITEM_BYTES[datatype] != nbytes:
        need = elements * _ITEM_BYTES[datatype]
        raise InvalidRequest(f"a {datatype} tensor of shape {list(shape)} takes {need} bytes, not {nbytes}")
