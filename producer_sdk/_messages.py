"""What requests and replies are, however they were written: wire.py and oip.py read and write them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol

from msgspec import Struct

from ._limits import Scalar
from .dataref import DataRef, S3Prefix
from .errors import HeadraceError, InvalidRequest
from .tensors import Array, Tensor
from .topics import ReplyTo


class Form(Enum):
    """How a request was written, unless a codec has read it; its reply is written the same way."""

    MSGPACK = "msgpack"  # the envelope of this module
    JSON = "json"  # Open Inference Protocol v2 JSON, see oip.py


class Codec(Protocol):
    """Another way to write requests and replies, which a record's header `content-type` asks for. See codecs.py.

    One object of it serves a process, from any thread.
    """

    @property
    def name(self) -> str:
        """1 to 32 of `a-z 0-9`: what people call it, and the suffix of stored replies."""
        ...

    @property
    def content_types(self) -> tuple[str, ...]:
        """In lower case and without parameters; replies have the first."""
        ...

    def decode_request(self, value: bytes, fallback_id: str, timestamp_ms: int) -> Request | Refused:
        """Read a record value; faults behind a readable return address come back as `Refused`.

        Raises:
            Undecodable: nobody can be answered.
        """
        ...

    def encode_request(self, request: Request, *, deadline_s: float | None) -> bytes:
        """The record value of a request; for forms with a relative deadline `deadline_s` says it.

        Raises:
            InvalidRequest: it cannot be written.
        """
        ...

    def encode_reply(
        self,
        id: str,
        model: str,
        version: str,
        outputs: Mapping[str, Tensor],
        parameters: Mapping[str, Any],
        ref: DataRef | None = None,
    ) -> bytes:
        """The record value of a result; with `ref` it is a pointer, and `outputs` are empty.

        Raises:
            InferenceFailed: what the model gave cannot be written.
        """
        ...

    def encode_error(
        self, id: str, model: str, version: str, error: HeadraceError, ref: DataRef | None = None
    ) -> bytes:
        """The record value of an error reply; `ref` says where the same is stored."""
        ...

    def decode_reply(self, value: bytes) -> Reply | HeadraceError:
        """Read a reply; an error reply comes back as the typed error, its id set.

        Raises:
            Undecodable: the value is no reply.
        """
        ...


AnyForm = Form | Codec


class Undecodable(InvalidRequest):
    """The record cannot be read, so nobody can be answered."""


class Request(Struct, frozen=True, gc=False):
    """One request as read from a record.

    Attributes:
        id: given by the caller, else derived from the record's place.
        inputs: tensors by name; the leading dimension is rows. Empty where they are stored.
        form: how it was written.
        deadline_ms: absolute, in epoch milliseconds; None never expires.
        reply_to: the topic that the reply goes to; None means the model's results topic.
        tenant: whom it is counted for.
        version: version of the model that it asks for; None leaves the choice to the worker.
        parameters: passed to the model.
        outputs: names of the outputs wanted; None means all.
        ref: where the inputs are stored; None means that they are here.
        store: where the result is to be stored; `reply_to` is None then.
    """

    id: str
    inputs: dict[str, Tensor]
    form: AnyForm = Form.MSGPACK
    deadline_ms: int | None = None
    reply_to: ReplyTo | None = None
    tenant: str | None = None
    version: str | None = None
    parameters: dict[str, Scalar] = {}
    outputs: tuple[str, ...] | None = None
    ref: DataRef | None = None
    store: S3Prefix | None = None

    @property
    def return_address(self) -> str | None:
        """As the record has it under `reply_to`."""
        address = self.reply_to or self.store
        return None if address is None else str(address)


class Refused(Struct, frozen=True):
    """A record that is no valid request, with as much of its return address as could be read."""

    id: str
    error: HeadraceError
    form: AnyForm = Form.MSGPACK
    reply_to: ReplyTo | None = None
    store: S3Prefix | None = None


class Reply(Struct, frozen=True, gc=False):
    """A result.

    Attributes:
        id: of the request.
        model: name of the model that answered.
        version: its version.
        outputs: read-only arrays by name; BYTES outputs are object arrays of `bytes`.
        parameters: `batch_rows`, `queue_ms`, `run_ms` from the worker, and what the model adds.
        index: place in the iterable given to `Client.map`, else None.
        ref: where the whole reply is stored, `outputs` being empty; None means that they are here.
        content_type: of its record where a codec has read it, else None.
    """

    id: str
    model: str
    version: str
    outputs: dict[str, Array]
    parameters: dict[str, Any] = {}
    index: int | None = None
    ref: DataRef | None = None
    content_type: str | None = None


class TensorReply(Reply, frozen=True, gc=False):
    """A result whose outputs are `tensors`, as they travelled; there are no arrays of them.

    Only of tensors that any bytes make sense of: who turns them into text or bytes needs no array.
    """

    tensors: dict[str, Tensor] = {}
