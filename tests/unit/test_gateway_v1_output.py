"""How /v1/infer shows an output."""

import math

import ml_dtypes
import msgspec
import numpy as np
import pytest

from gateway.v1 import plain
from producer_sdk.tensors import Array


def texts(*elements: bytes) -> Array:
    array = np.empty(len(elements), object)
    array[:] = elements
    return array


@pytest.mark.parametrize(
    ("array", "shown"),
    [
        (texts("grüße".encode()), "grüße"),
        (texts(b"ok\xff"), "ok\N{REPLACEMENT CHARACTER}"),
        (texts(b"a", b"b"), ["a", "b"]),
        (texts(b"a", b"b").reshape(2, 1), [["a"], ["b"]]),
        (texts(b"a").reshape(1, 1), "a"),
        (np.array([[1, 2]], np.int64), [[1, 2]]),
        (np.array([True, False]), [True, False]),
        (np.array([0.5, -0.0], np.float32), [0.5, -0.0]),
        (np.array([math.nan, math.inf, -math.inf, 1.0]), ["NaN", "Infinity", "-Infinity", 1.0]),
        (np.array(2.5, np.float16), 2.5),
    ],
)
def test_an_output_is_text_or_a_list(array: Array, shown: object) -> None:
    assert msgspec.json.decode(msgspec.json.encode(plain(array))) == shown


def test_bf16_is_shown_as_numbers() -> None:
    assert plain(np.array([1.5, math.inf]).astype(ml_dtypes.bfloat16)) == [1.5, "Infinity"]
