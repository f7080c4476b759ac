"""N, the naive loop: `python -m benchmarks.naive SERVERS MODEL FILE BATCH TOPIC GROUP`.

What a careful person writes with aiokafka in an afternoon: getmany(BATCH), a MessagePack dict a request, np.stack, the
model in a thread, send() for each reply, wait for all acknowledgements, commit every batch; on asyncio's own loop.
Writes "ready" once it has partitions and, after TERM, the rows and the batches that it has run.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import numpy as np
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from benchmarks.subjects import Subject, open_session

POLL_MS = 200


def assemble(requests: list[dict[str, Any]]) -> np.ndarray[Any, Any]:
    """The rows of all requests as one array."""
    return np.stack([np.frombuffer(each["data"], each["dtype"]).reshape(each["shape"]) for each in requests])


def reply(request: dict[str, Any], output: str, row: np.ndarray[Any, Any]) -> bytes:
    """The reply to one request."""
    fields = {
        "id": request["id"],
        "model": request["model"],
        "version": request["version"],
        "output": output,
        "dtype": row.dtype.str,
        "shape": list(row.shape),
        "data": row.tobytes(),
    }
    value: bytes = msgpack.packb(fields)
    return value


class NaiveLoop:
    """One consumer, one producer, one model thread."""

    def __init__(self, servers: str, subject: Subject, topic: str, group: str) -> None:
        self._consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=servers, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest"
        )
        self._producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all")
        self._batch = subject.batch
        self._session = open_session(subject.file)
        self._input = self._session.get_inputs()[0].name
        self._output = self._session.get_outputs()[0].name
        self._thread = ThreadPoolExecutor(1)
        self._stopping = False
        self.rows = self.batches = 0

    def stop(self) -> None:
        self._stopping = True

    async def serve(self) -> None:
        """Serve until `stop` is called."""
        await self._producer.start()
        await self._consumer.start()
        print("ready", flush=True)  # start() returns when the group has given it partitions
        while not self._stopping:
            haul = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=self._batch)
            records = [record for part in haul.values() for record in part]
            if records:
                await self._answer([msgpack.unpackb(record.value) for record in records])
                await self._consumer.commit()
        await self._consumer.stop()
        await self._producer.stop()

    async def _answer(self, requests: list[dict[str, Any]]) -> None:
        inputs = {self._input: assemble(requests)}
        loop = asyncio.get_running_loop()
        (rows,) = await loop.run_in_executor(self._thread, self._session.run, [self._output], inputs)
        sends = []
        for request, row in zip(requests, rows, strict=True):
            topic, _, partition = request["reply_to"].partition(":")
            value = reply(request, self._output, row)
            sends.append(await self._producer.send(topic, value, request["id"].encode(), int(partition)))
        await asyncio.gather(*sends)
        self.rows += len(requests)
        self.batches += 1


async def main(servers: str, model: str, file: str, batch: str, topic: str, group: str) -> None:
    loop = NaiveLoop(servers, Subject.of(model, Path(file), int(batch)), topic, group)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, loop.stop)
    await loop.serve()
    print(loop.rows, loop.batches, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
