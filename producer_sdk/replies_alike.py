"""Results that differ in id and in the bytes of their tensors alone, written by joining bytes.

That is what `wire.encode_reply` would write, at a fifth of its cost: model, parameters, names and shapes are encoded
once for all requests that ran together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

import msgspec
from msgspec import Raw

from .errors import InferenceFailed
from .tensors import TENSOR_EXT, Buffer, Datatype, tensor_head
from .wire import UNWRITABLE, WIRE_VERSION

_BEGIN = bytes((0x98, WIRE_VERSION))  # an array of eight
_CODE = bytes((TENSOR_EXT,))
_FIXED = {1: b"\xd4", 2: b"\xd5", 4: b"\xd6", 8: b"\xd7", 16: b"\xd8"}
_SMALL_BYTES = 1024
_encode = msgspec.msgpack.Encoder().encode


class Output(NamedTuple):
    """One output of every reply, of so many bytes; `shared`: the same ones in all."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    nbytes: int
    shared: bool = False


class RepliesAlike:
    """Replies with these outputs; `parameters` are written beforehand.

    Raises:
        HeadraceError: a name or a shape that the model gave cannot be written.
    """

    def __init__(self, model: str, version: str, parameters: Raw, outputs: Sequence[Output]) -> None:
        facts = _encode((model, version, None, None))[1:]  # behind the head of the array
        self._begin = facts + bytes(parameters) + _map_head(len(outputs))
        self._outputs = outputs
        try:
            self._heads = [_head(output) for output in outputs]
        except UNWRITABLE as err:
            raise InferenceFailed(f"the model's reply cannot be written: {err}") from err

    def encode(self, ids: Sequence[bytes], contents: Sequence[memoryview]) -> list[bytes]:
        """The record values of the replies, from ids in UTF-8 and each output's bytes of all of them side by side."""
        columns: list[Iterable[Buffer]] = []
        begin = self._begin
        for output, head, content in zip(self._outputs, self._heads, contents, strict=True):
            if columns:
                columns.append(repeat(head))
            else:
                begin += head
            columns.append(_parts(content, output, len(ids)))
        join = b"".join
        heads = {length: _BEGIN + _text_head(length) for length in set(map(len, ids))}
        if len(columns) == 1:  # a list of the parts of each would cost half as much again
            return [join((heads[len(id)], id, begin, part)) for id, part in zip(ids, columns[0], strict=False)]
        return [join((heads[len(id)], id, begin, *parts)) for id, *parts in zip(ids, *columns, strict=False)]


def _parts(content: memoryview, output: Output, count: int) -> Iterable[Buffer]:
    """The bytes of each reply."""
    nbytes = output.nbytes
    if output.shared or not nbytes:
        return repeat(content[:nbytes])
    # Parts of bytes cost half of what views do, to make and to join.
    whole: Buffer = bytes(content[: count * nbytes]) if nbytes <= _SMALL_BYTES else content
    return [whole[at : at + nbytes] for at in range(0, count * nbytes, nbytes)]


@lru_cache(maxsize=1024)
def _head(output: Output) -> bytes:
    """What comes before the bytes of an output: its name, and the heads of the ext value and of the tensor."""
    head = tensor_head(output.datatype, output.shape)
    return _encode(output.name) + ext_head(len(head) + output.nbytes) + head


def _text_head(nbytes: int) -> bytes:
    if nbytes < 32:
        return bytes((0xA0 | nbytes,))
    return bytes((0xD9, nbytes)) if nbytes < 256 else b"\xda" + nbytes.to_bytes(2, "big")


def _map_head(pairs: int) -> bytes:
    return bytes((0x80 | pairs,)) if pairs < 16 else b"\xde" + pairs.to_bytes(2, "big")


def ext_head(nbytes: int) -> bytes:
    if nbytes in _FIXED:
        return _FIXED[nbytes] + _CODE
    for kind, width in ((b"\xc7", 1), (b"\xc8", 2)):
        if nbytes < 1 << 8 * width:
            return kind + nbytes.to_bytes(width, "big") + _CODE
    return b"\xc9" + nbytes.to_bytes(4, "big") + _CODE
