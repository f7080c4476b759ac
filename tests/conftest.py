"""The Apache Kafka that all tests share, fresh topic names, and a line that names the brokers of the run."""

import gc
import os
import re
import secrets
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import hypothesis
import pytest
from s3 import CREDENTIALS, S3Server, s3_server

from headrace.local_kafka import KAFKA_VERSION, LocalKafka, prepare
from producer_sdk.kafka import KafkaBroker

# A busy machine must not fail a property: the limit of pytest-timeout holds for these tests too.
# A gate must not depend on luck: CI plays the same examples every time, everybody else looks further each time.
hypothesis.settings.register_profile(
    "headrace", deadline=None, derandomize=bool(os.environ.get("HYPOTHESIS_DERANDOMIZE"))
)
hypothesis.settings.load_profile("headrace")

GIVEN_VARIABLE = "HEADRACE_TEST_BOOTSTRAP_SERVERS"
BROKER_LINE = pytest.StashKey[str]()
BROKERS_OF_OTHERS = pytest.StashKey[set[str]]()


@dataclass(frozen=True, slots=True)
class GivenKafka:
    """A broker that runs already."""

    bootstrap_servers: str


@pytest.fixture(scope="session")
def kafka(pytestconfig: pytest.Config) -> Iterator[LocalKafka | GivenKafka]:
    """The shared broker. A test that kills or pauses its broker starts a LocalKafka of its own."""
    given = os.environ.get(GIVEN_VARIABLE)
    if given:
        pytestconfig.stash[BROKER_LINE] = f"Apache Kafka at {given} (from {GIVEN_VARIABLE})"
        yield GivenKafka(given)
        return
    with LocalKafka() as broker:
        pytestconfig.stash[BROKER_LINE] = f"Apache Kafka {broker.version} at {broker.bootstrap_servers}"
        yield broker


@pytest.fixture
def kafka_broker(kafka: LocalKafka | GivenKafka) -> KafkaBroker:
    """The shared Apache Kafka, for promises that make sense only there."""
    return KafkaBroker(kafka.bootstrap_servers)


@pytest.fixture(scope="session")
def shared_s3() -> Iterator[S3Server]:
    """The S3 server that all tests share; each test makes buckets of its own."""
    with s3_server() as server:
        yield server


@pytest.fixture
def s3(shared_s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The shared S3 server, and credentials for it in the environment."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return shared_s3


@pytest.fixture(autouse=True, scope="module")
def what_a_file_left_open_is_told_there() -> Iterator[None]:
    """What is never closed warns when it is collected, which may be many files later."""
    yield
    gc.collect()


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """A prefix for topics, groups and models that no other test uses: at most 24 of [A-Za-z0-9_-], a letter first."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name.removeprefix("test_"))[:12].strip("-")
    return f"t-{name}-{secrets.token_hex(4)}"


def needs_kafka(item: pytest.Item) -> bool:
    """Whether a test asks for the shared broker or is marked as one that starts its own."""
    return "kafka" in getattr(item, "fixturenames", ()) or item.get_closest_marker("kafka") is not None


def pytest_configure() -> None:
    """Let Ctrl-C reach the processes of tests: a shell starts what it runs in the background with it ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Download Kafka, where it is missing, before the time limits of the tests begin."""
    if not session.config.option.collectonly and any(map(needs_kafka, session.items)):
        prepare()


def pytest_report_header() -> str:
    """Say which brokers the run will use."""
    given = os.environ.get(GIVEN_VARIABLE)
    return f"brokers: in-memory, Apache Kafka {f'at {given}' if given else f'{KAFKA_VERSION}, started on first use'}"


def brokers_used(config: pytest.Config) -> list[str]:
    """The brokers that tests of this process have used."""
    used = ["in-memory"] if "producer_sdk.testing" in sys.modules else []
    return used + ([config.stash[BROKER_LINE]] if BROKER_LINE in config.stash else [])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let a process of a parallel run tell the one that reports."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["brokers"] = brokers_used(session.config)


def pytest_testnodedown(node: Any) -> None:
    """Gather what the processes of a parallel run have told."""
    told = node.config.stash.setdefault(BROKERS_OF_OTHERS, set())
    told.update(getattr(node, "workeroutput", {}).get("brokers", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which brokers the run has used."""
    used = {*brokers_used(config), *config.stash.get(BROKERS_OF_OTHERS, ())}
    terminalreporter.write_line(f"brokers: {', '.join(sorted(used)) or 'none'}")
