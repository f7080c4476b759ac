"""Inputs that do not fit the announced signature are refused before they cost a round trip."""

import numpy as np
import pytest

from gateway.signature import check_inputs, check_outputs, full_shape
from producer_sdk.announcements import Announcement, ModelState, TensorAnnouncement
from producer_sdk.errors import InvalidRequest
from producer_sdk.tensors import Array, Datatype, Tensor

MODEL = Announcement(
    "w",
    "m",
    ("1",),
    ModelState.READY,
    0,
    1.0,
    inputs=(
        TensorAnnouncement("x", Datatype.FP32, (4,)),
        TensorAnnouncement("t", Datatype.BYTES, (-1,)),
        TensorAnnouncement("scale", Datatype.FP32, (2, 2), batched=False),
    ),
    outputs=(TensorAnnouncement("y", Datatype.FP32, (10,)),),
    max_batch_size=8,
)


def inputs(rows: int = 2, **changed: Array | None) -> dict[str, Tensor]:
    arrays: dict[str, Array | None] = {
        "x": np.zeros((rows, 4), np.float32),
        "t": np.full((rows, 3), b"a", object),
        "scale": np.zeros((2, 2), np.float32),
        **changed,
    }
    return {name: Tensor.from_array(array) for name, array in arrays.items() if array is not None}


def test_inputs_that_fit_pass() -> None:
    check_inputs(MODEL, inputs())
    check_inputs(MODEL, inputs(rows=8))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (inputs(x=None), "input 'x' is missing: the model takes 'x', 't', 'scale'"),
        (inputs(z=np.zeros(2)), "there is no input 'z'"),
        (inputs(x=np.zeros((2, 4))), "input 'x' is FP64: the model takes FP32"),
        (
            inputs(x=np.zeros((2, 5), np.float32)),
            r"input 'x' has shape \[2, 5\]: the model takes \[-1, 4\], rows first",
        ),
        (inputs(x=np.zeros(4, np.float32)), r"input 'x' has shape \[4\]"),
        (inputs(x=np.array(0, np.float32)), r"input 'x' has shape \[\]"),
        (inputs(scale=np.zeros((2, 3), np.float32)), r"input 'scale' has shape \[2, 3\]: the model takes \[2, 2\] \("),
        (inputs(x=np.zeros((3, 4), np.float32)), "'x' has 3, 't' has 2"),
        (inputs(rows=9), "the request has 9 rows: the model takes at most 8"),
        (inputs(rows=0), "has no rows"),
    ],
)
def test_a_misfit_is_named_in_a_sentence(given: dict[str, Tensor], sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=sentence):
        check_inputs(MODEL, given)


def test_an_unknown_output_is_refused() -> None:
    check_outputs(MODEL, ("y",))
    with pytest.raises(InvalidRequest, match="there is no output 'z': the model gives 'y'"):
        check_outputs(MODEL, ("y", "z"))


def test_what_is_not_announced_is_left_to_the_worker() -> None:
    silent = Announcement("w", "m", ("1",), ModelState.READY, 0, 1.0)
    check_inputs(silent, inputs(z=np.zeros(2)))
    check_outputs(silent, ("anything",))


def test_the_told_shape_has_a_batch_axis_where_there_is_one() -> None:
    assert [full_shape(tensor) for tensor in MODEL.inputs] == [[-1, 4], [-1, -1], [2, 2]]


def test_an_optional_input_may_be_left_out_and_an_unknown_one_is_refused_all_the_same() -> None:
    mask = TensorAnnouncement("mask", Datatype.INT64, (-1,), optional=True)
    model = Announcement("w", "m", ("1",), ModelState.READY, 0, 1.0, inputs=(MODEL.inputs[0], mask))
    x = Tensor.from_array(np.zeros((1, 4), np.float32))
    check_inputs(model, {"x": x})
    with pytest.raises(InvalidRequest, match="no input 'maks'"):
        check_inputs(model, {"x": x, "maks": x})
