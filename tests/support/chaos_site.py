"""The Apache Kafka that rows are played on, with a proxy that workers of some rows come through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tcp_proxy import TcpProxy, proxy_in_thread

from headrace.local_kafka import LocalKafka

# The broker's own least session timeout would make the long rows longer; the rest is as users have it.
KAFKA_SETTINGS = {"group.min.session.timeout.ms": "1000"}


@dataclass(frozen=True, slots=True)
class Site:
    """A broker that may be killed, and the proxy in front of its second port."""

    kafka: LocalKafka
    proxy: TcpProxy
    kafka_client: str = "aiokafka"

    @property
    def proxied_address(self) -> str:
        return f"127.0.0.1:{self.proxy.port}"


@contextmanager
def running_site(kafka_client: str = "aiokafka") -> Iterator[Site]:
    """Both, ended at the end; workers, callers and judge use that client."""
    with (
        proxy_in_thread() as proxy,
        LocalKafka(advertised_port=proxy.port, settings=KAFKA_SETTINGS) as kafka,
    ):
        proxy.target_port = kafka.proxied_port
        yield Site(kafka, proxy, kafka_client)
