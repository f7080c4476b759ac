"""Callers of the chaos suite: they publish a steady stream and write down every answer that they see."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator

import numpy as np
from chaos_row import Load
from numpy.typing import NDArray

from producer_sdk import Client, HeadraceError, Reply
from producer_sdk.broker import Broker, BrokerError
from producer_sdk.payload_settings import S3Settings

MODEL = "m"
DEADLINE_S = 170.0
MAPPED_EVERY = 10  # one of so many goes through `map`


class Callers:
    """Two clients of one prefix. `answers` holds what each caller saw, by id; `accepted_at` when Kafka had a request.

    A publish that ends with BrokerError is neither accepted nor refused: the log alone knows.
    """

    def __init__(self, broker: Broker, prefix: str, load: Load, seed: int, s3: S3Settings | None = None) -> None:
        self._load = load
        self._prefix = prefix
        self._rng = random.Random(seed)
        self._waiting = Client(broker, prefix=prefix, s3=s3)
        self._publishing = Client(broker, prefix=prefix, s3=s3)
        self._asking: set[asyncio.Task[None]] = set()
        self.answers: dict[str, list[str]] = {}
        self.accepted_at: dict[str, float] = {}
        self.wrong: list[str] = []
        self.batch_rows: list[int] = []  # of the batch that each answer came out of
        self.unknown = 0
        self.sent = 0
        self.struck = asyncio.Event()  # a quarter of the load is out
        self.over = asyncio.Event()  # the fault has passed: send the rest and end
        self._mapped: asyncio.Queue[tuple[int, NDArray[np.float32]] | None] = asyncio.Queue()

    async def run(self) -> None:
        """Send until the load is out and the fault has passed, and wait for the answers."""
        async with self._waiting, self._publishing:
            mapping = asyncio.create_task(self._map(), name="map")
            began, n = time.monotonic(), 0
            while n < self._load.requests or not self.over.is_set():
                await asyncio.sleep(max(0.0, began + n / self._load.rate_per_s - time.monotonic()))
                self._send(n)
                n += 1
                if n >= self._load.requests / 4:
                    self.struck.set()
            self._mapped.put_nowait(None)
            await asyncio.gather(mapping, *self._asking)

    def is_large(self, n: int) -> bool:
        return bool(self._load.large_every) and n % self._load.large_every == 1

    def inputs(self, n: int) -> dict[str, NDArray[np.float32]]:
        """The second number names the request, so that an answer can be told from another's."""
        row = np.zeros((1, self._load.large_width if self.is_large(n) else self._load.width), np.float32)
        row[0, :2] = self._load.orders.get(n, self._load.order), n
        return {"x": row}

    def _send(self, n: int) -> None:
        self.sent += 1
        kind = "wait" if self._rng.random() < self._load.waiting else "publish"
        if n % MAPPED_EVERY == 0 and n not in self._load.orders:
            self._mapped.put_nowait((n, self.inputs(n)["x"]))
            return
        asking = asyncio.create_task(self._infer(n) if kind == "wait" else self._publish(n), name=f"request {n}")
        self._asking.add(asking)

    async def _infer(self, n: int) -> None:
        try:
            answer: Reply | HeadraceError = await self._waiting.infer(
                MODEL, self.inputs(n), id=f"r{n}", deadline_s=DEADLINE_S
            )
        except HeadraceError as err:
            answer = err
        self._note(f"r{n}", answer, n)

    async def _publish(self, n: int) -> None:
        usual = self._rng.choice([None, f"{self._prefix}.replies:{n % 2}"])
        reply_to = usual if self._load.reply_to is None else f"{self._prefix}.{self._load.reply_to}"
        try:
            await self._publishing.publish(MODEL, self.inputs(n), id=f"r{n}", reply_to=reply_to)
        except BrokerError:
            self.unknown += 1
        else:
            self.accepted_at[f"r{n}"] = time.monotonic()

    async def _map(self) -> None:
        numbers: list[int] = []

        async def items() -> AsyncIterator[dict[str, NDArray[np.float32]]]:
            while (item := await self._mapped.get()) is not None:
                numbers.append(item[0])
                yield {"x": item[1]}

        async for answer in self._waiting.map(MODEL, items(), deadline_s=DEADLINE_S):
            self._note(str(answer.id), answer, None)

    def _note(self, id: str, answer: Reply | HeadraceError, n: int | None) -> None:
        if isinstance(answer, BrokerError):
            self.unknown += 1
            return
        self.answers.setdefault(id, []).append("OK" if isinstance(answer, Reply) else answer.code)
        if isinstance(answer, Reply):
            self.batch_rows.append(int(answer.parameters["batch_rows"]))
        if isinstance(answer, Reply) and n is not None and answer.outputs["y"][0, 1] != 2 * n:
            self.wrong.append(id)
