"""Bodies that differ in their numbers alone say what they say when each is read by itself."""

import pytest

from producer_sdk import _json_bodies
from producer_sdk.errors import HeadraceError
from producer_sdk.oip import UNLIKE, read_infer_body

ITEM = b'{"name":"x","shape":[2],"datatype":"FP32","data":%b}'
BODY = b'{"id":"a","inputs":[%b],"outputs":[{"name":"y"}],"parameters":{"top_k":2}}' % ITEM
WIDE = BODY.replace(b":", b" : ").replace(b",", b" ,\n")


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_json_bodies, "_alike", _json_bodies.AlikeBodies(_json_bodies._learn))


def outcome(body: bytes) -> str:
    try:
        return repr(read_infer_body(body))
    except HeadraceError as err:
        return f"{type(err).__name__}: {err.message}"


def alone(body: bytes, monkeypatch: pytest.MonkeyPatch) -> str:
    with monkeypatch.context() as patch:
        patch.setattr(_json_bodies._alike, "read", lambda _: None)
        return outcome(body)


def learn(frame: bytes) -> None:
    for _ in range(2):
        read_infer_body(frame % b"[1,2]")


@pytest.mark.parametrize("frame", [BODY, WIDE])
def test_from_the_second_on_they_are_known(frame: bytes) -> None:
    first, second, third = (read_infer_body(frame % data) for data in (b"[1,2]", b"[3.5,-4e-3]", b"[ 5 , 6 ]"))
    assert first.like is UNLIKE
    assert second.like is third.like is not UNLIKE
    assert bytes(third.inputs["x"].data) == bytes.fromhex("0000a0400000c040")


@pytest.mark.parametrize(
    "data",
    [b"[3,4]", b"[3]", b"[]", b"[3,4,5]", b"[[3,4]]", b"[3,4],[5]", b"[3,4", b"3", b'["NaN",1]', b"[1e39,1]", b"[1,]",
     b"[true,1]", b"[null,1]", b'[1,2],"data":[3,4]', b"[1,2]}]}", b"[01,2]", b"\xff[1,2]", b'"[1,2]"'],
)  # fmt: skip
def test_other_data_between_the_same_bytes_is_judged_as_ever(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    learn(BODY)
    assert outcome(BODY % data) == alone(BODY % data, monkeypatch)


@pytest.mark.parametrize(
    "frame",
    [
        b'{"inputs":[{"name":"data","shape":%b,"datatype":"FP32","data":[1,2]}]}',
        b'{"x":{"data":%b},"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1,2]}]}',
        b'{"inputs":[{"name":"x","shape":[2],"datatype":"BYTES","data":%b}]}',
        b'{"x":{"data":%b},"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":["stands in"]}]}',
        b'{"inputs":[%b,%b]}' % (ITEM, ITEM.replace(b"%b", b"[1,2]").replace(b'"x"', b'"y"')),
    ],
)
def test_only_the_data_of_the_only_tensor_is_taken_for_it(frame: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (b"[1,2]", b"[1,2]", b"[2,1]", b'["1","2"]'):
        assert outcome(frame % data) == alone(frame % data, monkeypatch)
    assert not [each for each in _json_bodies._alike._kinds.values() if isinstance(each, _json_bodies.Alike)]
