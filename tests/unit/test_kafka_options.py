"""Options of Kafka clients are checked together and show no secret."""

import ssl

import pytest

from producer_sdk.kafka import KafkaBroker, KafkaOptions, Security


def test_secrets_are_never_shown_and_still_used() -> None:
    values = {"protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", "username": "me", "password": "hunter2"}
    options = KafkaOptions(security=Security(**values))  # type: ignore[arg-type]
    broker = KafkaBroker("localhost:1", options=options)
    assert "hunter2" not in repr(broker) + str(options)
    assert options.connection("localhost:1")["sasl_plain_password"] == "hunter2"


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"send_timeout_s": 0}, "send_timeout_s 0 must be above 0"),
        ({"max_record_bytes": 2_000_000, "max_partition_fetch_bytes": 1_000_000}, "is below max_record_bytes"),
    ],
)
def test_options_that_cannot_work_are_refused_by_name(options: dict[str, object], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        KafkaOptions(**options)  # type: ignore[arg-type]


def test_a_fetch_has_room_for_the_largest_record() -> None:
    assert KafkaOptions(max_record_bytes=5_000_000).partition_fetch_bytes == 5_000_000
    assert KafkaOptions().partition_fetch_bytes == 1 << 20


def test_tls_checks_the_hosts_name_unless_told_otherwise() -> None:
    checked = Security(protocol="SSL").ssl_context()
    unchecked = Security(protocol="SSL", check_hostname=False).ssl_context()
    assert (checked.check_hostname, unchecked.check_hostname) == (True, False)
    assert checked.verify_mode is unchecked.verify_mode is ssl.CERT_REQUIRED
