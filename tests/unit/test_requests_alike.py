"""Requests that are written by joining bytes are those that the encoder writes."""

import pytest

from producer_sdk._requests_alike import Kind, encode_alike
from producer_sdk.tensors import Datatype, Tensor
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import Request, encode_request

REPLY_TO = ReplyTo("headrace.replies", 3)
DEADLINE_MS = 1_800_000_000_000


@pytest.mark.parametrize("elements", [0, 1, 2, 6, 14, 60, 255, 256, 66_000])
@pytest.mark.parametrize("id", ["a", "i" * 22, "i" * 31, "i" * 32, "i" * 128])
def test_the_bytes_are_the_same(elements: int, id: str) -> None:
    inputs = {"x": Tensor(Datatype.UINT8, (elements,), bytes(elements))}
    for kind in (Kind(REPLY_TO, None, None, None), Kind(ReplyTo("headrace.r", None), "tenant", "2", ("y", "z"))):
        request = Request(
            id,
            inputs,
            deadline_ms=DEADLINE_MS,
            reply_to=kind.reply_to,
            tenant=kind.tenant,
            version=kind.version,
            outputs=kind.outputs,
        )
        assert encode_alike(id, DEADLINE_MS, kind, inputs) == encode_request(request)


def test_what_differs_in_more_is_left_to_the_encoder() -> None:
    kind, tensor = Kind(REPLY_TO, None, None, None), Tensor(Datatype.UINT8, (1,), b"a")
    assert encode_alike("a", DEADLINE_MS, kind, {"x": tensor, "y": tensor}) is None
    assert encode_alike("a", 1, kind, {"x": tensor}) is None
    many = kind._replace(outputs=tuple(map(str, range(9))))
    assert encode_alike("a", DEADLINE_MS, many, {"x": tensor}) is None
    assert encode_alike("a", DEADLINE_MS, kind, {"\ud800": tensor}) is None
