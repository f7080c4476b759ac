"""A runner that dies says how, blames only the run that had begun, and never outlives the worker."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from model_folders import DOUBLE, SLEEPY
from runner_rig import batch, floats, model_spec, output, run_all, started
from worker_rig import until

from workers.runners.handle import RunnerProcess, State
from workers.runners.runner import RunnerDied

EXITING = "import os\n\nclass Model:\n    def predict(self, inputs):\n        os._exit(3)\n"
SEGFAULTING = "import ctypes\n\nclass Model:\n    def predict(self, inputs):\n        ctypes.string_at(0)\n"
DEAD_IN_LOAD = "import os\n\nclass Model:\n    def load(self, context):\n        os._exit(5)\n"
FORKING = """
import os, time

class Model:
    def predict(self, inputs):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        os._exit(4)
"""
CONTEXT_LOST = """
class Model:
    def predict(self, inputs):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
"""
CONTEXT_LOST_IN_A_ROW = """
class Model:
    def predict(self, inputs):
        return [RuntimeError("CUDA error: device-side assert triggered") for row in inputs["x"]]
"""
# Answers, and ends a moment later.
ENDING_AFTER_ITS_ANSWER = """
import os, threading

class Model:
    def predict(self, inputs):
        threading.Timer(0.1, os._exit, [3]).start()
        return {"y": inputs["x"] * 2}
"""
WORKER = """
import asyncio, sys
from pathlib import Path
from runner_rig import batch, floats, model_spec, run_all, started

async def main():
    spec = model_spec(Path(sys.argv[1]), Path(sys.argv[2]).read_text())
    async with started(spec) as runner:
        print(runner.pid, flush=True)
        await run_all(runner, batch(floats((60, 0))))

asyncio.run(main())
"""


async def test_kill_nine_blames_the_run_at_the_head_and_not_the_one_behind(tmp_path: Path) -> None:
    async with started(model_spec(tmp_path, SLEEPY)) as runner:
        runner.place(0, batch(floats((30, 0))))
        runner.place(1, batch(floats((0, 0))))
        head = asyncio.create_task(runner.run(0, 0, 1))
        behind = asyncio.create_task(runner.run(1, 0, 1))
        await asyncio.sleep(0.3)
        os.kill(runner.pid, signal.SIGKILL)
        deaths = await asyncio.gather(head, behind, return_exceptions=True)
        assert [(type(death), getattr(death, "started", None)) for death in deaths] == [
            (RunnerDied, True),
            (RunnerDied, False),
        ]
        assert str(deaths[0]) == "killed by signal 9 (SIGKILL), possibly out of memory"


async def test_a_runner_that_died_idle_blames_no_run(tmp_path: Path) -> None:
    async with started(model_spec(tmp_path, DOUBLE)) as runner:
        os.kill(runner.pid, signal.SIGKILL)
        with pytest.raises(RunnerDied) as at_once:
            await run_all(runner, batch(floats((1, 2))))
        await until(lambda: runner.state is State.DEAD)
        with pytest.raises(RunnerDied) as later:
            await run_all(runner, batch(floats((1, 2))))
        assert not at_once.value.started
        assert not later.value.started


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (EXITING, "exited with code 3"),
        (SEGFAULTING, "killed by signal 11 (SIGSEGV)"),
        (FORKING, "exited with code 4"),
        (CONTEXT_LOST, "left, for its device was lost to it"),
        (CONTEXT_LOST_IN_A_ROW, "left, for its device was lost to it"),
    ],
)
async def test_a_death_in_model_code_is_told_with_its_cause(tmp_path: Path, code: str, reason: str) -> None:
    async with started(model_spec(tmp_path, code)) as runner:
        began = time.monotonic()
        with pytest.raises(RunnerDied) as death:
            await run_all(runner, batch(floats((1, 2))))
        assert str(death.value).startswith(reason)
        assert death.value.started
        assert time.monotonic() - began < 5


async def test_an_answer_that_came_before_the_death_is_whole(tmp_path: Path) -> None:
    async with started(model_spec(tmp_path, ENDING_AFTER_ITS_ANSWER)) as runner:
        asked = asyncio.create_task(run_all(runner, batch(floats((1, 2)))))
        await asyncio.sleep(0)
        time.sleep(1.0)  # noqa: ASYNC251 - the loop is busy, so that it finds answer and death together
        assert output(await asked).tolist() == [[2, 4]]
        assert await runner.died() == "exited with code 3"


async def test_a_death_while_loading_is_told(tmp_path: Path) -> None:
    runner = RunnerProcess(model_spec(tmp_path, DEAD_IN_LOAD))
    with pytest.raises(RunnerDied, match="exited with code 5") as death:
        await runner.start()
    await runner.stop()
    assert not death.value.started


async def test_a_run_over_its_time_limit_is_killed_and_blamed(tmp_path: Path) -> None:
    async with started(model_spec(tmp_path, SLEEPY, attempt_timeout_s=0.4)) as runner:
        with pytest.raises(RunnerDied) as death:
            await run_all(runner, batch(floats((30, 0))))
        assert str(death.value) == "no answer within attempt_timeout_s 0.4 s: killed"
        assert death.value.started


async def test_the_time_limit_counts_from_when_a_run_comes_to_the_head(tmp_path: Path) -> None:
    async with started(model_spec(tmp_path, SLEEPY, attempt_timeout_s=1.0)) as runner:
        runner.place(0, batch(floats((0.7, 0))))
        runner.place(1, batch(floats((0.7, 1))))
        answers = await asyncio.gather(runner.run(0, 0, 1), runner.run(1, 0, 1))
        assert [output(answer)[0, 1] for answer in answers] == [0, 2]


async def test_a_load_over_its_time_limit_is_killed(tmp_path: Path) -> None:
    code = "import time\n\nclass Model:\n    def load(self, context):\n        time.sleep(60)\n"
    runner = RunnerProcess(model_spec(tmp_path, code), load_timeout_s=0.5)
    with pytest.raises(RunnerDied, match=r"no answer within load_timeout_s 0\.5 s: killed"):
        await runner.start()
    await runner.stop()


async def test_stop_kills_a_runner_that_does_not_come_back(tmp_path: Path) -> None:
    runner = RunnerProcess(model_spec(tmp_path, SLEEPY))
    await runner.start()
    runner.place(0, batch(floats((60, 0))))
    running = asyncio.create_task(runner.run(0, 0, 1))
    await asyncio.sleep(0.1)
    await runner.stop(0.2)
    await runner.stop()
    with pytest.raises(RunnerDied, match="stopped by the worker"):
        await running
    assert not psutil.pid_exists(runner.pid)


async def test_usual_signals_leave_a_runner_alone(tmp_path: Path) -> None:
    async with started(model_spec(tmp_path, DOUBLE)) as runner:
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(runner.pid, number)
        assert output(await run_all(runner, batch(floats((1, 2))))).tolist() == [[2, 4]]


def test_a_runner_ends_with_a_killed_worker_even_in_mid_run(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(SLEEPY)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)}
    command = [sys.executable, "-c", WORKER, str(tmp_path), str(tmp_path / "code.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as worker:
        assert worker.stdout is not None
        runner = psutil.Process(int(worker.stdout.readline()))
        time.sleep(0.3)
        worker.kill()
        ends = time.monotonic() + 1.0
        while has_not_ended(runner) and time.monotonic() < ends:
            time.sleep(0.01)
        assert not has_not_ended(runner)


def has_not_ended(process: psutil.Process) -> bool:
    """A zombie has ended, even where nobody collects it."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
