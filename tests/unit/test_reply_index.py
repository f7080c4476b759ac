"""The reply index answers the same request of the same model version; a lost Redis costs runs, no requests."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from decode_rig import NOW, SOURCE, ARecord
from worker_rig import until

from producer_sdk.broker import Outgoing
from producer_sdk.tensors import Datatype, Tensor
from producer_sdk.topics import Lane, ReplyTo
from producer_sdk.wire import Form, Request
from workers import reply_index
from workers.fingerprint import fingerprint
from workers.reply_index import MAX_VALUE_BYTES, SHARE_KEYS, ReplyIndex
from workers.work import Outcome, Work


class FakeRedis:
    """What a Redis holds, and how it fails: by an error, or by answering nothing (None)."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self.ttl_ms = 0
        self.questions = 0
        self.error: Exception | None = None
        self.silent = False
        self.delay_s = 0.0

    async def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        await self._answer()
        return [self.held.get(key) for key in keys]

    async def eval(self, script: str, count: int, *arguments: Any) -> int:
        await self._answer()
        self.ttl_ms = arguments[count]
        self.held |= dict(zip(arguments[:count], arguments[count + 1 :], strict=True))
        return 1

    async def _answer(self) -> None:
        self.questions += 1
        await asyncio.sleep(self.delay_s)
        if self.silent:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error


@pytest.fixture
def redis() -> FakeRedis:
    return FakeRedis()


@pytest.fixture
def index(redis: FakeRedis) -> ReplyIndex:
    return ReplyIndex(redis, "p.m", "1", 60.0)


def work(id: str = "a", x: float = 1.0, **request: Any) -> Work:
    inputs = {"x": Tensor(Datatype.FP32, (1, 2), np.full((1, 2), x, np.float32).tobytes())}
    return Work(Request(id, inputs, **request), SOURCE, ARecord(b""), Lane.ASYNC, 1, 8, None, NOW.monotonic, None)


def result(of: Work, value: bytes = b"reply") -> Outcome:
    request = of.request
    return Outcome(request.id, "OK", ReplyTo("p.replies", 0), Outgoing(b"k", value), SOURCE, Lane.ASYNC, 0.0,
                   request.form, None, fingerprint(request))  # fmt: skip


async def found(index: ReplyIndex, *works: Work) -> list[bytes | None]:
    return [None if each is None else each.value for each in await index.find(works)]


@asynccontextmanager
async def watched(index: ReplyIndex) -> Any:
    task = asyncio.create_task(index.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_result_answers_the_same_request_again(index: ReplyIndex) -> None:
    await index.store([result(work("a")), result(work("b"), b"other")])
    assert await found(index, work("b"), work("c"), work("a")) == [b"other", None, b"reply"]
    assert (index.hits, index.failures) == (2, 0)


@pytest.mark.parametrize(
    "other",
    [work(x=2.0), work(form=Form.JSON), work(parameters={"k": 1}), work(outputs=("y",)), work(version="1"), work("A")],
)
async def test_it_answers_nothing_else(index: ReplyIndex, other: Work) -> None:
    await index.store([result(work())])
    assert await found(index, other) == [None]


@pytest.mark.parametrize(("group", "version"), [("p.m", "2"), ("p.n", "1"), ("q.m", "1")])
async def test_it_answers_for_no_other_model_or_version(redis: FakeRedis, group: str, version: str) -> None:
    await ReplyIndex(redis, "p.m", "1", 60.0).store([result(work())])
    assert await found(ReplyIndex(redis, group, version, 60.0), work()) == [None]


async def test_what_somebody_else_has_written_answers_nothing(redis: FakeRedis, index: ReplyIndex) -> None:
    await index.store([result(work())])
    redis.held = dict.fromkeys(redis.held, b"\x93\x01")
    assert await found(index, work()) == [None]


async def test_requests_have_their_fingerprint_afterwards_even_without_redis(
    redis: FakeRedis, index: ReplyIndex
) -> None:
    redis.error = OSError("gone")
    asked = [work(), work("b", 3.0)]
    await index.find(asked)
    assert [each.fingerprint for each in asked] == [fingerprint(each.request) for each in asked]


async def test_a_reply_is_kept_for_its_time_unless_it_is_too_long(redis: FakeRedis, index: ReplyIndex) -> None:
    await index.store([result(work("a"), b"x" * MAX_VALUE_BYTES), result(work("b"), b"x" * (MAX_VALUE_BYTES + 1))])
    assert await found(index, work("b")) == [None]
    assert [len(value or b"") for value in await found(index, work("a"))] == [MAX_VALUE_BYTES]
    assert redis.ttl_ms == 60_000


@pytest.mark.parametrize("error", [OSError("refused"), RuntimeError("the handler is closed"), TimeoutError()])
async def test_a_lost_redis_is_said_once_and_asked_no_more(
    redis: FakeRedis, index: ReplyIndex, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    redis.error = error
    assert await found(index, work()) == [None]
    await index.store([result(work())])
    assert await found(index, work(), work("b")) == [None, None]
    assert (index.up, index.failures, redis.questions) == (False, 1, 1)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_a_silent_redis_holds_a_request_up_once_for_a_moment(redis: FakeRedis, index: ReplyIndex) -> None:
    redis.silent = True
    began = asyncio.get_running_loop().time()
    for _ in range(20):
        assert await found(index, work()) == [None]
        await index.store([result(work())])
    assert asyncio.get_running_loop().time() - began < 2 * reply_index.PATIENCE_S


async def test_a_redis_that_is_back_is_used_again(
    redis: FakeRedis, index: ReplyIndex, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(reply_index, "PAUSE_S", 0.01)
    redis.error = OSError("refused")
    async with watched(index):
        await until(lambda: index.failures > 2)  # before anybody has asked for anything
        redis.error = None
        await until(lambda: index.up)
        await index.store([result(work())])
        assert await found(index, work()) == [b"reply"]
        questions = redis.questions
        await asyncio.sleep(0.05)
        assert redis.questions == questions  # it is left alone again
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.INFO]


async def test_a_redis_that_answers_is_left_alone(
    redis: FakeRedis, index: ReplyIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_index, "PAUSE_S", 0.01)
    async with watched(index):
        await asyncio.sleep(0.1)
    assert redis.questions == 1


async def test_what_there_is_no_time_for_is_not_answered_and_no_failure(
    redis: FakeRedis, index: ReplyIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = [work(str(number)) for number in range(3 * SHARE_KEYS)]
    await index.store([result(each) for each in works])
    monkeypatch.setattr(reply_index, "ENOUGH_S", 0.01)
    redis.delay_s = 0.02
    answers = await found(index, *works)
    assert [answer is not None for answer in answers] == [True] * SHARE_KEYS + [False] * (2 * SHARE_KEYS)
    assert (index.up, index.hits) == (True, SHARE_KEYS)


async def test_much_is_stored_in_shares(redis: FakeRedis, index: ReplyIndex) -> None:
    works = [work(str(number)) for number in range(40)]
    await index.store([result(each, b"x" * MAX_VALUE_BYTES) for each in works])
    assert (redis.questions, len(redis.held)) == (3, 40)
