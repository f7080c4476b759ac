"""The engines that are installed, one model and one load: `python -m benchmarks.engines`.

The same small network (mlp) by each engine of headrace, in a worker as users start it: requests a second, P99 and the
most memory, with 64 callers who each have one request out. `onnxruntime` runs the ONNX file; `python` runs a model.py
that computes it in NumPy; `python with torch` one that computes it in torch, where torch is installed. Peak GB is the
sum of the most that each process of the worker had in memory (VmHWM), shared pages counted in each; Linux alone tells.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import onnx
import psutil
from msgspec import Struct
from onnx import numpy_helper
from rich.console import Console
from rich.table import Table

from benchmarks.arena import System, headrace_system, scratch_folder
from benchmarks.latencies import Summary, summary
from benchmarks.latency import WARM_UP_S, serving
from benchmarks.machine import Machine
from benchmarks.subjects import BATCHES, WAIT_MS, Subject, model_file, to_stderr
from benchmarks.variants import Variant
from benchmarks.warm_kafka import warm_kafka
from headrace.event_loop import run
from producer_sdk.topics import Lane

CALLERS = 64
GB = 1e9
ONNX, NUMPY, TORCH = "onnxruntime", "python (NumPy)", "python with torch"
CODE = """\
from pathlib import Path
import numpy as np
{load}

class Model:
    def load(self, context):
        weights = np.load(Path(context.folder) / "weights.npz")
        self.weights = [{wrap}(weights[name]) for name in ("w1", "b1", "w2", "b2")]

    def predict(self, inputs):
        w1, b1, w2, b2 = self.weights
        x = {wrap}(inputs["x"])
        hidden = {relu}(x @ w1 + b1)
        return {{"y": {unwrap}}}
"""
SIGNATURE = """\
inputs: [{name: x, datatype: FP32, shape: [384]}]
outputs: [{name: y, datatype: FP32, shape: [10]}]
"""
NUMPY_WORDS = {"load": "", "wrap": "np.asarray", "relu": "(lambda a: np.maximum(a, 0))", "unwrap": "hidden @ w2 + b2"}
TORCH_WORDS = {
    "load": "import torch; torch.set_num_threads(1)",
    "wrap": "torch.from_numpy",
    "relu": "torch.relu",
    "unwrap": "(hidden @ w2 + b2).numpy()",
}


class EngineFigures(Struct, frozen=True):
    """One engine under the load; `reason` says why it was not measured."""

    engine: str
    load: Summary | None = None
    peak_gb: float | None = None
    reason: str | None = None


def write_python_model(folder: Path, subject: Subject, words: dict[str, str]) -> None:
    """A model directory with the network as a model.py and its weights beside it."""
    version = folder / subject.name / "1"
    version.mkdir(parents=True)
    weights = {each.name: numpy_helper.to_array(each) for each in onnx.load(subject.file).graph.initializer}
    np.savez(version / "weights.npz", **weights)  # type: ignore[arg-type] # its stub takes the arrays for the switch
    (version / "model.py").write_text(CODE.format(**words), encoding="utf-8")
    limits = f"max_batch_size: {subject.batch}\nmax_wait_ms: {WAIT_MS[subject.name]:g}\nthreads: 1\n"
    (folder / subject.name / "model.yaml").write_text(f"engine: python\n{limits}{SIGNATURE}", encoding="utf-8")


def systems(subject: Subject, servers: str, folder: Path) -> Iterator[tuple[str, System]]:
    """Each engine that is installed."""
    words = {ONNX: None, NUMPY: NUMPY_WORDS} | ({TORCH: TORCH_WORDS} if importlib.util.find_spec("torch") else {})
    for number, (engine, code) in enumerate(words.items()):
        at = folder / f"engine-{number}"
        wait_ms = WAIT_MS[subject.name]
        if code is not None:
            write_python_model(at / f"models-{subject.name}-{subject.batch}-{wait_ms:g}", subject, code)
        at.mkdir(exist_ok=True)
        variant, prefix = Variant("headrace"), f"engine-{number}"
        yield engine, headrace_system(subject, servers, at, variant, prefix, wait_ms, Lane.INTERACTIVE)


async def measure(subject: Subject, servers: str, folder: Path, seconds: float) -> list[EngineFigures]:
    """Every engine, one after another."""
    found = []
    for engine, system in systems(subject, servers, folder):
        to_stderr(f"{subject.name}: {engine}")
        async with serving(servers, subject, system) as running:
            load = summary((await running.load.by_users(CALLERS, WARM_UP_S + seconds)).after(WARM_UP_S), seconds)
            found.append(EngineFigures(engine, load, peak_gb(running.pids)))
    if all(each.engine != TORCH for each in found):
        found.append(EngineFigures(TORCH, reason="torch is not installed"))
    return found


def peak_gb(pids: list[int]) -> float | None:
    """The most that these processes and their children have had in memory, in GB."""
    if sys.platform != "linux":
        return None
    processes = [psutil.Process(pid) for pid in pids]
    tree = processes + [child for process in processes for child in process.children(recursive=True)]
    return sum(_most_bytes(process.pid) for process in tree) / GB


def _most_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.engines", description=(__doc__ or "").partition(": ")[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load, after a second of warm-up")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    given = parser.parse_args()
    machine = Machine.here()
    with warm_kafka() as kafka, scratch_folder() as folder:
        subject = Subject.of("mlp", model_file("mlp", Path(folder)))
        found = run(measure(subject, kafka.bootstrap_servers, Path(folder), given.seconds))
    console = Console()
    console.print(str(machine), highlight=False)
    table = Table(title=f"mlp, {CALLERS} callers, batches of at most {BATCHES['mlp']}")
    for name in ("engine", "req/s", "P99 ms", "peak GB"):
        table.add_column(name, justify="left" if name == "engine" else "right")
    for each in found:
        if each.load is None:
            table.add_row(each.engine, f"not measured: {each.reason}")
        else:
            gb = "" if each.peak_gb is None else f"{each.peak_gb:.2f}"
            table.add_row(each.engine, f"{each.load.per_s:,.0f}", f"{each.load.p99_ms:.1f}", gb)
    console.print(table)
    if given.json is not None:
        figures = {"machine": machine, "engines": found}
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures)) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
