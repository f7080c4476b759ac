"""The world of one simulated run: the broker in memory, its workers as simulated processes, and what the log holds."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

import chaos_runner
from chaos_judge import Asked, Told, asked_by, told_by
from chaos_process import CommitFault, SimulatedProcess, Weather
from virtual_time import VirtualClock
from worker_rig import worker_settings

import workers.inspection
import workers.runners.handle
import workers.serve
from producer_sdk.broker import BrokerError, Committed, Outgoing, Placed, Record, TopicPartition
from producer_sdk.errors import HeadraceError
from producer_sdk.memory import MemoryBroker
from producer_sdk.records import decode_record
from producer_sdk.topics import Topics, derived_id
from producer_sdk.wire import Refused
from workers.drain import Exit
from workers.event_log import EventLog
from workers.offset_map import decode, place_of
from workers.retry_records import Origin
from workers.runners.engine import ModelSpec, RetryPolicy
from workers.serve import Worker

PREFIX, MODEL = "chaos", "m"
RETRY = RetryPolicy(first_delay_s=4.0, in_place_s=5.0)  # the first pause is waited for, the second goes by the topic
SETTINGS: Mapping[str, object] = {
    "commit_interval_s": 0.2,
    "session_timeout_s": 10.0,
    "reply_partitions": 2,
    "drain_timeout_s": 20.0,
    "start_timeout_s": 60.0,
    "attempt_limit": 3,
    "events": True,
}


class _LoopWorker(Worker):
    """A worker without an admin port, whose model needs no folder."""

    def _start_admin_port(self, stack: object) -> None:
        pass

    def _find_models(self) -> list[ModelSpec]:
        inputs, outputs = chaos_runner.SIGNATURE.inputs, chaos_runner.SIGNATURE.outputs
        return [ModelSpec(
                MODEL, "1", Path(), "python", max_batch_size=8, inputs=inputs, outputs=outputs, retry=RETRY
            )
        ]  # fmt: skip


class World:
    """Broker and workers of one run. `breaks` holds each breach of the promise as it happened, as a sentence."""

    def __init__(self, clock: VirtualClock, seed: int, **settings: object) -> None:
        self.rng = random.Random(seed)
        self.clock = clock
        self.broker = MemoryBroker(clock=clock.true_wall)
        self.topics = Topics(PREFIX)
        self.weather = Weather(self.rng, self._check_commit)
        self.workers: dict[str, asyncio.Task[Exit]] = {}
        self.processes: dict[str, SimulatedProcess] = {}
        self.served: dict[str, Worker] = {}
        self.asked: dict[TopicPartition, list[Asked]] = {}
        self.retried: dict[TopicPartition, list[Asked]] = {}
        self.told: list[Told] = []
        self.told_ids: set[str] = set()
        self.moved_to: dict[str, Asked] = {}  # by id, the last record on the retry topic, where a request goes on
        self.breaks: list[str] = []
        self._settings = {**SETTINGS, **settings}
        self.attempt_limit = int(str(self._settings["attempt_limit"]))
        self.crashes = 0
        self.stepped = False  # some worker's clock is wrong
        self.deleted = False  # a reply topic is gone
        self._starts = 0
        self._watch_log()

    async def start_worker(self, name: str) -> None:
        """Start it, or start it anew."""
        self._starts += 1
        process = SimulatedProcess(name, self.broker, self.weather)
        self.processes[name] = process
        settings = worker_settings(
            Path(), PREFIX, worker_id=f"{name}-{self._starts}", keep_run_times=False, **self._settings
        )
        self.workers[name] = asyncio.create_task(self._life(process, _LoopWorker(settings, process)), name=name)

    async def _life(self, process: SimulatedProcess, worker: Worker) -> Exit:
        """A process from start to end; a crash cancels all that it does."""
        process.enter()
        self.served[process.name] = worker
        serving = asyncio.create_task(worker.serve(), name=f"serve {process.name}")
        crashed = asyncio.create_task(process.crashed.wait(), name=f"crash of {process.name}")
        try:
            await asyncio.wait([serving, crashed], return_when=asyncio.FIRST_COMPLETED)
            if not process.crashed.is_set():
                return serving.result()
            return Exit.FAILED
        finally:
            crashed.cancel()
            serving.cancel()
            await asyncio.wait([serving])

    async def stop_worker(self, name: str) -> Exit:
        """TERM, and wait for the end."""
        self.served[name].stop.signalled()
        return await self.workers[name]

    def heal(self) -> None:
        """End every fault of the broker."""
        self.weather.commits = CommitFault.NONE
        self.broker.release_acknowledgements()
        self.broker.back()
        for topic in (self.topics.replies, self.topics.results(MODEL), self.topics.dead(MODEL)):
            self.broker.fail_publish(topic, None)

    def deny(self, topic: str) -> None:
        """Publishing to the topic is refused from now on."""
        self.broker.fail_publish(topic, BrokerError(f"not authorized to access topic {topic!r}"))

    def lose_acknowledgements(self, topic: str) -> None:
        """Records arrive in the topic, but no producer hears of it."""
        self.broker.fail_publish(topic, BrokerError("the record was not acknowledged in time"), arrives=True)

    def delete_topic(self, topic: str) -> None:
        if topic in self.broker._logs.topics():
            self.broker.drop_topic(topic)

    def committed_everything(self) -> bool:
        """Whether the group's offsets stand at the ends of all request partitions that hold something."""
        group = self.broker._groups.get(self.topics.group(MODEL))
        committed = group.committed if group is not None else {}
        return all(
            committed.get(partition, Committed(0)).offset >= asked[-1].offset + 1
            for partition, asked in (self.asked | self.retried).items()
        )

    def _watch_log(self) -> None:
        """Note requests and outcomes as they are appended: a deleted topic has told them all the same."""
        append, lanes = self.broker._logs.append, self.topics.lanes(MODEL)
        outcomes = (self.topics.replies, self.topics.results(MODEL), self.topics.dead(MODEL), f"{PREFIX}.mine")

        def watched(topic: str, partition: int, record: Outgoing) -> Placed:
            placed = append(topic, partition, record)
            (stored,), _ = self.broker._logs.log(TopicPartition(topic, placed.partition)).read(placed.offset, 1)
            if topic in lanes:
                asked = asked_by(stored)
                self.asked.setdefault(asked.partition, []).append(asked)
            elif topic == self.topics.retry(MODEL):
                retried = asked_by(stored)
                self.retried.setdefault(retried.partition, []).append(retried)
                self.moved_to[retried.id] = retried
            elif topic in outcomes:
                dead = topic == self.topics.dead(MODEL)
                self.told.append(Told(told_by(stored).id, "", dead=True) if dead else told_by(stored))
                self.told_ids.add(self.told[-1].id)
            return placed

        self.broker._logs.append = watched  # type: ignore[method-assign]

    def _check_commit(self, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Nothing is called done that has no outcome, by the offset or by the map beside it, at every commit."""
        for partition, (base, text) in offsets.items():
            remembered = decode(base, text, place_of(partition))
            end = base if remembered.highest is None else remembered.highest + 1
            for asked in (self.asked | self.retried).get(partition, []):
                done = asked.offset < end and asked.offset not in remembered.incomplete
                goes_on = self.moved_to.get(asked.id, asked) != asked
                if done and asked.id not in self.told_ids and not goes_on:
                    self.breaks.append(f"a commit called {asked.id} done in {partition} before it had an outcome")
                    break


async def _read_return_address(record: Record, origin: Origin, error: HeadraceError) -> Refused:
    """In this process: a child of its own would live in real time."""
    id = derived_id(origin.topic, origin.partition, origin.offset)
    request = decode_record(record.value, origin.headers, id, origin.timestamp_ms)
    return Refused(request.id, error, request.form, request.reply_to)


@contextmanager
def simulated() -> Iterator[None]:
    """Runners inside the loop instead of processes, no signal handlers, and no log lines."""
    chaos_runner.runners.clear()
    chaos_runner.failed.clear()
    with ExitStack() as stack:
        stack.enter_context(patch.object(workers.runners.handle, "RunnerProcess", chaos_runner.LoopRunner))
        stack.enter_context(patch.object(workers.inspection, "read_return_address", _read_return_address))
        stack.enter_context(patch.object(workers.serve, "stop_signals", lambda request: nullcontext()))
        late = {"wall": lambda: time.time()}  # its default was bound before time was simulated
        stack.enter_context(patch.dict(EventLog.__init__.__kwdefaults__ or {}, late))
        logging.disable(logging.CRITICAL)
        stack.callback(logging.disable, logging.NOTSET)
        yield
