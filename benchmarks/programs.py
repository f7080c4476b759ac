"""The measured programs as child processes: started, heard when ready, their CPU time read, stopped by TERM."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from urllib.error import URLError

import psutil

from benchmarks.cluster import REQUEST_PARTITIONS
from headrace import bound_exec
from headrace.bound_process import KERNEL_CAN
from headrace.free_ports import free_port

ROOT = Path(__file__).resolve().parents[1]
START_LIMIT_S = 120.0
STOP_LIMIT_S = 30.0
LOOK_AGAIN_S = 0.05
LAST = 19  # niceness
NAMES_ERROR = re.compile(r"[\w.]*(Error|Exception)\b")


class ProgramError(Exception):
    """A measured program did not do what it should."""


class Program:
    """One run of `python -m MODULE ARGUMENTS`, which ends with this process. Belongs to one event loop."""

    def __init__(
        self,
        module: str,
        *arguments: str,
        python: str = sys.executable,
        environment: Mapping[str, str] = MappingProxyType({}),
        quiet: bool = False,
        unread: bool = False,
    ) -> None:
        """`python` is the interpreter that runs it; `environment` adds to ours.

        `quiet` keeps its stderr for itself, `unread` its stdout too: a program that logs there stands still once a pipe
        that nobody reads is full.
        """
        self._command = [python, "-P", "-m", module, *arguments]
        self._variables = environment
        self._said = tempfile.TemporaryFile() if quiet or unread else None  # noqa: SIM115 - as long as the program
        self._stdout = self._said if unread else asyncio.subprocess.PIPE
        self._process: asyncio.subprocess.Process | None = None
        self._tree: list[psutil.Process] = []

    async def start(self) -> None:
        """Start it; its stderr goes to ours."""
        way = "kernel" if KERNEL_CAN else "pipe"
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", bound_exec.__file__, way, str(os.getpid())),
            *self._command,
            stdin=asyncio.subprocess.DEVNULL if KERNEL_CAN else asyncio.subprocess.PIPE,
            stdout=self._stdout,
            stderr=self._said,
            env=_environment() | dict(self._variables),
            start_new_session=True,
        )

    def give_way(self) -> None:
        """Have it run on what the others leave; for what would be on another machine. To be called after its start."""
        os.setpriority(os.PRIO_PROCESS, self.process.pid, LAST)
        group = Path(f"/proc/{self.process.pid}/autogroup")  # Linux weighs sessions first, and this one leads its own
        if group.exists():
            group.write_text(str(LAST), encoding="ascii")

    async def line(self) -> str:
        """The next line that it writes to its stdout. Raises ProgramError when none comes."""
        stream = self.process.stdout
        assert stream is not None
        try:
            line = await asyncio.wait_for(stream.readline(), START_LIMIT_S)
        except TimeoutError as err:
            raise ProgramError(f"{self} said nothing for {START_LIMIT_S:.0f} s.") from err
        if not line:
            raise ProgramError(f"{self} ended with exit code {await self.process.wait()} before it said anything.")
        return line.decode().strip()

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "start() comes first"
        return self._process

    def cpu_s(self) -> float:
        """User and system CPU seconds so far of it and all its children.

        The tree is looked up once: doing so takes milliseconds, which no sample can spare.
        """
        if not self._tree:
            own = psutil.Process(self.process.pid)
            self._tree = [own, *own.children(recursive=True)]
        try:
            times = [process.cpu_times() for process in self._tree]
        except psutil.NoSuchProcess as err:
            raise ProgramError(f"Process {err.pid} of {self} ended while it was measured.") from err
        return float(sum(each.user + each.system for each in times))

    async def stop(self) -> None:
        """End it by TERM, after 30 s by KILL. Raises ProgramError when it did not end in order."""
        if self._process is None:
            return
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            code = await asyncio.wait_for(self._process.wait(), STOP_LIMIT_S)
        except TimeoutError as err:
            self.kill()
            raise ProgramError(f"{self} did not end within {STOP_LIMIT_S:.0f} s of TERM.") from err
        if code != 0:
            raise ProgramError(f"{self} ended with exit code {code}.")

    def last_words(self) -> str:
        """The last error that a quiet or unread program named, else its last line; empty where it wrote none.

        The last line of a traceback that was passed on by several processes says nothing.
        """
        if self._said is None:
            return ""
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        errors = [line for line in lines if NAMES_ERROR.match(line)]
        return (errors or lines or [""])[-1][:300]

    def kill(self) -> None:
        """End it now, if it runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def abandon(self) -> None:
        """End it now, if it runs, and wait until it has ended."""
        self.kill()
        if self._process is not None:
            await self._process.wait()

    async def end(self, patience_s: float = 5.0) -> None:
        """End a foreign program by TERM, whatever its exit code, and what it started by KILL after `patience_s`."""
        if self._process is None:
            return
        started = self._started()
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._process.wait(), patience_s)
            except TimeoutError:
                pass  # the group is killed below
        try:
            os.killpg(self._process.pid, signal.SIGKILL)  # it leads a session of its own
        except ProcessLookupError:
            pass  # nothing is left of it
        for each in started:
            if each.is_running():
                each.kill()
        await self._process.wait()

    def _started(self) -> list[psutil.Process]:
        """What it has started, in other sessions too: BentoML's workers lead their own."""
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def __str__(self) -> str:
        return " ".join(self._command[2:5])


