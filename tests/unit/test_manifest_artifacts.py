"""The key `artifacts` of a model.yaml: what is taken, and every fault with its key, without asking a store."""

from pathlib import Path

import pytest
import yaml

from producer_sdk.dataref import DataRef
from workers.check import check_models
from workers.manifest_artifacts import path_fault
from workers.models import find_models
from workers.runners.engine import Artifact, LoadFailed
from workers.runners.load import make_engine

SHA = "ab" * 32
SHARD = {"path": "model.onnx.data", "uri": "s3://models/a/shard", "sha256": SHA}


def folder_with(root: Path, *artifacts: dict[str, object], version: str = "1", files: tuple[str, ...] = ()) -> Path:
    """A model `m` with this list, whose version has these files."""
    for file in files or ("model.onnx",):
        place = root / "m" / version / file
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"onnx")
    (root / "m" / "model.yaml").write_text(yaml.safe_dump({"artifacts": list(artifacts)}))
    return root


def faults(root: Path) -> list[tuple[str, str]]:
    return [(fault.key, fault.reason) for fault in check_models(root).faults]


def test_an_artifact_is_read_with_its_checksum_in_lower_case(tmp_path: Path) -> None:
    (spec,) = find_models(folder_with(tmp_path, {**SHARD, "sha256": SHA.upper(), "bytes": 5}))
    assert spec.artifacts == (Artifact("model.onnx.data", DataRef("s3://models/a/shard", SHA, 5)),)


def test_the_model_itself_may_be_an_artifact(tmp_path: Path) -> None:
    folder_with(tmp_path, {**SHARD, "path": "model.onnx"}, files=("labels.txt",))
    assert [spec.engine for spec in find_models(tmp_path)] == ["onnxruntime"]
    assert faults(tmp_path) == []


def test_an_artifact_of_another_version_is_left_out(tmp_path: Path) -> None:
    old, new = {**SHARD, "version": 1}, {**SHARD, "version": 2, "uri": "s3://models/b/shard"}
    (spec,) = find_models(folder_with(tmp_path, old, new, version="2"))
    assert [artifact.ref.uri for artifact in spec.artifacts] == ["s3://models/b/shard"]


@pytest.mark.parametrize(
    ("change", "key", "said"),
    [
        ({"sha256": "ab"}, "artifacts[0].sha256", "64 hexadecimal digits"),
        ({"sha256": 10**63}, "artifacts[0].sha256", "put its 64 digits in quotes"),
        ({"sha256": float("1" * 60 + "e111")}, "artifacts[0].sha256", "put its 64 digits in quotes"),
        ({"sha256": None}, "artifacts[0].sha256", "64 hexadecimal digits"),
        ({"uri": "https://host/shard"}, "artifacts[0].uri", "write s3://bucket/key"),
        ({"uri": "s3://models/../shard"}, "artifacts[0].uri", "write s3://bucket/key"),
        ({"bytes": 0}, "artifacts[0].bytes", "from 1"),
        ({"version": "v2"}, "artifacts[0].version", "the number of a version"),
        ({"sha265": SHA}, "artifacts[0].sha265", "did you mean 'sha256'"),
        ({"path": "../shard"}, "artifacts[0].path", "without . or .."),
        ({"path": "model.yaml"}, "artifacts[0].path", "keep it in the model's folder"),
    ],
)
def test_a_value_that_is_wrong_is_named(tmp_path: Path, change: dict[str, object], key: str, said: str) -> None:
    ((found, reason),) = faults(folder_with(tmp_path, {**SHARD, **change}))
    assert found == key
    assert said in reason


@pytest.mark.parametrize("missing", ["path", "uri", "sha256"])
def test_what_is_missing_is_named(tmp_path: Path, missing: str) -> None:
    item: dict[str, object] = {key: value for key, value in SHARD.items() if key != missing}
    assert [key for key, _ in faults(folder_with(tmp_path, item))] == [f"artifacts[0].{missing}"]


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "a//b", "./a", "a/..", "..", "a\\b", "a\nb", "model.py", "x/y.py", "a" * 256]
)
def test_no_artifact_lies_outside_its_folder_or_is_code(path: str) -> None:
    assert path_fault(path) is not None


@pytest.mark.parametrize("path", ["model.onnx", "model.onnx.data", "shards/0.bin", "..data", "a b"])
def test_names_within_the_folder_are_taken(path: str) -> None:
    assert path_fault(path) is None


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (("a", "a"), "a is there twice"),
        (("a", "a/b"), "one would be the other's folder"),
        (("a/b", "a"), "one would be the other's folder"),
    ],
)
def test_two_artifacts_never_have_one_place(tmp_path: Path, paths: tuple[str, str], said: str) -> None:
    ((key, reason),) = faults(folder_with(tmp_path, *({**SHARD, "path": path} for path in paths)))
    assert key == "artifacts[1].path"
    assert said in reason


def test_a_file_that_is_there_is_not_fetched_over(tmp_path: Path) -> None:
    ((key, reason),) = faults(folder_with(tmp_path, {**SHARD, "path": "model.onnx"}))
    assert key == "artifacts"
    assert reason.endswith("1/model.onnx is there already: remove it, or leave model.onnx out here")


def test_no_symbolic_link_leads_an_artifact_away(tmp_path: Path) -> None:
    folder_with(tmp_path / "models", {**SHARD, "path": "shards/0.bin"})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "models" / "m" / "1" / "shards").symlink_to(tmp_path / "elsewhere")
    ((key, reason),) = faults(tmp_path / "models")
    assert key == "artifacts"
    assert reason.endswith("1/shards is there already: remove it, or leave shards/0.bin out here")


def test_a_wrong_artifact_is_not_told_again_as_a_missing_model(tmp_path: Path) -> None:
    folder_with(tmp_path, {**SHARD, "path": "model.onnx", "sha256": "x"}, files=("labels.txt",))
    assert [key for key, _ in faults(tmp_path)] == ["artifacts[0].sha256"]


def test_a_deep_check_says_that_it_fetches_nothing(tmp_path: Path) -> None:
    (note,) = check_models(folder_with(tmp_path, SHARD), deep=True).faults
    assert not note.fatal
    assert "are in S3" in note.reason


@pytest.mark.parametrize("engine", ["onnxruntime", "python"])
def test_no_engine_loads_half_a_model(tmp_path: Path, engine: str) -> None:
    (spec,) = find_models(folder_with(tmp_path, SHARD))
    with pytest.raises(LoadFailed, match="model m is in S3"):
        make_engine(engine).load(spec)
