"""Requests of different lengths lie end to end, without padding: the model is told where each begins."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_runs import Bench
from runner_rig import work

from producer_sdk.tensors import Array, Datatype
from workers.runners.engine import TensorSpec

RAGGED = TensorSpec("x", Datatype.FP32, (-1, 2), ragged=True, lengths="n", ends="ends", offsets="at")
INPUTS = (
    RAGGED,
    TensorSpec("n", Datatype.INT32, (1,)),
    TensorSpec("ends", Datatype.INT64, ()),
    TensorSpec("at", Datatype.FP32, (-1,), batched=False),
)
OUTPUTS = (TensorSpec("y", Datatype.FP32, (-1, 2), cut_like="x"), TensorSpec("sum", Datatype.FP32, ()))


def doubled(inputs: Any) -> dict[str, Array]:
    x, at = inputs["x"], inputs["at"].astype(int)
    sums = [x[a:b].sum() for a, b in pairwise(at)]
    return {"y": x * 2, "sum": np.array(sums, np.float32)}


def test_the_model_is_told_lengths_ends_and_offsets() -> None:
    bench = Bench(doubled, INPUTS, OUTPUTS)
    bench.run([work({"x": np.ones((1, 3, 2), np.float32)}), work({"x": np.ones((2, 1, 2), np.float32)})])
    seen = bench.seen
    assert seen["x"].shape == (5, 2)
    assert (seen["n"].tolist(), seen["ends"].tolist(), seen["at"].tolist()) == (
        [[3], [1], [1]],
        [3, 4, 5],
        [0, 3, 4, 5],
    )
    assert [seen[name].dtype for name in ("n", "ends", "at")] == [np.int32, np.int64, np.float32]


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 6)), min_size=1, max_size=5), st.integers(0, 4), st.booleans()
)
def test_any_part_of_a_batch_gives_each_record_its_own(
    records: list[tuple[int, int]], first: int, gives_items: bool
) -> None:
    def items(inputs: Any) -> Any:
        outputs, at = doubled(inputs), inputs["at"].astype(int)
        return [{"y": outputs["y"][a:b], "sum": outputs["sum"][row]} for row, (a, b) in enumerate(pairwise(at))]

    rng = np.random.default_rng(0)
    asked = [rng.random((rows, length, 2), np.float32) for rows, length in records]
    first = min(first, len(asked) - 1)
    got = Bench(items if gives_items else doubled, INPUTS, OUTPUTS).run([work({"x": each}) for each in asked], first)
    for array, outputs in zip(asked[first:], got, strict=True):
        assert np.array_equal(outputs["y"], array * 2)
        assert np.allclose(outputs["sum"], array.sum((1, 2)), atol=1e-5)


def test_texts_can_be_ragged_too() -> None:
    x = TensorSpec("x", Datatype.BYTES, (-1,), ragged=True)
    bench = Bench(lambda inputs: {"y": inputs["x"]}, [x], [TensorSpec("y", Datatype.BYTES, (-1,), cut_like="x")])
    asked = [np.array([[b"a", b"bc"], [b"", b"d"]], object), np.array([[b"e"]], object)]
    got = bench.run([work({"x": each}) for each in asked])
    assert [each["y"].tolist() for each in got] == [each.tolist() for each in asked]


@pytest.mark.parametrize("lost", [1, -1])
def test_an_output_that_is_not_as_long_as_the_records_together_is_refused(lost: int) -> None:
    bench = Bench(lambda inputs: doubled(inputs) | {"y": np.ones((3 - lost, 2), np.float32)}, INPUTS, OUTPUTS)
    error = bench.answer([work({"x": np.ones((1, 3, 2), np.float32)})]).error
    assert error is not None
    assert "the records that it is divided among are 3 long together" in error.message
