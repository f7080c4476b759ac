"""A comparison with a peer says where headrace is behind, and never hides a peer that could not be measured."""

import asyncio
import json
import sysconfig
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from msgspec.structs import replace

from benchmarks.latencies import Summary, TooSlow
from benchmarks.mlp import write_mlp
from benchmarks.over_http import Endpoint
from benchmarks.peers.catalogue import HTTP_PEERS, inputs_of
from benchmarks.peers.http_peers import Effort, HttpComparison, checked
from benchmarks.peers.onnx_model import OnnxModel
from benchmarks.peers.peer_report import table
from benchmarks.peers.rows import Row, Side, gates, ratios
from benchmarks.peers.spec import VARIABLE, Spec, given
from benchmarks.peers.triton_environment import ATTEMPTS, again, variables
from benchmarks.programs import Program
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


@pytest.fixture
def comparison(mlp: Subject, tmp_path: Path) -> HttpComparison:
    return HttpComparison("k:1", mlp, tmp_path, Effort(4.0, 1))


def answering(monkeypatch: pytest.MonkeyPatch, found: Summary | TooSlow) -> Endpoint:
    async def answer(*arguments: object) -> Summary:
        if isinstance(found, TooSlow):
            raise found
        return found

    monkeypatch.setattr(Endpoint, "load", answer)
    return Endpoint(1, "/", RawForm())


async def test_a_peer_too_slow_for_a_latency_keeps_its_maximum(
    comparison: HttpComparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = answering(monkeypatch, TooSlow("too slow to measure: 0 requests in 4 s"))
    row = await comparison._with_their_load(Row("bentoml", "mlp", "", "HTTP", ours=OURS, theirs=THEIRS), 0.1, endpoint)
    assert row.no_load == "0.1 a second is too slow to measure: 0 requests in 4 s"
    assert row.throughput == 0.5
    assert table([row]).row_count == 1


async def test_a_maximum_of_nothing_is_too_slow_to_measure(
    comparison: HttpComparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = answering(monkeypatch, replace(load(1, 1), per_s=0))
    with pytest.raises(TooSlow, match="0 requests in 4 s"):
        await comparison._closed(endpoint, 64)


def test_a_load_of_which_much_failed_is_no_latency() -> None:
    with pytest.raises(ValueError, match="40 of 176 requests failed"):
        checked(replace(load(1, 1), requests=176, errors=40))


@pytest.fixture
def with_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this interpreter's libpython."""
    (tmp_path / "libpython3.so").touch()
    told = {"LIBDIR": str(tmp_path), "INSTSONAME": "libpython3.so"}
    monkeypatch.setattr(sysconfig, "get_config_var", told.get)
    return tmp_path


def test_triton_finds_its_own_interpreters_library_before_others(with_library: Path) -> None:
    assert variables({"LD_LIBRARY_PATH": "/lib"}, 1)["LD_LIBRARY_PATH"] == f"{with_library}:/lib"
    assert variables({}, 1)["LD_LIBRARY_PATH"] == str(with_library)


def test_triton_says_when_the_interpreter_has_no_library(with_library: Path) -> None:
    (with_library / "libpython3.so").unlink()
    with pytest.raises(SystemExit, match="--enable-shared"):
        variables({}, 1)


@pytest.mark.parametrize(("shape", "no_store"), [((384,), "1"), ((3, 48, 192), "")])
def test_triton_passes_large_rows_through_shared_memory(
    with_library: Path, shape: tuple[int, ...], no_store: str
) -> None:
    spec = Spec("m.onnx", (("x", "float32", shape),))
    assert variables({}, spec.row_bytes)["PYTRITON_NO_TENSORSTORE"] == no_store


class NotLoaded(Exception):
    pass


@pytest.mark.parametrize("fails", [0, ATTEMPTS - 1, ATTEMPTS])
def test_a_start_that_chance_decides_on_is_tried_a_few_times(fails: int) -> None:
    tries: list[int] = []

    def serve() -> None:
        tries.append(len(tries))
        if len(tries) <= fails:
            raise NotLoaded

    if fails < ATTEMPTS:
        again(serve, NotLoaded)
        assert len(tries) == fails + 1
    else:
        with pytest.raises(NotLoaded):
            again(serve, NotLoaded)


TALKATIVE = """
import sys
print("x" * 1_000_000)
print("RuntimeError: no")
print("at last", file=sys.stderr)
"""


async def test_a_program_whose_output_nobody_reads_ends_and_names_its_error(tmp_path: Path) -> None:
    (tmp_path / "talkative.py").write_text(TALKATIVE)
    program = Program("talkative", environment={"PYTHONPATH": str(tmp_path)}, unread=True)
    assert program._said is not None
    with program._said:
        await program.start()
        assert await program.process.wait() == 0
        assert program.last_words() == "RuntimeError: no"


PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""


def ended(pid: int) -> None:
    """Returns once it has: as nothing, or as what its new parent has not looked at yet."""
    try:
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
    except psutil.NoSuchProcess:
        pass


async def test_nothing_is_left_of_a_program_whose_children_lead_their_own_sessions(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    program = Program("parent", environment={"PYTHONPATH": str(tmp_path)})
    await program.start()
    child = int(await program.line())
    await program.end()
    await asyncio.to_thread(ended, child)
