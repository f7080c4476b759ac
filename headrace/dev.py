"""`headrace dev`."""

import asyncio
import json
import shlex
import sys
from pathlib import Path

from headrace.cli import Json, plain_app
from headrace.dev_models import EXAMPLE_MODELS, Chosen, choose_models, choose_names
from headrace.dev_ports import DevPorts
from headrace.dev_settings import DevSettings
from headrace.dev_stack import DevStack, Ready
from headrace.flags import verb
from headrace.sample_request import SampleRequest
from headrace.stop_signals import stop_event
from headrace.temporary_folder import TemporaryFolder

app = plain_app()
EPILOG = """\
\b
Serve the models of a folder:
  headrace dev --models ./models
For a program that starts it, one line of JSON when it is ready:
  headrace dev --port 0 --json
"""
FORCED = 3
SAMPLES = 3


@verb(app, DevSettings, epilog=EPILOG)
def dev(settings: DevSettings, as_json: Json = False) -> int:
    """Start Kafka, a worker and a gateway on this machine; print how to ask; stop everything on Ctrl-C."""
    models = choose_models(settings.models)
    chosen = choose_names(models, settings.model)
    with DevPorts(settings.port) as ports, TemporaryFolder.make("headrace-dev-") as samples:
        if models == EXAMPLE_MODELS:
            _say("Serving the built-in example models; name your own by --models DIR.")
        printer = Printer(settings.prefix, samples, as_json)
        return asyncio.run(_run(models, chosen, ports, printer))


async def _run(models: Path, chosen: Chosen, ports: DevPorts, printer: "Printer") -> int:
    stack = DevStack(models, chosen, printer.prefix, ports.choose, _say, _hear)
    with stop_event(stack.kill) as stop:
        serving = asyncio.create_task(stack.serve(printer.show), name="dev-serve")
        stopping = asyncio.create_task(stop.wait(), name="dev-stop")
        try:
            _say("Starting Kafka, a worker and a gateway ...")
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            failed = serving.done()
            serving.cancel()
            stopping.cancel()
            await asyncio.gather(serving, stopping, return_exceptions=True)
            _say("Stopping everything ...")
            disorder = await stack.down()
        if failed:
            serving.result()
    if disorder:
        _say(f"Not everything ended in order: {', '.join(disorder)}.")
    return FORCED if disorder else 0


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _hear(child: str, line: str) -> None:
    _say(f"{child}: {line}")


class Printer:
    """Shows a stack that is ready, for people or as a line of JSON."""

    def __init__(self, prefix: str, samples: Path, as_json: bool) -> None:
        self.prefix = prefix
        self._samples = samples
        self._as_json = as_json

    def show(self, ready: Ready) -> None:
        if self._as_json:
            print(json.dumps(self._document(ready)), flush=True)
            return
        print(f"Kafka      {ready.bootstrap_servers}")
        print(f"gateway    {ready.gateway}")
        print(f"metrics    {ready.gateway_admin}/metrics (gateway), {ready.worker_admin}/metrics (worker)")
        for view in ready.served:
            print(f"model      {view.name}, version {', '.join(view.versions)}: ready")
        for name, reason in ready.failed.items():
            print(f"model      {name}: NOT served: {reason}")
        for view in ready.served[:SAMPLES]:
            sample = SampleRequest(view.newest, self._samples)
            print(f"\nAsk {view.name}:\n  {sample.curl(ready.gateway)}")
            print(f"  {sample.python(shlex.quote(sys.executable), ready.bootstrap_servers, self.prefix)}")
        print("\nCtrl-C stops everything.", flush=True)

    def _document(self, ready: Ready) -> dict[str, object]:
        return {
            "bootstrap_servers": ready.bootstrap_servers,
            "gateway": ready.gateway,
            "gateway_admin": ready.gateway_admin,
            "worker_admin": ready.worker_admin,
            "models": [view.name for view in ready.served],
            "failed": ready.failed,
        }
