"""Security settings that cannot work are refused with a sentence, and what is secret is never shown."""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, SaslAuthenticationFailed, UnsupportedSaslMechanismError
from aiokafka.protocol.admin import SaslAuthenticateRequest
from hypothesis import given
from hypothesis import strategies as st
from rich.pretty import pretty_repr
from secured_kafka import Authority, unsigned_token
from typer.testing import CliRunner

from headrace.topics import app as topics_app
from producer_sdk import Client
from producer_sdk._kafka_diagnosis import explained
from producer_sdk._rdkafka_settings import connection
from producer_sdk._tokens import Token, Tokens, as_token, token_file
from producer_sdk.broker import NotAuthenticated
from producer_sdk.kafka import KafkaBroker, KafkaOptions
from producer_sdk.security import Security
from producer_sdk.setting import SettingsError
from producer_sdk.settings import KafkaSettings

SCRAM = {"protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", "username": "ada", "password": "pw"}


def security(**values: Any) -> Security:
    return Security(**values)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"protocol": "TLS"}, "protocol 'TLS': use one of PLAINTEXT, SSL"),
        ({"protocol": "SASL_SSL", "username": "a", "password": "b"}, "protocol SASL_SSL needs sasl_mechanism too"),
        ({"protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}, "sasl_mechanism 'GSSAPI': use one of PLAIN"),
        ({"protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "sasl_mechanism PLAIN needs username and password too"),
        ({"protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "OAUTHBEARER needs token too"),
        (SCRAM | {"token": lambda: "t"}, "token has no effect with sasl_mechanism SCRAM-SHA-512"),
        ({"password": "b"}, "password has no effect with protocol PLAINTEXT"),
        ({"protocol": "SASL_PLAINTEXT", "cafile": "ca.pem"}, "cafile has no effect with protocol SASL_PLAINTEXT"),
        ({"protocol": "SSL", "keyfile": "k.pem"}, "keyfile needs certfile too"),
        ({"protocol": "SSL", "cafile": "/no/ca.pem"}, "cafile '/no/ca.pem' cannot be read: No such file"),
        ({"protocol": "SSL", "cafile": "/"}, "cafile '/' cannot be read: Is a directory"),
    ],
)
def test_what_cannot_work_is_refused_by_name(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        security(**values)


def test_files_that_hold_something_else_are_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    (certificate, key), (_, other_key) = authority.issue("a"), authority.issue("b")
    empty = tmp_path / "empty"
    empty.touch()
    faults = {
        "cafile '.*' holds no certificate in PEM": {"cafile": empty},
        "there is no key in it: name its file by keyfile": {"certfile": certificate},
        "the key is not that of the certificate": {"certfile": certificate, "keyfile": other_key},
        "holds? no certificate and key in PEM": {"certfile": empty, "keyfile": key},
    }
    for sentence, files in faults.items():
        with pytest.raises(ValueError, match=sentence):
            security(protocol="SSL", **{name: str(path) for name, path in files.items()})
    security(protocol="SSL", cafile=str(authority.file), certfile=str(certificate), keyfile=str(key))


SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=5, max_size=40).map(lambda s: f"<{s}>")


@given(SECRETS, st.sampled_from([repr, str, pretty_repr, format]))
def test_no_way_of_showing_shows_a_secret(secret: str, show: Callable[[object], str]) -> None:
    by_password = security(**SCRAM | {"password": secret})
    by_token = security(protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", token=lambda: secret)
    settings = KafkaSettings(
        security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_username="u", sasl_password=secret
    )
    options = KafkaOptions(security=by_password)
    things = (by_password, by_token, by_token.tokens, settings, options, KafkaBroker("k:1", options=options))
    for thing in (*things, Token(secret, 1)):
        assert secret not in show(thing)


@given(SECRETS)
def test_errors_of_a_callback_do_not_pass_on_what_it_said(secret: str) -> None:
    def fail() -> str:
        raise OSError(secret)

    async def ask() -> None:
        await Tokens(fail).get()

    with pytest.raises(NotAuthenticated) as caught:
        asyncio.run(ask())
    assert secret not in str(caught.value)


def test_requests_with_a_password_are_not_logged_at_level_debug(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("aiokafka.conn")
    with caplog.at_level(logging.DEBUG, "aiokafka.conn"):
        for request in (SaslAuthenticateRequest(b"\0ada\0hush"), "MetadataRequest"):
            prepared = request.prepare({36: (0, 1)}) if isinstance(request, SaslAuthenticateRequest) else request
            log.debug("Request to %s:%d %d: %s", "k", 1, 2, prepared)
    assert [record.args[-1] for record in caplog.records if record.args] == ["MetadataRequest"]  # type: ignore[index]


def test_a_password_is_no_flag_which_the_list_of_processes_would_show() -> None:
    result = CliRunner().invoke(topics_app, ["list", "--sasl-password", "hush-hush"])
    assert isinstance(result.exception, SettingsError)
    assert "set HEADRACE_SASL_PASSWORD" in str(result.exception)
    assert "hush-hush" not in str(result.exception) + result.output


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "username": "a", "password": "b"}, "in the clear"),
        ({"protocol": "SSL", "check_hostname": False}, "check_hostname is off"),
    ],
)
def test_what_works_and_should_not_be_so_is_warned_of(
    values: dict[str, Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    KafkaBroker("k:1", security=security(**values))
    assert words in caplog.text


def test_settings_and_constructor_give_the_same_security(tmp_path: Path) -> None:
    authority = str(Authority(tmp_path, "ca").file)
    given = security(**SCRAM | {"cafile": authority})
    settings = KafkaSettings(security_protocol="SASL_SSL", ssl_cafile=authority, sasl_mechanism="SCRAM-SHA-512",
                             sasl_username="ada", sasl_password="pw")  # fmt: skip
    assert settings.security() == given
    assert Client("k:1", security=given)._broker.options.security == given  # type: ignore[attr-defined]


def test_a_token_alone_means_oauthbearer_over_tls() -> None:
    chosen = Client("k:1", token=lambda: "t")._broker.options.security  # type: ignore[attr-defined]
    assert (chosen.protocol, chosen.sasl_mechanism) == ("SASL_SSL", "OAUTHBEARER")
    with pytest.raises(ValueError, match="a broker object has its own"):
        Client(KafkaBroker("k:1"), token=lambda: "t")


async def test_a_token_is_kept_for_most_of_its_life_and_then_asked_for_again() -> None:
    now, asked = [1000.0], list[str]()

    def token() -> str:
        asked.append(unsigned_token("otto", 100.0, now[0]))
        return asked[-1]

    tokens = Tokens(token, clock=lambda: now[0])
    for at, times in ((1000.0, 1), (1079.0, 1), (1081.0, 2)):
        now[0] = at
        assert (await tokens.get()).value == asked[-1]
        assert len(asked) == times


def test_what_a_token_says_of_itself_is_read() -> None:
    token = as_token(unsigned_token("otto", 60.0, 1000.0), 1000.0)
    assert (token.principal, token.expires_at_s) == ("otto", 1060.0)
    assert as_token("opaque", 1000.0).expires_at_s == 1300.0
    with pytest.raises(NotAuthenticated, match="gave no token"):
        as_token(None, 1000.0)


async def test_a_token_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with pytest.raises(ValueError, match=r"the token file .* cannot be read: No such file"):
        token_file(path)
    path.write_text("first\n")
    read = token_file(path)
    path.write_text("second\n")
    assert read() == "second\n"
    assert as_token(read(), time.time()).value == "second"


def test_librdkafka_gets_tokens_by_a_callback_and_the_key_from_the_certificates_file(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path, "ca").issue("client")
    both = tmp_path / "both.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    chosen = security(protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", token=lambda: "t", certfile=str(both))
    settings = connection(KafkaOptions(security=chosen), "k:1")
    assert (settings["ssl.key.location"], settings["ssl.endpoint.identification.algorithm"]) == (str(both), "https")
    assert callable(settings["oauth_cb"])
    assert "sasl.password" not in settings


def test_the_cause_of_a_lost_connection_is_looked_at() -> None:
    alert = ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13 alert certificate required")
    alert.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    lost = KafkaConnectionError("Connection at k:1 closed")
    lost.__cause__ = alert
    found = explained(lost, "k", security(protocol="SSL"))
    assert found is not None
    assert "name its PEM file by ssl_certfile" in found.message
    assert explained(KafkaConnectionError("closed"), "k", Security()) is None


@pytest.mark.parametrize(
    ("err", "words"),
    [
        (SaslAuthenticationFailed("invalid credentials"), "does not know 'ada' with this password"),
        (UnsupportedSaslMechanismError("Enabled mechanisms are: ['PLAIN', 'GSSAPI']"), "use one of PLAIN, GSSAPI"),
    ],
)
def test_what_kafka_says_of_credentials_is_told_without_the_password(err: Exception, words: str) -> None:
    found = explained(err, "k", security(**SCRAM))
    assert isinstance(found, NotAuthenticated)
    assert words in found.message
    assert "pw" not in found.message.replace("password", "")
