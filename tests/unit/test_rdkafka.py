"""The second Kafka client: what waits to be polled, settings as librdkafka wants them, faults as sentences."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from secured_kafka import Authority

from producer_sdk._kafka_faults import Refusals
from producer_sdk._rdkafka_faults import group_fault, passes, publish_fault
from producer_sdk._rdkafka_records import Haul, records_of, sorted_out
from producer_sdk._rdkafka_session import Sending, Session
from producer_sdk._rdkafka_settings import connection, consumer_settings, group_settings
from producer_sdk._rdkafka_shelf import Shelf
from producer_sdk._rdkafka_thread import ConsumingThread
from producer_sdk.broker import BrokerError, GroupOptions, Misconfigured, NoSuchPlace, Record, TopicPartition
from producer_sdk.errors import PayloadTooLarge
from producer_sdk.kafka import KafkaOptions
from producer_sdk.rdkafka import RdKafkaBroker
from producer_sdk.security import Security
from producer_sdk.setting import SettingsError
from producer_sdk.settings import KafkaSettings
from workers.settings import WorkerSettings

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Message:
    """As confluent-kafka's: methods in place of attributes; `error` is a code."""

    def __init__(self, partition: int, offset: int, error: int | None = None, headers: Any = None) -> None:
        self._place = partition, offset
        self._error = None if error is None else KafkaError(error)
        self._headers = headers

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._place[0]

    def offset(self) -> int:
        return self._place[1]

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return b"x"

    def headers(self) -> Any:
        if isinstance(self._headers, Exception):
            raise self._headers
        return self._headers


def haul(*places: tuple[int, int]) -> Haul:
    return sorted_out([Message(partition, offset) for partition, offset in places])


def offsets(taken: dict[TopicPartition, Any]) -> dict[TopicPartition, list[int]]:
    return {partition: [record.offset for record in records] for partition, records in taken.items()}


def shelf(**starts: int) -> Shelf:
    shelf = Shelf()
    shelf.own({A: starts.get("a", 0), B: starts.get("b", 0)})
    return shelf


def test_messages_are_sorted_by_partition_and_ends_and_errors_are_kept_apart() -> None:
    end, fault = Message(0, 7, KafkaError._PARTITION_EOF), Message(1, 3, KafkaError._BAD_MSG)
    sorted_haul = sorted_out([Message(0, 5), Message(1, 2), Message(0, 6), end, fault])
    assert offsets(dict(sorted_haul.records)) == {A: [5, 6], B: [2]}
    assert (sorted_haul.ends, sorted_haul.errors, sorted_haul.count) == ({A: 7}, [fault], 3)


def test_a_record_that_python_cannot_be_given_is_a_stand_in_with_its_place() -> None:
    (record,) = sorted_out([Message(0, 5, headers=SystemError())]).records[A]
    assert (record.topic, record.partition, record.offset) == ("t", 0, 5)
    assert (record.timestamp, record.key, record.value, record.headers) == (-1, None, None, ())


def test_a_record_that_python_cannot_be_given_takes_nothing_from_those_beside_it() -> None:
    messages = [Message(0, 4), Message(0, 5, headers=SystemError()), Message(0, 6)]
    assert [(each.offset, each.value) for each in sorted_out(messages).records[A]] == [(4, b"x"), (5, None), (6, b"x")]


def test_a_record_satisfies_the_interface() -> None:
    records: list[Record] = records_of([Message(0, 5, headers=[("a", b"b")])])
    (record,) = records
    assert (record.value, record.headers, record.timestamp) == (b"x", [("a", b"b")], 1000)


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 100])
def test_taking_gives_each_record_once_and_in_order_whatever_is_asked_for(most: int) -> None:
    waiting, got = shelf(), dict[TopicPartition, list[int]]({A: [], B: []})
    for first in (0, 4, 8):
        waiting.add(haul(*((p, first + n) for p in (0, 1) for n in range(4))))
    while taken := offsets(waiting.take(most, frozenset())):
        assert sum(map(len, taken.values())) <= most
        for partition, some in taken.items():
            got[partition] += some
    assert got == {A: list(range(12)), B: list(range(12))}


def test_partitions_take_turns() -> None:
    waiting = shelf()
    waiting.add(haul((0, 0), (0, 1), (1, 0), (1, 1)))
    assert [list(waiting.take(1, frozenset())) for _ in range(4)] == [[A], [B], [A], [B]]


def test_paused_partitions_give_nothing_and_keep_what_they_have() -> None:
    waiting = shelf()
    waiting.add(haul((0, 0), (1, 0)))
    assert offsets(waiting.take(9, frozenset([A]))) == {B: [0]}
    assert offsets(waiting.take(9, frozenset())) == {A: [0]}


def test_records_of_partitions_given_up_are_dropped_and_refused() -> None:
    waiting = shelf()
    waiting.add(haul((0, 0), (0, 1)))
    assert waiting.drop([A]) == 2
    assert waiting.add(haul((0, 2), (1, 0))) == 1
    assert offsets(waiting.take(9, frozenset())) == {B: [0]}
    assert waiting.positions == {B: 1}


def test_the_position_passes_what_is_no_record_only_when_all_before_it_is_polled() -> None:
    waiting, read = shelf(), haul((0, 0))
    read.ends[A] = 5
    waiting.add(read)
    assert waiting.positions[A] == 0
    waiting.take(1, frozenset())
    assert waiting.positions[A] == 5


