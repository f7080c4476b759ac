"""What of S3 and Redis is looked at, where they are configured."""

import re
from collections.abc import Mapping, Sequence

from headrace.doctor_line import Area, Line, listed, sentence
from producer_sdk.payloads import CheckedStep
from producer_sdk.settings import KafkaSettings
from workers.artifact_fetch import bucket_fault
from workers.redis_client import close_redis, connect_redis
from workers.runners.engine import ModelSpec

S3, REDIS = Area("S3"), Area("Redis")
# Of a Redis that is full: these refuse or lose replies that are still wanted, or other programs' keys.
GOOD_POLICY = "volatile-ttl"
_RIGHTS = {
    "put": "s3:PutObject",
    "get": "s3:GetObject",
    "conditional put": "s3:PutObject",
    "delete": "s3:DeleteObject",
}
# What boto3 and the payload store say.
_DENIED = re.compile("AccessDenied|AllAccessDisabled|Forbidden|403")
_UNANSWERED = re.compile("Could not connect|timeout on endpoint|the store did not answer|the time for it ran out")
_NO_CREDENTIALS = "Unable to locate credentials"


async def check_s3(settings: KafkaSettings, specs: Sequence[ModelSpec], budget_s: float) -> list[Line]:
    """Each bucket of the settings: put, get, conditional put and delete of one small object."""
    lines = judge_prefixes(specs, settings) + judge_artifacts(specs, settings)
    if settings.s3() is None:
        return lines or [S3.skipped("buckets", "Not configured (s3_buckets, s3_claim_bucket).")]
    store = settings.payloads()
    assert store is not None
    try:
        buckets = sorted(store.settings.allowed)
        for at, bucket in enumerate(buckets):
            steps = await store.check(bucket, budget_s=budget_s)
            if is_for_all(steps):
                rest = [S3.skipped(each, "Not looked at: it would be the same.") for each in buckets[at + 1 :]]
                return [*lines, judge_reach(bucket, steps, settings.s3_endpoint_url), *rest]
            lines += judge_bucket(bucket, steps, is_for_claims=bucket == settings.s3_claim_bucket)
        return lines
    finally:
        await store.close()


def judge_bucket(bucket: str, steps: Sequence[CheckedStep], *, is_for_claims: bool) -> list[Line]:
    """One line for a bucket that is well, else one for each step that is not."""
    faults = [step for step in steps if step.fault]
    if not faults:
        claims = ", for claim checks too" if is_for_claims else ""
        return [S3.ok(bucket, f"Put, get, conditional put and delete work{claims}.")]
    return [S3.fault(bucket, f"{step.name.capitalize()} fails: {_with_right(step)}") for step in faults]


def _with_right(step: CheckedStep) -> str:
    right, told = _RIGHTS[step.name], sentence(step.fault)
    return f"{told} The right to it is {right}." if _DENIED.search(told) and right not in told else told


def is_for_all(steps: Sequence[CheckedStep]) -> bool:
    """Whether what is wrong would be so with every bucket: nothing answers, or there are no credentials."""
    return any(_UNANSWERED.search(step.fault) or _NO_CREDENTIALS in step.fault for step in steps)


def judge_reach(bucket: str, steps: Sequence[CheckedStep], url: str | None) -> Line:
    """The fault of a store that was not reached, or not asked for want of credentials."""
    fault = next((step.fault for step in steps if _NO_CREDENTIALS in step.fault), None)
    where = url or "Amazon S3"
    return S3.fault(bucket, sentence(fault or f"Nothing answers at {where}: see HEADRACE_S3_ENDPOINT_URL"))


def judge_prefixes(specs: Sequence[ModelSpec], settings: KafkaSettings) -> list[Line]:
    """A fault for each model whose results are to go to a bucket that the settings do not name."""
    allowed = {*settings.s3_buckets, settings.s3_claim_bucket}
    return [
        S3.fault(
            spec.store.bucket,
            f"Model {spec.name} has `reply_to: {spec.store}`, but s3_buckets does not name that bucket: set "
            f"HEADRACE_S3_BUCKETS={spec.store.bucket}.",
        )
        for spec in specs
        if spec.store is not None and spec.store.bucket not in allowed
    ]


def judge_artifacts(specs: Sequence[ModelSpec], settings: KafkaSettings) -> list[Line]:
    """A fault for each model whose artifacts are in a bucket that the settings do not name for models."""
    allowed = frozenset(settings.s3_model_buckets)
    told = [bucket_fault(spec.name, spec.artifacts, allowed) for spec in specs]
    return [S3.fault("artifacts", sentence(fault)) for fault in told if fault]


async def check_redis(url: str | None, specs: Sequence[ModelSpec]) -> list[Line]:
    """Whether the Redis of the reply index answers, and what it does when it is full. Writes nothing."""
    wanted = [spec.name for spec in specs if spec.dedupe == "redis"]
    if url is None:
        return [judge_no_redis(wanted)]
    redis = connect_redis(url)  # says what to install where the package is missing
    from redis.exceptions import RedisError

    try:
        await redis.ping()
        lines = [REDIS.ok("connection", "It answers." + ("" if wanted else " No model here has `dedupe: redis`."))]
        return [*lines, judge_eviction(await _memory(redis))]
    except RedisError as err:
        # Its text may hold the address, in which a password may be.
        text = f"Redis does not answer ({type(err).__name__}): requests run without the reply index till it does."
        return [REDIS.fault("connection", f"{text} See whether HEADRACE_REDIS_URL is right, and Redis up.")]
    finally:
        await close_redis(redis)


async def _memory(redis: object) -> Mapping[str, object] | None:
    from redis.exceptions import RedisError

    try:
        told: Mapping[str, object] = await redis.info("memory")  # type: ignore[attr-defined]
    except RedisError:  # the rights of the reply index do not bring this one
        return None
    return told


def judge_no_redis(wanted: Sequence[str]) -> Line:
    """No address is set; `wanted` are models with `dedupe: redis`."""
    if not wanted:
        return REDIS.skipped("connection", "Not configured (HEADRACE_REDIS_URL).")
    text = f"{listed(wanted)} has `dedupe: redis`, but redis_url is not set: set HEADRACE_REDIS_URL."
    return REDIS.fault("connection", text)


def judge_eviction(memory: Mapping[str, object] | None) -> Line:
    """What Redis does when it is full."""
    if memory is None or "maxmemory_policy" not in memory:
        return REDIS.skipped(
            "eviction", "Not looked at: it takes the right to INFO, which nothing but this check needs."
        )
    policy, most = str(memory["maxmemory_policy"]), int(str(memory.get("maxmemory", 0)))
    cure = f"Set maxmemory, and maxmemory-policy {GOOD_POLICY}."
    if most == 0:
        return REDIS.note("eviction", f"It has no maxmemory, and grows until the machine is full. {cure}")
    if policy == "noeviction":
        return REDIS.note("eviction", f"When it is full it refuses new replies (noeviction). {cure}")
    if policy.startswith("allkeys"):
        return REDIS.note("eviction", f"When it is full it deletes keys of other programs too ({policy}). {cure}")
    return REDIS.ok("eviction", f"maxmemory-policy is {policy}.")
