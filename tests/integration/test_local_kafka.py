"""A local Apache Kafka starts by itself, keeps what it should, and never outlives the process that started it."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from tcp_proxy import proxy_in_thread

from headrace.kafka_answer import answers
from headrace.kafka_folder import KafkaFolder
from headrace.kafka_jars import prepare
from headrace.local_kafka import LocalKafka, LocalKafkaError, PortTakenError

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

STARTER = """
import threading, time
from headrace.local_kafka import LocalKafka
broker = LocalKafka()
thread = threading.Thread(target=broker.start)
thread.start()
thread.join()
print(broker.pid, broker.log_file.parent, flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def own_kafka() -> Iterator[LocalKafka]:
    """A broker that tests may stop, as long as they start it again."""
    with LocalKafka() as broker:
        yield broker


def port_of(broker: LocalKafka) -> int:
    return int(broker.bootstrap_servers.rpartition(":")[2])


def ended(process: psutil.Process, within_s: float = 10.0) -> bool:
    """Whether it ends in time; without an init process that collects orphans, a zombie is all that can be seen."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


async def publish(servers: str, topic: str, values: list[bytes]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True) as producer:
        for value in values:
            await producer.send_and_wait(topic, value)


async def read(servers: str, topic: str, count: int, group: str | None = None) -> list[bytes]:
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    async with consumer:
        values = [(await consumer.getone()).value for _ in range(count)]
        if group:
            await consumer.commit()
    return values


async def test_a_topic_made_by_an_admin_client_carries_records(kafka: LocalKafka, prefix: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(prefix, num_partitions=3, replication_factor=1)])
        assert len((await admin.describe_topics([prefix]))[0]["partitions"]) == 3
    finally:
        await admin.close()
    await publish(kafka.bootstrap_servers, prefix, [b"one", b"two"])
    assert sorted(await read(kafka.bootstrap_servers, prefix, 2)) == [b"one", b"two"]


async def test_a_group_goes_on_after_its_committed_offset(kafka: LocalKafka, prefix: str) -> None:
    await publish(kafka.bootstrap_servers, prefix, [b"one", b"two"])
    assert await read(kafka.bootstrap_servers, prefix, 2, group=prefix) == [b"one", b"two"]
    await publish(kafka.bootstrap_servers, prefix, [b"three"])
    assert await read(kafka.bootstrap_servers, prefix, 1, group=prefix) == [b"three"]


async def test_records_and_offsets_outlive_a_killed_broker(own_kafka: LocalKafka, prefix: str) -> None:
    await publish(own_kafka.bootstrap_servers, prefix, [b"one", b"two"])
    await read(own_kafka.bootstrap_servers, prefix, 1, group=prefix)
    before = own_kafka.bootstrap_servers
    own_kafka.kill()
    own_kafka.start()
    assert own_kafka.bootstrap_servers == before
    assert await read(own_kafka.bootstrap_servers, prefix, 1, group=prefix) == [b"two"]


async def test_a_named_data_folder_is_kept_and_read_again(tmp_path: Path, prefix: str) -> None:
    folder = tmp_path / "data é \\ here"
    with LocalKafka(data_dir=folder) as first:
        await publish(first.bootstrap_servers, prefix, [b"kept"])
    with LocalKafka(data_dir=folder) as second:
        assert await read(second.bootstrap_servers, prefix, 1) == [b"kept"]


def test_stop_ends_java_and_removes_the_temporary_folder() -> None:
    broker = LocalKafka()
    broker.start()
    pid, folder = broker.pid, broker.log_file.parent
    broker.stop()
    assert not psutil.pid_exists(pid)
    assert not folder.exists()


def test_a_broker_does_not_outlive_a_parent_killed_with_nine(tmp_path: Path) -> None:
    command, environment = [sys.executable, "-c", STARTER], os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        pid, folder = parent.stdout.readline().split()
        java = psutil.Process(int(pid))
        # The thread that called start() has ended by now; the broker must not end with it.
        time.sleep(0.5)
        assert "java" in java.name()
        parent.kill()
        assert ended(java)
    assert Path(folder, "broker.log").exists()


def test_a_folder_orphaned_by_a_kill_is_removed_by_a_later_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    orphan = tmp_path / "headrace-kafka-orphan"
    orphan.mkdir()
    (orphan / "owner.lock").touch()
    os.utime(orphan, (0, 0))
    running = KafkaFolder.open(None)
    os.utime(running.path, (0, 0))
    KafkaFolder.open(None).leave()
    assert (running.path.exists(), orphan.exists()) == (True, False)
    running.leave()


def test_a_taken_port_is_named_in_the_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"Port {port} is in use"):
            LocalKafka(port=port).start()


def test_a_broker_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(LocalKafkaError, match=r"ended at its start(.|\n)*no.such.Class"):
        LocalKafka(data_dir=tmp_path, settings={"authorizer.class.name": "no.such.Class"}).start()


def test_a_folder_belongs_to_one_broker_at_a_time(own_kafka: LocalKafka, tmp_path: Path) -> None:
    for used in (own_kafka.log_file.parent, tmp_path):
        kept = KafkaFolder.open(tmp_path) if used == tmp_path else None
        with pytest.raises(LocalKafkaError, match="in use by another local Kafka"):
            LocalKafka(data_dir=used).start()
        if kept is not None:
            kept.leave()
    KafkaFolder.open(tmp_path).leave()
    assert answers(port_of(own_kafka))


def test_clients_that_come_through_a_proxy_are_told_to_stay_on_it() -> None:
    with proxy_in_thread() as proxy:
        broker = LocalKafka(advertised_port=proxy.port, settings={"group.min.session.timeout.ms": "500"})
        with pytest.raises(LocalKafkaError, match="advertised_port"):
            broker.proxied_port  # a property that raises
        with broker:
            proxy.target_port = broker.proxied_port
            asyncio.run(publish(f"127.0.0.1:{proxy.port}", "t", [b"x"]))
            assert asyncio.run(read(broker.bootstrap_servers, "t", 1)) == [b"x"]
            came = proxy.connections
            broker.restart()
            assert asyncio.run(read(f"127.0.0.1:{proxy.port}", "t", 1)) == [b"x"]
            proxy.reset()
            assert asyncio.run(read(broker.bootstrap_servers, "t", 1)) == [b"x"]
            assert "group.min.session.timeout.ms=500" in (broker.log_file.parent / "server.properties").read_text()
    assert came > 1  # to bootstrap, and to go on


def test_a_paused_broker_is_silent_until_it_resumes(own_kafka: LocalKafka) -> None:
    own_kafka.pause()
    assert not answers(port_of(own_kafka))
    own_kafka.resume()
    assert answers(port_of(own_kafka))


@pytest.mark.timeout(180)
def test_a_paused_broker_can_be_restarted(own_kafka: LocalKafka) -> None:
    own_kafka.pause()
    own_kafka.restart()
    assert answers(port_of(own_kafka))


def test_ctrl_c_of_the_terminal_does_not_reach_the_broker(own_kafka: LocalKafka) -> None:
    assert os.getpgid(own_kafka.pid) != os.getpgid(0)


def test_an_unpacked_kafka_is_used_where_kafka_home_names_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libs").mkdir()
    for jar in prepare().class_path.split(os.pathsep):
        (tmp_path / "libs" / Path(jar).name).symlink_to(jar)
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    with LocalKafka(benchmark=True) as broker:
        command = psutil.Process(broker.pid).cmdline()
    assert str(tmp_path / "libs" / "*") in command
    assert "-Xmx1g" in command


def test_using_a_broker_that_does_not_run_is_a_sentence() -> None:
    with pytest.raises(LocalKafkaError, match="call start"):
        LocalKafka().pause()
    with pytest.raises(LocalKafkaError, match="call start"):
        LocalKafka().bootstrap_servers  # a property that raises


def test_a_broker_killed_from_outside_starts_again(own_kafka: LocalKafka) -> None:
    os.kill(own_kafka.pid, signal.SIGKILL)
    own_kafka.kill()
    own_kafka.start()
    assert answers(port_of(own_kafka))
