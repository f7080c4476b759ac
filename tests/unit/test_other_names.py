"""Flags and variables of other servers: taken where they mean something, else refused with a hint."""

from pathlib import Path
from typing import Any

import pytest
from model_folders import python_model
from typer.testing import CliRunner

from gateway.settings import GatewaySettings
from headrace import flags
from headrace.cli import app, plain_app
from headrace.dev_settings import DevSettings
from headrace.flags import verb
from headrace.other_names import OTHER_NAMES
from producer_sdk.setting import SettingsError, settings_of
from workers.models import find_models
from workers.overrides import overridden
from workers.runners.engine import ModelSpec
from workers.runners.policies import BatchPolicy
from workers.settings import WorkerSettings

CLASSES: dict[str, Any] = {"worker": WorkerSettings, "gateway": GatewaySettings, "dev": DevSettings}
VARIABLES = ("MODEL_PATH", "BATCH_SIZE", "MAX_CONCURRENT")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {setting.variable for cls in CLASSES.values() for setting in settings_of(cls)}
    for name in (*VARIABLES, *names, "HEADRACE_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def loaded(name: str, *arguments: str) -> Any:
    """The settings that a verb gets."""
    seen: list[Any] = []
    own = plain_app()

    def see(settings: Any) -> int:
        """See the settings."""
        seen.append(settings)
        return 0

    verb(own, CLASSES[name], name=name)(see)
    result = CliRunner().invoke(own, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return seen[0]


@pytest.mark.parametrize(
    ("name", "flag", "value", "setting", "meant"),
    [
        ("worker", "--model_path", "/m", "models", Path("/m")),
        ("worker", "--model-dir", "/m", "models", Path("/m")),
        ("dev", "--model-path", "/m", "models", Path("/m")),
        ("worker", "--workers", "4", "replicas", 4),
        ("worker", "--device", "cuda:0", "device", "cuda:0"),
        ("worker", "--log_level", "debug", "log_level", "debug"),
        ("gateway", "--log-level", "debug", "log_level", "debug"),
        ("gateway", "--max_workers", "64", "max_inflight", 64),
        ("gateway", "--host", "127.0.0.1", "host", "127.0.0.1"),
        ("gateway", "--port", "8080", "port", 8080),
        ("dev", "--port", "8080", "port", 8080),
    ],
)
def test_a_flag_from_elsewhere_means_a_setting(name: str, flag: str, value: str, setting: str, meant: object) -> None:
    assert getattr(loaded(name, flag, value), setting) == meant


@pytest.mark.parametrize(("name", "flag"), [(name, flag) for name in CLASSES for flag in OTHER_NAMES[name].refused])
def test_a_flag_without_meaning_is_refused_with_a_hint(name: str, flag: str) -> None:
    with pytest.raises(SettingsError, match=f"headrace {name} has no {flag}: .{{20,}}"):
        loaded(name, flag, "x")


def test_two_flags_that_mean_the_same_must_agree() -> None:
    assert loaded("worker", "--models", "/m", "--model-dir", "/m").models == Path("/m")
    with pytest.raises(SettingsError, match="--model-path is '/a' and --model-dir is '/b': they mean the same"):
        loaded("worker", "--model-dir", "/b", "--model-path", "/a")


def test_a_bad_value_names_the_setting() -> None:
    with pytest.raises(SettingsError, match="--replicas is 'x': give a whole number"):
        loaded("worker", "--workers", "x")


@pytest.mark.parametrize(
    ("name", "variable", "value", "setting", "meant"),
    [
        ("worker", "MODEL_PATH", "/m", "models", Path("/m")),
        ("worker", "BATCH_SIZE", "4", "max_batch_size", 4),
        ("gateway", "MAX_CONCURRENT", "50", "max_inflight", 50),
        ("dev", "MODEL_PATH", "/m", "models", Path("/m")),
    ],
)
def test_a_variable_from_elsewhere_means_a_setting(
    monkeypatch: pytest.MonkeyPatch, name: str, variable: str, value: str, setting: str, meant: object
) -> None:
    monkeypatch.setenv(variable, value)
    assert getattr(loaded(name), setting) == meant


def test_headraces_own_variable_and_the_flag_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_SIZE", "4")
    assert loaded("worker", "--max-batch-size", "2").max_batch_size == 2
    monkeypatch.setenv("HEADRACE_MAX_BATCH_SIZE", "8")
    assert loaded("worker").max_batch_size == 8


def test_a_bad_value_names_the_variable_that_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_SIZE", "many")
    with pytest.raises(SettingsError, match=r"^BATCH_SIZE is 'many': give a whole number"):
        loaded("worker")


@pytest.mark.parametrize("name", CLASSES)
def test_the_help_shows_every_name_beside_what_it_means(name: str) -> None:
    text = "".join(CliRunner().invoke(app, [name, "--help"]).output.split())
    others = OTHER_NAMES[name]
    assert [each for each in (*others.flags, *others.variables) if each not in text] == []


def test_every_other_name_means_a_setting_and_hides_none() -> None:
    for name, cls in CLASSES.items():
        settings, others = settings_of(cls), OTHER_NAMES[name]
        assert {*others.flags.values(), *others.variables.values()} <= {each.name for each in settings}
        assert not {*flags._flags_of(others)} & {each.flag for each in settings}


def spec(**values: Any) -> ModelSpec:
    return ModelSpec("m", "1", Path("/m/1"), "python", **values)


def test_settings_of_the_worker_stand_above_model_yaml() -> None:
    plain = WorkerSettings()
    assert overridden([spec(max_batch_size=16)], plain) == [spec(max_batch_size=16)]
    (changed,) = overridden([spec()], WorkerSettings(device="cuda:1", isolation="inline", max_batch_size=2))
    assert (changed.device, changed.isolation, changed.max_batch_size) == ("cuda:1", "inline", 2)


def stated(**values: Any) -> ModelSpec:
    return spec(states_rows=True, **values)


def test_the_setting_lowers_what_model_yaml_says_and_never_raises_it() -> None:
    models = [stated(max_batch_size=8), stated(max_batch_size=32), stated(max_batch_size=16), spec()]
    few, many, same, silent = overridden(models, WorkerSettings(max_batch_size=16))
    assert [each.max_batch_size for each in (few, many, same, silent)] == [8, 16, 16, 16]
    assert [len(each.warnings) for each in (few, many, same, silent)] == [1, 0, 0, 0]
    assert "its model.yaml says max_batch_size 8, which stays" in few.warnings[0]
    (raised,) = overridden([spec()], WorkerSettings(max_batch_size=64))
    assert (raised.max_batch_size, raised.warnings) == (64, ())


def test_it_is_known_whether_a_model_yaml_says_how_many_rows(tmp_path: Path) -> None:
    python_model(tmp_path, "says", max_batch_size=32)
    python_model(tmp_path, "silent")
    assert {each.name: each.states_rows for each in find_models(tmp_path)} == {"says": True, "silent": False}


def test_low_latency_makes_small_batches_that_wait_for_nobody() -> None:
    policy = BatchPolicy(preferred_rows=(2, 8))
    large, small = overridden(
        [spec(max_batch_size=32, batching=policy), spec(max_batch_size=1)], WorkerSettings(low_latency=True)
    )
    assert (large.max_batch_size, large.max_wait_ms, large.batching.preferred_rows) == (4, 0.0, (2,))
    assert small.max_batch_size == 1


def test_low_latency_and_large_batches_contradict_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_SIZE", "8")
    with pytest.raises(SettingsError, match="low_latency means batches of at most 4 rows, but max_batch_size is 8"):
        loaded("worker", "--low-latency")
