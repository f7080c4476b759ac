"""Rows about Kafka and the way to it."""

from __future__ import annotations

import asyncio
import time

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from chaos_row import Load, Row
from chaos_stage import Stage

from producer_sdk.broker import TopicPartition

DOWN_S = 3.0
BLACK_HOLE_S = 12.0
MINE = "mine"


async def restart(stage: Stage) -> None:
    await asyncio.to_thread(stage.kafka.restart)


async def kill(stage: Stage) -> None:
    stage.kafka.kill()
    await asyncio.sleep(DOWN_S)
    await asyncio.to_thread(stage.kafka.start)


async def freeze(stage: Stage) -> None:
    """Connections stay open and nothing is answered, as at a machine that swaps."""
    stage.kafka.pause()
    await asyncio.sleep(DOWN_S)
    stage.kafka.resume()


async def delete_reply_topic(stage: Stage) -> None:
    """The topic that published requests name in reply_to goes away under way."""
    admin = AIOKafkaAdminClient(bootstrap_servers=stage.kafka.bootstrap_servers)
    await admin.start()
    try:
        mine = f"{stage.prefix}.{MINE}"
        await admin.create_topics([NewTopic(mine, 1, 1)])
        assert stage.watch is not None
        async with stage.watch.also(TopicPartition(mine, 0)):
            await asyncio.sleep(2.0)
            await admin.delete_topics([mine])
            stage.deleted_at = time.monotonic()
    finally:
        await admin.close()


async def black_hole(stage: Stage) -> None:
    """Nothing passes between the workers and the broker, for longer than their session timeout."""
    stage.proxy.black_hole()
    await asyncio.sleep(BLACK_HOLE_S)
    stage.proxy.heal()


async def lose_answers(stage: Stage) -> None:
    """What workers send arrives; what the broker answers does not: commits and replies are done, and nobody hears."""
    for _ in range(3):
        stage.proxy.black_hole(up=False)
        await asyncio.sleep(2.0)
        stage.proxy.heal()
        await asyncio.sleep(1.0)
    stage.proxy.black_hole(up=False)
    await asyncio.sleep(BLACK_HOLE_S)
    stage.proxy.reset()
    await asyncio.sleep(0.5)
    stage.proxy.heal()


async def reset_connections(stage: Stage) -> None:
    stage.proxy.reset()
    await asyncio.sleep(2.0)
    stage.proxy.heal()


BROKER_ROWS = (
    Row("broker-restart", "the broker restarts in order", restart, kills=True, limit_s=90.0,
        sees="Publishing and replies stand still meanwhile, then go on."),
    Row("broker-killed", "kill -9 of the broker, started again", kill, kills=True, limit_s=90.0,
        sees="As at a restart; a publish that was under way may end with INTERNAL, and have arrived or not."),
    Row("broker-frozen", "the broker answers nothing for 3 s (SIGSTOP)", freeze, kills=True,
        sees="Everything waits for as long."),
    Row("black-hole", f"nothing passes between workers and broker for {BLACK_HOLE_S:g} s", black_hole, kills=True,
        proxied=True, limit_s=90.0, sees="Requests wait; batches in flight may run twice."),
    Row("connection-reset", "all connections of the workers are reset, new ones too for 2 s", reset_connections,
        kills=True, proxied=True, limit_s=90.0, sees="Replies come some seconds later."),
    Row("commit-unheard", "the broker's answers to the workers are lost, commits and replies arrive", lose_answers,
        kills=True, proxied=True, limit_s=90.0, sees="Replies whose acknowledgement was lost are repeated."),
    Row("reply-topic-deleted", "the reply topic of published requests is missing, made, and deleted under way",
        delete_reply_topic, load=Load(reply_to=MINE), kills=True, excused=frozenset(["INVALID_REQUEST"]),
        unverifiable=True, sees="Its requests get INVALID_REQUEST on the model's results topic."),
)  # fmt: skip
