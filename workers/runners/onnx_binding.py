"""Batches of an onnxruntime session on a CUDA device, from pinned memory, the next one's inputs copied beside a run.

onnxruntime offers no pinned memory for CUDA in Python (its devices are cpu and cuda; host-accessible memory is for
plug-in providers alone), so the slots' shared memory is registered with CUDA itself, and copied on a stream of its own.
Used where model.yaml says `parameters: {io_binding: true}`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from producer_sdk.tensors import Array, Datatype

from .cuda_runtime import Cuda, CudaRuntime
from .engine import LoadFailed, LoadFault, ModelSpec, Signature

_Key = tuple[tuple[int, tuple[int, ...]], ...]


class PinnedSlots:
    """The slots' input memory, registered with CUDA once for each mapping. One thread uses it."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._views: dict[int, memoryview] = {}  # kept, for pinned memory must not be unmapped

    def pin(self, slot: int, view: memoryview) -> None:
        """Have this mapping pinned; one that it replaces is let go."""
        known = self._views.get(slot)
        if known is view or not len(view):
            return
        if known is not None:
            self._cuda.unpin(_address(known))
            del self._views[slot]
        self._cuda.pin(_address(view), len(view))
        self._views[slot] = view

    def slot_of(self, address: int) -> int | None:
        """The slot in whose memory an address lies."""
        for slot, view in self._views.items():
            if 0 <= address - _address(view) < len(view):
                return slot
        return None

    def close(self) -> None:
        for view in self._views.values():
            self._cuda.unpin(_address(view))
        self._views.clear()


class Upload:
    """One batch's inputs on their way to the device, into memory that is kept and only ever grows."""

    def __init__(self, cuda: Cuda, allocate: Callable[[int], Any]) -> None:
        self._cuda = cuda
        self._allocate = allocate
        self._event = cuda.event()
        self._buffers: dict[str, tuple[Any, int]] = {}
        self._key: _Key | None = None

    def begin(self, inputs: Mapping[str, Array], stream: int) -> None:
        """Start to copy them; not if that has been done since the last run."""
        key = tuple((_address(array), array.shape) for array in inputs.values())
        if key == self._key:
            return
        for name, array in inputs.items():
            self._cuda.copy(self._buffer(name, array.nbytes), _address(array), array.nbytes, stream)
        self._cuda.record(self._event, stream)
        self._key = key

    def finish(self, stream: int) -> None:
        """Let the stream wait for the copies; the next `begin` copies again, for the slot may be filled anew."""
        self._cuda.wait_for(self._event, stream)
        self._key = None

    def address(self, name: str) -> int:
        return int(self._buffers[name][0].data_ptr())

    def _buffer(self, name: str, nbytes: int) -> int:
        if name not in self._buffers or self._buffers[name][1] < nbytes:
            self._buffers[name] = (self._allocate(max(1, nbytes)), nbytes)
        return self.address(name)


