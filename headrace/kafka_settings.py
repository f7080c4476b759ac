"""How the local Apache Kafka is set up: its server.properties, its log4j2 configuration, the flags of its Java."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.kafka_jars import KafkaInstall

NODE_ID = 1

SMALL_JAVA = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# Compiled after a tenth of the usual calls, so that a broker is as quick after seconds as others are after hours. The
# listener is for benchmarks/java_compiler.py.
BENCHMARK_JAVA = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:CompileThresholdScaling=0.1",
                  "-XX:+StartAttachListener")  # fmt: skip

# Single-node values, and what makes starts and restarts quick; everything else stays as Kafka's users have it.
FIXED_SETTINGS = f"""\
process.roles=broker,controller
node.id={NODE_ID}
controller.listener.names=CONTROLLER
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=4
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=500
log.cleaner.dedupe.buffer.size=4194304
"""

LOG4J2 = """\
status = error
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = OUT
"""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where one broker listens. `proxied` is for clients that come through a proxy: they are told `advertised`.

    `further` are ports of listeners by their names, `protocols` what each of them speaks.
    """

    clients: int
    controller: int
    proxied: int | None = None
    advertised: int | None = None
    further: Mapping[str, int] = field(default_factory=dict)
    protocols: Mapping[str, str] = field(default_factory=dict)


def server_properties(ports: Ports, topics_dir: Path, settings: Mapping[str, str]) -> str:
    """The text of server.properties for a broker and controller in one, on 127.0.0.1 only; `settings` come last."""
    listeners = {"PLAINTEXT": ports.clients, "CONTROLLER": ports.controller}
    advertised = {"PLAINTEXT": ports.clients}
    if ports.proxied is not None and ports.advertised is not None:
        listeners["PROXIED"], advertised["PROXIED"] = ports.proxied, ports.advertised
    listeners |= ports.further
    advertised |= ports.further
    spoken = {listener: ports.protocols.get(listener, "PLAINTEXT") for listener in listeners}
    own = {
        "listener.security.protocol.map": ",".join(f"{listener}:{protocol}" for listener, protocol in spoken.items()),
        "listeners": _addresses(listeners),
        "advertised.listeners": _addresses(advertised),
        "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{ports.controller}",
        # Properties files are Latin-1 with escapes, which are those of JSON.
        "log.dirs": json.dumps(str(topics_dir))[1:-1],
    }
    return FIXED_SETTINGS + "".join(f"{key}={value}\n" for key, value in (own | dict(settings)).items())


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{listener}://127.0.0.1:{port}" for listener, port in ports.items())


def java_command(install: KafkaInstall, log4j2: Path, *, benchmark: bool) -> list[str]:
    """The command line of Kafka's Java up to the main class; `benchmark` gives it a large heap and the server JIT."""
    flags = BENCHMARK_JAVA if benchmark else SMALL_JAVA
    head = [str(install.java), *flags, "-Djava.awt.headless=true", f"-Dlog4j2.configurationFile={log4j2.as_uri()}"]
    return [*head, "-cp", install.class_path]
