"""`headrace simulate`: a made load, a trace, comma lists, what was learned, and what is said of wrong ones."""

import json
from pathlib import Path

import pytest
from model_folders import python_model
from typer.testing import CliRunner, Result

from headrace.cli import app
from headrace.failure import CommandError, UsageError
from headrace.sim_learned import NotLearned, learned_in
from workers.models import find_models
from workers.run_times import RunTimes
from workers.run_times_file import Place, RunTimesFile

LOAD = ("--rate", "200", "--seconds", "1")
FORMULA = ("--run-ms", "8 + 0.5*rows")


def simulate(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *arguments], catch_exceptions=True)


def cases(*arguments: str) -> list[dict[str, dict[str, object]]]:
    done = simulate(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["cases"]  # type: ignore[no-any-return]


def test_comma_lists_are_tried_each_with_each() -> None:
    tried = cases(*LOAD, *FORMULA, "--max-batch-size", "4,8", "--replicas", "1,2", "--workers", "1,2")
    settings = [tuple(each["case"][name] for name in ("max_batch_size", "replicas", "workers")) for each in tried]
    assert settings == [(rows, replicas, workers) for rows in (4, 8) for replicas in (1, 2) for workers in (1, 2)]


def test_the_table_has_a_line_for_each_case_and_lane() -> None:
    done = simulate(*LOAD, *FORMULA, "--max-wait-ms", "0,5", "--lane", "interactive=1,bulk=1")
    lines = [line.split() for line in done.stdout.splitlines()[2:]]
    assert [line[0] for line in lines] == ["0", "bulk", "interactive", "5", "bulk", "interactive"]


def test_a_recorded_trace_gives_what_the_load_itself_gave(tmp_path: Path) -> None:
    load = (*LOAD, "--deadline-ms", "20=1,none=1", "--tenant", "a,b")
    assert simulate(*load, "--record", str(tmp_path / "t")).exit_code == 0
    assert cases("--trace", str(tmp_path / "t"), *FORMULA) == cases(*load, *FORMULA)


def test_settings_that_are_not_given_are_those_of_model_yaml(tmp_path: Path) -> None:
    python_model(tmp_path, "m", max_batch_size=5, max_wait_ms=3)
    (only,) = cases("--models", str(tmp_path), "--model", "m", *LOAD, *FORMULA)
    assert only["case"] | {"max_batch_size": 5, "max_wait_ms": 3.0} == only["case"]


def test_what_a_worker_learned_of_the_model_is_used(tmp_path: Path) -> None:
    python_model(tmp_path, "m")
    (spec,) = find_models(tmp_path, ["m"])
    times = RunTimes()
    for _ in range(50):
        times.observe((), 1, 1.0, 0.040)
    RunTimesFile(tmp_path / "m", Place("1", spec.device, spec.engine, spec.threads)).save(times.to_state())
    asked = ("--models", str(tmp_path), "--model", "m", "--rate", "1", "--seconds", "20", "--max-wait-ms", "0")
    (beside,) = cases(*asked)
    (named,) = cases(*asked, "--run-times", str(next((tmp_path / "m" / ".run_times").iterdir())))
    assert beside["summary"] == named["summary"]
    assert beside["summary"]["all"]["p50_ms"] == pytest.approx(44, rel=0.15)  # type: ignore[index]


def test_a_file_that_holds_no_run_times_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\x80")
    with pytest.raises(NotLearned, match="no file of run times"):
        learned_in(tmp_path / "f")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "Say which requests"),
        (LOAD, "Say how long batches take"),
        ((*LOAD, "--run-ms", "nix"), "--run-ms: 'nix' is no run time"),
        ((*LOAD, *FORMULA, "--max-batch-size", "8,x"), "--max-batch-size 'x'"),
        ((*LOAD, *FORMULA, "--max-batch-size", "0"), "--max-batch-size '0'"),
        ((*LOAD, *FORMULA, "--pattern", "wild"), "--pattern 'wild'"),
        ((*LOAD, *FORMULA, "--lane", "slow"), "--lane 'slow'"),
        ((*LOAD, *FORMULA, "--deadline-ms", "0"), "--deadline-ms '0'"),
        (("--models", "nowhere", *FORMULA), "--models needs --model"),
    ],
)
def test_what_cannot_be_understood_is_said_by_its_flag(arguments: tuple[str, ...], told: str) -> None:
    done = simulate(*arguments)
    assert isinstance(done.exception, UsageError)
    assert told in str(done.exception)


def test_a_trace_or_a_model_that_is_none_is_a_fault_not_a_usage(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("x")
    for arguments in (("--trace", str(tmp_path / "t")), ("--models", str(tmp_path), "--model", "m")):
        done = simulate(*arguments, *FORMULA)
        assert type(done.exception) is CommandError