class BoundSession:
    """Runs an onnxruntime session that was opened with `provider_options`. One thread uses it.

    A run is queued on the session's stream without waiting; then `ahead` is called, which may have the next batch's
    inputs copied by `prefetch`; only then are the outputs waited for. They last until the next run.
    """

    def __init__(self, cuda: Cuda, runtime: Any, device: int) -> None:
        self.provider_options = {"user_compute_stream": str(stream := cuda.stream())}
        self.pinned = PinnedSlots(cuda)
        self.ahead: Callable[[], None] = lambda: None
        self._cuda = cuda
        self._runtime = runtime
        self._device = device
        self._stream = stream
        self._copies = cuda.stream()
        self._uploads: dict[int | None, Upload] = {}
        self._staged: dict[str, Array] = {}
        self._session: Any = None
        self._options: Any = None

    def use(self, session: Any) -> None:
        """The session, once it is open."""
        self._session = session
        self._options = self._runtime.RunOptions()
        self._options.add_run_config_entry("disable_synchronize_execution_providers", "1")

    def prefetch(self, inputs: Mapping[str, Array]) -> None:
        """Copy the inputs of the next run while one is under way."""
        if all(array.flags.c_contiguous for array in inputs.values()):
            self._upload_of(inputs).begin(inputs, self._copies)

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> dict[str, Array]:
        inputs = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        upload = self._upload_of(inputs)
        upload.begin(inputs, self._copies)
        upload.finish(self._stream)
        binding = self._session.io_binding()
        for name, array in inputs.items():
            binding.bind_input(name, "cuda", self._device, array.dtype.type, array.shape, upload.address(name))
        for name in outputs:
            binding.bind_output(name, "cuda", self._device)
        try:
            self._session.run_with_iobinding(binding, self._options)
            self.ahead()
            arrays = [self._fetch(name, value) for name, value in zip(outputs, binding.get_outputs(), strict=True)]
        finally:
            self._cuda.synchronize(self._stream)  # also after a fault: what is queued still reads the buffers
        return dict(zip(outputs, arrays, strict=True))

    def close(self) -> None:
        self._cuda.synchronize(self._stream)
        self.pinned.close()
        for staged in self._staged.values():
            self._cuda.unpin(_address(staged))
        self._staged.clear()

    def _upload_of(self, inputs: Mapping[str, Array]) -> Upload:
        """Each slot has buffers of its own, so that one is filled while the other is read."""
        slots = (self.pinned.slot_of(_address(array)) for array in inputs.values())
        slot = next((slot for slot in slots if slot is not None), None)
        if slot not in self._uploads:
            self._uploads[slot] = Upload(self._cuda, self._allocate)
        return self._uploads[slot]

    def _allocate(self, nbytes: int) -> Any:
        return self._runtime.OrtValue.ortvalue_from_shape_and_type([nbytes], np.uint8, "cuda", self._device)

    def _fetch(self, name: str, value: Any) -> Array:
        """Begin to copy an output into memory of the host that is kept, as large as the largest yet."""
        shape, dtype = tuple(value.shape()), _DTYPES[value.element_type()]
        nbytes = math.prod(shape) * dtype.itemsize
        if name not in self._staged or self._staged[name].nbytes < nbytes:
            if name in self._staged:
                self._cuda.unpin(_address(self._staged[name]))
            self._staged[name] = np.empty(max(1, nbytes), np.uint8)
            self._cuda.pin(_address(self._staged[name]), self._staged[name].nbytes)
        staged = self._staged[name]
        self._cuda.copy(_address(staged), int(value.data_ptr()), nbytes, self._stream)
        return staged[:nbytes].view(dtype).reshape(shape)


def binding_for(runtime: Any, spec: ModelSpec, make_cuda: Callable[[int], Cuda] = CudaRuntime) -> BoundSession | None:
    """What the session of a model is to be opened with; None for one that does not ask for it.

    Raises:
        LoadFailed: it asks for it, and it cannot be had.
    """
    if not spec.parameters.get("io_binding"):
        return None
    kind, _, index = spec.device.partition(":")
    if kind != "cuda":
        raise LoadFailed(f"io_binding is for a model on cuda:N, but {spec.name!r} runs on {spec.device}")
    device = int(index or 0)
    try:
        return BoundSession(make_cuda(device), runtime, device)
    except (OSError, RuntimeError) as err:
        raise LoadFailed(f"io_binding of model {spec.name!r} cannot be had: {err}", LoadFault.DEPENDENCY) from err


def check_bindable(signature: Signature) -> None:
    """Raises LoadFailed for a signature with texts, which have no place on a device, or with BF16, unknown to NumPy."""
    for tensor in (*signature.inputs, *signature.outputs):
        if tensor.datatype in (Datatype.BYTES, Datatype.BF16):
            raise LoadFailed(
                f"{tensor.name!r} is {tensor.datatype}: io_binding is for NumPy's numbers, take it out of model.yaml"
            )


# By onnx.TensorProto.DataType.
_DTYPES = {
    number: np.dtype(name)
    for number, name in {
        1: "f4", 2: "u1", 3: "i1", 4: "u2", 5: "i2", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8", 12: "u4", 13: "u8",
    }.items()
}  # fmt: skip


def _address(memory: Array | memoryview) -> int:
    array = memory if isinstance(memory, np.ndarray) else np.frombuffer(memory, np.uint8)
    return int(array.__array_interface__["data"][0])
