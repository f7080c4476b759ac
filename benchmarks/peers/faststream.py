"""FastStream's batch subscriber on Kafka: MessagePack maps in hauls, replies by publish_batch.

Writes "ready" when it has partitions and, after TERM, the rows and the batches that it has run.
"""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import msgpack  # type: ignore[import-untyped]
import numpy as np
from aiokafka import AIOKafkaConsumer
from faststream import AckPolicy  # type: ignore[import-not-found]
from faststream.kafka import KafkaBroker, KafkaMessage  # type: ignore[import-not-found]

from benchmarks.peers.onnx_model import OnnxModel
from benchmarks.peers.spec import given

LOOK_AGAIN_S = 0.05

SPEC = given()
MODEL = OnnxModel(SPEC)
broker = KafkaBroker(SPEC.servers, acks="all", logger=None)
counted = {"rows": 0, "batches": 0}


async def decode(message: KafkaMessage) -> list[dict[str, Any]]:
    """Every record of a haul as a map."""
    return [msgpack.unpackb(record.value) for record in message.raw_message]


subscriber = broker.subscriber(
    SPEC.requests,
    batch=True,
    max_records=SPEC.batch,
    group_id=SPEC.group,
    auto_offset_reset="earliest",
    ack_policy=AckPolicy.ACK,  # the offset is committed once the handler has returned
    decoder=decode,
)


@subscriber  # type: ignore[untyped-decorator]
async def infer(requests: list[Any]) -> None:
    """One haul: the model in a thread, its replies as one batch to their partition."""
    ((name, dtype, shape),) = SPEC.inputs
    rows = np.stack([np.frombuffer(each["data"], dtype).reshape(shape) for each in requests])
    (outputs,) = await asyncio.to_thread(MODEL.run, {name: rows})
    replies = [reply(request, output) for request, output in zip(requests, outputs, strict=True)]
    topic, _, partition = requests[0]["reply_to"].partition(":")
    await broker.publish_batch(*replies, topic=topic, partition=int(partition))
    counted["rows"] += len(requests)
    counted["batches"] += 1


def reply(request: dict[str, Any], row: np.ndarray[Any, Any]) -> bytes:
    """The reply to one request."""
    fields = {name: request[name] for name in ("id", "model", "version")}
    fields |= {"output": MODEL.output_names[0], "dtype": row.dtype.str, "shape": list(row.shape), "data": row.tobytes()}
    value: bytes = msgpack.packb(fields)
    return value


async def main() -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with broker:
        await broker.start()
        consumer: AIOKafkaConsumer = subscriber.consumer
        while not consumer.assignment():  # noqa: ASYNC110 - it has no event for it
            await asyncio.sleep(LOOK_AGAIN_S)
        print("ready", flush=True)
        await stopping.wait()
    print(counted["rows"], counted["batches"], flush=True)


if __name__ == "__main__":
    asyncio.run(main())
