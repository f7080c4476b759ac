"""What worker and runner process say to each other: one short message a batch each way; tensors lie in shared memory.

Worker to runner: one `Start`, then `Run`s; the end of the stream means stop. Runner to worker: `Ready` or `Refused`,
then one `Done` for each `Run`, in order. On the socket each message has its length in front of it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from producer_sdk.errors import HeadraceError
from producer_sdk.wire import Scalar

from .engine import Loaded, LoadFault, ModelSpec

_LENGTH = struct.Struct("<I")
SEQUENCE = struct.Struct("<Q")  # at the front of each output region: the run that the runner began last
HEAD_BYTES = 64  # what lies in front of the outputs in their region
ALIGNMENT = 64
CONTEXT_LOST_EXIT = 70  # exit code of a runner whose device is lost to it
REFUSED_EXIT = 71  # exit code of a runner that could not load its model


def aligned(offset: int) -> int:
    """The next offset at which a tensor may begin."""
    return -(-offset // ALIGNMENT) * ALIGNMENT


class Start(Struct, frozen=True):
    """Load this model. `inputs` and `outputs` are the file descriptors of each slot's regions."""

    spec: ModelSpec
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    max_batch_bytes: int


class Ready(Struct, frozen=True, tag=True):
    """The model is loaded and warm."""

    loaded: Loaded


class Refused(Struct, frozen=True, tag=True):
    """The model cannot be loaded."""

    kind: LoadFault
    message: str


class Place(Struct, frozen=True, array_like=True, gc=False):
    """Where a tensor lies in its region."""

    offset: int
    nbytes: int
    shape: tuple[int, ...]


class Run(Struct, frozen=True, array_like=True):
    """Run these records.

    Attributes:
        sequence: number of the run, from 1.
        slot: whose regions hold inputs and take outputs.
        size: bytes of the input region, which may have grown.
        records: rows of each record.
        inputs: in the order of the signature.
        parameters: of each record; empty when no record has any.
        sizes: of each record the real sizes of what is padded or ragged, as of `Variable.sizes`; else empty.
    """

    sequence: int
    slot: int
    size: int
    records: tuple[int, ...]
    inputs: tuple[Place, ...]
    parameters: tuple[Mapping[str, Scalar], ...] = ()
    sizes: tuple[tuple[int, ...], ...] = ()


class Mishap(Struct, frozen=True, array_like=True, gc=False):
    """An error on its way between the processes; `retry_after_s` as in HeadraceError."""

    code: str
    message: str
    retry_after_s: float | None = None

    def to_error(self) -> HeadraceError:
        error = HeadraceError.from_code(self.code, self.message)
        error.retry_after_s = self.retry_after_s
        return error


class Written(Struct, frozen=True, array_like=True, gc=False):
    """One output in the region; `output` is its index in the signature, `row_ends` as in `work.Block`."""

    output: int
    place: Place
    row_ends: tuple[int, ...] = ()


class Piece(Struct, frozen=True, array_like=True):
    """Outputs of consecutive records, or the error of one."""

    records: int
    rows: int
    outputs: tuple[Written, ...] = ()
    error: Mishap | None = None


class Done(Struct, frozen=True, array_like=True):
    """What came of a run; `size` is the output region's, which may have grown. `error` fails the run as a whole."""

    sequence: int
    run_s: float
    size: int
    pieces: tuple[Piece, ...] = ()
    error: Mishap | None = None


def _write_path(value: Any) -> str:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be handed to the runner: {value!r}")


def _read_path(wanted: type, value: Any) -> Any:
    return wanted(value)


encode = msgspec.msgpack.Encoder(enc_hook=_write_path).encode
decode_start = msgspec.msgpack.Decoder(Start, dec_hook=_read_path).decode
decode_greeting = msgspec.msgpack.Decoder(Ready | Refused).decode
decode_run = msgspec.msgpack.Decoder(Run).decode
decode_done = msgspec.msgpack.Decoder(Done).decode


def framed(message: bytes) -> bytes:
    return _LENGTH.pack(len(message)) + message


class Frames:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are complete with this data."""
        data, at, messages = self._rest + data, 0, []
        while len(data) - at >= 4 and len(data) - at - 4 >= (length := _LENGTH.unpack_from(data, at)[0]):
            messages.append(data[at + 4 : at + 4 + length])
            at += 4 + length
        self._rest = data[at:]
        return messages
