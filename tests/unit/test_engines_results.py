"""What a model gives is checked against what it declares, and each record gets its own outcome."""

from typing import Any

import numpy as np
import pytest

from producer_sdk.errors import Code, InferenceFailed, InvalidRequest
from producer_sdk.tensors import Datatype
from workers.runners.engine import TensorSpec
from workers.runners.faults import MAX_MESSAGE_CHARS, is_sticky, mishap_of
from workers.runners.results import Results

Y = TensorSpec("y", Datatype.FP32, (2,))
GOOD = np.ones(2, np.float32)


def sort(result: object, records: list[int], *specs: TensorSpec) -> list[Any]:
    return Results(specs or (Y,)).sort(result, records)


def test_a_dict_of_stacked_arrays_is_one_stack_and_not_copied() -> None:
    y = np.ones((5, 2), np.float32)
    (stack,) = sort({"y": y}, [1, 3, 1])
    assert (stack.records, stack.rows) == (3, 5)
    assert stack.arrays[0] is y


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (None, "a value of type NoneType: a dict of arrays is expected"),
        ({"z": GOOD}, r"did not give its output 'y': it gave \['z'\]"),
        ({"y": np.ones((2, 2), np.float32), "z": GOOD}, "an output 'z' that it does not declare"),
        ({"y": np.ones((3, 2), np.float32)}, "has 3 rows for a batch of 2 rows"),
        ({"y": np.float32(1)}, "has no row axis for a batch of 2 rows"),
        ({"y": np.ones((2, 2))}, "is FP64, but FP32 is declared"),
        ({"y": np.ones((2, 3), np.float32)}, r"has shape \[3\] a row, but \[2\] is declared"),
        ({"y": np.ones((2, 2), complex)}, "no array that can be sent: arrays of dtype complex128"),
        ({"y": [[1], [2, 3]]}, "no array that can be sent"),
        ([{"y": GOOD}], "1 items for 2 rows"),
    ],
)
def test_a_wrong_result_is_refused_naming_what_is_wrong(result: object, words: str) -> None:
    with pytest.raises(InferenceFailed, match=words):
        sort(result, [2])


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (ValueError("no"), "row 1: ValueError: no"),
        ({}, "row 1: the model did not give its output 'y': it gave []"),
        ({"y": np.ones(3, np.float32)}, "row 1: output 'y' has shape [3] a row, but [2] is declared"),
        (7, "row 1: the model gave a value of type int for a row: a dict of arrays or an exception is expected"),
    ],
)
def test_a_bad_row_fails_its_record_and_no_other(item: object, message: str) -> None:
    stacks = sort([{"y": GOOD}, {"y": GOOD}, item, {"y": GOOD}], [1, 2, 1])
    assert [(stack.records, stack.error and stack.error.message) for stack in stacks] == [
        (1, None),
        (1, message),
        (1, None),
    ]


def test_the_row_of_a_record_with_one_row_is_not_named() -> None:
    (stack,) = sort([ValueError("no")], [1])
    assert stack.error.message == "ValueError: no"


def test_neighbours_of_one_shape_share_a_stack() -> None:
    spec = TensorSpec("y", Datatype.FP32, (-1,))
    widths = [2, 2, 3, 3, 2]
    stacks = sort([{"y": np.ones(width, np.float32)} for width in widths], [2, 1, 1, 1], spec)
    assert [(stack.records, stack.arrays[0].shape) for stack in stacks] == [(1, (2, 2)), (2, (2, 3)), (1, (1, 2))]


def test_plain_numbers_take_the_declared_type_but_floats_never_become_integers() -> None:
    (stack,) = sort([{"y": [1, 2.5]}], [1])
    assert stack.arrays[0].dtype == np.float32
    integer = TensorSpec("y", Datatype.UINT8, ())
    assert sort([{"y": 7}], [1], integer)[0].arrays[0].tolist() == [7]
    assert "is FP64, but UINT8 is declared" in sort([{"y": 7.5}], [1], integer)[0].error.message
    assert "no array that can be sent" in sort([{"y": 300}], [1], integer)[0].error.message


def test_texts_keep_their_trailing_zeros() -> None:
    text = TensorSpec("y", Datatype.BYTES, ())
    (stack,) = sort([{"y": b"a\0"}, {"y": "b"}], [1, 1], text)
    assert stack.arrays[0].tolist() == [b"a\0", "b"]


def test_an_unbatched_output_needs_a_dict() -> None:
    whole = TensorSpec("y", Datatype.FP32, (2,), batched=False)
    assert sort({"y": GOOD}, [1, 1], whole)[0].arrays[0].shape == (2,)
    with pytest.raises(InferenceFailed, match="'y' is not batched, so a dict is expected"):
        sort([{"y": GOOD}], [1], whole)


class CodedError(Exception):
    code = "CANCELLED"


@pytest.mark.parametrize(
    ("err", "code", "message"),
    [
        (ValueError("no"), Code.INFERENCE_FAILED, "ValueError: no"),
        (InvalidRequest("bad text"), Code.INVALID_REQUEST, "bad text"),
        (CodedError("enough"), Code.CANCELLED, "enough"),
        (MemoryError("too big"), Code.OUT_OF_MEMORY, "MemoryError: too big"),
        (RuntimeError("CUDA out of memory"), Code.OUT_OF_MEMORY, "RuntimeError: CUDA out of memory"),
        (ValueError("out of memory"), Code.INFERENCE_FAILED, "ValueError: out of memory"),
    ],
)
def test_an_exception_becomes_a_typed_error(err: Exception, code: Code, message: str) -> None:
    mishap = mishap_of(err)
    assert (mishap.code, mishap.message) == (code, message)


def test_a_message_is_bounded() -> None:
    assert len(mishap_of(ValueError("x" * 10_000)).message) == MAX_MESSAGE_CHARS


def test_only_an_error_that_ends_the_cuda_context_is_sticky() -> None:
    assert is_sticky(RuntimeError("CUDA error: device-side assert triggered"))
    assert not is_sticky(RuntimeError("CUDA error: out of memory"))