def test_what_an_open_transaction_holds_back_is_no_lag() -> None:
    waiting, read = shelf(), haul((0, 0), (0, 1))
    read.highs[A] = 9
    waiting.add(read)
    assert waiting.lag() == {A: 9}
    at_end = Haul()
    at_end.ends[A] = 2
    waiting.add(at_end)
    waiting.take(9, frozenset())
    assert waiting.lag() == {A: 0}


def test_security_settings_are_passed_on_by_librdkafkas_names(tmp_path: Path) -> None:
    ca = str(Authority(tmp_path, "ca").file)
    security = Security(protocol="SASL_SSL", sasl_mechanism="PLAIN", username="me", password="secret", cafile=ca,
                        check_hostname=False)  # fmt: skip
    settings = connection(KafkaOptions(security=security), "k:1")
    wanted = {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "me", "sasl.password": "secret",
        "ssl.ca.location": ca, "ssl.endpoint.identification.algorithm": "none",
    }  # fmt: skip
    assert {name: settings[name] for name in wanted} == wanted


def test_offsets_are_committed_only_when_told() -> None:
    settings = consumer_settings(KafkaOptions(check_crcs=False), "g")
    assert (settings["enable.auto.commit"], settings["enable.auto.offset.store"]) == (False, False)
    assert (settings["auto.offset.reset"], settings["check.crcs"]) == ("earliest", False)


def test_with_kip_848_the_broker_says_how_long_a_member_may_be_silent() -> None:
    options = GroupOptions(session_timeout_s=6.0, instance_id="a")
    classic, consumer = group_settings(options, "classic"), group_settings(options, "consumer")
    assert classic["session.timeout.ms"] == 6000
    assert consumer.keys() == {"max.poll.interval.ms", "group.protocol", "group.instance.id", "group.remote.assignor"}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, PayloadTooLarge),
        (KafkaError._UNKNOWN_PARTITION, NoSuchPlace),
        (KafkaError._MSG_TIMED_OUT, BrokerError),
    ],
)
def test_a_record_that_is_not_acknowledged_fails_by_its_kind(code: int, kind: type[Exception]) -> None:
    assert type(publish_fault(KafkaError(code), "t", 10, Refusals("k:1", Security()))) is kind


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (KafkaError.INCONSISTENT_GROUP_PROTOCOL, "the same kafka_client and group_protocol"),
        (KafkaError.FENCED_INSTANCE_ID, "another worker uses group_instance_id 'i'"),
        (KafkaError.INVALID_SESSION_TIMEOUT, "refuses session_timeout_s"),
    ],
)
def test_what_the_same_again_cannot_help_is_a_misconfiguration(code: int, sentence: str) -> None:
    error = KafkaError(code)
    assert not passes(error)
    fault = group_fault("k:1", "g", "i", error)
    assert isinstance(fault, Misconfigured)
    assert sentence in fault.message


async def test_a_sending_ends_with_its_last_report_and_gives_the_place_of_its_first_record() -> None:
    sending = Sending(Session("k:1", KafkaOptions()))
    for offset in (7, 8):
        sending.note(None, Message(1, offset))
    assert not sending.done.done()
    sending.delivered(None, Message(1, 9))
    assert sending.done.result() == (1, 7)


@pytest.mark.parametrize("failed", range(3))
async def test_a_sending_fails_when_any_of_its_records_failed(failed: int) -> None:
    session = Session("k:1", KafkaOptions())
    sending = Sending(session)
    reports: list[Callable[[Any, Any], Any]] = [sending.note, sending.note, sending.delivered]
    for number, report in enumerate(reports):
        report(KafkaError(KafkaError._MSG_TIMED_OUT) if number == failed else None, Message(1, number))
    assert isinstance(sending.done.exception(), KafkaException)
    assert session.broken, "what it holds is unknown"


def test_the_setting_chooses_the_client() -> None:
    assert isinstance(KafkaSettings(kafka_client="librdkafka").broker(), RdKafkaBroker)
    broker = WorkerSettings(kafka_client="librdkafka", group_protocol="consumer").broker()
    assert isinstance(broker, RdKafkaBroker)
    assert broker.group_protocol == "consumer"


def test_without_its_package_the_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "confluent_kafka", None)
    monkeypatch.delitem(__import__("sys").modules, "producer_sdk.rdkafka")
    with pytest.raises(SettingsError, match=r"install headrace\[librdkafka\]"):
        KafkaSettings(kafka_client="librdkafka").broker()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"kafka_client": "aiokafka"}, "needs kafka_client librdkafka"),
        ({"session_timeout_s": 10.0}, "session_timeout_s has no effect with group_protocol consumer"),
        ({"heartbeat_interval_s": 1.0}, "set the group's consumer.heartbeat.interval.ms in Kafka"),
    ],
)
def test_what_kip_848_leaves_to_the_broker_is_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        WorkerSettings(**{"kafka_client": "librdkafka", "group_protocol": "consumer"} | values)


def test_a_lane_that_is_read_again_does_not_throw_away_what_was_fetched() -> None:
    class Consumer:
        def assignment(self) -> list[TopicPartition]:
            return [TopicPartition("t", partition) for partition in range(4)]

    thread = ConsumingThread(Consumer(), "t", lambda haul: None, lambda err: None, lambda: None)
    waited_for_paused = 4 * thread.most_kept
    assert not thread._is_left_alone(1024 + waited_for_paused)
    assert thread._is_left_alone(2 * 1024 + waited_for_paused)
