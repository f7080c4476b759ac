"""One program of headrace as a child process that ends with this one and whose lines are passed on."""

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from headrace import bound_exec
from headrace.bound_process import KERNEL_CAN

LINE_LIMIT_BYTES = 1 << 20
LINES_KEPT = 12

Hear = Callable[[str, str], None]


class Child:
    """A run of `headrace ARGUMENTS`. Belongs to the event loop of the main thread.

    `hear` gets the child's name and each line that it writes to stderr. What it writes to stdout is one line, for
    `answer`.
    """

    def __init__(self, name: str, arguments: Sequence[str], environ: Mapping[str, str], hear: Hear) -> None:
        self.name = name
        self._arguments = arguments
        self._environ = environ
        self._hear = hear
        self._last_lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._process: asyncio.subprocess.Process | None = None
        self._readers: list[asyncio.Task[None]] = []
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def start(self) -> None:
        """Start it, tied to this process. Raises OSError."""
        way = "kernel" if KERNEL_CAN else "pipe"
        # The kernel's tie is to the thread that forks: the main thread's end is the process's end.
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", bound_exec.__file__, way, str(os.getpid())),
            # -P: files of the working directory must not shadow ours.
            *(sys.executable, "-P", "-m", "headrace", *self._arguments),
            stdin=asyncio.subprocess.DEVNULL if KERNEL_CAN else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environ,
            limit=LINE_LIMIT_BYTES,
            start_new_session=True,  # a terminal's Ctrl-C is for the parent alone, which then stops things in order
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            asyncio.create_task(self._read(self._process.stdout, self._take_answer), name=f"{self.name}-stdout"),
            asyncio.create_task(self._read(self._process.stderr, self._take_line), name=f"{self.name}-stderr"),
        ]

    @property
    def exit_code(self) -> int | None:
        """None while it runs, or has not been started."""
        return None if self._process is None else self._process.returncode

    @property
    def last_lines(self) -> str:
        """What it wrote last to stderr."""
        return "\n".join(self._last_lines)

    async def answer(self) -> str:
        """The first line that it writes to stdout; waits for it, or for the end of the process without one."""
        return await asyncio.shield(self._answer)

    async def ended(self) -> int:
        """Waits for its end and for its last lines; gives its exit code."""
        assert self._process is not None
        code = await self._process.wait()
        await asyncio.gather(*self._readers)
        return code

    async def stop(self, timeout_s: float) -> int:
        """End it by TERM, after `timeout_s` by KILL; its exit code. Safe when it has ended, or not begun (0)."""
        if self._process is None:
            return 0
        try:
            if self._process.returncode is None:
                self._process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(timeout_s):
                await self._process.wait()
        except TimeoutError:
            pass  # it is killed below
        finally:
            self.kill()
        return await self.ended()

    def kill(self) -> None:
        """End it now, if it runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def _read(self, stream: asyncio.StreamReader, take: Callable[[str], None]) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:
                continue  # longer than the limit: dropped
            if not line:
                break
            take(line.decode(errors="replace").rstrip())
        if take == self._take_answer and not self._answer.done():
            self._answer.set_result("")

    def _take_answer(self, line: str) -> None:
        if not self._answer.done():
            self._answer.set_result(line)

    def _take_line(self, line: str) -> None:
        self._last_lines.append(line)
        self._hear(self.name, line)
