"""`headrace models` on a terminal of 80 columns, and `headrace version`."""

import re
import tomllib
from pathlib import Path

import pytest
from model_folders import python_model
from typer.testing import CliRunner

from headrace.cli import app
from headrace.dev_models import choose_names
from headrace.failure import UsageError
from headrace.models import print_views
from headrace.version import PACKAGES
from producer_sdk.announcements import Announcement, ModelState, TensorAnnouncement
from producer_sdk.directory import ModelView
from producer_sdk.tensors import Datatype

ROOT = Path(__file__).resolve().parents[2]
REASON = "Model in /srv/models/broken/1/model.py, line 3 failed to load: RuntimeError: the weights are not there"
run = CliRunner().invoke


def view(name: str, state: ModelState, *reasons: str) -> ModelView:
    image = (TensorAnnouncement("image", Datatype.FP32, (3,)),)
    said = Announcement("w", name, ("1",), state, 0, 2.0, inputs=image, outputs=image)
    return ModelView(name, ("1",), state, said, 1, int(state is ModelState.READY), reasons)


def test_a_reason_has_a_line_of_its_own_below_the_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_views([view("broken", ModelState.UNAVAILABLE, REASON), view("good", ModelState.READY)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:5] for line in lines[1:3]] == [
        ["broken", "1", "UNAVAILABLE", "0", "of"],
        ["good", "1", "READY", "1", "of"],
    ]
    assert lines[-1] == f"broken: {REASON}"


def test_a_check_shows_what_there_is_and_then_the_faults(tmp_path: Path) -> None:
    python_model(tmp_path, "good", max_batch_size=8)
    python_model(tmp_path, "bad", "class Model: ...")
    result = run(app, ["models", "check", str(tmp_path)])
    lines = [line.split() for line in result.output.splitlines()]
    assert result.exit_code == 1
    assert lines[1:3] == [["bad", "1", "python", "32", "FAULTY"], ["good", "1", "python", "8", "sound"]]
    assert result.output.splitlines()[-1].startswith(f"fault: {tmp_path}/bad/1/model.py: line 1: class Model has no")


def test_dev_refuses_a_models_own_folder(tmp_path: Path) -> None:
    python_model(tmp_path, "greeter")
    with pytest.raises(UsageError, match="is the folder of one model: name the folder above it"):
        choose_names(tmp_path / "greeter", ())


def test_version_names_the_packages_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    listed = [*project["dependencies"], *(each for extra in extras if extra != "test" for each in extras[extra])]
    assert set(PACKAGES) == {re.split(r"[<>=;\[]", each)[0] for each in listed}
