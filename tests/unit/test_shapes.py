"""Which requests may share a batch, and what they take up in it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer_sdk.errors import InvalidRequest
from producer_sdk.tensors import Datatype, Tensor
from workers.cost import BadCost
from workers.runners.engine import TensorSpec
from workers.runners.variable import asked
from workers.shapes import Bucket, Fit, Shapes, bucket_label, fits_into

IDS = TensorSpec("ids", Datatype.INT64, (-1,), pad_to=(4, 8), mask="mask")
TYPES = TensorSpec("types", Datatype.INT8, (-1,), pad_to=(4, 8), mask="mask")
MASK = TensorSpec("mask", Datatype.INT64, (-1,))
FLAG = TensorSpec("flag", Datatype.INT64, (), batched=False)
MODEL = (IDS, TYPES, MASK)


def fit(specs: tuple[TensorSpec, ...] = MODEL, cost: str | None = None, **inputs: Any) -> Fit:
    return Shapes(specs, 8, cost).fit({name: Tensor.from_array(value) for name, value in inputs.items()})


def of(size: int, rows: int = 1, kind: str = "i8") -> Any:
    return np.ones((rows, size), kind)


def test_sizes_that_are_padded_alike_share_a_bucket() -> None:
    buckets = [fit(ids=of(size), types=of(size, kind="i1")).bucket for size in (1, 4, 5, 8, 9, 16, 17)]
    assert [bucket_label(bucket) for bucket in buckets] == ["4,4", "4,4", "8,8", "8,8", "16,16", "16,16", "24,24"]
    assert len(set(buckets)) == 4


def test_a_request_counts_as_what_it_is_padded_to() -> None:
    fitted = fit(ids=of(5, 2), types=of(5, 2, "i1"), cost="rows * ids[1] + mask[1] / 8")
    assert (fitted.rows, fitted.nbytes, fitted.cost) == (2, 2 * 8 * (8 + 1 + 8), 17.0)


def test_texts_count_four_bytes_for_each_empty_one() -> None:
    spec = TensorSpec("x", Datatype.BYTES, (-1,), pad_to=(4,))
    assert fit((spec,), x=np.array([[b"ab"]], object)).nbytes == 6 + 3 * 4


def test_without_a_cost_rows_are_counted() -> None:
    assert fit(ids=of(5, 3), types=of(5, 3, "i1")).cost == 3.0
    assert fit((MASK,), mask=of(2, 3)).cost == 3.0
    assert fit((MASK,), "mask[0] * mask[1]", mask=of(2, 3)).cost == 6.0


def test_a_mask_may_be_left_out_or_given() -> None:
    without = fit(ids=of(3), types=of(3, kind="i1"))
    assert without == fit(ids=of(3), types=of(3, kind="i1"), mask=of(3))


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"ids": of(3), "types": of(4, kind="i1")}, "its mask 'mask' is for [4] elements, not [3]"),
        ({"ids": of(3), "types": of(3, kind="i1"), "mask": of(2)}, "its mask 'mask' is for [2] elements, not [3]"),
        (
            {"ids": of(0), "types": of(0, kind="i1")},
            "input 'ids' has shape [1, 0]: there is nothing in it that is real",
        ),
        ({"ids": of(3), "types": of(3, kind="i1"), "n": of(3)}, "input 'n' is not known"),
        ({"ids": of(3), "mask": of(3)}, "input 'types' is missing"),
        ({"ids": of(3), "types": of(3, kind="i1"), "mask": of(3, 2)}, "'mask' has 2 rows, but another input has 1"),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(inputs: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        fit(**inputs)
    assert sentence in refused.value.message


def test_inputs_that_are_made_are_not_asked_for() -> None:
    ragged = TensorSpec("x", Datatype.FP32, (-1, 2), ragged=True, lengths="n", offsets="at")
    specs = (ragged, TensorSpec("n", Datatype.INT64, ()), TensorSpec("at", Datatype.INT64, (-1,), batched=False))
    fits = [fit(specs, "x[0] * x[1]", x=np.ones((2, size, 2), np.float32)) for size in (3, 700)]
    assert fits[0].bucket == fits[1].bucket
    assert [each.cost for each in fits] == [6, 1400]
    with pytest.raises(InvalidRequest, match="input 'n' is not known"):
        fit(specs, x=np.ones((2, 3, 2), np.float32), n=np.array([3, 3]))


def test_unbatched_inputs_share_a_batch_when_they_are_equal() -> None:
    buckets = [fit((IDS, MASK, FLAG), ids=of(3), flag=np.array(flag)).bucket for flag in (1, 1, 2)]
    assert buckets[0] == buckets[1] != buckets[2]
    assert bucket_label(buckets[0]) == bucket_label(buckets[2]) == "4"
    assert not fits_into(buckets[0], buckets[2])


def test_a_bucket_that_is_remembered_holds_no_large_input() -> None:
    table = TensorSpec("x", Datatype.UINT8, (-1,), batched=False)
    small, large, other = (
        fit((IDS, MASK, table), ids=of(3), x=np.full(size, 7, np.uint8)) for size in (9, 10**6, 10**6)
    )
    assert small.bucket != large.bucket == other.bucket
    assert len(repr(large.bucket)) < 300


def test_a_label_names_shapes_that_are_not_padded() -> None:
    bucket = fit(
        (TensorSpec("x", Datatype.FP32, (3, -1)), IDS, MASK), x=np.ones((1, 3, 5), np.float32), ids=of(3)
    ).bucket
    assert bucket_label(bucket) == "3x5,4"
    assert bucket_label(()) == ""


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=3, max_size=3))
def test_fitting_into_a_larger_bucket_is_an_order(sizes: list[tuple[int, int]]) -> None:
    a, b, c = (Bucket(((3,),), pair) for pair in sizes)
    assert fits_into(a, a)
    assert fits_into(a, b) == (a.sizes[0] <= b.sizes[0] and a.sizes[1] <= b.sizes[1])
    assert not (fits_into(a, b) and fits_into(b, c)) or fits_into(a, c)
    assert not fits_into(a, Bucket(((4,),), b.sizes))


def test_a_cost_of_inputs_that_do_not_exist_is_refused_at_once() -> None:
    with pytest.raises(BadCost, match="'nope' is none of the inputs"):
        Shapes(MODEL, 8, "nope[1]")


def test_what_requests_hold_is_told_with_what_they_may_leave_out() -> None:
    ragged = TensorSpec("x", Datatype.FP32, (-1,), ragged=True, lengths="n")
    specs = (IDS, MASK, ragged, TensorSpec("n", Datatype.INT64, ()))
    assert [(spec.name, optional) for spec, optional in asked(specs)] == [("ids", False), ("mask", True), ("x", False)]
    assert asked((MASK, FLAG)) == [(MASK, False), (FLAG, False)]
