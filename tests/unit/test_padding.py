"""Requests of different sizes share a batch: each gets what it would have got alone, and never sees padding."""

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_runs import Bench, fp32
from runner_rig import work

from producer_sdk.errors import Code, PayloadTooLarge
from producer_sdk.tensors import Array, Datatype, Tensor, pack_bytes
from workers.runners.columns import columns_of
from workers.runners.engine import TensorSpec
from workers.runners.padding import padded_texts
from workers.work import Work

TOKENS = TensorSpec("ids", Datatype.INT64, (-1,), pad_to=(4, 8), pad_value=7, mask="mask")
MASK = TensorSpec("mask", Datatype.INT64, (-1,))
SIZES = st.integers(1, 9)
RECORDS = st.lists(st.tuples(st.integers(1, 3), SIZES), min_size=1, max_size=5)


def ids(rows: int, size: int, **more: Any) -> Work:
    return work({"ids": np.arange(1, rows * size + 1, dtype=np.int64).reshape(rows, size), **more})


def echo(inputs: Any) -> dict[str, Array]:
    return {"y": inputs["ids"], "n": inputs["mask"].sum(1)}


def tokens_bench(*more: TensorSpec) -> Bench:
    outputs = (TensorSpec("y", Datatype.INT64, (-1,), cut_like="ids"), TensorSpec("n", Datatype.INT64, ()))
    return Bench(echo, (TOKENS, MASK, *more), outputs)


def test_all_are_padded_to_the_size_of_the_largest_and_the_mask_is_made() -> None:
    bench = tokens_bench()
    first, second = bench.run([ids(1, 3), ids(2, 5)])
    assert bench.seen["ids"].tolist() == [
        [1, 2, 3, 7, 7, 7, 7, 7],
        [1, 2, 3, 4, 5, 7, 7, 7],
        [6, 7, 8, 9, 10, 7, 7, 7],
    ]
    assert bench.seen["mask"].sum(1).tolist() == [3, 5, 5]
    assert first["y"].tolist() == [[1, 2, 3]]
    assert second["y"].tolist() == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]


def test_a_mask_that_comes_with_the_request_is_kept_and_padded_with_0() -> None:
    bench = tokens_bench()
    bench.run([ids(1, 3, mask=np.array([[1, 0, 1]])), ids(1, 4)])
    assert bench.seen["mask"].tolist() == [[1, 0, 1, 0], [1, 1, 1, 1]]


def test_padding_is_counted_without_the_mask() -> None:
    bench = tokens_bench()
    bench.run([ids(1, 3), ids(2, 5)])
    assert bench.placement is not None
    assert (bench.placement.elements, bench.placement.padding) == (24, 11)


def test_where_nothing_is_padded_nothing_is_counted() -> None:
    bench = Bench(lambda inputs: {"y": inputs["x"]}, [fp32("x", -1)], [fp32("y", -1)])
    bench.run([work({"x": np.ones((2, 3), np.float32)})])
    assert bench.placement is not None
    assert (bench.placement.elements, bench.placement.padding, bench.placement.sizes) == (0, 0, ())


@given(RECORDS, st.integers(0, 4), st.integers(1, 5))
def test_any_part_of_a_batch_gives_each_record_its_own(records: list[tuple[int, int]], first: int, last: int) -> None:
    works = [ids(*record) for record in records]
    first = min(first, len(works) - 1)
    last = max(first + 1, min(last, len(works)))
    for each, got in zip(works[first:last], tokens_bench().run(works, first, last), strict=True):
        asked = each.request.inputs["ids"].to_array()
        assert got["y"].tolist() == asked.tolist()
        assert got["n"].tolist() == [asked.shape[1]] * each.rows


@given(st.lists(st.tuples(st.integers(1, 2), SIZES, SIZES), min_size=1, max_size=4), st.integers(0, 3))
def test_several_dimensions_are_padded_on_any_batch_axis(records: list[tuple[int, int, int]], axis: int) -> None:
    x = TensorSpec("x", Datatype.FP32, (-1, 2, -1), batch_axis=axis, pad_to=(2, 5), pad_value=-1.0)
    y = TensorSpec("y", Datatype.FP32, (-1, 2, -1), batch_axis=axis, cut_like="x")
    bench = Bench(lambda inputs: {"y": inputs["x"] * 2}, [x], [y])
    rng = np.random.default_rng(0)
    asked = [rng.random((rows, high, 2, wide), np.float32) for rows, high, wide in records]
    got = bench.run([work({"x": array}) for array in asked])
    assert bench.seen["x"].shape[axis] == sum(rows for rows, _, _ in records)
    for array, outputs in zip(asked, got, strict=True):
        assert np.array_equal(outputs["y"], array * 2)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("datatype", [Datatype.FP16, Datatype.BYTES, Datatype.BOOL])
