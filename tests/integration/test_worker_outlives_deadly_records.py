"""A record that kills every runner that runs it is given up after five deaths; no other record pays for it."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from model_folders import DEADLY, python_model
from worker_rig import running_worker

from producer_sdk import Client, HeadraceError, Reply
from producer_sdk.broker import Broker

GOOD = 100
LIMIT = 5
# Doubles; what a row whose first number is 9 does is put in its place.
EVIL = """
import os, signal, time

class Model:
    def predict(self, inputs):
        if (inputs["x"][:, 0] == 9).any():
            {does}
        return {{"y": inputs["x"] * 2}}
"""
WAYS = {
    "hang": ("time.sleep(60)", "no answer within attempt_timeout_s 0.5 s: killed"),
    "memory kill": ("os.kill(os.getpid(), signal.SIGKILL)", "killed by signal 9 (SIGKILL), possibly out of memory"),
    "lost device": ("raise RuntimeError('CUDA error: device-side assert triggered')", "its device was lost to it"),
}


@pytest.mark.timeout(180)
async def test_a_record_whose_model_call_exits_gets_runner_crashed_after_five_deaths_and_100_others_their_answers(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    log = tmp_path / "runs"
    models = python_model(tmp_path / "models", "m", DEADLY, max_batch_size=8, parameters={"log": str(log)})
    rows = [[9 if n == GOOD // 2 else 1, n] for n in range(GOOD + 1)]
    async with running_worker(broker, models, prefix) as worker, Client(broker, prefix=prefix) as client:
        asked = ({"x": np.array([row], np.float32)} for row in rows)
        answers = [each async for each in client.map("m", asked, ordered=True, window=GOOD + 1, deadline_s=50)]
        deaths = worker.loops[0].device.deaths
    failed = {error.index: error for error in answers if isinstance(error, HeadraceError)}
    assert {index: error.code for index, error in failed.items()} == {GOOD // 2: "RUNNER_CRASHED"}, failed
    assert "given up after 5 attempts, for the runner died with this request in flight" in failed[GOOD // 2].message
    right = [each.outputs["y"].tolist() for each in answers if isinstance(each, Reply)]
    assert right == [[[2, 2 * n]] for n in range(GOOD + 1) if n != GOOD // 2]
    runs = Counter(number for line in log.read_text().splitlines() for number in line.split())
    assert (deaths, runs[str(GOOD // 2)]) == (LIMIT, LIMIT)
    assert max(count for number, count in runs.items() if number != str(GOOD // 2)) <= 2


@pytest.mark.timeout(180)
@pytest.mark.parametrize("way", WAYS)
async def test_however_it_ends_its_runner_only_the_offender_is_given_up(
    broker: Broker, prefix: str, tmp_path: Path, way: str
) -> None:
    does, how = WAYS[way]
    models = python_model(
        tmp_path, "m", EVIL.format(does=does), max_batch_size=8, max_wait_ms=200, attempt_timeout_s=0.5
    )
    async with running_worker(broker, models, prefix, attempt_limit=2) as worker:
        async with Client(broker, prefix=prefix) as client:
            asked = ({"x": np.array([[9 if n == 3 else 1, n]], np.float32)} for n in range(8))
            answers = [each async for each in client.map("m", asked, ordered=True, deadline_s=50)]
        assert [getattr(each, "code", "OK") for each in answers] == [*["OK"] * 3, "RUNNER_CRASHED", *["OK"] * 4]
        assert how in str(answers[3])
        assert worker.loops[0].device.deaths == 2


@pytest.mark.timeout(180)
async def test_a_model_that_dies_at_every_batch_answers_each_request_all_the_same(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    models = python_model(
        tmp_path, "m", "import os\n\nclass Model:\n    def predict(self, inputs):\n        os._exit(3)\n"
    )
    async with running_worker(broker, models, prefix, attempt_limit=2) as worker:
        async with Client(broker, prefix=prefix) as client:
            asked = ({"x": np.array([[1, n]], np.float32)} for n in range(3))
            answers = [each async for each in client.map("m", asked, deadline_s=50)]
        assert {getattr(each, "code", "OK") for each in answers} == {"RUNNER_CRASHED"}
        assert worker.health.live() is None
        assert worker.loops[0].blockers() == ""
