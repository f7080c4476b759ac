"""What README shows is what happens: its example, its curl lines and its record, word for word but for addresses."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import pytest

from headrace.dev_models import EXAMPLE_MODELS
from tests.support.dev_process import ROOT, dev, environment, headrace

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

README = (ROOT / "README.md").read_text("utf-8")
KAFKA, GATEWAY = "127.0.0.1:9092", "localhost:8000"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What `headrace dev` prints as JSON, with the built-in examples."""
    with dev("--json", "--port", "0", cwd=tmp_path_factory.mktemp("readme")) as running:
        yield running.document
        running.stop()


def example() -> str:
    """The one Python block."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    return str(code)


def curl_lines() -> list[str]:
    """The indented curl commands, each with its continuation lines."""
    return re.findall(r"^    (curl (?:.*\\\n)*.*)$", README, re.MULTILINE)


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment(), cwd=cwd, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_example_prints_the_sums(stack: dict[str, Any], tmp_path: Path) -> None:
    assert KAFKA in example()
    file = tmp_path / "example.py"
    file.write_text(example().replace(KAFKA, stack["bootstrap_servers"]))
    first, last = run(sys.executable, "-W", "error", str(file), cwd=tmp_path).splitlines()
    assert re.fullmatch(r"[A-Za-z0-9_-]{22} 1 \[\[6\.5\]\]", first)
    assert float(last) == sum(3 * n for n in range(1000))


def test_the_curl_lines_answer(stack: dict[str, Any], tmp_path: Path) -> None:
    lines = [line.replace(GATEWAY, stack["gateway"].removeprefix("http://")) for line in curl_lines()]
    total, shout = (json.loads(run("bash", "-c", line, cwd=tmp_path)) for line in lines)
    assert total["outputs"] == [{"name": "total", "datatype": "FP32", "shape": [1, 1], "data": [6.5]}]
    assert (shout["output"], set(shout)) == ("HELLO", {"id", "output", "latency_ms"})


def test_the_curl_lines_name_the_usual_gateway() -> None:
    assert [GATEWAY in line for line in curl_lines()] == [True, True]


async def test_the_first_body_as_a_record_is_answered_on_the_results_topic(stack: dict[str, Any]) -> None:
    (body,) = re.findall(r"'(\{\"inputs\".*\})'", curl_lines()[0])
    servers = stack["bootstrap_servers"]
    async with (
        aiokafka.AIOKafkaConsumer(
            "headrace.sum.results", bootstrap_servers=servers, auto_offset_reset="earliest"
        ) as consumer,
        aiokafka.AIOKafkaProducer(bootstrap_servers=servers) as producer,
    ):
        sent = await producer.send_and_wait("headrace.sum.async", body.encode())
        record = await asyncio.wait_for(consumer.getone(), 30)
    reply = json.loads(record.value)
    assert record.key.decode() == reply["id"] == f"headrace.sum.async:{sent.partition}:{sent.offset}"
    assert reply["outputs"][0]["data"] == [6.5]


def test_the_example_models_pass_the_check() -> None:
    done = headrace("models", "check", str(EXAMPLE_MODELS))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "No fault found.")
