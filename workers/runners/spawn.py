"""Starts a runner process, passes on what it prints, and notices its end."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO

from .messages import CONTEXT_LOST_EXIT
from .runner import KILLED

_log = logging.getLogger("headrace.runner")
MAX_LINE_CHARS = 4000
MAX_LINES_PER_S = 500
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class ChildProcess:
    """One runner process, with a thread that starts it, waits for it and stays until it has ended.

    The thread must stay: the kernel sends the signal at the parent's death (PR_SET_PDEATHSIG) when the *thread* that
    started the child ends. And the end of the socket does not tell of a death where the model's own children hold it
    open, but waiting for the process does.
    """

    def __init__(
        self, label: str, threads: int, sock: socket.socket, fds: Sequence[int], on_exit: Callable[[str], None]
    ) -> None:
        """`sock` is the child's end of the socket, and closed here. `on_exit` is called in the thread, with the end."""
        self._label = label
        self._environment = _environment(threads)
        self._sock = sock
        self._fds = fds
        self._on_exit = on_exit
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._over = False
        self._last_line = ""
        threading.Thread(target=self._keep, name=f"runner-{label}", daemon=True).start()

    @property
    def pid(self) -> int:
        """Process id; 0 before it is started."""
        return 0 if self._process is None else self._process.pid

    def kill(self) -> None:
        """Kill the process and those it started, at once; also one that is only about to start."""
        with self._lock:
            if self._process is None:
                self._over = True
            elif not self._over:
                _kill_group(self._process.pid)

    def _keep(self) -> None:
        try:
            with self._sock:
                process = self._start()
        except OSError as err:
            self._over = True
            self._on_exit(f"could not be started: {err}")
            return
        assert process.stdout is not None, "the output is a pipe"
        reader = threading.Thread(target=self._pass_on, args=(process.stdout,), name=f"out-{self._label}", daemon=True)
        reader.start()
        code = self._wait(process)
        reader.join(1.0)
        self._on_exit(describe_exit(code, self._last_line))

    def _start(self) -> subprocess.Popen[bytes]:
        # -P keeps the current folder off the import path; PYTHONPATH repeats this process's path, so that the child
        # imports what its parent would.
        arguments = (str(self._sock.fileno()), str(os.getpid()), os.environ.get("PYTHONPATH", ""))
        command = [sys.executable, "-P", "-m", "workers.runners.process", *arguments]
        with self._lock:
            if self._over:
                raise OSError("it was stopped before")
            self._process = subprocess.Popen(
                command,
                env=self._environment,
                pass_fds=(self._sock.fileno(), *self._fds),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            return self._process

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        if hasattr(os, "waitid"):
            # Look without taking the exit code yet: until then the group's number cannot become somebody else's.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with self._lock:
            self._over = True
            _kill_group(process.pid)
            return process.wait()

    def _pass_on(self, output: IO[bytes]) -> None:
        """Log each line; a model that floods its output must not busy the worker, so what is too much is counted."""
        second, lines = 0, 0
        with output:
            while line := output.readline(MAX_LINE_CHARS):
                if (now := int(time.monotonic())) != second:
                    self._say_left_out(lines)
                    second, lines = now, 0
                lines += 1
                if lines <= MAX_LINES_PER_S and (text := line.decode("utf-8", "replace").rstrip()):
                    self._last_line = text
                    self._say(text)
        self._say_left_out(lines)

    def _say_left_out(self, lines: int) -> None:
        if lines > MAX_LINES_PER_S:
            self._say(f"({lines - MAX_LINES_PER_S} more lines left out)")

    def _say(self, text: str) -> None:
        _log.info("[%s] %s", self._label, text, extra={"action": "runner_output"})


def describe_exit(code: int, last_line: str = "") -> str:
    """A process's end as words, from its exit code, which is minus the signal's number where one ended it."""
    if code == -signal.SIGKILL:
        return KILLED
    if code == CONTEXT_LOST_EXIT:
        return f"left, for its device was lost to it: {last_line[:300]}"
    if code < 0:
        return f"killed by signal {-code} ({_signal_name(-code)})"
    return f"exited with code {code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # all of it has ended


def _environment(threads: int) -> dict[str, str]:
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    for name in THREAD_VARIABLES:
        environment.setdefault(name, str(threads))
    return environment
