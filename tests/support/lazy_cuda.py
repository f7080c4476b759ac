"""A CUDA device without a device: what is queued on a stream happens as late as CUDA allows, in host memory."""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

FLOAT = 1  # of onnx.TensorProto.DataType


class LazyCuda:
    """As cuda_runtime.Cuda. `log` are its calls; `pinned` is what is pinned, by address."""

    def __init__(self) -> None:
        self.pinned: dict[int, int] = {}
        self.log: list[str] = []
        self._streams: dict[int, list[Callable[[], None]]] = defaultdict(list)
        self._recorded: dict[int, tuple[int, int]] = {}  # by event: a stream, and how much of it lies before
        self._handles = 0

    def pin(self, address: int, nbytes: int) -> None:
        assert address not in self.pinned
        self.pinned[address] = nbytes

    def unpin(self, address: int) -> None:
        del self.pinned[address]

    def stream(self) -> int:
        self._handles += 1
        return self._handles

    event = stream

    def queue(self, stream: int, work: Callable[[], None]) -> None:
        self._streams[stream].append(work)

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None:
        self.log.append(f"copy {nbytes} on {stream}")
        self.queue(stream, lambda: ctypes.memmove(to, source, nbytes) and None)

    def record(self, event: int, stream: int) -> None:
        self._recorded[event] = (stream, len(self._streams[stream]))

    def wait_for(self, event: int, stream: int) -> None:
        source, count = self._recorded[event]
        ahead = self._streams[source][:count]
        self.queue(stream, lambda: self._do(source, ahead))

    def synchronize(self, stream: int) -> None:
        self.log.append(f"synchronize {stream}")
        self._do(stream, list(self._streams[stream]))

    def _do(self, stream: int, works: Sequence[Callable[[], None]]) -> None:
        for work in works:
            if work in self._streams[stream]:
                self._streams[stream].remove(work)
                work()


class DeviceValue:
    """As onnxruntime.OrtValue."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def data_ptr(self) -> int:
        return int(self._array.ctypes.data)

    def shape(self) -> list[int]:
        return list(self._array.shape)

    def element_type(self) -> int:
        return FLOAT


class LazyRuntime:
    """As the module onnxruntime, with sessions that double `x` into `y` on a LazyCuda. `allocated` counts buffers."""

    def __init__(self, cuda: LazyCuda) -> None:
        self.cuda = cuda
        self.allocated = 0
        self.fault: Exception | None = None
        self.stream = 0
        self.OrtValue = self
        self._inputs: dict[str, tuple[Any, Any, int]] = {}
        self._outputs: list[DeviceValue] = []

    def ortvalue_from_shape_and_type(self, shape: list[int], dtype: Any, device: str, index: int) -> DeviceValue:
        assert (device, index) == ("cuda", 3)
        self.allocated += 1
        return DeviceValue(np.zeros(shape, dtype))

    class RunOptions:
        def add_run_config_entry(self, key: str, value: str) -> None:
            assert (key, value) == ("disable_synchronize_execution_providers", "1")

    def io_binding(self) -> LazyRuntime:
        return self

    def bind_input(self, name: str, device: str, index: int, dtype: Any, shape: tuple[int, ...], address: int) -> None:
        self._inputs[name] = (dtype, shape, address)

    def bind_output(self, name: str, device: str, index: int) -> None:
        pass

    def run_with_iobinding(self, binding: LazyRuntime, options: Any) -> None:
        if self.fault is not None:
            raise self.fault
        dtype, shape, address = self._inputs["x"]
        output = np.zeros(shape, dtype)
        self._outputs = [DeviceValue(output)]

        def double() -> None:
            count = output.nbytes
            source = np.frombuffer((ctypes.c_char * count).from_address(address), dtype).reshape(shape)
            output[...] = source * 2

        self.cuda.queue(self.stream, double)

    def get_outputs(self) -> list[DeviceValue]:
        return self._outputs
