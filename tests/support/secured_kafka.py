"""An Apache Kafka behind TLS, SASL and an authorizer, with certificates made for it.

Its listeners: PLAINTEXT, whose nobody may do everything, for preparing; SASL, with all mechanisms, and the rights of
each user; CERTS, which wants a certificate of the client; STALE, whose certificate has expired; ELSEWHERE, whose
certificate is for another host; CLEAR, which takes SASL PLAIN without TLS.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import admin as confluent_admin
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headrace.local_kafka import LocalKafka
from producer_sdk.rights import Resource, Right
from producer_sdk.security import Security

PASSWORD = "correct horse"
LISTENERS = {
    "SASL": "SASL_SSL",
    "CERTS": "SSL",
    "STALE": "SASL_SSL",
    "ELSEWHERE": "SASL_SSL",
    "CLEAR": "SASL_PLAINTEXT",
}
_DAY = datetime.timedelta(days=1)
_KAFKA: Any = confluent_admin


class Authority:
    """An authority of certificates, and the files of those that it has issued."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._signed(self._name, self._key, _DAY, [x509.BasicConstraints(ca=True, path_length=0)])
        self.file = self._written(f"{name}.pem", _pem(self.certificate))

    def issue(self, name: str, hosts: Iterable[str] = (), life: datetime.timedelta = _DAY) -> tuple[Path, Path]:
        """Files of a certificate for these hosts and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = [x509.IPAddress(ipaddress.ip_address(h)) if h[0].isdigit() else x509.DNSName(h) for h in hosts]
        extensions: list[Any] = [x509.SubjectAlternativeName(names)] if names else []
        certificate = self._signed(subject, key, life, extensions)
        key_pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return self._written(f"{name}.crt", _pem(certificate)), self._written(f"{name}.key", key_pem)

    def _signed(
        self, subject: x509.Name, key: Any, life: datetime.timedelta, extensions: list[Any]
    ) -> x509.Certificate:
        ends = datetime.datetime.now(datetime.UTC) + life
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(ends - 9 * _DAY)
        builder = builder.not_valid_after(ends)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(self._key, hashes.SHA256())

    def _written(self, name: str, content: bytes) -> Path:
        path = self._folder / name
        path.write_bytes(content)
        return path


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


class SecuredKafka:
    """What `secured_kafka` gives: addresses, certificates, and a hand for users and rights. Blocks."""

    def __init__(self, broker: LocalKafka, authority: Authority, other: Authority) -> None:
        self._broker = broker
        self._admin = _KAFKA.AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        self.authority = authority
        self.cafile = str(authority.file)
        self.other_cafile = str(other.file)
        self.certfile, self.keyfile = map(str, authority.issue("client"))
        self.foreign_pair = tuple(map(str, other.issue("stranger")))

    def at(self, listener: str) -> str:
        """The address of a listener."""
        if listener == "PLAINTEXT":
            return self._broker.bootstrap_servers
        return f"127.0.0.1:{self._broker.port_of(listener)}"

    def user(self, name: str, *mechanisms: str) -> None:
        """Make a user of SCRAM with `PASSWORD`."""
        for mechanism in mechanisms or ("SCRAM_SHA_512",):
            info = _KAFKA.ScramCredentialInfo(getattr(_KAFKA.ScramMechanism, mechanism), 4096)
            asked = [_KAFKA.UserScramCredentialUpsertion(name, info, PASSWORD.encode())]
            for done in self._admin.alter_user_scram_credentials(asked).values():
                done.result(10)

    def grant(self, principal: str, rights: Iterable[Right]) -> None:
        for done in self._admin.create_acls([_binding(principal, right) for right in rights]).values():
            done.result(10)

    def revoke(self, principal: str, rights: Iterable[Right]) -> None:
        for right in rights:
            kind, name, pattern, who, host, operation, permission = _parts(principal, right)
            asked = _KAFKA.AclBindingFilter(kind, name, pattern, who, host, operation, permission)
            for done in self._admin.delete_acls([asked]).values():
                done.result(10)

    def scram(self, user: str, mechanism: str = "SCRAM-SHA-512", **values: Any) -> Security:
        """How a user of SCRAM reaches the listener SASL."""
        usual = {"protocol": "SASL_SSL", "cafile": self.cafile, "sasl_mechanism": mechanism, "username": user}
        return Security(**(usual | {"password": PASSWORD} | values))


def _parts(principal: str, right: Right) -> tuple[Any, ...]:
    kind = {Resource.TOPIC: "TOPIC", Resource.GROUP: "GROUP", Resource.CLUSTER: "BROKER"}[right.resource]
    pattern = _KAFKA.ResourcePatternType.PREFIXED if right.prefixed else _KAFKA.ResourcePatternType.LITERAL
    return (
        getattr(_KAFKA.ResourceType, kind),
        right.name or "kafka-cluster",
        pattern,
        principal,
        "*",
        getattr(_KAFKA.AclOperation, right.operation.name),
        _KAFKA.AclPermissionType.ALLOW,
    )


def _binding(principal: str, right: Right) -> Any:
    return _KAFKA.AclBinding(*_parts(principal, right))


def unsigned_token(principal: str, life_s: float, now_s: float) -> str:
    """A token without signature, which the broker of tests takes."""
    parts = [{"alg": "none"}, {"sub": principal, "iat": now_s, "exp": now_s + life_s}]
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."


@contextmanager
def secured_kafka(folder: Path) -> Iterator[SecuredKafka]:
    """Such a broker for the length of a block; certificates go into the folder."""
    authority, other = Authority(folder, "authority"), Authority(folder, "stranger-authority")
    here = ("127.0.0.1", "localhost")
    pairs = {name: authority.issue(f"broker-{name}", here) for name in ("SASL", "CERTS")}
    pairs["STALE"] = authority.issue("broker-STALE", here, -_DAY)
    pairs["ELSEWHERE"] = authority.issue("broker-ELSEWHERE", ("kafka.example",))
    settings = _settings(folder, authority, pairs)
    with LocalKafka(settings=settings, listeners=LISTENERS) as broker:
        yield SecuredKafka(broker, authority, other)


def _settings(folder: Path, authority: Authority, pairs: dict[str, tuple[Path, Path]]) -> dict[str, str]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "ssl.keystore.type": "PEM",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.certs.ssl.client.auth": "required",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.clear.sasl.enabled.mechanisms": "PLAIN",
    }
    for listener, (certificate, key) in pairs.items():
        both = folder / f"{listener}.pem"
        both.write_bytes(key.read_bytes() + certificate.read_bytes())
        settings[f"listener.name.{listener.lower()}.ssl.keystore.location"] = str(both)
    security = "org.apache.kafka.common.security"
    plain = f'{security}.plain.PlainLoginModule required user_paul="{PASSWORD}";'
    scram, bearer = f"{security}.scram.ScramLoginModule required;", f"{security}.oauthbearer.OAuthBearerLoginModule"
    modules = {
        "plain": plain,
        "scram-sha-256": scram,
        "scram-sha-512": scram,
        "oauthbearer": f'{bearer} required unsecuredLoginStringClaim_sub="broker";',
    }
    for mechanism, module in modules.items():
        settings[f"listener.name.sasl.{mechanism}.sasl.jaas.config"] = module
    settings["listener.name.clear.plain.sasl.jaas.config"] = plain
    for listener in ("stale", "elsewhere"):
        settings[f"listener.name.{listener}.scram-sha-512.sasl.jaas.config"] = modules["scram-sha-512"]
    return settings
