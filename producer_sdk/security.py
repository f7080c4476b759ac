"""How clients prove who they are to Kafka, and how they know the brokers: TLS and SASL."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ._security_checks import MECHANISMS, OAUTHBEARER, PROTOCOLS, fault_of, load_pair, unusable_files
from ._tokens import Secret, Token, TokenCallback, Tokens, token_file

__all__ = ["MECHANISMS", "PROTOCOLS", "Security", "Token", "TokenCallback", "token_file"]


class Security(Struct, frozen=True, kw_only=True):
    """Security of the connections to Kafka. Passwords and tokens are never shown.

    Attributes:
        protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        cafile: PEM file of the authorities to trust; None trusts those of the system.
        certfile: PEM file of the client's certificate, for mutual TLS.
        keyfile: PEM file of its key; None looks for it in `certfile`.
        key_password: opens the key.
        sasl_mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; needed by the SASL protocols.
        username, password: needed by all mechanisms but OAUTHBEARER.
        token: gives a token for OAUTHBEARER, as text or `Token`, awaited or not; asked again before that expires.
        check_hostname: whether the broker's certificate must name its host; a warning is logged when it need not.

    Raises:
        ValueError: a value is not valid, two do not fit together, or a file cannot be used.
    """

    protocol: str = "PLAINTEXT"
    cafile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    key_password: str | None = None
    sasl_mechanism: str | None = None
    username: str | None = None
    password: str | None = None
    token: TokenCallback | Tokens | None = None
    check_hostname: bool = True

    def __post_init__(self) -> None:
        for name in ("password", "key_password"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Secret):
                msgspec.structs.force_setattr(self, name, Secret(value))
        if self.token is not None and not isinstance(self.token, Tokens):
            msgspec.structs.force_setattr(self, "token", Tokens(self.token))
        if (fault := fault_of(self._values(), {}) or self.unusable()) is not None:
            raise ValueError(fault)

    def _values(self) -> dict[str, Any]:
        return {field: getattr(self, field) for field in self.__struct_fields__}

    def unusable(self) -> str | None:
        """Which file cannot be used now and why; None where all can."""
        return unusable_files(self._values(), {})

    @property
    def uses_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def tokens(self) -> Tokens | None:
        """Where the tokens of OAUTHBEARER come from."""
        return self.token if isinstance(self.token, Tokens) and self.sasl_mechanism == OAUTHBEARER else None

    @property
    def principal(self) -> str | None:
        """Who the client is to Kafka's rights, where that can be known here: brokers may map names."""
        if not self.uses_sasl:
            return None if self.certfile is not None else "User:ANONYMOUS"
        last = self.tokens.last if self.tokens is not None else None
        name = self.username if last is None else last.principal
        return None if name is None else f"User:{name}"

    def warnings(self) -> list[str]:
        """What works and should not be so, as sentences."""
        found = []
        if self.protocol == "SASL_PLAINTEXT" and self.sasl_mechanism in ("PLAIN", OAUTHBEARER):
            what = "token" if self.sasl_mechanism == OAUTHBEARER else "password"
            found.append(
                f"SASL {self.sasl_mechanism} over {self.protocol} sends the {what} in the clear to whoever listens: "
                "use SASL_SSL"
            )
        if self.uses_tls and not self.check_hostname:
            found.append(
                "check_hostname is off: whoever has any certificate of a trusted authority can pose as a broker"
            )
        return found

    def ssl_context(self) -> ssl.SSLContext:
        """What a TLS connection is made with; files are read anew, so that renewed ones count.

        Raises:
            OSError, ValueError: a file cannot be used.
        """
        context = ssl.create_default_context(cafile=self.cafile)
        context.check_hostname = self.check_hostname
        if self.certfile is not None:
            load_pair(context, self.certfile, self.keyfile, self.key_password)
        return context


NO_SECURITY = Security()


def secured(values: Mapping[str, Any], names: Mapping[str, str]) -> Security:
    """Security of these values, whose faults speak of `names` in place of its fields. Raises ValueError."""
    full = {field: values.get(field) for field in Security.__struct_fields__}
    if (fault := fault_of(full, names) or unusable_files(full, names)) is not None:
        raise ValueError(fault)
    return Security(**values)


def with_token(security: Security, token: TokenCallback) -> Security:
    """The same with tokens of this callback, over TLS where no SASL was spoken of. Raises ValueError."""
    secured = security.protocol if security.uses_sasl else "SASL_SSL"
    return msgspec.structs.replace(security, protocol=secured, sasl_mechanism=OAUTHBEARER, token=token)
