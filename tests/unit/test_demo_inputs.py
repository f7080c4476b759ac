"""The demo's own parts: the inputs it makes, the files it refuses, the answers it reads. No model runs here."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from headrace.demo import file_types, line_images
from headrace.demo.ask_http import HttpOutcome, read_response, request_body
from headrace.demo.model_directory import MAGIKA_SETTINGS, TEXT_DIRECTION_SETTINGS
from headrace.demo.model_files import MAGIKA_MODEL, ModelFileError, PackagedFile, fetch, verify
from headrace.demo.question import Answer, AnswerReader, Question, Way

PAD = file_types.PADDING_TOKEN
READER = AnswerReader("scores", ("python", "toml"))
QUESTION = Question("a.py", "magika", {"bytes": np.arange(3, dtype=np.int32)[None]}, ("python",))


def test_a_short_file_is_padded_behind_its_beginning_and_before_its_end() -> None:
    tokens = file_types.features(b"\n ab \n")
    assert tokens.shape == (2048,)
    assert tokens.dtype == np.int32
    assert tokens[:5].tolist() == [97, 98, 32, 10, PAD]
    assert tokens[-5:].tolist() == [PAD, 10, 32, 97, 98]
    assert (tokens == PAD).sum() == 2048 - 8


def test_a_long_file_gives_its_first_and_last_1024_bytes() -> None:
    content = bytes(range(1, 7)) * 1000
    tokens = file_types.features(content)
    assert tokens[:1024].tolist() == list(content[:1024])
    assert tokens[1024:].tolist() == list(content[-1024:])


def test_white_space_is_stripped_within_one_block_only() -> None:
    tokens = file_types.features(b" " * 4090 + b"begins" + b"x" * 5000 + b"ends" + b"\n" * 4096)
    assert bytes(tokens[:6].tolist()) == b"begins"
    assert tokens[6] == PAD
    assert (tokens[1024:] == PAD).all()


def test_an_empty_file_is_nothing_but_padding() -> None:
    assert (file_types.features(b"") == PAD).all()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a/b.py", ("python",)),
        ("Makefile", ("makefile",)),
        ("x.json", ("json", "jsonl")),
        ("LICENSE", ()),
        ("a.bin", ()),
    ],
)
def test_the_name_of_a_file_tells_its_right_labels(name: str, expected: tuple[str, ...]) -> None:
    assert file_types.expected_labels(Path(name)) == expected


def test_only_the_checkouts_own_files_of_some_size_are_chosen(tmp_path: Path) -> None:
    for name, size in {
        "README.md": 600,
        ".venv/a.py": 600,
        "workers/b.py": 600,
        "workers/tiny.py": 20,
        "c.bin": 600,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    chosen = [str(path.relative_to(tmp_path)) for path in file_types.choose_files(tmp_path)]
    assert chosen == ["README.md", "workers/b.py"]


def test_many_files_of_one_kind_are_thinned_evenly(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / f"{number}.py").write_bytes(b"x" * 600)
    assert [path.stem for path in file_types.choose_files(tmp_path, max_per_kind=5)] == ["0", "2", "4", "6", "8"]


def test_labels_keep_the_order_of_the_models_outputs() -> None:
    assert file_types.labels(b'{"target_labels_space": ["zip", "ai"], "beg_size": 1024}') == ("zip", "ai")


def test_the_best_score_names_the_label() -> None:
    assert READER.read({"scores": np.array([[0.25, 0.75]], dtype=np.float32)}) == ("toml", 0.75)


@pytest.mark.parametrize("outputs", [{}, {"scores": np.zeros((1, 3))}, {"scores": np.zeros(2)}])
def test_outputs_of_another_shape_are_refused(outputs: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match=r"not 'scores' of shape \(1, 2\)"):
        READER.read(outputs)


def test_a_line_is_black_on_white_and_keeps_its_letters_apart() -> None:
    image = line_images.draw_line("il")
    assert image.dtype == np.float32
    assert (image.min(), image.max()) == (0, 255)
    inked = (image < 128).any(axis=0)
    assert np.flatnonzero(np.diff(inked.astype(int))).size == 4


def test_a_letter_that_the_font_lacks_is_named() -> None:
    with pytest.raises(ValueError, match="é"):
        line_images.draw_line("café")


def test_an_empty_line_is_refused() -> None:
    with pytest.raises(ValueError, match="empty line"):
        line_images.draw_line("  ")


def test_a_short_line_keeps_its_ratio_and_is_padded_with_zeros() -> None:
    tensor = line_images.classifier_input(np.full((24, 50), 255, dtype=np.float32))
    assert tensor.shape == (3, 48, 192)
    assert np.allclose(tensor[:, :, :100], 1, atol=1e-5)
    assert (tensor[:, :, 100:] == 0).all()


def test_a_long_line_is_squeezed_by_area_into_the_whole_width() -> None:
    stripes = np.tile(np.array([0, 255], dtype=np.float32), (48, 192))
    assert np.allclose(line_images.classifier_input(stripes), 0, atol=1e-5)


def test_each_line_is_asked_upright_and_turned() -> None:
    upright, turned = (question.inputs["x"][0] for question in line_images.questions(("jumps over the dog",)))
    assert upright.min() >= -1 - 1e-5
    assert upright.max() <= 1 + 1e-5
    assert np.allclose(upright, turned[:, ::-1, ::-1], atol=1e-5)
    assert not np.allclose(upright, turned, atol=0.5)


def test_the_demo_can_draw_all_its_lines() -> None:
    expected = [question.expected for question in line_images.questions()]
    assert expected == [("0",), ("180",)] * len(line_images.LINES)


def test_the_declared_shapes_are_those_of_the_inputs() -> None:
    magika, direction = (yaml.safe_load(text)["inputs"][0] for text in (MAGIKA_SETTINGS, TEXT_DIRECTION_SETTINGS))
    assert (magika["name"], magika["shape"]) == (file_types.INPUT, list(file_types.features(b"x").shape))
    image = line_images.questions(("Kafka",))[0].inputs[direction["name"]]
    assert direction["shape"] == list(image.shape[1:])


def test_an_altered_model_file_is_refused() -> None:
    with pytest.raises(ModelFileError, match=r"magika==.*altered"):
        verify(b"something else", MAGIKA_MODEL)


def test_a_whole_file_in_the_cache_needs_no_network(tmp_path: Path) -> None:
    content = b"a model"
    file = PackagedFile("unheard-of", "1", "model.onnx", "kept.onnx", hashlib.sha256(content).hexdigest())
    (tmp_path / "kept.onnx").write_bytes(content)
    said: list[str] = []
    assert fetch((file,), tmp_path, said.append) == {file: content}
    assert said == []


def test_an_http_question_is_an_open_inference_request() -> None:
    body = json.loads(request_body(QUESTION))
    assert body == {"inputs": [{"name": "bytes", "shape": [1, 3], "datatype": "INT32", "data": [0, 1, 2]}]}


def test_an_http_answer_gives_label_latency_and_batch() -> None:
    output = {"name": "scores", "shape": [1, 2], "datatype": "FP32", "data": [0.75, 0.25]}
    body = json.dumps({"outputs": [output], "parameters": {"batch_rows": 4}}).encode()
    answer = read_response(QUESTION, Way.CURL, HttpOutcome(200, body, 0.5), READER)
    assert answer == Answer(QUESTION, Way.CURL, 0.5, "python", 0.75, 4)
    assert answer.right


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [
        (
            HttpOutcome(503, b'{"error": "The queue is full.", "code": "QUEUE_FULL"}', 0.1),
            "QUEUE_FULL: The queue is full.",
        ),
        (HttpOutcome(200, b"[1]", 0.1), "no Open Inference Protocol answer"),
        (HttpOutcome(0, b"", 0.1, "curl ended with 7: refused."), "curl ended with 7"),
    ],
)
def test_an_http_failure_is_explained(outcome: HttpOutcome, sentence: str) -> None:
    answer = read_response(QUESTION, Way.CURL, outcome, READER)
    assert not answer.right
    assert sentence in answer.explanation


def test_a_wrong_label_is_explained_by_the_right_one() -> None:
    answer = Answer(QUESTION, Way.SDK, 0.1, "toml", 0.5)
    assert "answered 'toml' with a score of 0.50, but 'python' is right" in answer.explanation
