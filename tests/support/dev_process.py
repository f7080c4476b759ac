"""Runs `headrace` as people do, as a process of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Queue
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
READY_S, STOP_S = 45.0, 30.0


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    return {**kept, "PYTHONPATH": str(ROOT)}


def headrace(*arguments: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "headrace", *arguments],
        input=stdin, capture_output=True, text=True, timeout=60, env=environment() | variables, cwd=ROOT, check=False,
    )  # fmt: skip


@dataclass
class DevProcess:
    """A running `headrace dev`; `lines` is what it has printed until it was ready."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.lines[-1])
        return found

    def family(self) -> list[psutil.Process]:
        """All processes below it."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(STOP_S)

    def read_until(self, is_last: Callable[[str], bool]) -> None:
        """Collect lines until the one; fails when the process ends before it, or after 45 s."""
        found: Queue[str] = Queue()
        threading.Thread(target=self._read, args=(found,), daemon=True).start()
        deadline = time.monotonic() + READY_S
        while not self.lines or not is_last(self.lines[-1]):
            line = found.get(timeout=max(0.1, deadline - time.monotonic()))
            assert line, f"headrace dev ended with exit code {self.process.wait(STOP_S)}"
            self.lines.append(line.rstrip("\n"))

    def _read(self, found: Queue[str]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found.put(line)
        found.put("")


@contextmanager
def dev(*flags: str, cwd: Path) -> Iterator[DevProcess]:
    """A development stack that is ready; killed at the end where the test has not stopped it."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "headrace", "dev", *flags],
        stdout=subprocess.PIPE, text=True, env=environment(), cwd=cwd, start_new_session=True,
    )  # fmt: skip
    running = DevProcess(process)
    try:
        last = "{" if "--json" in flags else "Ctrl-C"
        running.read_until(lambda line: line.startswith(last))
        yield running
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(STOP_S)
        assert process.stdout is not None
        process.stdout.close()


def left_over(family: list[psutil.Process], within_s: float) -> list[psutil.Process]:
    """Those that still run after the time; what is dead but not yet collected by its parent does not count."""
    _, alive = psutil.wait_procs(family, timeout=within_s)
    return [each for each in alive if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
