"""`headrace doctor` finds nothing where all is well, and names what is not; it leaves nothing behind."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from model_folders import python_model
from redis_server import running_redis
from s3 import S3Server
from secured_kafka import SecuredKafka
from typer.testing import CliRunner

from headrace.cli import app
from headrace.doctor import examine
from headrace.doctor_describe import describe
from headrace.doctor_engines import probe
from headrace.doctor_kafka import Part, Site, check_kafka
from headrace.doctor_line import State
from headrace.doctor_stores import check_redis, check_s3
from producer_sdk.broker import Broker, Topic
from producer_sdk.kafka import KafkaBroker
from producer_sdk.model_topics import model_topics
from producer_sdk.rights import Role, rights_of
from producer_sdk.settings import KafkaSettings
from producer_sdk.system_topics import system_topics
from producer_sdk.testing import MemoryBroker
from producer_sdk.topics import Topics
from workers.settings import WorkerSettings

MODEL = "m"


async def make_topics(broker: Broker, prefix: str, *further: Topic) -> None:
    """Those of the model, the further ones in place of headrace's own."""
    topics, admin = Topics(prefix), broker.admin()
    await admin.start()
    wanted = [*system_topics(topics, reply_partitions=2), *model_topics(topics, MODEL, partitions=2)]
    names = {topic.name for topic in further}
    await admin.create_topics([*further, *(topic for topic in wanted if topic.name not in names)])
    await admin.stop()


def doctor(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and document of the verb."""
    result = CliRunner().invoke(app, ["doctor", "--json", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, json.loads(result.stdout)


def of_kafka(kafka_broker: KafkaBroker, prefix: str) -> list[str]:
    return ["--bootstrap-servers", kafka_broker.bootstrap_servers, "--prefix", prefix]


def test_where_all_is_well_no_line_is_bad(kafka_broker: KafkaBroker, prefix: str, tmp_path: Path) -> None:
    asyncio.run(make_topics(kafka_broker, prefix))
    code, told = doctor(*of_kafka(kafka_broker, prefix), "--models", str(python_model(tmp_path, MODEL)))
    assert (code, told["ok"]) == (0, True)
    states = {each["check"]: each["state"] for each in told["checks"] if each["area"] == "Kafka"}
    assert set(states.values()) == {"ok"}
    assert {"rights", "record size", "replication", "clock"} <= states.keys()


def test_a_topic_that_takes_too_small_records_is_named(kafka_broker: KafkaBroker, prefix: str) -> None:
    small = Topic(f"{prefix}.{MODEL}.bulk", 2, config={"max.message.bytes": "1000"})
    asyncio.run(make_topics(kafka_broker, prefix, small))
    code, told = doctor("--role", "gateway", *of_kafka(kafka_broker, prefix))
    (fault,) = [each for each in told["checks"] if each["state"] == "fault"]
    assert (code, fault["check"]) == (1, "record size")
    assert f"{small.name} takes records of 1,000 bytes" in fault["text"]


@pytest.mark.parametrize("part", Part)
async def test_every_role_is_well_on_topics_as_they_are_made(broker: Broker, prefix: str, part: Part) -> None:
    await make_topics(broker, prefix)
    lines = await check_kafka(Site(broker, None, 5.0), WorkerSettings(prefix=prefix), part, {MODEL: None})
    assert [line.state for line in lines] == [State.OK] * 3 + [State.SKIPPED]


async def test_a_broker_that_cannot_be_reached_ends_the_look_at_it(tmp_path: Path) -> None:
    broker = MemoryBroker()
    broker.away()
    lines = await examine(WorkerSettings(models=tmp_path), Part.GATEWAY, 0.5, site=Site(broker, None, 0.5))
    assert [line.name for line in lines if line.state is State.FAULT] == ["connection"]


@pytest.mark.kafka
@pytest.mark.timeout(40)
async def test_a_missing_right_is_named_with_what_grants_it(secured: SecuredKafka, prefix: str) -> None:
    await make_topics(KafkaBroker(secured.at("PLAINTEXT")), prefix)
    secured.user(prefix)
    granted = rights_of(Role.GATEWAY, prefix, [MODEL])
    secured.grant(f"User:{prefix}", granted[1:])
    broker = KafkaBroker(secured.at("SASL"), security=secured.scram(prefix))
    site = Site(broker, lambda names: describe(broker, names), 5.0)
    lines = await check_kafka(site, WorkerSettings(prefix=prefix), Part.GATEWAY, {MODEL: None})
    found = {line.name: line for line in lines}
    assert found["rights"].state is State.FAULT
    assert f"READ on topic {prefix}.replies" in found["rights"].text
    assert "kafka-acls.sh" in found["rights"].text
    # What only this command asks for is no fault where it is not granted.
    assert {found[name].state for name in ("record size", "retention", "clock")} == {State.SKIPPED}


async def test_each_bucket_is_tried_and_left_empty(s3: S3Server) -> None:
    good, claims = s3.new_bucket(), s3.new_bucket()
    settings = KafkaSettings(s3_endpoint_url=s3.url, s3_buckets=(good, "t-none"), s3_claim_bucket=claims)
    lines = await check_s3(settings, [], 10.0)
    assert {line.name: line.state for line in lines} == {good: State.OK, claims: State.OK, "t-none": State.FAULT}
    assert s3.keys(good) == s3.keys(claims) == []


async def test_redis_is_asked_and_its_absence_told_without_its_password() -> None:
    with running_redis(maxmemory="10mb", **{"maxmemory-policy": "volatile-ttl"}) as redis:
        assert [line.state for line in await check_redis(redis.url, [])] == [State.OK, State.OK]
        redis.stop()
        (line,) = await check_redis(redis.url.replace("//", "//:hunter2@"), [])
        assert (line.state, "hunter2" in line.text) == (State.FAULT, False)


async def test_an_engine_is_asked_in_a_process_of_its_own() -> None:
    assert "CPUExecutionProvider" in (await probe("onnxruntime"))["providers"]
    assert {"devices", "fault"} & (await probe("cuda")).keys()
