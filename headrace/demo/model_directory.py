"""Writes the demo's models directory, as `headrace dev --models` takes it, and gives what reads the models' answers."""

from pathlib import Path

from headrace.demo import file_types, line_images
from headrace.demo.model_files import MAGIKA_CONFIG, MAGIKA_MODEL, TEXT_DIRECTION_MODEL, Say, fetch
from headrace.demo.question import AnswerReader

# Magika gains nothing from batches above 4 on a CPU; the classifier is best at 8 on two threads and loses far above it.
MAGIKA_SETTINGS = """\
engine: onnxruntime
max_batch_size: 4
max_wait_ms: 5
inputs:
  - {name: bytes, datatype: INT32, shape: [2048]}
outputs:
  - {name: target_label, datatype: FP32, shape: [214]}
"""
TEXT_DIRECTION_SETTINGS = """\
engine: onnxruntime
max_batch_size: 8
max_wait_ms: 5
inputs:
  - {name: x, datatype: FP32, shape: [3, 48, 192]}
outputs:
  - {name: save_infer_model/scale_0.tmp_1, datatype: FP32, shape: [2]}
"""


def write_models(directory: Path, cache: Path, say: Say) -> dict[str, AnswerReader]:
    """Fills `directory` with both models and gives the reader of each one's answers, by model name.

    Raises ModelFileError when a model cannot be had or is not the expected file.
    """
    contents = fetch((MAGIKA_MODEL, MAGIKA_CONFIG, TEXT_DIRECTION_MODEL), cache, say)
    _write_model(directory / file_types.MODEL, contents[MAGIKA_MODEL], MAGIKA_SETTINGS)
    _write_model(directory / line_images.MODEL, contents[TEXT_DIRECTION_MODEL], TEXT_DIRECTION_SETTINGS)
    return {
        file_types.MODEL: AnswerReader("target_label", file_types.labels(contents[MAGIKA_CONFIG])),
        line_images.MODEL: AnswerReader("save_infer_model/scale_0.tmp_1", line_images.LABELS),
    }


def _write_model(directory: Path, model: bytes, settings: str) -> None:
    version = directory / "1"
    version.mkdir(parents=True, exist_ok=True)
    (version / "model.onnx").write_bytes(model)
    (directory / "model.yaml").write_text(settings, encoding="utf-8")
