"""What Kafka's client raises reaches people as sentences."""

import ssl

import pytest
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)

from producer_sdk import Client
from producer_sdk._kafka_faults import in_words, no_connection
from producer_sdk._kafka_options import DEFAULT_KAFKA_OPTIONS, KafkaOptions
from producer_sdk.broker import BrokerError
from producer_sdk.security import Security
from producer_sdk.settings import KafkaSettings

REFUSED = KafkaConnectionError("Unable to bootstrap from [('a', 1, <AddressFamily.AF_INET: 2>)]")


async def test_an_address_where_nothing_answers_is_said_with_its_cause() -> None:
    with pytest.raises(BrokerError) as caught:
        await Client("127.0.0.1:1").start()
    assert caught.value.message == "no connection to Kafka at 127.0.0.1:1: nothing answers there"
    assert isinstance(caught.value.__cause__, KafkaConnectionError)


def test_the_protocol_is_named_where_it_may_be_the_fault() -> None:
    encrypted = KafkaOptions(security=Security(protocol="SSL"))
    assert no_connection("a:1", encrypted, REFUSED).message.endswith("nothing answers there to security_protocol SSL")
    late = no_connection("a:1", DEFAULT_KAFKA_OPTIONS, TimeoutError())
    assert late.message == "no connection to Kafka at a:1: no answer within 30 s"


@pytest.mark.parametrize(
    ("err", "words"),
    [
        (REFUSED, "the connection is lost or cannot be made"),
        (TimeoutError(), "no answer in time"),
        (KafkaError("Unable to get cluster metadata"), "Unable to get cluster metadata"),
        (KafkaTimeoutError("no acknowledgement within 30 s"), "KafkaTimeoutError: no acknowledgement within 30 s"),
        (
            TopicAuthorizationFailedError(),
            f"TopicAuthorizationFailedError: {TopicAuthorizationFailedError.description}",
        ),
        (ssl.SSLError("certificate verify failed"), "SSLError: certificate verify failed"),
        (KafkaError(), "an unnamed fault of the client"),
    ],
)
def test_a_fault_is_in_words(err: Exception, words: str) -> None:
    assert in_words(err) == words


def test_programs_and_the_sdk_publish_records_of_the_same_size() -> None:
    assert KafkaSettings().max_record_bytes == KafkaOptions().max_record_bytes == 1_048_000
