"""BF16 into and out of onnxruntime, which exchanges it with Python as memory only: NumPy itself has no such type."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from producer_sdk.errors import InvalidRequest
from producer_sdk.tensors import Array, Datatype, numpy_dtype

from .engine import LoadFailed, LoadFault, Signature

_BFLOAT16 = 16  # onnx.TensorProto.BFLOAT16


class BfloatCall:
    """Runs a session some of whose inputs and outputs are BF16. One thread uses it.

    Raises:
        LoadFailed: a package is missing.
    """

    def __init__(self, runtime: Any, session: Any) -> None:
        self._values = runtime.OrtValue
        self._session = session
        try:
            self._dtype = numpy_dtype(Datatype.BF16)
        except InvalidRequest as err:
            raise LoadFailed(err.message, LoadFault.DEPENDENCY) from err

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> dict[str, Array]:
        feeds = {name: self._value(array) for name, array in inputs.items()}
        found = self._session.run_with_ort_values(outputs, feeds)
        return {name: self._array(value) for name, value in zip(outputs, found, strict=True)}

    def _value(self, array: Array) -> Any:
        array = np.ascontiguousarray(array)
        if array.dtype != self._dtype:
            return self._values.ortvalue_from_numpy(array)
        return self._values.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), _BFLOAT16)

    def _array(self, value: Any) -> Array:
        if value.data_type() != "tensor(bfloat16)":
            return np.asarray(value.numpy())
        shape = tuple(value.shape())
        count = math.prod(shape)
        if not count:
            return np.empty(shape, self._dtype)
        words = (ctypes.c_uint16 * count).from_address(value.data_ptr())
        return np.frombuffer(words, np.uint16).reshape(shape).view(self._dtype).copy()


def has_bfloat(signature: Signature) -> bool:
    """Whether any input or output is BF16."""
    return any(tensor.datatype is Datatype.BF16 for tensor in (*signature.inputs, *signature.outputs))
