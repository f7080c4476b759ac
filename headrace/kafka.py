"""`headrace kafka`."""

import json
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from headrace.cli import Debug, Json, plain_app
from headrace.free_ports import is_free
from headrace.local_kafka import LocalKafka, LocalKafkaError, PortTakenError

app = plain_app()
LOOK_AGAIN_S = 0.5
LOG_LINES_SHOWN = 15
EPILOG = """\
\b
Keep topics from one run to the next:
  headrace kafka --port 9092 --data-dir ./kafka-data

The first start of a user downloads Apache Kafka (45 MB) into the cache folder; with KAFKA_HOME
set, the unpacked Kafka there is used instead.
"""
Port = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, max=65535, help="Port on 127.0.0.1; 0 takes a free one. [default: 9092, or a free one]"
    ),
]
DataDir = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder to keep the topics in. [default: one removed at the end]")
]
USUAL_PORT = 9092


@app.command(epilog=EPILOG)
def kafka(port: Port = None, data_dir: DataDir = None, as_json: Json = False, debug: Debug = False) -> None:
    """Run a real Apache Kafka of one node on this machine, without Docker, until Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    broker = LocalKafka(port=choose_port(port), data_dir=data_dir)
    try:
        try:
            broker.start()
        except PortTakenError:
            if port:
                raise
            # Only the usual port, which somebody has taken since it was looked at.
            broker = LocalKafka(data_dir=data_dir)
            broker.start()
        _say_ready(broker, as_json)
        _wait_for_end(broker)
    except KeyboardInterrupt:
        # A second Ctrl-C, or whatever else comes during the stop, finds the default handlers.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    finally:
        broker.stop()


def choose_port(given: int | None) -> int | None:
    """The port given; the usual one where none is and nobody listens there; else None, which is a free one."""
    if given is not None:
        return given or None
    return USUAL_PORT if is_free(USUAL_PORT) else None


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say_ready(broker: LocalKafka, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"bootstrap_servers": broker.bootstrap_servers, "version": broker.version}), flush=True)
        return
    print(f"Apache Kafka {broker.version} is ready at {broker.bootstrap_servers}; Ctrl-C stops it.", flush=True)


def _wait_for_end(broker: LocalKafka) -> None:
    """Returns never: by a signal, or by LocalKafkaError when the broker ends by itself."""
    while True:
        time.sleep(LOOK_AGAIN_S)
        try:
            _ = broker.pid
        except LocalKafkaError as err:
            log = broker.log_file.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
            raise LocalKafkaError("\n".join(["The local Kafka ended by itself. Its log:", *log])) from err
