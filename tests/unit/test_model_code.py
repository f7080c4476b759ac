"""What a check tells of a model.py from its text: every certain fault with its line, and no false one."""

import textwrap
from pathlib import Path

import pytest
from model_folders import DEADLY, DOUBLE, GIL_HOLDING, python_model

from workers.check import check_models
from workers.model_code import code_faults
from workers.models import find_models
from workers.runners.engine import LoadFailed
from workers.runners.python_model import PythonModel

HEAD = "class Model:\n"


def told(code: str) -> list[tuple[int, str]]:
    return [(line, reason) for line, reason in code_faults(textwrap.dedent(code).encode())]


@pytest.mark.parametrize(
    ("code", "line", "reason"),
    [
        ("class Model:\n    def predict(self, inputs)\n        return 1", 2, "is no Python: expected ':'"),
        ("import numpy\n\nreturn 5", 3, "'return' outside function"),
        ("class Modell:\n    def predict(self, inputs): ...", 1, "has no class Model: write `class Model:`"),
        ("", 1, "has no class Model"),
        ("x = 1\n\nclass Model:\n    def predcit(self, inputs): ...", 3, "class Model has no method predict"),
        (HEAD + "    def predict(self): ...", 2, "predict takes (self): write `predict(self, inputs)`"),
        (HEAD + "    def predict(self, a, b, c): ...", 2, "predict takes (self, a, b, c)"),
        (HEAD + "    def predict(inputs): ...", 2, "predict takes (inputs)"),
        (HEAD + "    def predict(): ...", 2, "predict takes ()"),
        (HEAD + "    def predict(self, inputs, *, key): ...", 2, "predict takes (self, inputs, *, key)"),
        (HEAD + "    async def predict(self, inputs): ...", 2, "without async and yield"),
        (HEAD + "    def predict(self, inputs):\n        yield 1", 2, "without async and yield"),
        (HEAD + "    def load(self): ...\n    def predict(self, inputs): ...", 2, "write `load(self, context)`"),
        (HEAD + "    def __init__(self, path): ...\n    def predict(self, inputs): ...", 2, "write `__init__(self)`"),
    ],
)
def test_a_broken_model_is_told_with_its_line(code: str, line: int, reason: str) -> None:
    ((found_line, found_reason),) = told(code)
    assert found_line == line
    assert reason in found_reason


SOUND = [
    DOUBLE,
    DEADLY,
    GIL_HOLDING,
    "class Model:\n    def predict(self, inputs, parameters): ...",
    "class Model:\n    def predict(self, inputs, parameters=None, more=1): ...",
    "class Model:\n    def predict(self, *args): ...",
    "class Model:\n    def predict(*args): ...",
    "class Model:\n    @staticmethod\n    def predict(inputs): ...",
    "class Model:\n    def load(self, context):\n        self.predict = len",
    "class Base:\n    def predict(self, inputs): ...\nclass Model(Base): ...",
    "class Other:\n    def predict(self, inputs): ...\nModel = Other",
    "class Other:\n    def predict(self, inputs): ...\ndef Model():\n    return Other()",
    "try:\n    import nothing\nexcept ImportError:\n    class Model:\n        def predict(self, inputs): ...",
    "class Other:\n    def predict(self, inputs): ...\nglobals()['Model'] = Other",
    "class Model: ...\nModel.predict = lambda self, inputs: 1",
    "import functools\nclass Model:\n    @functools.lru_cache\n    def predict(self, inputs): ...",
    "class Model:\n    text = '\\d'\n    def predict(self, inputs): ...",
]


@pytest.mark.parametrize("code", SOUND)
@pytest.mark.filterwarnings("ignore:invalid escape sequence")
def test_what_the_runner_loads_passes(tmp_path: Path, code: str) -> None:
    assert told(code) == []
    python_model(tmp_path, "m", code, parameters={"log": ""})
    PythonModel().load(find_models(tmp_path)[0])


@pytest.mark.parametrize("code", ["class Model: ...", "class Model:\n    def predict(self): ...", "x = ["])
def test_what_is_told_would_not_load_and_is_in_the_check_with_file_and_line(tmp_path: Path, code: str) -> None:
    python_model(tmp_path, "m", code)
    (fault,) = check_models(tmp_path).faults
    assert (fault.file, fault.fatal) == (str(tmp_path / "m" / "1" / "model.py"), True)
    assert fault.reason.startswith("line ")
    with pytest.raises(LoadFailed):
        PythonModel().load(find_models(tmp_path)[0])


def test_a_check_runs_no_code(tmp_path: Path) -> None:
    mark = tmp_path / "was-run"
    python_model(tmp_path / "models", "m", f"open({str(mark)!r}, 'w')\n{textwrap.dedent(DOUBLE)}")
    assert check_models(tmp_path / "models", deep=True).faults == ()
    assert not mark.exists()
