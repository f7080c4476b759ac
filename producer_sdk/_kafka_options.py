"""How to reach a Kafka cluster, and the limits of its clients."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Any

from .broker import MAX_RECORD_BYTES

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MEBIBYTE = 1 << 20
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class _Secret(str):
    """Text that shows as `***`; empty text shows that none is set."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'" if self else "''"


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """Connection, security and limits of Kafka clients.

    Raises:
        ValueError: a value is not valid, or two do not fit together.
    """

    client_id: str = "headrace"
    """How the clients appear in the broker's logs and quotas."""
    security_protocol: str = "PLAINTEXT"
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    sasl_mechanism: str | None = None
    """PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; needed by the SASL protocols."""
    sasl_username: str | None = None
    """Needed by the SASL protocols."""
    sasl_password: str | None = None
    """Needed by the SASL protocols; never shown."""
    ssl_ca_location: str | None = None
    """PEM file of the authorities to trust; None trusts those of the system."""
    ssl_certificate_location: str | None = None
    """PEM file of the client's certificate, for mutual TLS."""
    ssl_key_location: str | None = None
    """PEM file of the client's key, for mutual TLS."""
    ssl_key_password: str | None = None
    """Opens the client's key; never shown."""
    ssl_check_hostname: bool = True
    """Whether the broker's certificate must name its host."""
    max_record_bytes: int = MAX_RECORD_BYTES
    """Largest record to publish, Kafka's framing included; just below a broker's default `message.max.bytes`."""
    send_timeout_s: float = 30.0
    """A publish that is not acknowledged within this fails; the record may have arrived."""
    commit_timeout_s: float = 10.0
    """A commit that is not answered within this fails."""
    request_timeout_s: float = 20.0
    """One request to a broker; past it the connection is closed and the request tried again."""
    check_crcs: bool = True
    """Whether consumers check the checksums of record batches; without them reading costs a little less CPU."""
    fetch_max_bytes: int = 50 * _MEBIBYTE
    """Most bytes of one fetch from one broker."""
    max_partition_fetch_bytes: int | None = None
    """Most bytes of one fetch from one partition; None is 1 MiB, or `max_record_bytes` where that is more."""
    retry_backoff_s: float = field(default=0.1, repr=False)
    """Pause before a request is tried again."""

    def __post_init__(self) -> None:
        for name in ("sasl_password", "ssl_key_password"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _Secret(value))
        for fault in self._faults():
            raise ValueError(fault)

    def _faults(self) -> list[str]:
        faults = []
        if self.security_protocol not in _PROTOCOLS:
            faults.append(f"security_protocol {self.security_protocol!r}: use one of {', '.join(_PROTOCOLS)}")
        if self.security_protocol.startswith("SASL_"):
            if self.sasl_mechanism not in _MECHANISMS:
                faults.append(f"sasl_mechanism {self.sasl_mechanism!r}: use one of {', '.join(_MECHANISMS)}")
            if not self.sasl_username or self.sasl_password is None:
                faults.append(f"security_protocol {self.security_protocol} needs sasl_username and sasl_password")
        if self.ssl_key_location and not self.ssl_certificate_location:
            faults.append("ssl_key_location needs ssl_certificate_location")
        for name in ("send_timeout_s", "commit_timeout_s", "request_timeout_s", "max_record_bytes", "fetch_max_bytes"):
            if getattr(self, name) <= 0:
                faults.append(f"{name} {getattr(self, name)} must be above 0")
        if self.partition_fetch_bytes < self.max_record_bytes:
            least = f"{self.max_partition_fetch_bytes} is below max_record_bytes {self.max_record_bytes}"
            faults.append(f"max_partition_fetch_bytes {least}: the largest records would come one at a time")
        return faults

    @property
    def partition_fetch_bytes(self) -> int:
        """`max_partition_fetch_bytes` as it is used."""
        return self.max_partition_fetch_bytes or max(_MEBIBYTE, self.max_record_bytes)

    def connection(self, bootstrap_servers: str) -> dict[str, Any]:
        """The arguments that each aiokafka client takes to connect."""
        arguments: dict[str, Any] = {
            "bootstrap_servers": bootstrap_servers,
            "client_id": self.client_id,
            "request_timeout_ms": round(self.request_timeout_s * 1000),
            "retry_backoff_ms": round(self.retry_backoff_s * 1000),
            "security_protocol": self.security_protocol,
        }
        if self.security_protocol.endswith("SSL"):
            arguments["ssl_context"] = self._ssl_context()
        if self.security_protocol.startswith("SASL_"):
            arguments["sasl_mechanism"] = self.sasl_mechanism
            arguments["sasl_plain_username"] = self.sasl_username
            arguments["sasl_plain_password"] = self.sasl_password
        return arguments

    def _ssl_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ssl_ca_location)
        context.check_hostname = self.ssl_check_hostname
        if self.ssl_certificate_location:
            context.load_cert_chain(self.ssl_certificate_location, self.ssl_key_location, self.ssl_key_password)
        return context


DEFAULT_KAFKA_OPTIONS = KafkaOptions()
