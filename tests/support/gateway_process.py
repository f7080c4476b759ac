"""A gateway in a process of its own, and what its log says."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from headrace.free_ports import free_port


class Started:
    """A running gateway."""

    def __init__(self, process: Process, port: int, admin_port: int, log_file: Path) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.admin_url = f"http://127.0.0.1:{admin_port}"
        self._log_file = log_file

    def log_lines(self, words: str) -> list[str]:
        """Lines of the log that hold those words."""
        return [line for line in self._log_file.read_text().splitlines() if words in line]

    async def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), 20)

    async def until(self, path: str, status: int, url: str | None = None) -> httpx.Response:
        """Ask the admin port, or another, until the path answers with the status."""
        async with httpx.AsyncClient(base_url=url or self.admin_url) as http:
            for _ in range(400):
                try:
                    response = await http.get(path)
                    if response.status_code == status:
                        return response
                except httpx.TransportError:
                    pass  # it does not listen yet
                await asyncio.sleep(0.05)
        raise AssertionError(f"{path} did not become {status}")


@asynccontextmanager
async def started(bootstrap_servers: str, prefix: str, **settings: str) -> AsyncIterator[Started]:
    """`python -m gateway`, killed at the end unless it has ended by then."""
    port, admin_port = free_port(), free_port()
    given = {"bootstrap_servers": bootstrap_servers, "prefix": prefix, "port": port, "admin_port": admin_port}
    given |= {"host": "127.0.0.1", "endpoint_lag_s": 0, **settings}
    environment = {**os.environ, **{f"HEADRACE_{name.upper()}": str(value) for name, value in given.items()}}
    with TemporaryDirectory() as folder:
        log_file = Path(folder) / "log"
        with log_file.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "gateway", env=environment, stdout=DEVNULL, stderr=log
            )
        try:
            yield Started(process, port, admin_port, log_file)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
