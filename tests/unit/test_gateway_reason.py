"""Callers read the first sentence of a worker's reason, without paths of its machine."""

import pytest

from gateway.models import why_not_ready
from gateway.reason import MAX_CHARS, for_callers
from producer_sdk.announcements import Announcement, ModelState
from producer_sdk.directory import Heard, model_view


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("the file is broken", "the file is broken"),
        ("it died (SIGSEGV); its last words: Fatal error\n  File /a/b.py", "it died (SIGSEGV)"),
        ("it ended with code 1. Its last words were many", "it ended with code 1"),
        ("cannot load '/srv/my models/mlp/1/model.py': SyntaxError", "cannot load 'model.py': SyntaxError"),
        ("/srv/models/mlp/1/model.onnx, line 3: bad", "model.onnx, line 3: bad"),
        (r"C:\models\mlp\model.onnx is missing", "model.onnx is missing"),
        ("No such file or directory: ~/models/mlp/x.pt", "No such file or directory: x.pt"),
        ("the store http://host/models/mlp answers 404", "the store http://host/models/mlp answers 404"),
        ("input/output error", "input/output error"),
        ("version 1.5 has no model.py", "version 1.5 has no model.py"),
        ("first line\nTraceback (most recent call last)", "first line"),
    ],
)
def test_a_reason_is_one_sentence_without_paths(reason: str, shown: str) -> None:
    assert for_callers(reason) == shown


def test_a_reason_is_bounded() -> None:
    assert len(for_callers("x" * 5000)) == MAX_CHARS + 3


def test_two_workers_with_one_fault_say_it_once() -> None:
    faults = [
        Announcement(f"w{n}", "mlp", ("1",), ModelState.UNAVAILABLE, 0, 2.0, reason=f"no file /srv/{n}/model.py")
        for n in range(2)
    ]
    view = model_view([Heard(fault, 0.0) for fault in faults], 0.0)
    assert view is not None
    assert why_not_ready(view) == "model 'mlp' is UNAVAILABLE: no file model.py"
