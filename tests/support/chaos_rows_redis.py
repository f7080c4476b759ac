"""The row about the Redis of the reply index."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from chaos_row import Row
from chaos_stage import Stage
from redis_server import RedisServer

from headrace.free_ports import free_port

PORT = free_port()
NOTICED_S = 6.0  # workers ask a lost Redis again every 5 s


async def restart_redis(stage: Stage) -> None:
    """It is not there when the workers start, comes, is killed, comes back, and is silent for a while."""
    with tempfile.TemporaryDirectory() as folder:
        redis = RedisServer(Path(folder), PORT)
        try:
            await asyncio.to_thread(redis.start)
            await asyncio.sleep(NOTICED_S)
            with redis.client() as client:
                stage.expect(bool(await asyncio.to_thread(client.dbsize)), "nothing was stored in Redis")
            await asyncio.to_thread(redis.kill)
            await asyncio.sleep(1.0)
            await asyncio.to_thread(redis.start)
            await asyncio.sleep(NOTICED_S)
            redis.pause()
            await asyncio.sleep(1.0)
            redis.resume()
            stage.heals()
            await asyncio.sleep(NOTICED_S)
        finally:
            await asyncio.to_thread(redis.stop)


REDIS_ROWS = (
    Row("redis-restart", "the Redis of the reply index is missing at the start, killed, started again, and silent",
        restart_redis, keys={"dedupe": "redis"}, environment={"HEADRACE_REDIS_URL": f"redis://127.0.0.1:{PORT}"},
        sees="Nothing; a redelivered request may run again meanwhile."),
)  # fmt: skip
