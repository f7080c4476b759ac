"""The brokers on which every promise must hold."""

import os
from collections.abc import AsyncIterator

import pytest
from broker_clients import Clients

from producer_sdk.broker import Broker
from producer_sdk.kafka import KafkaBroker
from producer_sdk.rdkafka import RdKafkaBroker
from producer_sdk.testing import MemoryBroker

ALL_CLIENTS_VARIABLE = "HEADRACE_TEST_ALL_CLIENTS"
# Where a promise rests on the client: how it reads, commits, publishes and gives partitions back. The others are
# played on librdkafka when the variable is set.
ON_EVERY_CLIENT = (
    "test_broker_",
    "test_a_full_backlog_pauses_and_polls_on",
    "test_a_quiet_worker_keeps_its_partitions",
    "test_a_retry_never_runs_before_its_time",
    "test_an_offset_waits_for_its_reply",
    "test_broken_records_harm_nobody",
    "test_moving_partitions_lose_nothing",
    "test_worker_keeps_its_place",
    "test_worker_outlives_deadly_records",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play a test on the brokers that it is a promise about."""
    if "kafka_client" in metafunc.fixturenames:
        metafunc.parametrize("kafka_client", [KafkaBroker, RdKafkaBroker], ids=["aiokafka", "librdkafka"])
    if "broker" not in metafunc.fixturenames:
        return
    brokers = ["memory", pytest.param("kafka", marks=pytest.mark.kafka)]
    if metafunc.module.__name__.rpartition(".")[2].startswith(ON_EVERY_CLIENT) or os.environ.get(ALL_CLIENTS_VARIABLE):
        brokers.append(pytest.param("librdkafka", marks=pytest.mark.kafka))
    metafunc.parametrize("broker", brokers, indirect=True)


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Broker:
    """The broker in memory, then Apache Kafka by aiokafka and by librdkafka."""
    if request.param == "memory":
        return MemoryBroker()
    servers = request.getfixturevalue("kafka").bootstrap_servers
    return KafkaBroker(servers) if request.param == "kafka" else RdKafkaBroker(servers)


@pytest.fixture
async def clients(broker: Broker, prefix: str) -> AsyncIterator[Clients]:
    """Clients of the broker, which stop when the test ends."""
    async with Clients(broker, prefix) as clients:
        yield clients
