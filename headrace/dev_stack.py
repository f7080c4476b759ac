"""The development stack: Kafka, a worker and a gateway as child processes, started and stopped in order."""

import asyncio
import json
import os
import site
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from headrace.child import Child
from headrace.dev_models import Chosen, Say, answers, settled
from headrace.dev_ports import Ports
from headrace.failure import CommandError
from producer_sdk.announcements import ModelState
from producer_sdk.directory import ModelDirectory, ModelView
from producer_sdk.payload_settings import PayloadSettings
from producer_sdk.setting import settings_of
from producer_sdk.settings import KafkaSettings
from producer_sdk.topics import Topics

DRAIN_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 20.0
Result = TypeVar("Result")


class Ready(Struct, frozen=True):
    """A stack that serves: addresses, and what became of each model."""

    bootstrap_servers: str
    gateway: str
    gateway_admin: str
    worker_admin: str
    models: tuple[ModelView, ...]
    faults: dict[str, str]

    @property
    def served(self) -> list[ModelView]:
        return [view for view in self.models if view.state is ModelState.READY]

    @property
    def failed(self) -> dict[str, str]:
        """Why models are not served, by name: they could not be loaded, or their folder has a fault."""
        unloaded = {view.name: "; ".join(view.reasons) for view in self.models if view.state is not ModelState.READY}
        return {**unloaded, **self.faults}


class DevStack:
    """One run. Belongs to one event loop.

    `choose_ports` is asked once Kafka runs. `say` gets sentences of progress, `hear` the children's lines.
    """

    def __init__(
        self,
        models: Path,
        chosen: Chosen,
        prefix: str,
        choose_ports: Callable[[], Ports],
        say: Say,
        hear: Callable[[str, str], None],
    ) -> None:
        self._models, self._chosen, self._prefix = models, chosen, prefix
        self._choose_ports = choose_ports
        self._say, self._hear = say, hear
        self._children: list[Child] = []
        self._watches: list[asyncio.Task[None]] = []
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stopping = False

    async def serve(self, show: Callable[[Ready], None]) -> None:
        """Start everything, show it, and go on until a child ends, which raises CommandError.

        1. Kafka. 2. worker and gateway. 3. each model is ready or has failed. 4. the gateway serves those ready.
        """
        kafka = await self._start("kafka", "kafka", "--json")
        answer = await self._unless_a_child_ends(kafka.answer())  # 1
        servers: str = json.loads(answer)["bootstrap_servers"]
        common = ["--bootstrap-servers", servers, "--prefix", self._prefix]
        common += ["--endpoint-lag-s", "0", "--drain-timeout-s", str(DRAIN_TIMEOUT_S)]
        common += ["--log-level", "warning"]
        ports = self._choose_ports()
        await self._start("worker", "worker", *common, *self._worker_flags(ports))  # 2
        await self._start("gateway", "gateway", *common, *_gateway_flags(ports))
        ready = await self._unless_a_child_ends(self._ready(servers, ports))
        if not ready.served:
            reasons = [f"  {name}: {reason}" for name, reason in ready.failed.items()]
            raise CommandError("\n".join(["No model could be loaded:", *reasons]))
        show(ready)
        await self._failure

    async def down(self) -> list[str]:
        """Stop what runs, the last started first; says of each that did not end in order how it ended."""
        self._stopping = True
        codes = {child.name: await child.stop(STOP_TIMEOUT_S) for child in reversed(self._children)}
        for watch in self._watches:
            await watch
        ends = {name: "was killed" if code < 0 else f"ended with exit code {code}" for name, code in codes.items()}
        return [f"{name} {ends[name]}" for name, code in codes.items() if code != 0]

    def kill(self) -> None:
        """End everything now."""
        self._stopping = True
        for child in self._children:
            child.kill()

    def _worker_flags(self, ports: Ports) -> list[str]:
        names = [part for name in sorted(self._chosen.names) for part in ("--model", name)]
        admin = ["--admin-host", "127.0.0.1", "--admin-port", str(ports.worker_admin)]
        return ["--models", str(self._models), *names, *admin]

    async def _start(self, name: str, *arguments: str) -> Child:
        child = Child(name, arguments, child_environment(os.environ), self._hear)
        self._children.append(child)
        await child.start()
        self._watches.append(asyncio.create_task(self._watch(child), name=f"dev-watch-{name}"))
        return child

    async def _watch(self, child: Child) -> None:
        code = await child.ended()
        if not self._stopping and not self._failure.done():
            lines = f" Its last lines:\n{child.last_lines}" if child.last_lines else ""
            self._failure.set_exception(CommandError(f"The {child.name} ended with exit code {code}.{lines}"))

    async def _unless_a_child_ends(self, work: Coroutine[Any, Any, Result]) -> Result:
        task = asyncio.create_task(work, name="dev-start")
        try:
            either: set[asyncio.Future[Any]] = {task, self._failure}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                self._failure.result()
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _ready(self, servers: str, ports: Ports) -> Ready:
        gateway, gateway_admin = f"http://127.0.0.1:{ports.gateway}", f"http://127.0.0.1:{ports.gateway_admin}"
        self._say("Waiting for the models ...")
        directory = ModelDirectory(KafkaSettings(bootstrap_servers=servers).broker(), Topics(self._prefix))
        await directory.start()
        try:
            models = await settled(directory, self._chosen.names, self._say)  # 3
        finally:
            await directory.close()
        await answers(f"{gateway_admin}/readyz")  # 4
        for view in models:
            if view.state is ModelState.READY:
                await answers(f"{gateway}/v2/models/{view.name}/ready")
        worker_admin = f"http://127.0.0.1:{ports.worker_admin}"
        return Ready(servers, gateway, gateway_admin, worker_admin, tuple(models), self._chosen.faults)


def _gateway_flags(ports: Ports) -> list[str]:
    return ["--host", "127.0.0.1", "--port", str(ports.gateway), "--admin-port", str(ports.gateway_admin)]


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child: without a Kafka that is not the stack's, and with this headrace importable."""
    payloads = settings_of(PayloadSettings)
    foreign = {setting.variable for setting in settings_of(KafkaSettings) if setting not in payloads}
    kept = {name: value for name, value in environ.items() if name not in foreign}
    root = str(Path(__file__).resolve().parents[1])
    if root not in (*site.getsitepackages(), site.getusersitepackages()):
        kept["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [environ.get("PYTHONPATH")])])
    return kept
