"""MessagePack requests that differ in id, deadline and the bytes of their tensors alone: the rest is read once for all.

A client sends one model the same tensors again and again. What lies between its deadlines and its tensors' bytes is
then the same, byte for byte, so that a request which is equal there needs no decoder and no checks: they have been
passed. Everything else goes the long way, `wire.decode_request`, which alone says what is valid.
"""

from __future__ import annotations

import string
import struct
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from ._limits import MAX_DEADLINE_MS, Scalar
from .broker import Record
from .tensors import Buffer, Datatype, Tensor
from .topics import ReplyTo
from .wire import Form, Request

MAX_KINDS = 1024
MAX_RECENT = 8  # clients whose requests lie in turn in one partition
MAX_KIND_BYTES = 4096
_KEY_BYTES = 12  # beside a short return address: what surely comes before the bytes of a tensor
_PATIENCE = 16  # misses for each new kind, where nearly every request is of one: learning costs ten times as much
_BEGINS = b"\x99\x01"  # an array of nine, of wire version 1
_ID_BYTES = (string.ascii_letters + string.digits + "._:-").encode()
_NO_IDS = (b"", b".", b"..")
_NIL, _UINT64 = 0xC0, 0xCF
_read_uint64 = struct.Struct(">Q").unpack_from
_MAX_ID_BYTES = 128
_LEAST_ID_BYTES = 3  # of shorter ids some are none: `_read_head` looks at each
_MSGPACK = Form.MSGPACK
_LEAST_BYTES = 4 + _MAX_ID_BYTES + 9  # so that a head never reads past the end

Note = TypeVar("Note")


class _Part(NamedTuple):
    """One tensor, whose bytes begin after `behind` of all `nbytes`, and what comes before those of the `following`."""

    behind: int
    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    nbytes: int
    following: bytes


class _Kind(NamedTuple, Generic[Note]):
    """What such requests have in common, from the return address on: so many bytes that begin so."""

    nbytes: int
    begins: bytes
    parts: tuple[_Part, ...]
    reply_to: ReplyTo | None
    tenant: str | None
    version: str | None
    parameters: dict[str, Scalar]
    outputs: tuple[str, ...] | None
    note: Note


class _Place(NamedTuple, Generic[Note]):
    """Where all lies in values of one kind whose ids are of one length, as most are that one client sends.

    Attributes:
        nbytes: of the whole value.
        start, at: the id lies between them.
        head: what comes before the id.
        has_deadline: whether one comes behind the id, which the byte at `at` says.
        begin, end: what all have in common begins, and what has no tensor in it ends.
        common: what lies between them.
    """

    nbytes: int
    start: int
    head: bytes
    at: int
    has_deadline: bool
    begin: int
    end: int
    common: bytes
    kind: _Kind[Note]

    def is_of(self, value: bytes) -> bool:
        """Whether a value of as many bytes is of this kind, so far as can be seen before its first tensor."""
        _, start, head, at, has_deadline, begin, end, common, _ = self
        marker = _UINT64 if has_deadline else _NIL
        return value[begin:end] == common and value[:start] == head and value[at] == marker


class Recalled(NamedTuple, Generic[Note]):
    """Neighbouring requests, the note on each one's kind, and whether all are of one."""

    requests: list[Request]
    notes: list[Note]
    one_kind: bool


