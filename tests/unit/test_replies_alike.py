"""Replies that are written by joining bytes are those that the encoder writes."""

import pytest
from msgspec import Raw
from msgspec.msgpack import encode

from producer_sdk.errors import HeadraceError
from producer_sdk.replies_alike import Output, RepliesAlike
from producer_sdk.tensors import Datatype, tensor_ext
from producer_sdk.wire import Reply, decode_reply, encode_reply

TOLD = {"batch_rows": 3, "queue_ms": 1.5}
IDS = ["a", "b" * 31, "c" * 32, "d" * 128, "e" * 255, "f" * 256, "topic:1:2"]
KEYS = [id.encode() for id in IDS]


def by_encoder(outputs: list[Output], contents: list[bytes]) -> list[bytes]:
    values = []
    for place, id in enumerate(IDS):
        exts = {}
        for each, content in zip(outputs, contents, strict=True):
            first = 0 if each.shared else place * each.nbytes
            exts[each.name] = tensor_ext(each.datatype, each.shape, content[first : first + each.nbytes])
        values.append(encode_reply(id, "model", "1", exts, TOLD))
    return values


def alike(outputs: list[Output]) -> RepliesAlike:
    return RepliesAlike("model", "1", Raw(encode(TOLD)), outputs)


@pytest.mark.parametrize("nbytes", [0, 1, 2, 6, 7, 10, 249, 250, 300, 65_529, 65_530, 70_000])
def test_one_output_of_any_size_is_written_as_the_encoder_writes_it(nbytes: int) -> None:
    outputs = [Output("y", Datatype.UINT8, (nbytes,), nbytes)]
    content = bytes(range(256)) * (len(IDS) * nbytes // 256 + 1)
    values = alike(outputs).encode(KEYS, [memoryview(content)])
    assert values == by_encoder(outputs, [content])
    assert isinstance(decode_reply(values[0]), Reply)


@pytest.mark.parametrize("count", [0, 2, 15, 16, 40])
def test_several_outputs_own_and_shared_are_written_as_the_encoder_writes_them(count: int) -> None:
    outputs = [Output(f"y{n}" * n, Datatype.FP32, (1, n % 3), 4 * (n % 3), n % 4 == 1) for n in range(count)]
    contents = [bytes((n,)) * 4 * (n % 3) * len(IDS) for n in range(count)]
    assert alike(outputs).encode(KEYS, list(map(memoryview, contents))) == by_encoder(outputs, contents)


@pytest.mark.parametrize(("name", "size"), [("\ud800", 1), ("y", 2**32)])
def test_what_no_reply_can_hold_is_told_before_any_is_written(name: str, size: int) -> None:
    with pytest.raises(HeadraceError):
        alike([Output(name, Datatype.UINT8, (size,), 1)])
