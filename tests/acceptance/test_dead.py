"""`headrace dead` over real dead letters: what it lists, shows, and publishes again; its exit codes."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from broker_clients import read
from dev_process import headrace
from model_folders import POISONABLE, python_model
from worker_rig import WorkerProcess

from producer_sdk import Client
from producer_sdk.broker import Outgoing, TopicPartition
from producer_sdk.kafka import KafkaBroker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]
PREFIX = "t-dead"
JUNK = b"\xc1no request\x00"


@pytest.fixture(scope="module")
def servers(kafka: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with three dead letters of model m: junk, and two poisoned requests."""
    folder = tmp_path_factory.mktemp("dead")
    models = python_model(folder / "models", "m", POISONABLE, dead_letter_codes=["INFERENCE_FAILED"])
    worker = WorkerProcess(kafka.bootstrap_servers, models, PREFIX, folder / "log", HEADRACE_PARTITIONS="1")
    worker.start()
    try:
        asyncio.run(fill(worker, KafkaBroker(kafka.bootstrap_servers)))
        yield f"--bootstrap-servers={kafka.bootstrap_servers}"
    finally:
        worker.kill()


async def fill(worker: WorkerProcess, broker: KafkaBroker) -> None:
    await worker.serves()
    producer = broker.producer()
    await producer.start()
    await producer.publish_batch(f"{PREFIX}.m.async", 0, [Outgoing(b"key", JUNK)])
    async with Client(broker, prefix=PREFIX) as client:
        for id in ("poison-1", "poison-2"):
            await client.publish("m", {"x": np.array([[666, 1]], np.float32)}, id=id, version="1")
    await producer.stop()
    dead = TopicPartition(f"{PREFIX}.m.dead", 0)
    reader = broker.reader(frozenset([dead]), from_end=False)
    await reader.start()
    assert len(await read(reader, 3)) == 3
    await reader.stop()


def run(verb: str, *arguments: str, code: int = 0) -> str:
    done = headrace("dead", verb, *arguments, "--model", "m", "--prefix", PREFIX)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout


def listed(servers: str, *arguments: str) -> list[Any]:
    return [json.loads(line) for line in run("list", "--json", *arguments, servers).splitlines()]


def test_list_shows_people_a_line_a_letter_and_programs_an_object_a_line(servers: str) -> None:
    lines = run("list", servers).splitlines()
    assert lines[0].split()[:4] == ["place", "id", "code", "attempts"]
    assert [line.split()[0] for line in lines[1:4]] == ["0:0", "0:1", "0:2"]
    letters = listed(servers, "--where", "code=INFERENCE_FAILED", "--where", "after=1h")
    assert [(each["id"], each["attempts"], each["origin"]["offset"]) for each in letters[:2]] == [
        ("poison-1", 1, 1),
        ("poison-2", 1, 2),
    ]
    assert "cannot digest 666" in letters[0]["message"]


def test_show_tells_the_request_by_place_or_id_and_gives_the_bytes(servers: str, tmp_path: Path) -> None:
    shown = run("show", "0:1", servers)
    assert "INFERENCE_FAILED" in shown
    assert "FP32 [1, 2], 8 bytes: 666" in shown
    assert json.loads(run("show", "poison-1", "--json", servers))["request"]["version"] == "1"
    junk = json.loads(run("show", "0:0", "--json", servers))
    assert (junk["request"], junk["key"], junk["id"]) == (None, {"text": "key"}, f"{PREFIX}.m.async:0:0")
    run("show", "0:0", "--raw", str(tmp_path / "raw"), servers)
    assert (tmp_path / "raw").read_bytes() == JUNK


def test_what_is_not_there_is_a_sentence_and_exit_code_1_and_what_cannot_be_meant_2(servers: str) -> None:
    missing = headrace("dead", "show", "0:99", "--model", "m", "--prefix", PREFIX, servers)
    assert (missing.returncode, len(missing.stderr.splitlines())) == (1, 1)
    assert "holds no dead letter 0:99" in missing.stderr
    unknown = headrace("dead", "list", "--model", "other", "--prefix", PREFIX, servers)
    assert (unknown.returncode, unknown.stderr[:16]) == (1, "UNKNOWN_MODEL: t")
    wrong = headrace("dead", "list", "--where", "colour=red", "--model", "m", servers)
    assert (wrong.returncode, "KEY is one of code, id" in wrong.stderr) == (2, True)
    for verb in ("list", "redrive"):
        typo = headrace("dead", verb, "--where", "code=INFERENCE_FAILD", "--model", "m", "--prefix", PREFIX, servers)
        assert (typo.returncode, "did you mean INFERENCE_FAILED?" in typo.stderr) == (2, True)
    run("redrive", "0:99", servers, code=1)


def test_redrive_publishes_once_what_can_be_read_and_its_failure_is_a_new_letter(servers: str) -> None:
    dry = run("redrive", "--dry-run", servers).splitlines()
    assert [line.split("  ")[0] for line in dry[:3]] == ["0:0", "0:1", "0:2"]
    assert dry[3:] == ["2 would be published, 1 skipped:", "  1 still no request that can be read"]
    first = json.loads(run("redrive", "--json", "--where", "code=INFERENCE_FAILED", "--rate", "50", servers))
    assert (first["published"], first["failed"], first["skipped"]) == (2, 0, {})
    assert [(each["place"], each["id"], each["outcome"]) for each in first["letters"]] == [
        ("0:1", "poison-1", "published"),
        ("0:2", "poison-2", "published"),
    ]
    for _ in range(50):
        if len(again := [each for each in listed(servers) if each["redrives"]]) == 2:
            break
    assert [(each["id"], each["redrives"], each["code"]) for each in again] == [
        ("poison-1", 1, "INFERENCE_FAILED"),
        ("poison-2", 1, "INFERENCE_FAILED"),
    ]
    assert [each["redriven"] for each in listed(servers)] == [False, True, True, False, False]
    second = json.loads(run("redrive", "--json", "0:0", "0:1", "0:2", servers))
    assert (second["published"], second["skipped"]) == (0, {"redriven": 2, "unreadable": 1})


def test_another_version_is_asked_for_and_answered_as_such(servers: str) -> None:
    before = len(listed(servers))
    newest = listed(servers, "--limit", "1")[0]["place"]
    assert run("redrive", newest, "--to-version", "7", servers).splitlines()[-1] == "1 published, 0 skipped."
    replies = headrace("replies", "m", "--prefix", PREFIX, "--limit", "100", servers).stdout
    for _ in range(20):
        if "version '7' of model 'm' is not served" in replies:
            break
        replies = headrace("replies", "m", "--prefix", PREFIX, "--limit", "100", servers).stdout
    assert "version '7' of model 'm' is not served" in replies
    assert len(listed(servers)) == before  # UNKNOWN_MODEL leaves no letter
