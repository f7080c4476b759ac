"""A real Apache Kafka on this machine, without Docker: one node in a folder of its own, ended with this process.

For Linux and macOS.
"""

import atexit
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType, TracebackType

from headrace.bound_process import BoundProcess
from headrace.free_ports import free_port, is_free
from headrace.kafka_answer import answers
from headrace.kafka_folder import KafkaFolder
from headrace.kafka_jars import KAFKA_VERSION, KafkaInstall, Progress, prepare
from headrace.kafka_java import LocalKafkaError
from headrace.kafka_settings import Ports, java_command, server_properties
from headrace.port_claims import PortClaim

__all__ = ["KAFKA_VERSION", "KafkaInstall", "LocalKafka", "LocalKafkaError", "PortTakenError", "Progress", "prepare"]

START_LIMIT_S = 60.0
STOP_LIMIT_S = 15.0
LOOK_AGAIN_S = 0.05
PORT_ATTEMPTS = 3
LOG_LINES_IN_ERRORS, LOG_LINES_SEARCHED = 15, 1000


class PortTakenError(LocalKafkaError):
    """The port asked for is in use by another program."""


class LocalKafka:
    """One local broker. Not for several threads at once, but each call may come from another thread.

    `port` is the clients' port, None takes a free one. `data_dir` is kept after stop and read again by the next start;
    None takes a fresh temporary folder, removed at stop. `benchmark` gives it 1 GB and the server JIT. `progress`
    gets one sentence a step of the first download, which else go to stderr. `advertised_port` is that of a proxy:
    clients that come through it to `proxied_port` are told to stay on it. `settings` are by Kafka's names, and win.
    `listeners` are further ones by name, with the protocol of each (`SASL_SSL`); `port_of` tells where.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        data_dir: Path | None = None,
        benchmark: bool = False,
        progress: Progress | None = None,
        advertised_port: int | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
        listeners: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._wanted_port = port
        self._data_dir = data_dir
        self._benchmark = benchmark
        self._progress = progress
        self._advertised_port = advertised_port
        self._settings = settings
        self._listeners = listeners
        self._further: dict[str, int] = {}
        self._port: int | None = port
        self._proxied_port: int | None = None
        self._claim: PortClaim | None = None
        self._install: KafkaInstall | None = None
        self._folder: KafkaFolder | None = None
        self._process: BoundProcess | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The clients' address, `127.0.0.1:PORT`; it stays the same over kill and restart."""
        if self._port is None:
            raise LocalKafkaError("The local Kafka has no address yet: call start() first.")
        return f"127.0.0.1:{self._port}"

    @property
    def proxied_port(self) -> int:
        """Where a proxy at `advertised_port` has to forward to; it stays the same over kill and restart."""
        if self._proxied_port is None:
            raise LocalKafkaError("The local Kafka has no port for a proxy: give it advertised_port and call start().")
        return self._proxied_port

    def port_of(self, listener: str) -> int:
        """The port of one of the further `listeners`; it stays the same over kill and restart."""
        if listener not in self._further:
            raise LocalKafkaError(f"The local Kafka has no listener {listener!r}: name it in listeners, call start().")
        return self._further[listener]

    @property
    def pid(self) -> int:
        """The process id of the broker's Java."""
        return self._running().pid

    @property
    def version(self) -> str:
        """Kafka's version."""
        return KAFKA_VERSION if self._install is None else self._install.version

    @property
    def log_file(self) -> Path:
        """The broker's own log."""
        if self._folder is None:
            raise LocalKafkaError("The local Kafka has no folder yet: call start() first.")
        return self._folder.log_file

    def start(self) -> None:
        """Start and return once a client's request is answered (2 to 3 s; at most 60 s). Raises LocalKafkaError.

        After kill() it comes back on the same port with the same data.
        """
        if self._process is not None and self._process.returncode is None:
            raise LocalKafkaError(f"The local Kafka at {self.bootstrap_servers} runs already.")
        self._install = install = prepare(self._progress)
        with ExitStack() as undo:
            try:
                if self._folder is None:
                    self._folder = KafkaFolder.open(self._data_dir)
                    undo.callback(self.stop)
                undo.callback(self.kill)
                atexit.register(self._stop_at_exit, os.getpid())
                self._start_on_some_port(install, self._folder)
            except (OSError, subprocess.SubprocessError) as err:
                raise LocalKafkaError(f"The local Kafka could not be started: {err}.") from err
            undo.pop_all()

    def stop(self) -> None:
        """End the broker in order (SIGTERM, after 15 s SIGKILL) and remove its folder unless `data_dir` was given."""
        self._end()
        self._leave_folder()
        self._release()
        self._port, self._proxied_port, self._further = self._wanted_port, None, {}
        atexit.unregister(self._stop_at_exit)

    def kill(self) -> None:
        """End the broker at once with SIGKILL; port and data stay, for start() or restart()."""
        if self._process is not None:
            self._process.send(signal.SIGKILL)
            self._process.wait(STOP_LIMIT_S)
            self._process = None

    def restart(self) -> None:
        """Stop in order, if it runs, and start again on the same port with the same data."""
        self._end()
        self.start()

    def pause(self) -> None:
        """Freeze the broker (SIGSTOP): connections stay open, nothing is answered."""
        self._running().stop_all_threads()

    def resume(self) -> None:
        """Let a paused broker go on (SIGCONT)."""
        self._running().send(signal.SIGCONT)

    def __enter__(self) -> "LocalKafka":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _running(self) -> BoundProcess:
        if self._process is None or self._process.returncode is not None:
            raise LocalKafkaError("The local Kafka does not run: call start() first.")
        return self._process

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.send(signal.SIGTERM)
        self._process.send(signal.SIGCONT)  # a paused process sees no SIGTERM
        if not self._process.wait(STOP_LIMIT_S):
            self.kill()
        self._process = None

    def _leave_folder(self) -> None:
        if self._folder is not None:
            self._folder.leave()
            self._folder = None

    def _release(self) -> None:
        if self._claim is not None:
            self._claim.release()
            self._claim = None

    def _stop_at_exit(self, owner_pid: int) -> None:
        # A forked child has this registration too, but the broker is not its own.
        if os.getpid() == owner_pid:
            self.stop()

    def _start_on_some_port(self, install: KafkaInstall, folder: KafkaFolder) -> None:
        for attempt in range(1, PORT_ATTEMPTS + 1):
            port = self._port if self._port is not None else free_port()
            try:
                self._claim_port(port)
                self._start_once(install, folder, port)
            except PortTakenError:
                # Another program may take a free port, the controller's too, before Kafka binds it.
                if attempt == PORT_ATTEMPTS or (self._port is not None and not is_free(port)):
                    raise
                if self._port is None:
                    self._release()
            else:
                self._port = port
                return

    def _claim_port(self, port: int) -> None:
        """Keep the port for this broker until stop(), over kill and restart. Raises PortTakenError."""
        self._claim = self._claim or PortClaim.take(port)
        if self._claim is None or not is_free(port):
            raise PortTakenError(f"Port {port} is in use by another program; name another port or stop that program.")

    def _start_once(self, install: KafkaInstall, folder: KafkaFolder, port: int) -> None:
        """1. write the settings; 2. format a new folder; 3. run; 4. wait for an answer."""
        deadline = time.monotonic() + START_LIMIT_S
        proxied = None if self._advertised_port is None else self._proxied_port or free_port()
        further = self._further or {listener: free_port() for listener in self._listeners}
        ports = Ports(port, free_port(), proxied, self._advertised_port, further, self._listeners)
        folder.write_settings(server_properties(ports, folder.topics_dir, self._settings))
        java = java_command(install, folder.log4j2_file, benchmark=self._benchmark)
        if not folder.is_formatted:
            folder.format(java)
        mark = folder.log_size()
        self._process = BoundProcess([*java, "kafka.Kafka", str(folder.settings_file)], folder.log_file)
        while not answers(port) or self._process.returncode is not None:
            self._check_start(self._process, folder, mark, deadline, port)
            self._process.wait(LOOK_AGAIN_S)
        self._proxied_port, self._further = proxied, further

    def _check_start(self, process: BoundProcess, folder: KafkaFolder, mark: int, deadline: float, port: int) -> None:
        if process.returncode is not None:
            if "Address already in use" in folder.log_since(mark, LOG_LINES_SEARCHED):
                raise PortTakenError(f"Port {port}, or the controller's, was taken while the local Kafka started.")
            log = folder.log_since(mark, LOG_LINES_IN_ERRORS)
            raise LocalKafkaError(f"The local Kafka ended at its start (status {process.returncode}). Its log:\n{log}")
        if time.monotonic() > deadline:
            log = folder.log_since(mark, LOG_LINES_IN_ERRORS)
            raise LocalKafkaError(f"The local Kafka gave no answer within {START_LIMIT_S:.0f} s. Its log:\n{log}")
