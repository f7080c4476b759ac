"""Batches on a CUDA device: from pinned memory, into buffers that stay, the next one copied while one runs.

The device here is a fake that does everything as late as CUDA may. What has not been run is CUDA itself.
"""

import socket
from pathlib import Path

import numpy as np
import pytest
from lazy_cuda import LazyCuda, LazyRuntime

from producer_sdk.tensors import Array, Datatype
from workers.runners.engine import Loaded, LoadFailed, ModelSpec, Signature, TensorSpec
from workers.runners.messages import Place, Run, encode, framed
from workers.runners.onnx_binding import BoundSession, PinnedSlots, binding_for, check_bindable
from workers.runners.process import _Blocking
from workers.runners.python_model import PythonModel
from workers.runners.reading_ahead import ReadingAhead
from workers.runners.session import Session
from workers.runners.shm import Region

COMPUTE, COPIES = 1, 2


def bound() -> tuple[BoundSession, LazyRuntime, LazyCuda]:
    cuda = LazyCuda()
    runtime = LazyRuntime(cuda)
    session = BoundSession(cuda, runtime, 3)
    runtime.stream = int(session.provider_options["user_compute_stream"])
    session.use(runtime)
    return session, runtime, cuda


def slot(session: BoundSession, number: int, rows: int = 4) -> Array:
    """A slot's memory, pinned."""
    memory = bytearray(rows * 8)
    session.pinned.pin(number, memoryview(memory))
    return np.frombuffer(memory, np.float32).reshape(rows, 2)


def run(session: BoundSession, x: Array) -> list[list[float]]:
    return session.run({"x": x}, ["y"])["y"].tolist()  # type: ignore[no-any-return]


def test_inputs_go_there_and_outputs_come_back() -> None:
    session, _, _ = bound()
    x = slot(session, 0)
    x[:] = [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert run(session, x) == [[2, 4], [6, 8], [10, 12], [14, 16]]
    assert run(session, x[1:3]) == [[6, 8], [10, 12]]


def test_a_slot_filled_anew_is_copied_anew() -> None:
    session, _, _ = bound()
    x = slot(session, 0, 1)
    for value in (1, 2, 3):
        x[:] = value
        assert run(session, x) == [[2 * value, 2 * value]]


def test_the_next_batch_is_copied_before_the_running_one_is_waited_for_and_only_once() -> None:
    session, _, cuda = bound()
    x, following = slot(session, 0, 1), slot(session, 1, 2)
    x[:], following[:] = 1, 5
    session.ahead = lambda: session.prefetch({"x": following})
    assert run(session, x) == [[2, 2]]
    session.ahead = lambda: None
    assert run(session, following) == [[10, 10], [10, 10]]
    first = [f"copy 8 on {COPIES}", f"copy 16 on {COPIES}", f"copy 8 on {COMPUTE}", f"synchronize {COMPUTE}"]
    assert cuda.log == [*first, f"copy 16 on {COMPUTE}", f"synchronize {COMPUTE}"]


def test_in_the_steady_state_nothing_is_allocated_or_pinned() -> None:
    session, runtime, cuda = bound()
    slots = [slot(session, number) for number in (0, 1)]
    for x in slots:
        run(session, x)
    before = runtime.allocated, dict(cuda.pinned)
    for rows in (1, 2, 3, 4):
        for x in slots:
            run(session, x[:rows])
    assert (runtime.allocated, cuda.pinned) == before


def test_memory_that_was_mapped_anew_is_pinned_in_place_of_the_old() -> None:
    cuda = LazyCuda()
    pinned = PinnedSlots(cuda)
    old, new = memoryview(bytearray(8)), memoryview(bytearray(16))
    for view in (memoryview(b""), old, old, new):
        pinned.pin(0, view)
    assert list(cuda.pinned.values()) == [16]
    pinned.close()
    assert not cuda.pinned


def test_after_a_fault_nothing_is_left_under_way_and_the_next_run_is_right() -> None:
    session, runtime, cuda = bound()
    x = slot(session, 0, 1)
    runtime.fault = RuntimeError("CUDA failure 2: out of memory")
    with pytest.raises(RuntimeError):
        run(session, x)
    assert cuda.log[-1] == f"synchronize {COMPUTE}"
    runtime.fault = None
    x[:] = 4
    assert run(session, x) == [[8, 8]]


def test_closed_it_leaves_nothing_pinned() -> None:
    session, _, cuda = bound()
    run(session, slot(session, 0))
    session.close()
    assert not cuda.pinned


def test_inputs_that_do_not_lie_in_one_piece_are_put_together() -> None:
    session, _, _ = bound()
    x = np.arange(6, dtype=np.float32).reshape(2, 3).T
    assert run(session, x) == [[0, 6], [2, 8], [4, 10]]


def spec(device: str, **parameters: object) -> ModelSpec:
    return ModelSpec("m", "1", Path("."), "onnxruntime", device, parameters=parameters)


def no_library(device: int) -> LazyCuda:
    raise OSError("no libcudart")


def test_only_who_asks_for_it_gets_it_and_is_told_where_it_cannot_be_had() -> None:
    runtime = LazyRuntime(LazyCuda())
    assert binding_for(runtime, spec("cuda:3")) is None
    assert binding_for(runtime, spec("cuda:3", io_binding=True), lambda device: LazyCuda()) is not None
    with pytest.raises(LoadFailed, match="runs on cpu"):
        binding_for(runtime, spec("cpu", io_binding=True))
    with pytest.raises(LoadFailed, match="no libcudart"):
        binding_for(runtime, spec("cuda:0", io_binding=True), no_library)


@pytest.mark.parametrize("datatype", [Datatype.BYTES, Datatype.BF16])
def test_what_numpy_has_no_number_for_has_no_place_on_a_device(datatype: Datatype) -> None:
    with pytest.raises(LoadFailed, match=f"'t' is {datatype}"):
        check_bindable(Signature((TensorSpec("t", datatype, (1,)),), ()))


def test_the_runner_sees_a_message_that_has_come_and_takes_it_later() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = _Blocking(theirs)
        assert channel.peek() is None
        ours.sendall(framed(b"first") + framed(b"second"))
        assert [channel.peek(), channel.peek(), channel.receive(), channel.peek()] == [
            b"first", b"first", b"first", b"second",
        ]  # fmt: skip
        ours.shutdown(socket.SHUT_WR)
        assert [channel.receive(), channel.peek(), channel.receive()] == [b"second", None, None]


def test_the_run_that_comes_next_is_looked_at_and_its_inputs_are_copied() -> None:
    session, _, cuda = bound()
    inputs = TensorSpec("x", Datatype.FP32, (2,))
    reader = Session(PythonModel(), spec("cuda:3"), Loaded(Signature((inputs,), ()), "python", 32), 1 << 20)
    region = Region.create(1)
    messages: list[bytes | None] = [encode(Run(1, 0, len(region.view), (2,), (Place(0, 16, (2, 2)),))), None]
    ahead = ReadingAhead(session, reader, [region], lambda: messages.pop(0))
    ahead.look()
    ahead.look()
    assert cuda.log == [f"copy 16 on {COPIES}"]
    assert list(cuda.pinned.values()) == [len(region.view)]
    session.close()
    region.close()
