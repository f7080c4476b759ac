"""Settings: where a value comes from, what stops the start, and what is never shown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct
from rich.pretty import pretty_repr

from headrace.docs_tables import SETTINGS_PAGE, settings_page
from headrace.known_settings import KNOWN, SETTINGS_CLASSES
from producer_sdk.setting import SettingsError, settings_of
from producer_sdk.settings import KafkaSettings, load_settings
from workers.settings import WorkerSettings


def load(
    flags: dict[str, object] | None = None, environ: dict[str, str] | None = None, file: Path | None = None
) -> WorkerSettings:
    return load_settings(WorkerSettings, flags or {}, environ or {}, file, KNOWN)


def refusal(flags: dict[str, object] | None = None, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        load(flags, environ)
    return str(caught.value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "headrace.toml"
    path.write_text('admin_port = 1\ndrain_timeout_s = 1\nattempt_limit = 1\nmodel = ["a", "b"]\nport = 80\n')
    return path


def test_a_flag_beats_the_environment_which_beats_the_file(file: Path) -> None:
    environ = {"HEADRACE_ADMIN_PORT": "2", "HEADRACE_DRAIN_TIMEOUT_S": "2"}
    settings = load({"admin_port": "3"}, environ, file)
    assert (settings.admin_port, settings.drain_timeout_s, settings.attempt_limit) == (3, 2.0, 1)


def test_the_file_may_be_named_by_the_environment(file: Path) -> None:
    assert load({}, {"HEADRACE_CONFIG": str(file)}).model == ("a", "b")


def test_a_flag_that_was_not_given_changes_nothing() -> None:
    assert load({"admin_port": None}).admin_port == 9400


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("session_timeout_s", "6", 6.0),
        ("endpoint_lag_s", "0", 0.0),
        ("create_topics", "false", False),
        ("models", "/srv/models", Path("/srv/models")),
        ("model", "a, b,", ("a", "b")),
        ("sasl_username", "null", "null"),
        ("worker_id", "1", "1"),
    ],
)
def test_a_variable_becomes_a_value_of_the_fields_type(name: str, text: str, value: object) -> None:
    security = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_password": "p", "sasl_username": "u"}
    flags: dict[str, object] = {key: each for key, each in security.items() if key != name}
    assert getattr(load(flags, {f"HEADRACE_{name.upper()}": text}), name) == value


def test_an_empty_variable_counts_as_not_set() -> None:
    assert load({}, {"HEADRACE_ADMIN_PORT": ""}).admin_port == 9400


@pytest.mark.parametrize(
    ("name", "text", "expectation"),
    [
        ("ADMIN_PORT", "abc", "a whole number from 0 to 65535"),
        ("ADMIN_PORT", "65536", "a whole number from 0 to 65535"),
        ("ADMIN_PORT", "94.5", "a whole number from 0 to 65535"),
        ("SESSION_TIMEOUT_S", "0", "a number above 0 and at most 1800"),
        ("DRAIN_TIMEOUT_S", "inf", "a number of at least 0"),
        ("DRAIN_TIMEOUT_S", "nan", "a number of at least 0"),
        ("CREATE_TOPICS", "perhaps", "true or false"),
        ("LOG_LEVEL", "loud", "one of debug, info, warning, error"),
    ],
)
def test_a_bad_value_is_refused_with_key_value_and_what_to_give(name: str, text: str, expectation: str) -> None:
    assert refusal({}, {f"HEADRACE_{name}": text}) == f"HEADRACE_{name} is {text!r}: give {expectation}."


def test_a_bad_flag_is_named_as_flag() -> None:
    assert refusal({"admin_port": "x"}).startswith("--admin-port is 'x':")


def test_an_unknown_variable_is_refused_with_the_near_one() -> None:
    message = refusal({}, {"HEADRACE_ADMIN_PROT": "9401"})
    assert message == (
        "Unknown environment variable: HEADRACE_ADMIN_PROT (its value is '9401'); did you mean HEADRACE_ADMIN_PORT?"
    )


@pytest.mark.parametrize(("line", "named"), [("admin_prot = 1", "admin_prot"), ('admin_port = "1"', "admin_port")])
def test_a_fault_in_the_file_names_key_and_file(tmp_path: Path, line: str, named: str) -> None:
    path = tmp_path / "headrace.toml"
    path.write_text(line)
    with pytest.raises(SettingsError, match=named) as caught:
        load({}, {}, path)
    assert str(path) in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"missing\.toml cannot be read"):
        load({}, {}, tmp_path / "missing.toml")


def test_settings_of_other_programs_are_passed_over(file: Path) -> None:
    assert load({}, {"HEADRACE_PORT": "8001", "HEADRACE_CACHE_DIR": "/c", "HEADRACE_DEBUG": "1"}, file).admin_port == 1


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HEADRACE_PORT", "tcp://10.0.0.1:8000"),
        ("HEADRACE_ADMIN_PORT", "tcp://10.0.0.1:9400"),
        ("HEADRACE_SERVICE_HOST", "10.0.0.1"),
        ("HEADRACE_SERVICE_PORT", "8000"),
        ("HEADRACE_SERVICE_PORT_HTTP_INFER", "8000"),
        ("HEADRACE_PORT_8000_TCP", "tcp://10.0.0.1:8000"),
        ("HEADRACE_PORT_8000_TCP_PROTO", "tcp"),
        ("HEADRACE_PORT_8000_TCP_PORT", "8000"),
        ("HEADRACE_PORT_8000_TCP_ADDR", "10.0.0.1"),
        ("HEADRACE_GATEWAY_PORT", "udp://[fd00::1]:53"),
        ("HEADRACE_GATEWAY_SERVICE_PORT", "8000"),
        ("HEADRACE_GATEWAY_PORT_53_UDP_ADDR", "fd00::1"),
        ("HEADRACE_TEST_BOOTSTRAP_SERVERS", "127.0.0.1:9092"),
    ],
)
def test_service_link_and_test_variables_are_passed_over(variable: str, value: str) -> None:
    assert load({}, {variable: value}).admin_port == 9400


SASL: dict[str, Any] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "u"}


@pytest.mark.parametrize("show", [repr, str, pretty_repr])
def test_a_password_is_never_shown(show: Any) -> None:
    text = show(KafkaSettings(**SASL, sasl_password="hush-hush"))
    assert "hush-hush" not in text
    assert "sasl_password='***'" in text


@pytest.mark.parametrize("variable", ["HEADRACE_SASL_PASSWRD", "HEADRACE_MY_SECRET", "HEADRACE_SSL_KEY_PASSWORT"])
def test_the_value_of_a_misspelled_secret_is_not_shown(variable: str) -> None:
    assert "hush-hush" not in refusal({}, {variable: "hush-hush"})


def test_a_bad_secret_is_refused_without_its_value(tmp_path: Path) -> None:
    path = tmp_path / "headrace.toml"
    path.write_text("sasl_password = 1234567")
    with pytest.raises(SettingsError, match="sasl_password") as caught:
        load({}, {}, path)
    assert "1234567" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"heartbeat_interval_s": 11.0}, r"heartbeat_interval_s \(11\) must be at most a third"),
        ({"drain_timeout_s": 50.0, "rebalance_timeout_s": 40.0}, r"rebalance_timeout_s \(40\) must be above"),
        ({"max_backlog_bytes": 1 << 20}, r"max_batch_bytes .* must not be above max_backlog_bytes"),
        ({"sasl_username": "u"}, r"sasl_username has no effect with security_protocol PLAINTEXT"),
        ({"security_protocol": "SASL_SSL"}, "needs sasl_mechanism and sasl_username and sasl_password"),
        ({"ssl_cafile": "ca.pem"}, "ssl_cafile has no effect with security_protocol PLAINTEXT"),
        ({"security_protocol": "SSL", "ssl_keyfile": "key.pem"}, "ssl_keyfile needs ssl_certfile too"),
        (
            {"security_protocol": "SSL", "ssl_cafile": "/no/ca.pem"},
            "ssl_cafile '/no/ca.pem' cannot be read: No such file",
        ),
        ({"prefix": "a.b"}, r"topic prefix 'a\.b'"),
        ({"bootstrap_servers": "kafka"}, "bootstrap_servers holds 'kafka': write HOST:PORT"),
        (
            {"bootstrap_servers": "k:9092,::1:99999"},
            "bootstrap_servers holds '::1:99999': a port is a number",
        ),
        ({"bootstrap_servers": "kafka:0"}, "bootstrap_servers holds 'kafka:0': a port is a number from 1 to 65535"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        WorkerSettings(**values)


def test_contradictions_stop_the_start_too() -> None:
    assert "heartbeat_interval_s" in refusal({"heartbeat_interval_s": "20"})


def test_a_short_session_and_a_long_drain_need_no_other_setting() -> None:
    options = WorkerSettings(session_timeout_s=6.0, drain_timeout_s=120.0).group_options()
    assert options.heartbeat_interval_s == 1.0
    assert options.rebalance_timeout_s == 240.0


def test_the_help_says_which_session_timeouts_brokers_refuse() -> None:
    descriptions = {setting.name: setting.description for setting in settings_of(WorkerSettings)}
    assert "brokers refuse less than 6 s" in descriptions["session_timeout_s"]


def test_each_worker_has_an_id_of_its_own() -> None:
    assert WorkerSettings().worker_id != WorkerSettings().worker_id


def test_a_subclass_lists_its_own_settings_first() -> None:
    class Own(KafkaSettings, frozen=True, kw_only=True):
        depth_m: Annotated[float, Meta(description="How deep.", ge=0)] = 1.5

    first = settings_of(Own)[0]
    assert (first.flag, first.variable, first.default) == ("--depth-m", "HEADRACE_DEPTH_M", "1.5")


@pytest.mark.parametrize("cls", SETTINGS_CLASSES.values(), ids=lambda cls: cls.__name__)
def test_every_setting_says_what_it_means_and_has_a_default(cls: type[Struct]) -> None:
    load_settings(cls, {}, {}, None, KNOWN)
    assert [each.name for each in settings_of(cls) if not each.description.endswith(".")] == []


def test_the_settings_page_is_current() -> None:
    assert SETTINGS_PAGE.read_text() == settings_page(), "run: python -m headrace.docs_tables"
