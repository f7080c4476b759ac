"""A fingerprint is equal exactly where a model would be given the same."""

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from producer_sdk.tensors import Tensor
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import Form, Request
from workers.fingerprint import FINGERPRINT_BYTES, fingerprint

X, Y = (Tensor.from_array(np.array([values], np.float32)) for values in ([1, 2], [3, 4]))
REQUEST = Request("a", {"x": X, "y": Y}, parameters={"k": 1, "t": "é"}, outputs=("z", "w"))


def test_it_is_16_bytes_and_the_same_in_any_order() -> None:
    turned = replace(
        REQUEST, inputs={"y": Y, "x": X}, parameters=dict(reversed(REQUEST.parameters.items())), outputs=("w", "z")
    )
    assert fingerprint(turned) == fingerprint(REQUEST)
    assert len(fingerprint(REQUEST)) == FINGERPRINT_BYTES == 16


def test_who_asks_and_how_does_not_matter() -> None:
    other = replace(
        REQUEST, id="b", form=Form.JSON, deadline_ms=1, reply_to=ReplyTo("p.replies", 1), tenant="t",
        inputs={"x": replace(X, data=bytes(X.data)), "y": replace(Y, data=memoryview(bytes(Y.data)))},
    )  # fmt: skip
    assert fingerprint(other) == fingerprint(REQUEST)


@pytest.mark.parametrize(
    "changed",
    [
        {"inputs": {"x": Y, "y": X}},
        {"inputs": {"x": X}},
        {"inputs": {"x": X, "z": Y}},
        {"inputs": {"x": X, "y": replace(Y, shape=(2, 1))}},
        {"inputs": {"x": X, "y": Tensor.from_array(np.frombuffer(bytes(Y.data), np.int32).reshape(1, 2))}},
        {"parameters": {"k": 1.0, "t": "é"}},
        {"parameters": {"k": True, "t": "é"}},
        {"parameters": {"k": "1", "t": "é"}},
        {"parameters": {"k": 2**100, "t": "\ud800"}},
        {"parameters": {}},
        {"outputs": None},
        {"outputs": ()},
        {"version": "1"},
    ],
    ids=range(13),
)
def test_whatever_the_model_would_notice_makes_another(changed: dict[str, Any]) -> None:
    assert fingerprint(replace(REQUEST, **changed)) != fingerprint(REQUEST)


def test_bytes_cannot_move_from_one_input_to_the_next() -> None:
    one = Request("a", {"a": Tensor.from_array([b"ab"]), "b": Tensor.from_array([b"c"])})
    other = Request("a", {"a": Tensor.from_array([b"a"]), "b": Tensor.from_array([b"bc"])})
    assert fingerprint(one) != fingerprint(other)