class Kinds(Generic[Note]):
    """The kinds of requests seen so far, each with a note of what else was found out about all of its kind.

    Requests of one kind share one `parameters`, which nobody may change.
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[int, bytes], _Kind[Note]] = {}
        self._recent: list[_Place[Note]] = []  # most are as one of these: then nothing has to be looked for
        self._misses = 0

    def recall(self, records: Sequence[Record], first: int = 0) -> Recalled[Note]:
        """The requests of the neighbours from the first on whose kinds are known; none: read that record in full.

        In one pass: calls for each would cost as much again.
        """
        requests: list[Request] = []
        notes: list[Note] = []
        nbytes, kinds = -1, 0
        start = at = begin = end = marker = 0
        head = common = b""
        for number in range(first, len(records)):
            record = records[number]
            value = record.value
            if record.headers or value is None:
                break
            # Slices that are compared, and numbers unpacked in place, cost half of what methods of bytes do.
            if len(value) != nbytes or value[begin:end] != common or value[:start] != head or value[at] != marker:
                if (place := self._place_of(value)) is None:
                    break
                nbytes, start, head, at, has_deadline, begin, end, common, kind = place
                _, _, parts, reply_to, tenant, version, parameters, outputs, note = kind
                marker, deadline_ms, kinds = _UINT64 if has_deadline else _NIL, None, kinds + 1
                if at - start < _LEAST_ID_BYTES:
                    nbytes = -1
            id = value[start:at]
            if not id.isalnum() and id.strip(_ID_BYTES):
                break
            if has_deadline and (deadline_ms := _read_uint64(value, at + 1)[0]) > MAX_DEADLINE_MS:
                break
            inputs = _inputs(value, begin, parts)
            if inputs is None:
                break
            requests.append(
                Request(id.decode(), inputs, _MSGPACK, deadline_ms, reply_to, tenant, version, parameters, outputs)
            )
            notes.append(note)
        return Recalled(requests, notes, kinds == 1)

    def _place_of(self, value: bytes) -> _Place[Note] | None:
        for place in self._recent:
            if len(value) == place.nbytes and place.is_of(value):
                return place
        return self._find(value)

    def _find(self, value: bytes) -> _Place[Note] | None:
        """Look up the kind of a value."""
        found = _read_head(value)
        if found is None:
            return None
        start, at, begin = found
        kind = self._kinds.get(_key(value, begin))
        if kind is None or not value.startswith(kind.begins, begin):
            return None
        end = begin + len(kind.begins)
        place = _Place(len(value), start, value[:start], at, begin > at + 1, begin, end, kind.begins, kind)
        if at - start >= _LEAST_ID_BYTES:
            self._recent = [place, *self._recent[: MAX_RECENT - 1]]
        return place

    def learn(self, value: bytes, request: Request, note: Note) -> None:
        """Note a request that was read in full, and is sound but for its id, its deadline and its tensors' bytes."""
        self._misses += 1
        head = _read_head(value)
        if head is None or (self._kinds and self._misses % _PATIENCE):
            return
        begin = head[2]
        kind = _kind_of(value, begin, request, note)
        if kind is not None:
            if len(self._kinds) >= MAX_KINDS:
                del self._kinds[next(iter(self._kinds))]
            self._kinds[_key(value, begin)] = kind


def _inputs(value: bytes, begin: int, parts: tuple[_Part, ...]) -> dict[str, Tensor] | None:
    """The tensors in a value; None where something else than in its kind lies between them."""
    view, inputs = memoryview(value), {}
    for behind, name, datatype, shape, nbytes, following in parts:
        inputs[name] = Tensor(datatype, shape, view[begin + behind : begin + nbytes])
        begin += nbytes
        if following and not value.startswith(following, begin):
            return None
    return inputs


def _key(value: bytes, at: int) -> tuple[int, bytes]:
    """What kinds are found by. A text of up to 31 bytes has its length in the last bits of its first."""
    return len(value) - at, value[at : at + _KEY_BYTES + (value[at] & 0x1F)]


def _read_head(value: bytes) -> tuple[int, int, int] | None:
    """Where the id begins and ends, and where the return address begins; None where they are not written as usual."""
    if len(value) < _LEAST_BYTES or not value.startswith(_BEGINS):
        return None
    first = value[2]
    start, at = 3, first - 0x9D  # a short text has its length in its first byte, from 0xa0 on
    if not 0xA0 < first < 0xC0:
        if first != 0xD9:
            return None
        start, at = 4, 4 + value[3]
    if at - start > _MAX_ID_BYTES or (at - start < 3 and value[start:at] in _NO_IDS):
        return None
    if value[at] == _NIL:
        return start, at, at + 1
    return (start, at, at + 9) if value[at] == _UINT64 else None  # epoch milliseconds take 64 bits


def _kind_of(value: bytes, at: int, request: Request, note: Note) -> _Kind[Note] | None:
    """What others may have in common with a request that was read from `value`; None where nothing can be said."""
    began, parts, heads, length = at, [], [], 0
    for name, tensor in request.inputs.items():
        start = _place(tensor.data, value)
        if start is None or start <= at:
            return None
        end, behind = start + len(tensor.data), start - at
        parts.append(_Part(behind, name, tensor.datatype, tensor.shape, end - at, b""))
        heads.append(value[at:start])
        length += behind
        at = end
    if not parts or length > MAX_KIND_BYTES or at != len(value):
        return None
    whole = tuple([part._replace(following=head) for part, head in zip(parts, [*heads[1:], b""], strict=True)])
    return _Kind(
        at - began,
        heads[0],
        whole,
        request.reply_to,
        request.tenant,
        request.version,
        request.parameters,
        request.outputs,
        note,
    )


def _place(part: Buffer, whole: bytes) -> int | None:
    """Where a view of some bytes begins in them; None where it is empty, or of other bytes."""
    if not len(part):
        return None
    start = _address(part) - _address(whole)
    return start if 0 <= start <= len(whole) - len(part) else None


def _address(buffer: Buffer) -> int:
    return int(np.frombuffer(buffer, np.uint8).ctypes.data)
