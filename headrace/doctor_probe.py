"""Says as JSON what an engine or the CUDA driver has; run as a program, since imports may hang, print, or crash.

`python -P doctor_probe.py onnxruntime|torch|cuda`. It imports nothing of headrace.
"""

import ctypes
import json
import sys
from typing import Any

_NAME_BYTES = 100


def onnxruntime() -> dict[str, Any]:
    import onnxruntime as runtime

    return {"version": runtime.__version__, "providers": runtime.get_available_providers()}


def torch() -> dict[str, Any]:
    import torch as library  # type: ignore[import-not-found,unused-ignore]

    return {"version": library.__version__, "cuda": library.version.cuda, "devices": library.cuda.device_count()}


def cuda() -> dict[str, Any]:
    """The devices that CUDA_VISIBLE_DEVICES leaves, in the order of their numbers."""
    driver = ctypes.CDLL("libcuda.so.1")
    if code := driver.cuInit(0):
        raise OSError(f"the NVIDIA driver cannot be used: cuInit says {code}")
    count, devices = ctypes.c_int(), []
    driver.cuDeviceGetCount(ctypes.byref(count))
    for number in range(count.value):
        handle, name, size = ctypes.c_int(), ctypes.create_string_buffer(_NAME_BYTES), ctypes.c_size_t()
        driver.cuDeviceGet(ctypes.byref(handle), number)
        driver.cuDeviceGetName(name, _NAME_BYTES, handle)
        driver.cuDeviceTotalMem_v2(ctypes.byref(size), handle)
        devices.append({"name": name.value.decode(errors="replace"), "bytes": size.value})
    return {"devices": devices}


PROBES = {"onnxruntime": onnxruntime, "torch": torch, "cuda": cuda}


def main() -> None:
    try:
        told = PROBES[sys.argv[1]]()
    except Exception as err:  # noqa: BLE001 - whatever an import may raise is the answer
        told = {"fault": f"{type(err).__name__}: {err}"}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
