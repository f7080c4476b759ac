"""A child process that always ends with its parent, even when the parent is killed with -9."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from headrace import bound_exec

KERNEL_CAN = sys.platform == "linux"
STOP_LIMIT_S = 10.0


class BoundProcess:
    """One run of a program, tied to this process (see bound_exec).

    A thread starts the program and stays until it ends, because the kernel's signal at the parent's death comes when
    the *thread* that forked ends; a caller's thread may end long before. Methods may be called from any thread.
    """

    def __init__(self, command: list[str], output: Path, *, by_kernel: bool = KERNEL_CAN) -> None:
        """Start `command` in a session of its own; stdout and stderr are appended to `output`. Raises OSError."""
        way = "kernel" if by_kernel else "pipe"
        wrapper = [sys.executable, "-I", "-S", bound_exec.__file__, way, str(os.getpid())]
        self._command = [*wrapper, *command]
        self._output = output
        self._stdin = subprocess.DEVNULL if by_kernel else subprocess.PIPE
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: OSError | None = None
        self._started = threading.Event()
        self._ended = threading.Event()
        threading.Thread(target=self._keep, name="bound-process", daemon=True).start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure

    @property
    def pid(self) -> int:
        """The process id of the program."""
        assert self._process is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while the program runs, else its exit status, minus the signal's number where one ended it."""
        return self._process.returncode if self._process is not None and self._ended.is_set() else None

    def send(self, number: signal.Signals) -> None:
        """Send a signal; a program that has ended is left alone."""
        assert self._process is not None
        self._process.send_signal(number)

    def stop_all_threads(self) -> None:
        """Send SIGSTOP, and wait until nothing of it runs: on a busy machine some threads go on for a while."""
        self.send(signal.SIGSTOP)
        if not hasattr(os, "waitid"):  # as on macOS
            return
        assert self._process is not None
        ends = time.monotonic() + STOP_LIMIT_S
        try:
            while os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOHANG) is None and time.monotonic() < ends:
                time.sleep(0.001)
        except ChildProcessError:
            pass  # it has ended

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s`; true once the program has ended."""
        return self._ended.wait(timeout_s)

    def _keep(self) -> None:
        try:
            with self._output.open("ab") as output:
                # A session of its own keeps the terminal's Ctrl-C away: the parent decides in which order things stop.
                self._process = subprocess.Popen(
                    self._command, stdin=self._stdin, stdout=output, stderr=output, start_new_session=True
                )
        except OSError as err:
            self._failure = err
            return
        finally:
            self._started.set()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._ended.set()
