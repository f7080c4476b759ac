"""Starts `headrace dev` for the demo, waits until it says that it is ready, and stops it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from headrace import bound_exec
from headrace.bound_process import KERNEL_CAN

Result = TypeVar("Result")

# The first start of a user downloads Kafka.
START_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 30.0


class StackError(Exception):
    """The development stack did not start, or ended by itself."""


@dataclass(frozen=True, slots=True)
class Stack:
    """A development stack that is ready. `gateway` is the URL of its HTTP side, without a path."""

    bootstrap_servers: str
    gateway: str
    process: asyncio.subprocess.Process

    async def during(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Awaits `work`; raises StackError at once when the stack ends before it."""
        working = asyncio.create_task(work, name="demo-work")
        ending = asyncio.create_task(self.process.wait(), name="demo-stack-end")
        try:
            await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise StackError(f"The development stack ended with exit code {ending.result()} during the demo.")
            return working.result()
        finally:
            working.cancel()
            ending.cancel()
            await asyncio.gather(working, ending, return_exceptions=True)


def dev_command(models: Path) -> list[str]:
    """The command line of the development stack over a models directory."""
    return [sys.executable, "-m", "headrace", "dev", "--models", str(models), "--port", "0", "--json"]


@asynccontextmanager
async def running_stack(command: list[str], start_timeout_s: float = START_TIMEOUT_S) -> AsyncIterator[Stack]:
    """The stack, ready, until the block ends. What it says on stderr is shown. Raises StackError."""
    way = "kernel" if KERNEL_CAN else "pipe"
    # Its own session: Ctrl-C reaches the demo alone, which then stops the stack once and in order.
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", bound_exec.__file__, way, str(os.getpid()), *command),
        stdin=asyncio.subprocess.DEVNULL if KERNEL_CAN else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    reading: asyncio.Task[None] | None = None
    try:
        ready = await _ready_line(process, start_timeout_s)
        reading = asyncio.create_task(_read_on(process), name="demo-stack-output")
        yield Stack(ready["bootstrap_servers"], ready["gateway"], process)
    finally:
        await _stop(process)
        if reading is not None:
            reading.cancel()


async def _ready_line(process: asyncio.subprocess.Process, timeout_s: float) -> dict[str, str]:
    """The JSON line that tells the stack's addresses; lines before it that are anything else are passed over."""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(timeout_s):
            async for line in process.stdout:
                if ready := _addresses(line):
                    return ready
            exit_code = await process.wait()
    except TimeoutError:
        raise StackError(f"The development stack was not ready within {timeout_s:.0f} s.") from None
    raise StackError(
        f"The development stack ended with exit code {exit_code} before it was ready; see its lines above."
    )


def _addresses(line: bytes) -> dict[str, str] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and {"bootstrap_servers", "gateway"} <= value.keys() else None


async def _read_on(process: asyncio.subprocess.Process) -> None:
    """Reads what the stack still prints: a full pipe would make it stand still."""
    assert process.stdout is not None
    while await process.stdout.read(65536):
        pass


async def _stop(process: asyncio.subprocess.Process) -> None:
    """One SIGINT, as a person would send it; the end of its whole session after STOP_TIMEOUT_S, or when cancelled."""
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        pass
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
