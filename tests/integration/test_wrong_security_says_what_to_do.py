"""Each wrong way to a secured Kafka ends at once, with an error of its own that says what is wrong and what to do."""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

import pytest
from secured_kafka import PASSWORD, SecuredKafka, unsigned_token

from producer_sdk.broker import Broker, Misconfigured, NotAuthenticated, TlsFailed
from producer_sdk.kafka import KafkaBroker, Security
from producer_sdk.rdkafka import RdKafkaBroker

pytestmark = pytest.mark.kafka
Clients = type[KafkaBroker] | type[RdKafkaBroker]


@pytest.fixture(params=[KafkaBroker, RdKafkaBroker], ids=["aiokafka", "librdkafka"])
def make(request: pytest.FixtureRequest) -> Clients:
    found: Clients = request.param
    return found


class Wrong(NamedTuple):
    """A listener, how it is reached, and what is said of it."""

    listener: str
    security: Callable[[SecuredKafka], Security]
    kind: type[Misconfigured]
    words: str


def tls(kafka: SecuredKafka, **values: str) -> Security:
    return Security(**({"protocol": "SSL", "cafile": kafka.cafile} | values))  # type: ignore[arg-type]


def of_tokens(kafka: SecuredKafka, token: Callable[[], str]) -> Security:
    return Security(protocol="SASL_SSL", cafile=kafka.cafile, sasl_mechanism="OAUTHBEARER", token=token)


def unlucky() -> str:
    raise OSError(f"the secret {PASSWORD} is refused")


WRONG = {
    "authority": Wrong(
        "SASL", lambda k: k.scram("ada", cafile=k.other_cafile), TlsFailed, "authority that is not trusted"
    ),
    "host": Wrong("ELSEWHERE", lambda k: k.scram("ada"), TlsFailed, "certificate is not for '127.0.0.1'"),
    "expired": Wrong("STALE", lambda k: k.scram("ada"), TlsFailed, "certificate has expired"),
    "no certificate": Wrong("CERTS", tls, TlsFailed, "wants a certificate of the client"),
    "foreign certificate": Wrong(
        "CERTS",
        lambda k: tls(k, certfile=k.foreign_pair[0], keyfile=k.foreign_pair[1]),
        TlsFailed,
        "does not accept the",
    ),
    "plain to TLS": Wrong("SASL", lambda k: Security(), TlsFailed, "the port speaks TLS"),
    "TLS to plain": Wrong("PLAINTEXT", lambda k: k.scram("ada"), TlsFailed, "the port speaks no TLS"),
    "no SASL": Wrong("SASL", tls, NotAuthenticated, "wants SASL"),
    "SASL for nobody": Wrong(
        "CERTS", lambda k: k.scram("ada", certfile=k.certfile, keyfile=k.keyfile), NotAuthenticated, "takes no SASL"
    ),
    "password": Wrong("SASL", lambda k: k.scram("ada", password="wrong"), NotAuthenticated, "does not know 'ada'"),
    "mechanism": Wrong(
        "CLEAR",
        lambda k: Security(protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256", username="a", password=PASSWORD),
        NotAuthenticated,
        "does not take sasl_mechanism",
    ),
    "token": Wrong("SASL", lambda k: of_tokens(k, lambda: "nonsense"), NotAuthenticated, "refuses the token"),
    "callback": Wrong("SASL", lambda k: of_tokens(k, unlucky), NotAuthenticated, "callback failed with OSError"),
}


async def connect(broker: Broker) -> None:
    admin = broker.admin()
    try:
        await admin.start()
        await admin.topics()
    finally:
        await admin.stop()


# What is wrong is found out in the same way for both clients.
ON_LIBRDKAFKA = ("authority", "plain to TLS", "password", "token")
CASES = [pytest.param(KafkaBroker, wrong, id=f"{name}-aiokafka") for name, wrong in WRONG.items()]
CASES += [pytest.param(RdKafkaBroker, WRONG[name], id=f"{name}-librdkafka") for name in ON_LIBRDKAFKA]


@pytest.mark.parametrize(("make", "wrong"), CASES)
async def test_a_wrong_configuration_is_named(secured: SecuredKafka, make: Clients, wrong: Wrong) -> None:
    security = wrong.security(secured)
    with pytest.raises(wrong.kind) as caught:
        await connect(make(secured.at(wrong.listener), security=security))
    print(f"{caught.value.code} {type(caught.value).__name__}: {caught.value.message}")  # noqa: T201 - for who reads with -s
    assert wrong.words in caught.value.message
    assert not caught.value.retryable
    assert PASSWORD not in repr(caught.value) + repr(security)


def test_no_two_of_them_say_the_same() -> None:
    assert len({wrong.words for wrong in WRONG.values()}) == len(WRONG) >= 8


RIGHT = {
    "SCRAM-SHA-256": ("SASL", lambda k: k.scram("ada", "SCRAM-SHA-256")),
    "SCRAM-SHA-512": ("SASL", lambda k: k.scram("ada")),
    "PLAIN": ("SASL", lambda k: k.scram("paul", "PLAIN")),
    "certificate": ("CERTS", lambda k: tls(k, certfile=k.certfile, keyfile=k.keyfile)),
    "token": ("SASL", lambda k: of_tokens(k, lambda: unsigned_token("otto", 60.0, time.time()))),
}


@pytest.mark.parametrize("right", RIGHT.values(), ids=RIGHT.keys())
async def test_each_right_way_leads_in(secured: SecuredKafka, make: Clients, right: tuple[str, object]) -> None:
    secured.user("ada", "SCRAM_SHA_256", "SCRAM_SHA_512")
    listener, security = right
    await connect(make(secured.at(listener), security=security(secured)))  # type: ignore[operator]


async def test_an_asynchronous_callback_is_asked_again_before_its_token_expires(
    secured: SecuredKafka, make: Clients
) -> None:
    given: list[str] = []

    async def token() -> str:
        given.append(unsigned_token("otto", 1.0, time.time()))
        return given[-1]

    security = Security(protocol="SASL_SSL", cafile=secured.cafile, sasl_mechanism="OAUTHBEARER", token=token)
    broker = make(secured.at("SASL"), security=security)
    await connect(broker)
    before = len(given)
    await asyncio.sleep(0.85)  # most of the second for which a token holds
    await connect(broker)
    assert len(given) > before
