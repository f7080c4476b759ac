"""How to reach a Kafka cluster, and the limits of its clients."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from ._tokens import Tokens
from .broker import MAX_RECORD_BYTES, NotAuthenticated, TlsFailed
from .security import NO_SECURITY, Security

_MEBIBYTE = 1 << 20

log = logging.getLogger("headrace.kafka")


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """Connection, security and limits of Kafka clients.

    Raises:
        ValueError: a value is not valid, or two do not fit together.
    """

    client_id: str = "headrace"
    """How the clients appear in the broker's logs and quotas."""
    security: Security = NO_SECURITY
    """TLS and SASL; without it neither is used."""
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
        for fault in self._faults():
            raise ValueError(fault)

    def _faults(self) -> list[str]:
        faults = []
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
            "security_protocol": self.security.protocol,
        }
        if self.security.uses_tls:
            arguments["ssl_context"] = tls_context(self.security, bootstrap_servers)
        if self.security.uses_sasl:
            arguments["sasl_mechanism"] = self.security.sasl_mechanism
            arguments["sasl_plain_username"] = self.security.username
            arguments["sasl_plain_password"] = self.security.password
        if self.security.tokens is not None:
            arguments["sasl_oauth_token_provider"] = _provider(self.security.tokens)
        return arguments

    def warn(self) -> None:
        """Log what works and should not be so."""
        for sentence in self.security.warnings():
            log.warning("%s.", sentence, extra={"action": "insecure"})


def tls_context(security: Security, bootstrap_servers: str) -> Any:
    """What TLS connections are made with.

    Raises:
        TlsFailed: a file that could be used before cannot be used now.
    """
    try:
        return security.ssl_context()
    except (OSError, ValueError) as err:
        why = security.unusable() or "a certificate file changed just now"
        raise TlsFailed(f"no connection to Kafka at {bootstrap_servers}: {why}") from err


def _provider(tokens: Tokens) -> Any:
    from aiokafka.abc import AbstractTokenProvider  # here, since settings alone need not pay for the import
    from aiokafka.errors import KafkaError

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            try:
                return str((await tokens.get()).value)
            except NotAuthenticated as err:
                raise KafkaError(err.message) from err  # any other error would end a task of aiokafka

    return Provider()


class _NoSecrets(logging.Filter):
    """Keeps out what aiokafka logs of its requests at level debug: passwords and tokens are among it."""

    def filter(self, record: logging.LogRecord) -> bool:
        named = type(record.args[-1]).__name__ if isinstance(record.args, tuple) and record.args else ""
        return not named.startswith(("SaslAuthenticateRe", "SaslHandShakeRe"))


# A filter of a logger holds for its own lines alone, so it has to be set where they are written.
logging.getLogger("aiokafka.conn").addFilter(_NoSecrets())

DEFAULT_KAFKA_OPTIONS = KafkaOptions()
