"""An address of Redis that cannot be meant stops the start, in a sentence that gives no password away."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from producer_sdk.setting import SettingsError
from workers.connect import redis_for
from workers.redis_client import close_redis, connect_redis
from workers.runners.engine import ModelSpec
from workers.settings import WorkerSettings

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        (f"http://:{SECRET}@redis:6379", "does not begin with redis://"),
        (f"{SECRET}@redis:6379", "does not begin with redis://"),
        ("redis:6379", "names no host"),
        (f"redis://:{SECRET}", "a port that is none"),
        (f"redis://:pa/{SECRET}@redis:6379", "a port that is none"),
        (f"redis://:pa#{SECRET}@redis", "a port that is none"),
        (f"redis://:{SECRET}@redis:66666", "a port that is none"),
        (f"redis://:{SECRET}@redis:0", "has port 0"),
        (f"redis://:{SECRET}@[::1", "a host or a port that is none"),
        (f"redis://:{SECRET}@", "names no host"),
        (f"redis://:{SECRET}@redis/zero", "no database number"),
        (f"redis://:{SECRET}@redis/0#1", "may only have the options"),
        (f"redis://redis?password={SECRET}", "may only have the options"),
        ("redis://redis?decode_responses=1", "may only have the options"),
        (f"redis://:{SECRET}@redis?db=zero", "an option that redis-py refuses"),
        (f"redis://:{SECRET}@redis?ssl_ca_certs=ca.pem", "an option that redis-py refuses"),
        (f"unix://:{SECRET}@", "names no socket"),
        ("", "does not begin with redis://"),
    ],
)
def test_an_address_that_cannot_be_meant_is_refused(url: str, fault: str) -> None:
    with pytest.raises(SettingsError, match=r"^redis_url \(HEADRACE_REDIS_URL\) ") as caught:
        connect_redis(url)
    assert fault in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://redis", {"host": "redis"}),
        ("redis://me:p%40ss@[::1]:6380/3", {"host": "::1", "port": 6380, "db": 3, "password": "p@ss"}),
        ("rediss://redis:6380?ssl_ca_certs=/ca.pem&db=2", {"port": 6380, "db": 2, "ssl_ca_certs": "/ca.pem"}),
        ("unix:///run/redis.sock?db=1", {"path": "/run/redis.sock", "db": 1}),
    ],
)  # fmt: skip
async def test_an_address_is_understood(url: str, expected: dict[str, object]) -> None:
    redis = connect_redis(url)
    assert redis.connection_pool.connection_kwargs.items() >= expected.items()
    await close_redis(redis)


async def test_only_a_model_that_wants_it_needs_the_address() -> None:
    plain, deduped = ModelSpec("n", "1", Path(), "python"), ModelSpec("m", "1", Path(), "python", dedupe="redis")
    async with AsyncExitStack() as stack:
        assert redis_for(WorkerSettings(redis_url="http://bad"), [plain], stack) is None
        with pytest.raises(SettingsError, match="Model m has `dedupe: redis`, but redis_url is not set"):
            redis_for(WorkerSettings(), [plain, deduped], stack)
