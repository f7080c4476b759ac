"""The far side of E, the raw echo: `python -m benchmarks.echo SERVERS REQUESTS REPLIES`.

Sends what arrives on one topic to the other, on uvloop, with nothing between consumer and producer. Writes "ready".
"""

from __future__ import annotations

import asyncio
import signal
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from headrace.event_loop import run

POLL_MS = 250


async def main(servers: str, requests: str, replies: str) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="latest")
    producer = AIOKafkaProducer(bootstrap_servers=servers, acks="all")
    async with consumer, producer:
        place = TopicPartition(requests, 0)
        consumer.assign([place])
        await consumer.seek_to_end(place)
        await consumer.position(place)
        print("ready", flush=True)
        while not stopping.is_set():
            haul = await consumer.getmany(place, timeout_ms=POLL_MS)
            for record in haul.get(place, ()):
                await producer.send(replies, record.value, record.key, partition=0)


if __name__ == "__main__":
    run(main(*sys.argv[1:]))
