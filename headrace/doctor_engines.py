"""What can run models here: onnxruntime and its providers, torch, CUDA devices. Asked apart, then judged (pure)."""

import asyncio
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace import doctor_probe
from headrace.doctor_line import Area, Line, listed
from headrace.doctor_machine import in_units
from workers.runners.engine import ModelSpec

ENGINES = Area("engines")
# torch from a cold disk takes many seconds to import, whatever others may take.
PROBE_BUDGET_S = 30.0
CUDA_PROVIDER = "CUDAExecutionProvider"
Told = Mapping[str, Any]


async def probe(name: str) -> Told:
    """What `doctor_probe.py` says of it; {"missing": True} where the package is not installed."""
    if name in ("onnxruntime", "torch") and importlib.util.find_spec(name) is None:
        return {"missing": True}
    # -P: the folder of that file has modules whose names would be taken for those of others.
    program = [sys.executable, "-P", str(Path(doctor_probe.__file__)), name]
    process = await asyncio.create_subprocess_exec(
        *program, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, stdin=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(PROBE_BUDGET_S):
            output, _ = await process.communicate()
    except TimeoutError:
        return {"fault": f"it did not load within {PROBE_BUDGET_S:g} s"}
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        told: Told = json.loads(output.splitlines()[-1])
    except (ValueError, IndexError):
        return {"fault": f"loading it ended the process with code {process.returncode}"}
    return told


async def engine_lines(specs: Sequence[ModelSpec]) -> list[Line]:
    """All engines and devices, for these models."""
    wants_cuda = any(spec.device.startswith("cuda") for spec in specs)
    names = ["onnxruntime", "torch", *(["cuda"] if wants_cuda else [])]
    onnx, torch, *cuda = await asyncio.gather(*map(probe, names))
    return [judge_onnxruntime(onnx, specs), judge_torch(torch, specs), *judge_devices(cuda[0] if cuda else {}, specs)]


def judge_onnxruntime(told: Told, specs: Sequence[ModelSpec]) -> Line:
    """Whether it is there, and has what the devices of its models need."""
    own = [spec for spec in specs if spec.engine == "onnxruntime"]
    on_cuda = [spec.name for spec in own if spec.device.startswith("cuda")]
    extra = "onnx-gpu" if on_cuda else "onnx"
    if told.get("missing"):
        if not own:
            return ENGINES.skipped("onnxruntime", "Not installed; no model wants it.")
        names = listed([spec.name for spec in own])
        return ENGINES.fault("onnxruntime", f"Not installed, but {names} wants it: pip install 'headrace[{extra}]'.")
    if "fault" in told:
        text = f"Installed, but it does not load: {told['fault']}."
        return ENGINES.fault("onnxruntime", text) if own else ENGINES.note("onnxruntime", text)
    providers = told["providers"]
    if on_cuda and CUDA_PROVIDER not in providers:
        text = (
            f"{listed(on_cuda)} is for CUDA, but version {told['version']} has {', '.join(providers)} only: "
            "pip uninstall onnxruntime, then pip install 'headrace[onnx-gpu]'."
        )
        return ENGINES.fault("onnxruntime", text)
    return ENGINES.ok("onnxruntime", f"Version {told['version']}, with {', '.join(providers)}.")


def judge_torch(told: Told, specs: Sequence[ModelSpec]) -> Line:
    """No model says that it uses torch; what is wrong with it is worth knowing all the same."""
    if told.get("missing"):
        return ENGINES.skipped("torch", "Not installed; a model.py may need it.")
    if "fault" in told:
        return ENGINES.note("torch", f"Installed, but it does not load: {told['fault']}.")
    on_cuda = [spec.name for spec in specs if spec.engine == "python" and spec.device.startswith("cuda")]
    built = f"for CUDA {told['cuda']}" if told["cuda"] else "for the CPU only"
    if on_cuda and not told["devices"]:
        text = f"Version {told['version']} is built {built} and sees no device, but {listed(on_cuda)} is for CUDA."
        return ENGINES.note("torch", text)
    return ENGINES.ok("torch", f"Version {told['version']}, built {built}.")


def judge_devices(told: Told, specs: Sequence[ModelSpec]) -> list[Line]:
    """A line for each CUDA device that a model names."""
    by_device: dict[str, list[str]] = {}
    for spec in specs:
        if spec.device.startswith("cuda"):
            by_device.setdefault(spec.device, []).append(spec.name)
    if not by_device:
        return [ENGINES.skipped("devices", "No model names a CUDA device.")]
    return [_device(told, device, names) for device, names in sorted(by_device.items())]


def _device(told: Told, device: str, names: Sequence[str]) -> Line:
    if "fault" in told:
        cure = "Install the NVIDIA driver, or start the container with --gpus all."
        return ENGINES.fault(device, f"{listed(names)} wants it, but: {told['fault']}. {cure}")
    found, number = told["devices"], int(device.partition(":")[2])
    if number >= len(found):
        there = f"{len(found)} are visible, cuda:0 to cuda:{len(found) - 1}" if found else "none is visible"
        cure = "Correct `device:` in model.yaml, or CUDA_VISIBLE_DEVICES."
        return ENGINES.fault(device, f"{listed(names)} wants it, but {there}. {cure}")
    return ENGINES.ok(device, f"{found[number]['name']}, {in_units(found[number]['bytes'])}, for {listed(names)}.")
