"""The command line: flags made from settings, exit codes, sentences instead of tracebacks."""

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from headrace import cli, failure
from headrace.cli import VERBS, app, plain_app
from headrace.dev_settings import DevSettings
from headrace.flags import verb
from headrace.kafka_java import LocalKafkaError
from producer_sdk.errors import InvalidRequest, QueueFull
from producer_sdk.setting import SettingsError
from workers.settings import WorkerSettings

run = CliRunner().invoke


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*WorkerSettings.__struct_fields__, "debug", "config", "port"]:
        monkeypatch.delenv(f"HEADRACE_{name.upper()}", raising=False)


class Seen:
    """A verb that keeps the settings it was given, and exits with `code`."""

    def __init__(self, code: int = 0) -> None:
        self.app = plain_app()
        self.settings: Any = None
        self.word: str | None = None

        @verb(self.app, WorkerSettings)
        def see(settings: WorkerSettings, word: str = "none") -> int:
            """See the settings."""
            self.settings, self.word = settings, word
            return code


def test_each_setting_is_a_flag_and_own_flags_stay() -> None:
    seen = Seen()
    result = run(seen.app, ["--session-timeout-s", "6", "--model", "a", "--model", "b", "--word", "w"])
    assert result.exit_code == 0, result.output
    assert (seen.settings.session_timeout_s, seen.settings.model, seen.word) == (6.0, ("a", "b"), "w")


def test_a_flag_beats_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Seen()
    monkeypatch.setenv("HEADRACE_ADMIN_PORT", "1")
    monkeypatch.setenv("HEADRACE_MODEL", "x,y")
    run(seen.app, ["--admin-port", "2"])
    assert (seen.settings.admin_port, seen.settings.model) == (2, ("x", "y"))


@pytest.mark.parametrize(("flags", "value"), [([], True), (["--no-create-topics"], False), (["--create-topics"], True)])
def test_a_switch_has_both_ways(flags: list[str], value: bool) -> None:
    seen = Seen()
    run(seen.app, flags)
    assert seen.settings.create_topics is value


def test_the_verbs_result_is_the_exit_code() -> None:
    assert run(Seen(code=3).app, []).exit_code == 3


def test_an_empty_flag_is_a_bad_value_not_the_default() -> None:
    result = run(Seen().app, ["--bootstrap-servers", ""])
    assert isinstance(result.exception, SettingsError)


def test_help_names_flag_variable_and_default() -> None:
    text = " ".join(run(Seen().app, ["--help"]).output.split())
    assert "--admin-port N" in text
    assert "[HEADRACE_ADMIN_PORT; default: 9400]" in text


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_help_with_its_flags(name: str) -> None:
    result = run(app, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert "Usage:" in result.output


def test_a_misspelled_verb_is_wrong_usage_and_names_the_near_one() -> None:
    result = run(app, ["wroker"])
    assert result.exit_code == failure.WRONG_USAGE
    assert "did you mean 'worker'?" in result.output


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (SettingsError("HEADRACE_X is 1: give 2."), 2, "HEADRACE_X is 1: give 2."),
        (failure.UsageError("Name the models."), 2, "Name the models."),
        (LocalKafkaError("No Java."), 1, "No Java."),
        (InvalidRequest("id 'a b' is not valid"), 1, "INVALID_REQUEST: id 'a b' is not valid."),
        (QueueFull("too many wait"), 1, "QUEUE_FULL: too many wait. Trying again later may help."),
        (ModuleNotFoundError("no", name="yaml.x"), 1, "The package yaml.x is not installed: install headrace[worker]."),
        (
            ModuleNotFoundError("no", name="confluent_kafka"),
            1,
            "The package confluent_kafka is not installed: install headrace[librdkafka].",
        ),
        (KeyError("x"), 1, "headrace failed: KeyError: 'x'. Run again with --debug to see where."),
    ],
)
def test_an_error_is_a_sentence_on_stderr_and_an_exit_code(
    error: Exception, code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failure.explain(error) == code
    assert capsys.readouterr() == ("", sentence + "\n")


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HEADRACE_DEBUG", "1")
    failure.explain(failure.CommandError("No."))
    assert "CommandError: No." in capsys.readouterr().err


def test_both_distributions_at_once_are_warned_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("headrace.distributions.installed", lambda name: "0.1.0")
    monkeypatch.setattr(cli, "VERBS", {})
    cli.headrace()
    assert "headrace and headrace-sdk are both installed" in capsys.readouterr().err


def test_a_verb_needs_no_settings_of_others() -> None:
    own = typer.Typer()
    verb(own, DevSettings)(lambda settings: settings.port or 0)
    assert run(own, ["--port", "7"]).exit_code == 7


def test_replies_of_nothing_in_particular_are_wrong_usage() -> None:
    result = run(app, ["replies"])
    assert isinstance(result.exception, failure.UsageError)
    assert "Name the model" in str(result.exception)