def test_rows_lie_along_the_axis_that_the_model_names(axis: int, datatype: Datatype) -> None:
    x, y = (TensorSpec(name, datatype, (2, 3), batch_axis=axis) for name in "xy")
    bench = Bench(lambda inputs: {"y": inputs["x"]}, [x], [y])
    kind = {"FP16": np.float16, "BYTES": object, "BOOL": np.bool_}[datatype]
    asked: Array = (np.arange(24).reshape(4, 2, 3) % 5).astype(kind)
    if datatype == "BYTES":
        asked = np.array([str(each).encode() for each in asked.reshape(-1)], object).reshape(4, 2, 3)
    first, second = bench.run([work({"x": asked[:3]}), work({"x": asked[3:]})])
    assert bench.seen["x"].shape == ((4, 2, 3), (2, 4, 3), (2, 3, 4))[axis]
    assert np.array_equal(first["y"], asked[:3])
    assert np.array_equal(second["y"], asked[3:])


@given(RECORDS)
def test_texts_are_padded_with_empty_ones(records: list[tuple[int, int]]) -> None:
    x = TensorSpec("x", Datatype.BYTES, (-1, 2), pad_to=(4,))
    bench = Bench(lambda inputs: {"y": inputs["x"]}, [x], [TensorSpec("y", Datatype.BYTES, (-1, 2), cut_like="x")])
    asked = [np.array([b"%d" % n for n in range(2 * r * s)], object).reshape(r, s, 2) for r, s in records]
    got = bench.run([work({"x": array}) for array in asked])
    for array, outputs in zip(asked, got, strict=True):
        assert outputs["y"].tolist() == array.tolist()
    padding = np.concatenate([np.ravel(bench.seen["x"][0, asked[0].shape[1] :])])
    assert set(padding.tolist()) <= {b""}
    assert bench.placement is not None
    assert bench.placement.elements - bench.placement.padding == sum(array.size for array in asked)


@given(st.data())
def test_texts_of_several_variable_dimensions_keep_their_places(data: st.DataObject) -> None:
    real = [data.draw(st.integers(1, 3)) for _ in range(data.draw(st.integers(2, 4)))]
    shape = [real[0], *[data.draw(st.integers(length, 4)) for length in real[1:]]]
    texts = np.array([b"x" * (n % 5) for n in range(math.prod(real))], object).reshape(real)
    wanted: Array = np.full(shape, b"", object)
    wanted[tuple(map(slice, real))] = texts
    padded = padded_texts(Tensor(Datatype.BYTES, tuple(real), pack_bytes(texts.reshape(-1).tolist())), tuple(shape[1:]))
    assert padded == Tensor(Datatype.BYTES, tuple(shape), pack_bytes(wanted.reshape(-1).tolist()))


def test_a_few_texts_that_would_be_padded_to_millions_are_refused_before_they_are_made() -> None:
    x = TensorSpec("x", Datatype.BYTES, (-1, -1), pad_to=(4096,))
    asked = work({"x": np.full((1, 1, 5000), b"", object)})  # 20 KB, padded to 134 MB
    tracemalloc.start()
    with pytest.raises(PayloadTooLarge):
        columns_of([asked], 1, (x,), 1_000_000)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("datatype", "value"),
    [(Datatype.FP32, -1.5), (Datatype.FP16, 0.25), (Datatype.FP64, 1e9), (Datatype.INT8, -3), (Datatype.UINT16, 65535)],
)
def test_the_pad_value_is_of_the_inputs_own_datatype(datatype: Datatype, value: float) -> None:
    x = TensorSpec("x", datatype, (-1,), pad_to=(3,), pad_value=value)
    bench = Bench(lambda inputs: {"y": inputs["x"]}, [x], [TensorSpec("y", datatype, (-1,))])
    kind = {"FP32": "f4", "FP16": "f2", "FP64": "f8", "INT8": "i1", "UINT16": "u2"}[datatype]
    bench.run([work({"x": np.ones((1, 1), kind)})])
    assert bench.seen["x"].tolist() == [[1, value, value]]


def test_a_model_that_gives_one_item_a_row_has_its_items_cut() -> None:
    bench = Bench(
        lambda inputs: [{"y": row} for row in inputs["ids"]], [TOKENS, MASK], [tokens_bench().signature.outputs[0]]
    )
    first, second = bench.run([ids(1, 2), ids(2, 3)])
    assert (first["y"].shape, second["y"].shape) == ((1, 2), (2, 3))


def test_an_output_of_another_size_than_its_input_was_padded_to_cannot_be_cut() -> None:
    outputs = [TensorSpec("y", Datatype.INT64, (-1,), cut_like="ids")]
    bench = Bench(lambda inputs: {"y": inputs["ids"][:, :-1]}, [TOKENS, MASK], outputs)
    error = bench.answer([ids(1, 3)]).error
    assert error is not None
    assert (error.code, error.message) == (
        Code.INFERENCE_FAILED,
        "output 'y' has shape [3] a row: it cannot be cut like input 'ids', which was padded to 4",
    )


def test_a_square_output_is_cut_along_both_sides() -> None:
    outputs = [TensorSpec("y", Datatype.INT64, (2, -1, -1), cut_like="ids")]
    bench = Bench(lambda x: {"y": np.stack([x["ids"][:, None] * x["ids"][:, :, None]] * 2, 1)}, [TOKENS, MASK], outputs)
    (got,) = bench.run([ids(1, 2)])
    assert got["y"].tolist() == [[[[1, 2], [2, 4]]] * 2]
