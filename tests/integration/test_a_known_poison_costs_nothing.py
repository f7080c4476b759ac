"""A poison among 32 records costs at most six runs more, and none at all when the same inputs come again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
from model_folders import DEADLY, POISONABLE, python_model
from worker_rig import running_worker

from producer_sdk import Client, HeadraceError, Reply
from producer_sdk.broker import Broker

PLACE = 13
MATES = [n for n in range(32) if n != PLACE]


def rows(poison: int, changed: int = 0) -> list[np.ndarray]:
    """31 good ones, and a poison at its place."""
    return [np.array([[poison + changed if n == PLACE else 1, n]], np.float32) for n in range(32)]


class Asked:
    """A worker, a client, and the runs that the model was asked for."""

    def __init__(self, client: Client, log: Path) -> None:
        self._client = client
        self._log = log
        self._seen = 0

    async def answers(self, asked: list[np.ndarray]) -> list[Reply | HeadraceError]:
        calls = ({"x": row} for row in asked)
        return [each async for each in self._client.map("m", calls, ordered=True, window=32, deadline_s=15)]

    def newly_run(self) -> list[int]:
        """The numbers of the records that have run since it was asked last, in whatever batches."""
        return sorted(number for run in self.new_runs() for number in run)

    def new_runs(self) -> list[list[int]]:
        """The numbers of the records in each run since it was asked last."""
        lines = self._log.read_text().splitlines()
        new, self._seen = lines[self._seen :], len(lines)
        return [sorted(map(int, line.split())) for line in new]


@asynccontextmanager
async def asking(broker: Broker, prefix: str, folder: Path, code: str, **settings: object) -> AsyncIterator[Asked]:
    log = folder / "runs"
    models = python_model(
        folder / "models", "m", code, max_batch_size=32, max_wait_ms=3000, parameters={"log": str(log)}
    )
    async with running_worker(broker, models, prefix, **settings), Client(broker, prefix=prefix) as client:
        yield Asked(client, log)


def check(answers: list[Reply | HeadraceError], asked: list[np.ndarray], code: str) -> HeadraceError:
    """Everybody has the right answer; gives the poison's."""
    right = [each for each in answers if isinstance(each, Reply)]
    assert len(right) == 31
    assert all(np.array_equal(each.outputs["y"], asked[each.index or 0] * 2) for each in right)
    (failed,) = [each for each in answers if isinstance(each, HeadraceError)]
    assert (failed.index, failed.code) == (PLACE, code)
    return failed


async def test_the_first_time_it_costs_at_most_six_runs_more_and_the_second_time_none(
    broker: Broker, prefix: str, tmp_path: Path
) -> None:
    async with asking(broker, prefix, tmp_path, POISONABLE) as asked:
        check(await asked.answers(rows(666)), rows(666), "INFERENCE_FAILED")
        first = asked.new_runs()
        assert len(first[0]) == 32
        assert len(first) <= 1 + 6
        known = check(await asked.answers(rows(666)), rows(666), "INFERENCE_FAILED")
        assert asked.newly_run() == MATES
        assert "are not run again for 60 s" in known.message


async def test_inputs_that_differ_in_one_number_are_run(broker: Broker, prefix: str, tmp_path: Path) -> None:
    async with asking(broker, prefix, tmp_path, POISONABLE) as asked:
        await asked.answers(rows(666))
        asked.new_runs()
        answers = await asked.answers(rows(666, changed=1))
        assert asked.newly_run() == list(range(32))
        assert all(isinstance(each, Reply) for each in answers)


async def test_after_its_time_it_is_run_again(broker: Broker, prefix: str, tmp_path: Path) -> None:
    async with asking(broker, prefix, tmp_path, POISONABLE, quarantine_s=0.001) as asked:
        for _ in range(2):
            check(await asked.answers(rows(666)), rows(666), "INFERENCE_FAILED")
            assert len(asked.new_runs()) > 1


async def test_what_has_killed_runners_kills_no_further_one(broker: Broker, prefix: str, tmp_path: Path) -> None:
    async with asking(broker, prefix, tmp_path, DEADLY, attempt_limit=2) as asked:
        check(await asked.answers(rows(9)), rows(9), "RUNNER_CRASHED")
        asked.new_runs()
        check(await asked.answers(rows(9)), rows(9), "RUNNER_CRASHED")
        assert asked.newly_run() == MATES
