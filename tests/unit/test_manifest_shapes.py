"""What a model.yaml may say of variable dimensions, in headrace's words and Triton's, and what is wrong with it."""

from typing import Any

import pytest
import yaml

from producer_sdk.tensors import Datatype
from workers.manifest import Manifest
from workers.runners.engine import TensorSpec

HEAD = "engine: python\noutputs: [{name: y, datatype: FP32, shape: [-1], %s}]\n"
IDS = "{name: ids, datatype: INT64, shape: [-1], %s}"
MASK = "{name: mask, datatype: INT64, shape: [-1]}"
N = "{name: n, datatype: INT64, shape: []}"


def manifest(inputs: str, output: str = "", more: str = "", head: str = HEAD) -> Manifest:
    text = head % output + f"inputs: [{inputs}]\n" + more
    return Manifest("m", "model.yaml", yaml.safe_load(text))


def inputs_of(found: Manifest) -> Any:
    assert not found.faults, found.faults
    return found.settings["inputs"]


def test_padding_is_read() -> None:
    found = manifest(IDS % "pad_to: [16, 32], pad_value: 1, mask: mask, batch_axis: 1" + "," + MASK, "cut_like: ids")
    assert inputs_of(found) == (
        TensorSpec("ids", Datatype.INT64, (-1,), batch_axis=1, pad_to=(16, 32), pad_value=1.0, mask="mask"),
        TensorSpec("mask", Datatype.INT64, (-1,)),
    )
    assert found.settings["outputs"] == (TensorSpec("y", Datatype.FP32, (-1,), cut_like="ids"),)


def test_one_number_stands_for_its_multiples() -> None:
    assert inputs_of(manifest(IDS % "pad_to: 8"))[0].pad_to == (8,)


@pytest.mark.parametrize(
    "inputs",
    [
        IDS % "ragged: true, lengths: n, offsets: at" + f",{N},{{name: at, datatype: INT32, shape: [-1], batched: no}}",
        "{name: ids, data_type: TYPE_INT64, dims: [-1], allow_ragged_batch: true}," + N,
    ],
)
def test_ragged_inputs_are_read_in_either_vocabulary(inputs: str) -> None:
    batch_input = """
batch_input:
  - {kind: BATCH_ELEMENT_COUNT, target_name: [n], data_type: TYPE_INT64, source_input: ids}
  - {kind: BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO, target_name: at, data_type: TYPE_INT32, source_input: [ids]}
"""
    found = inputs_of(manifest(inputs, more=batch_input if "dims" in inputs else ""))
    assert found[0] == TensorSpec("ids", Datatype.INT64, (-1,), ragged=True, lengths="n", offsets="at")
    assert found[2] == TensorSpec("at", Datatype.INT32, (-1,), batched=False)


@pytest.mark.parametrize(
    ("inputs", "output", "key", "reason"),
    [
        (IDS % "pad_to: [32, 16]", "", "inputs[0].pad_to", "does not ascend"),
        (IDS % "pad_to: [16, 16]", "", "inputs[0].pad_to", "does not ascend"),
        (IDS % "pad_to: 0", "", "inputs[0].pad_to", "a size from 1, or a list of them"),
        (IDS % "pad_to: true", "", "inputs[0].pad_to", "a size from 1, or a list of them"),
        (IDS % "pad_to: []", "", "inputs[0].pad_to", "a size from 1, or a list of them"),
        (IDS % "pad_value: 1", "", "inputs[0].pad_value", "beside pad_to alone"),
        (IDS % "pad_to: 8, pad_value: 0.5", "", "inputs[0].pad_value", "0.5 is no INT64"),
        ("{name: x, datatype: INT8, shape: [-1], pad_to: 8, pad_value: 128}", "", "inputs[0].pad_value", "-128 to 127"),
        (
            "{name: x, datatype: BYTES, shape: [-1], pad_to: 8, pad_value: 0}",
            "",
            "inputs[0].pad_value",
            "empty elements",
        ),
        ("{name: x, datatype: INT8, shape: [2], pad_to: 8}", "", "inputs[0].pad_to", "with a variable dimension"),
        (IDS % "mask: mask" + "," + MASK, "", "inputs[0].mask", "it needs pad_to"),
        (IDS % "pad_to: 8, mask: nope", "", "inputs[0].mask", "there is no input 'nope'"),
        (IDS % "pad_to: 8, mask: n" + "," + N, "", "inputs[0].mask", "as many variable dimensions (-1) as 'ids'"),
        (IDS % "pad_to: 8, mask: ids", "", "inputs[0].mask", "it follows 'ids'"),
        (IDS % "pad_to: 8, ragged: true", "", "inputs[0].ragged", "exclude each other"),
        (IDS % "ragged: true, batch_axis: 1", "", "inputs[0].ragged", "with batch_axis 0"),
        (IDS % "lengths: n" + "," + N, "", "inputs[0].lengths", "ragged: true"),
        (IDS % "ragged: true, lengths: mask" + "," + MASK, "", "inputs[0].lengths", "its shape must be [] or [1]"),
        (IDS % "ragged: true, offsets: n" + "," + N, "", "inputs[0].offsets", "`batched: false` and shape [-1]"),
        (IDS % "ragged: true, lengths: n, ends: n" + "," + N, "", "inputs[0].ends", "made twice"),
        (
            IDS % "pad_to: 8, batch_axis: 2",
            "",
            "inputs[0].batch_axis",
            "there is no axis 2: with the rows there are 2 axes",
        ),
        (IDS % "pad_to: 8, cut_like: ids", "", "inputs[0].cut_like", "not a known key"),
        (IDS % "pad_to: 8", "cut_like: nope", "outputs[0].cut_like", "there is no input 'nope'"),
        (IDS % "batch_axis: 0", "cut_like: ids", "outputs[0].cut_like", "neither padded nor ragged"),
        (IDS % "pad_to: 8", "pad_to: 8", "outputs[0].pad_to", "not a known key"),
        (IDS % "ragged: true", "cut_like: ids, batch_axis: 1", "outputs[0].cut_like", "with batch_axis 0"),
    ],
)
def test_what_is_wrong_is_told_with_its_key(inputs: str, output: str, key: str, reason: str) -> None:
    (fault,) = manifest(inputs, output).faults
    assert (fault.key, fault.fatal) == (key, True)
    assert reason in fault.reason


@pytest.mark.parametrize(
    ("item", "key", "reason"),
    [
        ("kind: BATCH_ITEM_SHAPE, target_name: n, source_input: ids", "kind", "is not supported: use one of BATCH_"),
        ("kind: BATCH_ELEMENT_COUNT, target_name: n, source_input: q", "source_input", "none of the declared inputs"),
        ("kind: BATCH_ELEMENT_COUNT, target_name: [n, m], source_input: ids", "target_name", "text that is not empty"),
        ("kind: BATCH_ELEMENT_COUNT, target: n, source_input: ids", "target", "not a known key"),
    ],
)
def test_a_batch_input_that_means_nothing_here_is_refused(item: str, key: str, reason: str) -> None:
    (fault,) = manifest(IDS % "ragged: true" + "," + N, more=f"batch_input: [{{{item}}}]").faults
    assert fault.key == f"batch_input[0].{key}"
    assert reason in fault.reason


def test_inputs_that_only_the_file_knows_may_be_named() -> None:
    onnx = HEAD.replace("python", "onnxruntime")
    assert inputs_of(manifest(IDS % "pad_to: 8, mask: mask", head=onnx))[0].mask == "mask"
