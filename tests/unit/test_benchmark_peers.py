"""A comparison with a peer says where headrace is behind, and never hides a peer that could not be measured."""

import json
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks.latencies import Summary
from benchmarks.mlp import write_mlp
from benchmarks.peers.catalogue import HTTP_PEERS, inputs_of
from benchmarks.peers.onnx_model import OnnxModel
from benchmarks.peers.peer_report import table
from benchmarks.peers.rows import Row, Side, gates, ratios
from benchmarks.peers.spec import VARIABLE, Spec, given
from benchmarks.records import WrongReply
from benchmarks.subjects import Subject
from benchmarks.tensors_over_http import BinaryOipForm, FlatJsonForm, OipForm, RawForm, check


def load(p50_ms: float, p99_ms: float) -> Summary:
    return Summary(100, 100, 1000, p50_ms, p99_ms, p99_ms, 0, 0, 0, 0)


OURS = Side([90, 100, 110], idle_ms=2.0, many={64: 100, 256: 300})
THEIRS = Side([200, 190, 210], idle_ms=1.0, many={64: 200, 256: 300})
ROW = Row("mosec", "mlp", "2 x 32", "HTTP", None, "", OURS, THEIRS, 50, load(2, 10), load(4, 5))


def test_a_row_says_in_what_headrace_is_behind() -> None:
    assert ROW.behind == "throughput, p99"


def test_a_row_in_which_headrace_is_ahead_says_nothing() -> None:
    assert replace(ROW, ours=THEIRS, theirs=OURS, our_load=load(1, 1)).behind == ""


def test_the_gateway_is_held_to_mosec_by_connections_and_idle() -> None:
    assert [(gate.ratio, gate.holds) for gate in gates([ROW])] == [(0.5, True), (1.0, True), (2.0, False)]


def test_other_peers_have_no_gates() -> None:
    assert gates([replace(ROW, peer="ray")]) == []


def test_every_ratio_of_the_table_can_be_stored() -> None:
    assert [gate.ratio for gate in ratios([ROW])] == [0.5, 0.5, 2.0]


def test_a_peer_that_could_not_be_measured_keeps_its_row() -> None:
    row = Row("triton", "mlp", "2 x 32", "HTTP", reason="no wheel")
    assert table([row]).row_count == 1
    assert ratios([row]) == []


def test_a_peers_process_is_told_what_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = Spec("m.onnx", (("x", "float32", (3, 4)),), port=1, batch=8, wait_ms=0.5, servers="k:1")
    monkeypatch.setenv(VARIABLE, spec.variable()[VARIABLE])
    assert given() == spec


@pytest.fixture
def mlp(tmp_path: Path) -> Subject:
    return Subject.of("mlp", write_mlp(tmp_path / "mlp.onnx"))


@pytest.mark.parametrize("form", [RawForm(), FlatJsonForm()])
def test_every_form_carries_the_row_to_the_peers_model(form: RawForm | FlatJsonForm, mlp: Subject) -> None:
    model = OnnxModel(Spec(str(mlp.file), inputs_of(mlp)))
    if isinstance(form, RawForm):
        (answer,) = model.run_bytes([form.body(mlp, 0)])
    else:
        rows = np.array(json.loads(form.body(mlp, 0))["rows"])
        answer = json.dumps(model.run_flat(rows).tolist()).encode()
    check(answer, form, mlp.answers(1))


def test_rows_of_several_inputs_are_taken_apart_again() -> None:
    minilm = Subject.of("minilm", Path("minilm.onnx"))
    rows = [RawForm().body(minilm, number) for number in range(3)]
    model = OnnxModel.__new__(OnnxModel)
    model.__dict__["_inputs"] = [(name, np.dtype(dtype), shape) for name, dtype, shape in inputs_of(minilm)]
    arrays = dict(model.arrays(rows))
    assert all(np.array_equal(arrays[name], minilm.rows[name][:3]) for name in minilm.rows)


def test_binary_tensors_lie_behind_their_description(mlp: Subject) -> None:
    form = BinaryOipForm()
    length = int(form.headers(mlp)["Inference-Header-Content-Length"])
    assert form.body(mlp, 5)[length:] == mlp.rows["x"][5].tobytes()


def test_an_answer_of_the_protocol_is_read_and_a_wrong_one_refused() -> None:
    expected = {"y": np.array([[1.0, 2.0]], np.float32)}
    right = b'{"outputs": [{"name": "y", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}'
    check(right, OipForm(), expected)
    with pytest.raises(WrongReply, match="Row 0 got a wrong y"):
        check(right.replace(b"[1, 2]}", b"[1, 3]}"), OipForm(), expected)


def test_each_peer_has_a_file_of_its_own() -> None:
    folder = Path(__file__).resolve().parents[2] / "benchmarks" / "peers"
    assert [peer.name for peer in HTTP_PEERS if not (folder / f"{peer.name}.py").is_file()] == []
