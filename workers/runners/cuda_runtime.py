"""The few functions of CUDA's runtime library that onnxruntime does not offer in Python: pinning, copies, streams."""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

LIBRARIES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so")
_PORTABLE = 1  # pinned for all contexts of the process
_NO_TIMING = 2
_NON_BLOCKING = 1
_ANY_DIRECTION = 4  # cudaMemcpyDefault: told from the addresses


class Cuda(Protocol):
    """What a copy beside a run needs. Addresses, streams and events are plain integers; all raise RuntimeError."""

    def pin(self, address: int, nbytes: int) -> None: ...
    def unpin(self, address: int) -> None: ...
    def stream(self) -> int: ...
    def event(self) -> int: ...
    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None: ...
    def record(self, event: int, stream: int) -> None: ...
    def wait_for(self, event: int, stream: int) -> None: ...
    def synchronize(self, stream: int) -> None: ...


class CudaRuntime:
    """The library itself, which onnxruntime-gpu has loaded before. Calls are made on one device, from one thread.

    Raises OSError when made where it is not.
    """

    def __init__(self, device: int) -> None:
        self._library = _load()
        self._library.cudaGetErrorString.restype = ctypes.c_char_p
        self._call("cudaSetDevice", ctypes.c_int(device))

    def pin(self, address: int, nbytes: int) -> None:
        self._call("cudaHostRegister", _pointer(address), ctypes.c_size_t(nbytes), ctypes.c_uint(_PORTABLE))

    def unpin(self, address: int) -> None:
        self._call("cudaHostUnregister", _pointer(address))

    def stream(self) -> int:
        """A new stream that does not wait for the default one."""
        handle = ctypes.c_void_p()
        self._call("cudaStreamCreateWithFlags", ctypes.byref(handle), ctypes.c_uint(_NON_BLOCKING))
        return handle.value or 0

    def event(self) -> int:
        handle = ctypes.c_void_p()
        self._call("cudaEventCreateWithFlags", ctypes.byref(handle), ctypes.c_uint(_NO_TIMING))
        return handle.value or 0

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Begin a copy; beside other work only where the host's memory is pinned."""
        direction = ctypes.c_int(_ANY_DIRECTION)
        arguments = (_pointer(to), _pointer(source), ctypes.c_size_t(nbytes), direction, _pointer(stream))
        self._call("cudaMemcpyAsync", *arguments)

    def record(self, event: int, stream: int) -> None:
        self._call("cudaEventRecord", _pointer(event), _pointer(stream))

    def wait_for(self, event: int, stream: int) -> None:
        """Let what follows on the stream wait for the event."""
        self._call("cudaStreamWaitEvent", _pointer(stream), _pointer(event), ctypes.c_uint(0))

    def synchronize(self, stream: int) -> None:
        """Wait until the stream has done all."""
        self._call("cudaStreamSynchronize", _pointer(stream))

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            words = self._library.cudaGetErrorString(code).decode()
            raise RuntimeError(f"CUDA failure {code}: {words} ; in {name}")


def _load() -> ctypes.CDLL:
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError(f"none of {', '.join(LIBRARIES)} can be loaded: install the CUDA runtime beside onnxruntime-gpu")


def _pointer(address: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(address)
