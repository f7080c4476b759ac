"""Settings: a frozen Struct a program, read once from flags, then environment, then file; and Kafka's own settings.

A field is `name: Annotated[type, Meta(description=..., ge=...)] = default`. Flag `--name`, variable `HEADRACE_NAME` and
file key `name` follow from it, and so does the table in docs/settings.md.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from msgspec import Meta, Struct

from .broker import MAX_RECORD_BYTES, Broker, Misconfigured
from .payload_settings import PayloadSettings
from .security import Security, secured, token_file
from .setting import Setting, SettingsError, settings_of, shown
from .topics import Topics

VARIABLE_PREFIX = "HEADRACE_"
TEST_VARIABLES = "HEADRACE_TEST_"
MASK = "***"
HIGHEST_PORT = 65535
# What the fields of `Security` are called as settings.
SECURITY_SETTINGS = {
    "protocol": "security_protocol",
    "cafile": "ssl_cafile",
    "certfile": "ssl_certfile",
    "keyfile": "ssl_keyfile",
    "key_password": "ssl_key_password",
    "sasl_mechanism": "sasl_mechanism",
    "username": "sasl_username",
    "password": "sasl_password",
    "token": "sasl_token_file",
}
Settings = TypeVar("Settings", bound=Struct)

# What Kubernetes puts into every container for a Service whose name begins with "headrace".
_LINK_VALUE = re.compile(r"(tcp|udp|sctp)://", re.IGNORECASE)
_LINK_NAME = re.compile(r"(.*_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?)")
_SECRET_NAME = re.compile(r"PASS|SECRET|TOKEN|KEY|CREDENTIAL", re.IGNORECASE)


def secret(description: str) -> Meta:
    """Marks a field whose value is never shown: it is no flag either, which everybody sees in the list of processes."""
    return Meta(description=description, extra={"secret": True, "flag": False})


class KafkaSettings(PayloadSettings, frozen=True, kw_only=True):
    """How to reach Kafka, and where large payloads are stored; every program of headrace has these.

    Raises:
        ValueError: settings that contradict each other; the message names them.
    """

    bootstrap_servers: Annotated[str, Meta(description="Kafka brokers to ask first: HOST:PORT, more by commas.")] = (
        "127.0.0.1:9092"
    )
    prefix: Annotated[str, Meta(description="What all topics and groups begin with: 1 to 24 of A-Z a-z 0-9 _ -.")] = (
        "headrace"
    )
    client_id: Annotated[
        str, Meta(description="Name of this client in the broker's logs and quotas.", min_length=1)
    ] = "headrace"
    security_protocol: Annotated[
        Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"],
        Meta(description="Kafka's security.protocol."),
    ] = "PLAINTEXT"
    sasl_mechanism: Annotated[
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None,
        Meta(description="Kafka's sasl.mechanism."),
    ] = None
    sasl_username: Annotated[
        str | None, Meta(description="Kafka's sasl.username. The password is HEADRACE_SASL_PASSWORD.")
    ] = None
    sasl_password: Annotated[str | None, secret("Kafka's sasl.password.")] = None
    sasl_token_file: Annotated[
        str | None, Meta(description="File of the token for OAUTHBEARER, read anew before the last one expires.")
    ] = None
    ssl_cafile: Annotated[
        str | None, Meta(description="PEM file of the authorities to trust; without it those of the system.")
    ] = None
    ssl_certfile: Annotated[str | None, Meta(description="PEM file of the client's certificate, for mutual TLS.")] = (
        None
    )
    ssl_keyfile: Annotated[
        str | None,
        Meta(description="PEM file of its key; else it is in ssl_certfile. HEADRACE_SSL_KEY_PASSWORD opens it."),
    ] = None
    ssl_key_password: Annotated[str | None, secret("Opens a locked ssl_keyfile.")] = None
    kafka_client: Annotated[
        Literal["aiokafka", "librdkafka"],
        Meta(description="The Kafka client; librdkafka needs headrace[librdkafka] and costs less CPU a record."),
    ] = "aiokafka"
    max_record_bytes: Annotated[
        int, Meta(description="Largest record published; the brokers must take it.", ge=1024, le=1 << 30)
    ] = MAX_RECORD_BYTES

    def __post_init__(self) -> None:
        super().__post_init__()
        Topics(self.prefix)
        for server in self.bootstrap_servers.split(","):
            if not re.fullmatch(r"\s*\S+:\d{1,5}\s*", server):
                raise ValueError(f"bootstrap_servers holds {server!r}: write HOST:PORT, several separated by commas")
            if not 1 <= int(server.rpartition(":")[2]) <= HIGHEST_PORT:
                raise ValueError(f"bootstrap_servers holds {server!r}: a port is a number from 1 to {HIGHEST_PORT}")
        self.security()

    def security(self) -> Security:
        """TLS and SASL as these settings say. Raises ValueError: they do not fit together, or a file cannot be used."""
        values = {field: getattr(self, name) for field, name in SECURITY_SETTINGS.items() if field != "token"}
        tokens = None if self.sasl_token_file is None else token_file(Path(self.sasl_token_file))
        return secured(values | {"token": tokens}, SECURITY_SETTINGS)

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [(setting.name, self._shown(setting)) for setting in settings_of(type(self))]

    def _shown(self, setting: Setting) -> object:
        value = getattr(self, setting.name)
        return MASK if setting.secret and value is not None else value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__rich_repr__())})"

    def broker(self) -> Broker:
        """The Kafka cluster that these settings name; connects to nothing yet.

        Raises:
            SettingsError: the package of `kafka_client` is not installed.
        """
        return self._broker("classic")

    def _broker(self, group_protocol: Literal["classic", "consumer"]) -> Broker:
        # The clients take a while to import, which the settings alone need not pay.
        from ._kafka_options import KafkaOptions

        options = KafkaOptions(
            client_id=self.client_id,
            security=self.security(),
            max_record_bytes=self.max_record_bytes,
        )
        if self.kafka_client == "aiokafka":
            from .kafka import KafkaBroker

            return KafkaBroker(self.bootstrap_servers, options=options)
        try:
            from .rdkafka import RdKafkaBroker
        except Misconfigured as err:
            raise SettingsError(f"{err.message}.") from err
        return RdKafkaBroker(self.bootstrap_servers, options=options, group_protocol=group_protocol)


def load_settings(
    cls: type[Settings],
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    config_file: Path | None,
    known: frozenset[str],
) -> Settings:
    """The settings: flags before environment (`HEADRACE_NAME`) before a TOML file of flat keys.

    `flags` has values by field name, None where not given. `known` are the names that other programs of headrace use:
    they may stand in a shared environment or file. Without `config_file`, `HEADRACE_CONFIG` names it. An empty
    variable counts as not set.

    Raises:
        SettingsError: an unknown key, a bad value, values that contradict each other, a file that cannot be read.
    """
    settings = {setting.name: setting for setting in settings_of(cls)}
    names = known | settings.keys() | {"config"}
    config_file = config_file or (Path(environ["HEADRACE_CONFIG"]) if environ.get("HEADRACE_CONFIG") else None)
    values = _from_file(settings, config_file, names) if config_file else {}
    values |= _from_environment(settings, environ, names)
    given = {name: value for name, value in flags.items() if value is not None}
    values |= {name: settings[name].read(value, settings[name].flag) for name, value in given.items()}
    try:
        return cls(**values)
    except ValueError as err:
        raise SettingsError(f"The settings do not fit together: {err}.") from err


def _from_environment(
    settings: Mapping[str, Setting], environ: Mapping[str, str], names: frozenset[str]
) -> dict[str, object]:
    values: dict[str, object] = {}
    for variable, text in environ.items():
        if not variable.startswith(VARIABLE_PREFIX) or variable.startswith(TEST_VARIABLES) or not text:
            continue
        rest = variable.removeprefix(VARIABLE_PREFIX)
        name = rest.lower()
        # A Service named headrace gives HEADRACE_PORT=tcp://..., which would else be a bad port.
        if _LINK_VALUE.match(text) and rest.endswith("PORT"):
            continue
        if name in settings:
            values[name] = settings[name].read(text, variable)
        elif name not in names and not _LINK_NAME.fullmatch(rest):
            variables = [VARIABLE_PREFIX + each.upper() for each in names]
            raise SettingsError(_unknown(variable, text, "environment variable", variables))
    return values


def _from_file(settings: Mapping[str, Setting], path: Path, names: frozenset[str]) -> dict[str, object]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        raise SettingsError(f"The settings file {path} cannot be read: {err}.") from err
    values: dict[str, object] = {}
    for key, value in content.items():
        if key in settings:
            values[key] = settings[key].read(value, f"{key} in {path}", typed=True)
        elif key not in names:
            raise SettingsError(_unknown(key, value, f"key in {path}", list(names)))
    return values


def _unknown(key: str, value: object, kind: str, candidates: list[str]) -> str:
    near = difflib.get_close_matches(key, candidates, n=1, cutoff=0.7)
    hint = f"did you mean {near[0]}?" if near else "see docs/settings.md for those there are."
    text = MASK if _SECRET_NAME.search(key) or (near and _SECRET_NAME.search(near[0])) else shown(value)
    return f"Unknown {kind}: {key} (its value is {text}); {hint}"
