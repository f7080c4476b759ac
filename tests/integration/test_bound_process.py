"""A bound process ends with its parent, by the kernel's help and by the watcher of systems without it."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from headrace.bound_process import BoundProcess

PARENT = """
import sys, time
from pathlib import Path
from headrace.bound_process import BoundProcess
command = ["/bin/sh", "-c", "echo up; exec sleep 600"]
child = BoundProcess(command, Path(sys.argv[1]), by_kernel=sys.argv[2] == "kernel")
print(child.pid, flush=True)
time.sleep(600)
"""


def wait_for_output(path: Path, within_s: float = 10.0) -> None:
    """Return once the program itself runs: until then the process is still the one that becomes it."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline and not (path.exists() and path.stat().st_size):
        time.sleep(0.05)


def ended(process: psutil.Process, within_s: float = 10.0) -> bool:
    """Whether it ends in time; without an init process that collects orphans, a zombie is all that can be seen."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("way", ["kernel", "pipe"])
def test_it_ends_when_its_parent_is_killed_with_nine(tmp_path: Path, way: str) -> None:
    if way == "kernel" and sys.platform != "linux":
        way = "pipe"
    command = [sys.executable, "-c", PARENT, str(tmp_path / "output"), way]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        wait_for_output(tmp_path / "output")
        family = [child, *child.children()]
        parent.kill()
        assert all(ended(each) for each in family)


def test_the_watcher_goes_when_the_program_ends_by_itself(tmp_path: Path) -> None:
    child = BoundProcess(["/bin/sh", "-c", "echo up; exec sleep 1"], tmp_path / "output", by_kernel=False)
    wait_for_output(tmp_path / "output")
    (watcher,) = psutil.Process(child.pid).children()
    assert child.wait(10)
    assert ended(watcher)


def test_output_is_appended_and_the_status_is_kept(tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.write_text("before\n")
    child = BoundProcess(["/bin/sh", "-c", "echo out; echo error >&2; exit 7"], output)
    assert child.wait(10)
    assert (child.returncode, output.read_text()) == (7, "before\nout\nerror\n")


def test_a_program_that_is_not_there_ends_at_once_and_says_so(tmp_path: Path) -> None:
    output = tmp_path / "output"
    child = BoundProcess(["/no/such/program"], output)
    assert child.wait(10)
    assert child.returncode == 1
    assert "No such file" in output.read_text()


def test_a_folder_that_is_not_there_is_the_callers_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        BoundProcess(["/bin/true"], tmp_path / "missing" / "output")


@pytest.mark.skipif(sys.platform != "linux", reason="it is told by the kernel's process table")
def test_once_it_is_stopped_no_thread_of_it_runs(tmp_path: Path) -> None:
    busy = "import threading\nfor _ in range(4): threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()"
    child = BoundProcess([sys.executable, "-c", f"print('up', flush=True)\n{busy}"], tmp_path / "output")
    wait_for_output(tmp_path / "output")
    for _ in range(20):
        child.stop_all_threads()
        states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks_of(child.pid)]
        assert set(states) == {"T"}
        child.send(signal.SIGCONT)
    child.send(signal.SIGKILL)
    assert child.wait(10)


def tasks_of(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").iterdir())
