"""The brokers on which every promise must hold."""

import os
from collections.abc import AsyncIterator, Iterator

import pytest
from broker_clients import Clients
from prompt_broker import PromptBroker
from secured_kafka import SecuredKafka, secured_kafka

from producer_sdk.broker import Broker
from producer_sdk.kafka import KafkaBroker
from producer_sdk.rdkafka import RdKafkaBroker
from producer_sdk.testing import MemoryBroker

WAYS = (MemoryBroker, PromptBroker)
ALL_CLIENTS_VARIABLE = "HEADRACE_TEST_ALL_CLIENTS"
# Where a promise rests on the client: how it reads, commits, publishes and gives partitions back. All others, and of
# these the slow ones, are played on librdkafka when the variable is set.
ON_EVERY_CLIENT = frozenset(
    [
        "test_an_offset_waits_for_its_reply",
        "test_broker_groups",
        "test_broker_kafka_faults",
        "test_broker_network",
        "test_broker_publishing",
        "test_broker_reading",
        "test_broker_starts",
        "test_broker_static_members",
        "test_broker_topics",
        "test_moving_partitions_lose_nothing",
        "test_only_what_is_too_large_itself_is_refused",
    ]
)
SLOW = frozenset(
    [
        "test_a_drain_longer_than_a_request_keeps_everybody_in_the_group",
        "test_a_restart_of_the_broker_loses_and_repeats_nothing",
        "test_each_record_is_there_once_and_read_once",
        "test_polls_end_in_time_while_others_drain",
        "test_what_is_not_acknowledged_in_time_is_unknown_and_the_next_is_sent_anew",
        "test_who_stops_for_good_is_missed_after_its_session_timeout",
    ]
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play a test on the brokers that it is a promise about."""
    every_client = bool(os.environ.get(ALL_CLIENTS_VARIABLE)) or (
        metafunc.module.__name__.rpartition(".")[2] in ON_EVERY_CLIENT and metafunc.function.__name__ not in SLOW
    )
    if "kafka_client" in metafunc.fixturenames:
        kinds = {"aiokafka": KafkaBroker} | ({"librdkafka": RdKafkaBroker} if every_client else {})
        metafunc.parametrize("kafka_client", kinds.values(), ids=kinds)
    if "broker" not in metafunc.fixturenames:
        return
    brokers = ["memory", pytest.param("kafka", marks=pytest.mark.kafka)]
    if every_client:
        brokers.append(pytest.param("librdkafka", marks=pytest.mark.kafka))
    metafunc.parametrize("broker", brokers, indirect=True)


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Broker:
    """The broker in memory, then Apache Kafka by aiokafka and by librdkafka."""
    if request.param == "memory":
        return MemoryBroker()
    servers = request.getfixturevalue("kafka").bootstrap_servers
    return KafkaBroker(servers) if request.param == "kafka" else RdKafkaBroker(servers)


@pytest.fixture(params=WAYS, ids=["by-a-task", "at-once"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> MemoryBroker:
    """The broker in memory, on which the gateway answers each inference by a task, then without one."""
    broker: MemoryBroker = request.param()
    if isinstance(broker, PromptBroker):
        broker.know_routes(monkeypatch)
    return broker


@pytest.fixture
async def clients(broker: Broker, prefix: str) -> AsyncIterator[Clients]:
    """Clients of the broker, which stop when the test ends."""
    async with Clients(broker, prefix) as clients:
        yield clients


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """The Apache Kafka behind TLS, SASL and an authorizer, started when the first test asks for it."""
    with secured_kafka(tmp_path_factory.mktemp("secured")) as kafka:
        yield kafka
