"""The invariance check finds what padding and batch mates change, and says so; a sound model passes."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from model_folders import python_model
from typer.testing import CliRunner

from headrace.cli import app
from headrace.invariance import check_model
from headrace.invariance_judge import Condition, ModelJudged
from headrace.invariance_report import report
from workers.models import find_models

run = CliRunner().invoke
BARE: dict[str, object] = {"name": "ids", "datatype": "INT64", "shape": [-1], "pad_to": [4, 8]}
IDS = BARE | {"mask": "mask"}
MASK: dict[str, object] = {"name": "mask", "datatype": "INT64", "shape": [-1]}
Y: dict[str, object] = {"name": "y", "datatype": "FP32", "shape": []}
HEAD = """
import itertools

import numpy as np

RUNS = itertools.count()

class Model:
    def predict(self, inputs):
        x, mask = inputs["ids"].astype(np.float32), inputs["mask"]
        return {"y": np.float32(%s)}
"""
RIGHT = "(x * mask).sum(1) / mask.sum(1)"
NO_MASK = "x.mean(1)"
OVER_BATCH = "(x * mask).sum(1) / mask.sum(1) - ((x * mask).sum() / mask.sum() if len(x) > 1 else 0)"
WHOLE_BATCH_MASK = "(x * mask).sum(1) / (mask.sum(1) if (mask == mask[:1]).all() else mask.sum(1).max())"
RANDOM = "(x * mask).sum(1) * (2 + next(RUNS))"  # no two runs are alike, which numbers drawn at random could be


def judged(root: Path, formula: str = RIGHT, code: str | None = None, **keys: Any) -> ModelJudged:
    inputs, outputs = keys.pop("inputs", [IDS, MASK]), keys.pop("outputs", [Y])
    python_model(root, "m", code or HEAD % formula, inputs=inputs, outputs=outputs, **keys)
    return check_model(find_models(root)[0], 1e-3)


def findings(model: ModelJudged) -> list[str]:
    return [finding for output in model.outputs for finding in output.findings]


def test_a_mean_under_the_mask_is_invariant(tmp_path: Path) -> None:
    model = judged(tmp_path)
    assert (model.passes, findings(model), model.faults) == (True, [], ())
    assert set(model.outputs[0].drifts) == set(Condition)
    assert model.outputs[0].greatest.relative < 1e-6


@pytest.mark.parametrize(
    ("formula", "conditions", "words"),
    [
        (NO_MASK, {Condition.PADDED, Condition.BOTH}, "output 'y' changes when the request is padded (by "),
        (OVER_BATCH, {Condition.MATES, Condition.BOTH}, "output 'y' depends on the other rows of the batch (by "),
        (WHOLE_BATCH_MASK, {Condition.BOTH}, "output 'y' depends on requests of other sizes in its batch (by "),
        (RANDOM, set(Condition), "output 'y' differs when the same request runs twice (by "),
    ],
)
def test_what_changes_an_output_is_named(tmp_path: Path, formula: str, conditions: set[Condition], words: str) -> None:
    model = judged(tmp_path, formula)
    drifts = model.outputs[0].drifts
    assert {condition for condition in Condition if drifts[condition].relative > 1e-3} == conditions
    (finding,) = findings(model)
    assert finding.startswith(words)
    assert not model.passes


def test_what_is_no_number_must_be_none_in_each_run(tmp_path: Path) -> None:
    assert judged(tmp_path / "a", "mask.sum(1) * np.nan").passes
    model = judged(tmp_path / "b", "(x * mask).sum(1) + (np.nan if len(x) > 1 else 0)")
    assert model.outputs[0].drifts[Condition.MATES].absolute == math.inf
    assert report([model])["models"][0]["outputs"][0]["drifts"]["mates"]["absolute"] is None


def test_a_padded_input_without_a_mask_is_told_that_it_lacks_one(tmp_path: Path) -> None:
    code = "class Model:\n    def predict(self, inputs):\n        return {'y': inputs['ids'].mean(1, dtype='float32')}"
    (finding,) = findings(judged(tmp_path, code=code, inputs=[{**BARE, "pad_value": 9}]))
    assert "no `mask` is declared for 'ids'" in finding


def test_an_output_that_shows_its_padding_is_told_how_it_is_cut(tmp_path: Path) -> None:
    code = "class Model:\n    def predict(self, inputs):\n        return {'y': inputs['ids'] * inputs['mask']}"
    output = {"name": "y", "datatype": "INT64", "shape": [-1]}
    (finding,) = findings(judged(tmp_path / "a", code=code, outputs=[output]))
    assert finding == (
        "output 'y' has shape [1, 4] alone, in its own bucket, but [1, 2] by itself: callers see the padding; declare "
        "`cut_like: ids` for it"
    )
    assert judged(tmp_path / "b", code=code, outputs=[output | {"cut_like": "ids"}]).passes


def test_ragged_requests_are_judged_with_mates_of_other_lengths(tmp_path: Path) -> None:
    code = """
    import numpy as np

    class Model:
        def predict(self, inputs):
            x, n = inputs["x"].astype(np.float32), inputs["n"]
            first = np.cumsum(n) - n
            return {"y": np.float32(np.add.reduceat(x, first)%s)}
    """
    x = {"name": "x", "datatype": "INT32", "shape": [-1], "ragged": True, "lengths": "n"}
    inputs = [x, {"name": "n", "datatype": "INT64", "shape": []}]
    assert judged(tmp_path / "a", code=code % "", inputs=inputs).passes
    bad = judged(tmp_path / "b", code=code % " / n.max()", inputs=inputs)
    assert bad.outputs[0].drifts[Condition.BOTH].relative > 1e-3
    assert not bad.passes


def test_whole_numbers_and_texts_must_be_equal(tmp_path: Path) -> None:
    code = "class Model:\n    def predict(self, inputs):\n        return {'y': inputs['x'] + (len(inputs['x']) > 2)}"
    tensor = {"datatype": "INT64", "shape": [2]}
    model = judged(tmp_path, code=code, inputs=[{"name": "x", **tensor}], outputs=[{"name": "y", **tensor}])
    assert model.outputs[0].drifts[Condition.MATES].absolute == 1
    assert not model.passes


def test_a_request_that_fails_by_itself_or_only_in_a_batch_is_told(tmp_path: Path) -> None:
    code = """
    class Model:
        def predict(self, inputs):
            assert len(inputs["x"]) %s
            return {"y": inputs["x"][:, 0]}
    """
    inputs = [{"name": "x", "datatype": "FP32", "shape": [2]}]
    alone = judged(tmp_path / "a", code=code % "> 1", inputs=inputs)
    assert alone.faults[0].startswith("a request fails by itself: AssertionError")
    batched = judged(tmp_path / "b", code=code % "< 2", inputs=inputs)
    assert batched.faults[0].startswith(
        "a request that runs by itself fails request 1 of a batch of 2, not padded: Asser"
    )


def test_the_command_judges_and_ends_with_1(tmp_path: Path) -> None:
    python_model(tmp_path, "good", HEAD % RIGHT, inputs=[IDS, MASK], outputs=[Y])
    python_model(tmp_path, "bad", HEAD % NO_MASK, inputs=[IDS, MASK], outputs=[Y])
    result = run(app, ["models", "check", str(tmp_path), "--invariance"])
    assert result.exit_code == 1
    lines = [line.split() for line in result.output.splitlines()]
    assert [line[:3] + line[-1:] for line in lines[1:3]] == [
        ["bad", "y", "FP32", "DRIFTS"],
        ["good", "y", "FP32", "invariant"],
    ]
    assert run(app, ["models", "check", str(tmp_path), "--invariance", "--model", "good"]).exit_code == 0
    loose = ["models", "check", str(tmp_path), "--invariance", "--model", "bad", "--tolerance", "10", "--json"]
    told = json.loads(run(app, loose).output)
    assert told["passes"] is True
    assert told["models"][0]["outputs"][0]["drifts"]["padded"]["relative"] > 1e-3


def test_requests_can_be_given_in_a_file(tmp_path: Path) -> None:
    python_model(tmp_path / "models", "m", HEAD % NO_MASK, inputs=[IDS, MASK], outputs=[Y])
    body = {"inputs": [{"name": "ids", "datatype": "INT64", "shape": [1, 4], "data": [1, 2, 3, 4]}]}
    file = tmp_path / "asked.json"
    check = ["models", "check", str(tmp_path / "models"), "--invariance", "--inputs", str(file), "--json"]
    file.write_text(json.dumps([body, body]))
    told = json.loads(run(app, check).output)["models"][0]
    assert (told["requests"], told["passes"]) == (2, False)
    file.write_text(json.dumps({"inputs": []}))
    assert "does not fit" in str(run(app, check).exception)