class Served(Program):
    """A program that answers requests until it is stopped."""

    async def ready(self) -> None:
        """Wait until it serves. Raises ProgramError."""
        await self.line()

    async def finish(self) -> float:
        """Stop it; the mean rows of its batches. Raises ProgramError."""
        await self.stop()
        rows, batches = map(int, (await self.line()).split())
        return rows / batches


class HeadraceWorker(Served):
    """`headrace worker` as users start it, for one model, in the default isolation."""

    def __init__(self, servers: str, models: Path, model: str, prefix: str, flags: Sequence[str] = ()) -> None:
        self._admin_port = free_port()
        self._model = model
        super().__init__(
            *("headrace", "worker", "--bootstrap-servers", servers, "--prefix", prefix),
            *("--models", str(models), "--model", model, "--partitions", str(REQUEST_PARTITIONS)),
            *("--admin-host", "127.0.0.1", "--admin-port", str(self._admin_port)),
            *("--endpoint-lag-s", "0", "--log-level", "warning"),
            *flags,
        )

    async def ready(self) -> None:
        """Wait until the model is loaded and partitions are assigned. Raises ProgramError."""
        for _ in range(int(START_LIMIT_S / LOOK_AGAIN_S)):
            if self.process.returncode is not None:
                raise ProgramError(f"{self} ended with exit code {self.process.returncode} before it was ready.")
            if await asyncio.to_thread(self._page, "readyz") is not None:
                return
            await asyncio.sleep(LOOK_AGAIN_S)
        raise ProgramError(f"{self} was not ready after {START_LIMIT_S:.0f} s.")

    async def finish(self) -> float:
        metrics = await self.metrics()
        await self.stop()
        return metrics["headrace_batch_rows_sum"] / metrics["headrace_batch_rows_count"]

    async def metrics(self) -> dict[str, float]:
        """The model's metrics that have no label but the model."""
        page = await asyncio.to_thread(self._page, "metrics") or ""
        lines = [line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#")]
        label = f'{{model="{self._model}"}}'
        return {name.removesuffix(label): float(value) for name, value in lines if name.endswith(label)}

    def _page(self, name: str) -> str | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._admin_port}/{name}", timeout=5.0) as answer:
                text: str = answer.read().decode()
                return text
        except (URLError, OSError):
            return None


def _environment() -> dict[str, str]:
    """Ours, without settings of headrace: a benchmark measures the defaults."""
    foreign = [name for name in os.environ if name.startswith("HEADRACE_") and name != "HEADRACE_CACHE_DIR"]
    kept = {name: value for name, value in os.environ.items() if name not in foreign}
    return kept | {"PYTHONPATH": str(ROOT)}
