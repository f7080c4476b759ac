"""Why no connection to Kafka comes about: one more attempt, looked at closely, whichever client failed.

Clients say the same of a closed port, of a port that speaks another protocol, and of a certificate that is not trusted.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import Iterator
from typing import Any

from aiokafka.conn import AIOKafkaConnection, collect_hosts
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from ._kafka_closing import GRACE_S
from ._kafka_faults import Refusals, no_connection
from ._kafka_options import KafkaOptions
from .broker import BrokerError, NotAuthenticated, TlsFailed
from .security import Security

_LIMIT_S = 5.0
_SHARE = 0.25  # of the time of a request, at most: a broker that answers nothing has taken all of it already
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)  # the question that every broker answers anybody
_EXPIRED, _NOT_YET_VALID, _HOST, _ADDRESS = 10, 9, 62, 64  # OpenSSL's numbers for what is wrong with a certificate
_NO_CERTIFICATE = ("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "HANDSHAKE_FAILURE")


async def diagnosed(name: str, options: KafkaOptions) -> BrokerError | None:
    """What is wrong with the way to the first broker that can be reached, as an error to raise; None if nothing is.

    `name` are the bootstrap servers.
    """
    try:
        options.connection(name)
    except BrokerError as err:
        return err
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(min(_LIMIT_S, _SHARE * options.request_timeout_s)):
            for host, port, _ in collect_hosts(name, randomize=False):
                if await _listens(host, port):
                    return await _look(name, host, port, options)
    return None


async def connection_fault(name: str, options: KafkaOptions, err: BaseException) -> BrokerError:
    """The error for a first connection of aiokafka that failed with `err`."""
    if isinstance(err, ClusterAuthorizationFailedError):
        return Refusals(name, options.security).numbering()
    if isinstance(err, TimeoutError):
        return no_connection(name, options, err)
    return await diagnosed(name, options) or no_connection(name, options, err)


def check_token_was_taken(client: Any, options: KafkaOptions) -> None:
    """aiokafka takes a refused token for one that is accepted; all that such a client is told of is nothing.

    Raises:
        KafkaConnectionError: it is not connected.
    """
    if options.security.tokens is not None and not client.cluster.brokers():
        raise KafkaConnectionError("the token is refused")


async def _look(name: str, host: str, port: int, options: KafkaOptions) -> BrokerError | None:
    security = options.security
    arguments = options.connection(name)
    del arguments["bootstrap_servers"], arguments["retry_backoff_ms"]
    connection = AIOKafkaConnection(host, port, **arguments)
    try:
        why = await _asked(connection, host, port, security)
    finally:
        await _end(connection)
    return None if why is None else type(why)(f"no connection to Kafka at {name}: {why.message}")


async def _asked(connection: AIOKafkaConnection, host: str, port: int, security: Security) -> BrokerError | None:
    try:
        await connection.connect()
    except (KafkaError, OSError, EOFError, ValueError) as err:
        why = explained(err, host, security) or await _other_protocol(host, port, security)
        if isinstance(why, NotAuthenticated) and security.tokens is not None:
            security.tokens.forget()
        return why
    try:
        answer = await connection.send(MetadataRequest([]))
        if security.tokens is not None and not answer.brokers:
            raise KafkaConnectionError("the token is refused")
    except (KafkaError, OSError) as err:
        return explained(err, host, security) or _turned_away(security)
    return None


async def _end(connection: Any) -> None:
    """Let the socket close while there is an event loop to do it; of a handshake that failed nothing tells the end."""
    # Not the connection's writer, which is gone where it has closed itself, and TLS waits for the broker's goodbye.
    transport = None if connection._protocol is None else connection._protocol._transport
    closed = connection.close()
    try:
        if closed is not None:
            await asyncio.wait([closed], timeout=GRACE_S)
    finally:
        if transport is not None:
            transport.abort()


def explained(err: BaseException, host: str, security: Security) -> BrokerError | None:
    """The error as a typed one, where it or what caused it tells enough. Pure."""
    for each in _causes(err):
        if isinstance(each, BrokerError):
            return each
        if isinstance(each, ssl.SSLCertVerificationError):
            return TlsFailed(_of_certificate(each, host, security))
        if isinstance(each, ssl.SSLError) and "ALERT" in (each.reason or ""):
            return TlsFailed(_of_alert(each.reason or "", security))
        if isinstance(each, SaslAuthenticationFailed):
            return NotAuthenticated(_of_credentials(security))
        if isinstance(each, UnsupportedSaslMechanismError):
            taken = _enabled(each)
            return NotAuthenticated(
                f"the port does not take sasl_mechanism {security.sasl_mechanism}: "
                + (f"use one of {taken}" if taken else "use one that the brokers enable (sasl.enabled.mechanisms)")
            )
        if isinstance(each, IllegalSaslStateError):
            plain = security.protocol.removeprefix("SASL_")
            return NotAuthenticated(f"the port takes no SASL: use security_protocol {plain}, or the port for SASL")
        if isinstance(each, ValueError) and "SCRAM" in (security.sasl_mechanism or "") and not _is_decoding(each):
            return NotAuthenticated(
                "the broker did not prove that it knows the password: it is another than it should be"
            )
    return None


def _causes(err: BaseException) -> Iterator[BaseException]:
    """The error and what caused it; not what was being handled meanwhile, which is the failure looked into."""
    at: BaseException | None = err
    while at is not None:
        yield at
        at = at.__cause__


def _is_decoding(err: ValueError) -> bool:
    return isinstance(err, UnicodeError | ssl.SSLError)


def _of_certificate(err: ssl.SSLCertVerificationError, host: str, security: Security) -> str:
    if err.verify_code in (_HOST, _ADDRESS):
        return (
            f"the broker's certificate is not for {host!r}: reach it by a name that the certificate holds, in "
            "bootstrap_servers and the brokers' advertised.listeners, or have it issued for this one"
        )
    if err.verify_code == _EXPIRED:
        return "the broker's certificate has expired: renew it on the broker, or set this machine's clock right"
    if err.verify_code == _NOT_YET_VALID:
        return "the broker's certificate is not valid yet: set this machine's clock right, or the one that issued it"
    trusted = "those of the system are trusted" if security.cafile is None else f"{security.cafile!r} does not hold it"
    return (
        f"the broker's certificate is from an authority that is not trusted ({err.verify_message}): "
        f"name the PEM file of that authority by ssl_cafile; {trusted}"
    )


def _of_alert(reason: str, security: Security) -> str:
    said = reason.partition("ALERT_")[2].replace("_", " ").lower() or reason
    if security.certfile is None and any(each in reason for each in _NO_CERTIFICATE):
        return "the broker wants a certificate of the client: name its PEM file by ssl_certfile, its key by ssl_keyfile"
    if (security.certfile is not None and "CERT" in reason) or "UNKNOWN_CA" in reason:
        return (
            f"the broker does not accept the client's certificate {security.certfile!r} ({said}): it has expired, or "
            "is from an authority that is not in the broker's ssl.truststore"
        )
    return f"the broker ended the TLS handshake ({said}): compare its ssl.enabled.protocols and ciphers"


def _of_credentials(security: Security) -> str:
    if security.tokens is not None:
        return "the broker refuses the token: it has expired, or is not for this cluster"
    return (
        f"the broker does not know {security.username!r} with this password for {security.sasl_mechanism}: check "
        "sasl_username and sasl_password, and that the brokers hold credentials for this mechanism"
    )


def _enabled(err: BaseException) -> str:
    said = str(err).partition("Enabled mechanisms are:")[2]
    return ", ".join(part.strip(" '[]") for part in said.split(",") if part.strip(" '[]"))


async def _other_protocol(host: str, port: int, security: Security) -> BrokerError | None:
    """What the port speaks, where it is not what the client does: found by one question without any secret in it."""
    if security.uses_tls:
        if await _answers_in_plain(host, port):
            plain = "SASL_PLAINTEXT" if security.uses_sasl else "PLAINTEXT"
            return TlsFailed(
                f"the port speaks no TLS, which security_protocol {security.protocol} wants: use the port for TLS, "
                f"or security_protocol {plain}"
            )
    elif await _answers_in_tls(host, port):
        secure = "SASL_SSL" if security.uses_sasl else "SSL or SASL_SSL"
        return TlsFailed(
            f"the port speaks TLS, which security_protocol {security.protocol} does not: use security_protocol {secure}"
        )
    return None


def _turned_away(security: Security) -> NotAuthenticated | None:
    """Why a port ends the connection at the first question."""
    if security.tokens is not None:
        security.tokens.forget()
        return NotAuthenticated(_of_credentials(security))
    if security.uses_sasl:
        return None
    with_sasl = "SASL_SSL" if security.uses_tls else "SASL_PLAINTEXT"
    return NotAuthenticated(
        f"the port ended the connection at the first question, as one does that wants SASL: use security_protocol "
        f"{with_sasl}, with sasl_mechanism and credentials"
    )


async def _listens(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    await _close(writer)
    return True


async def _answers_in_plain(host: str, port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    try:
        writer.write(_API_VERSIONS)
        size, correlation = struct.unpack(">ii", await asyncio.wait_for(reader.readexactly(8), _LIMIT_S / 2))
        return bool(0 < size < 1 << 20 and correlation == 1)
    except (OSError, EOFError, TimeoutError):
        return False
    finally:
        await _close(writer)


async def _answers_in_tls(host: str, port: int) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent over it
    try:
        _, writer = await asyncio.open_connection(host, port, ssl=context)
    except ssl.SSLError as err:
        return "ALERT" in (err.reason or "")
    except OSError:
        return False
    await _close(writer)
    return True


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        async with asyncio.timeout(GRACE_S):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        pass  # what it says of its end is nothing to go by
    finally:
        writer.transport.abort()
