"""A Redis that is gone, silent, full or closed to us costs runs: every request is answered, hardly later than else."""

import asyncio
import time
from pathlib import Path

import pytest
from counting_model import Asked, asking, counting_model, runs
from redis_server import running_redis
from worker_rig import until

from producer_sdk.broker import Broker
from producer_sdk.testing import MemoryBroker
from workers import reply_index
from workers.redis_client import close_redis, connect_redis
from workers.reply_index import PATIENCE_S, ReplyIndex


async def ask_many(asked: Asked, count: int) -> None:
    """Ask one after the other; each answer has to be right."""
    for n in range(count):
        answer = await asked.answer(f"many-{n}", n)
        assert answer.outputs["y"].tolist() == [[2 * n, 2]]


async def test_redis_may_die_and_come_back(
    broker: Broker, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_index, "PAUSE_S", 0.1)
    with running_redis() as redis:
        async with asking(broker, prefix, counting_model(tmp_path), redis.url) as asked:
            asking_many = asyncio.create_task(ask_many(asked, 40))
            await until(lambda: len(runs(tmp_path)) > 5)
            redis.kill()
            await asking_many
            await until(lambda: not asked.index.up)
            redis.start()
            await until(lambda: asked.index.up)
            for _ in range(2):
                await asked.answer("again", 99)
            assert runs(tmp_path).count("99") == 1


async def test_a_silent_redis_holds_requests_up_once(broker: Broker, prefix: str, tmp_path: Path) -> None:
    with running_redis() as redis:
        async with asking(broker, prefix, counting_model(tmp_path), redis.url) as asked:
            await asked.answer("a", 1)
            redis.pause()
            began = time.monotonic()
            await ask_many(asked, 20)
            assert time.monotonic() - began < 5 * PATIENCE_S  # 20 times, if each of them waited
            assert not asked.index.up


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ({"maxmemory": "1"}, "redis://127.0.0.1:{port}"),
        ({"requirepass": "right"}, "redis://:wrong@127.0.0.1:{port}"),
        ({"requirepass": "right"}, "redis://127.0.0.1:{port}"),
        ({"replicaof": "127.0.0.1 1"}, "redis://127.0.0.1:{port}"),
        ({}, "redis://127.0.0.1:{port}/99"),
        ({}, "rediss://127.0.0.1:{port}"),
    ],
    ids=["full", "wrong-password", "no-password", "replica", "no-such-database", "no-tls"],
)
async def test_a_redis_that_refuses_is_done_without(
    prefix: str, tmp_path: Path, options: dict[str, str], url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with running_redis(**options) as redis:
        address = url.format(port=redis.port)
        async with asking(MemoryBroker(), prefix, counting_model(tmp_path), address) as asked:
            await ask_many(asked, 5)
            await until(lambda: not asked.index.up)
    said = [record.getMessage() for record in caplog.records if getattr(record, "action", "") == "reply_index_lost"]
    assert len(said) == 1
    assert "wrong" not in said[0]


async def test_an_evicted_reply_costs_a_run(prefix: str, tmp_path: Path) -> None:
    with running_redis() as redis:
        async with asking(MemoryBroker(), prefix, counting_model(tmp_path), redis.url) as asked:
            await asked.answer("a", 1)
            with redis.client() as client:
                client.flushall()
            await asked.answer("a", 1)
            assert (runs(tmp_path), asked.index.up) == (["1", "1"], True)


async def test_a_restart_between_two_questions_is_no_failure(prefix: str, tmp_path: Path) -> None:
    with running_redis() as redis:
        async with asking(MemoryBroker(), prefix, counting_model(tmp_path), redis.url) as asked:
            await asked.answer("a", 1)
            await asyncio.to_thread(redis.restart)
            await asked.answer("b", 2)
            assert (asked.index.up, asked.index.failures) == (True, 0)


async def test_the_answer_to_a_question_given_up_never_answers_the_next() -> None:
    with running_redis() as redis:
        client = connect_redis(redis.url)
        index = ReplyIndex(client, "g", "1", 60.0)
        await index._write([("a", b"of a"), ("b", b"of b")])
        for _ in range(3):
            redis.pause()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(index._read(["a"], []), 0.05)
            redis.resume()
            values: list[bytes | None] = []
            await index._read(["b"], values)
            assert values == [b"of b"]
        await close_redis(client)
