"""What a codec has read of a request or a reply, and the rules of docs/wire.md that make one of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ._codec_faults import PLUG_IN_FAULTS, words_of
from ._limits import MAX_NAME_CHARS, MAX_TENSORS, Scalar, read_output_names, read_return_address
from .dataref import DataRef, S3Prefix
from .errors import HeadraceError, InvalidRequest
from .oip import deadline_after, read_options
from .tensors import MAX_DIMENSIONS, Buffer, Datatype, Tensor, check_size
from .topics import ReplyTo, check_id, shown
from .wire import Refused, Reply, Request, Undecodable, check_one_source


class Asked(Struct, frozen=True):
    """A request as a codec has read it, before anything in it is checked.

    Attributes:
        id: empty where it has none.
        parameters: all of them; `reply_to`, `deadline_s`, `tenant` and `version` mean what they do in JSON.
        read_inputs: gives the tensors; what it raises is told to the return address.
        outputs: names of the outputs wanted; empty means all.
        ref: keys of a reference (`dataref`, `sha256`, `bytes`, `expires_ms`) where the inputs are stored; else empty.
        fault: what is wrong with all this already, told to the return address; None: nothing.
    """

    id: str
    parameters: Mapping[str, Scalar]
    read_inputs: Callable[[], dict[str, Tensor]]
    outputs: Sequence[str] = ()
    ref: Mapping[str, object] = {}
    fault: InvalidRequest | None = None


class Told(Struct, frozen=True):
    """A reply as a codec has read it.

    Attributes:
        id, model, version, parameters: as in `Reply`.
        read_outputs: gives the tensors.
        code, error: of an error reply; None and empty for a result.
        ref: keys of a reference where the reply is stored; else empty.
    """

    id: str
    model: str
    version: str
    parameters: dict[str, Any]
    read_outputs: Callable[[], dict[str, Tensor]]
    code: str | None = None
    error: str = ""
    ref: Mapping[str, object] = {}


def read_request(asked: Asked, fallback_id: str, timestamp_ms: int) -> Request | Refused:
    """The request; refused to its return address where something in it is not valid."""
    id, reply_to, store = fallback_id, *_address(asked)
    try:
        if asked.id:
            id = check_id(asked.id)
        if asked.fault is not None:
            raise asked.fault
        options = read_options(asked.parameters)
        ref = DataRef.optional(asked.ref)
        inputs = _read(asked)
        check_one_source(inputs, ref)
        if ref is None and not inputs:
            raise InvalidRequest("the request has no inputs")
        return Request(
            id,
            inputs,
            deadline_ms=None if options.deadline_s is None else deadline_after(timestamp_ms, options.deadline_s),
            reply_to=options.reply_to,
            tenant=options.tenant,
            version=options.version,
            parameters=options.parameters,
            outputs=read_output_names(list(asked.outputs)) if asked.outputs else None,
            ref=ref,
            store=options.store,
        )
    except InvalidRequest as err:
        error = InvalidRequest(err.message, id=id)
        return Refused(id, error, reply_to=reply_to, store=store)


def _read(asked: Asked) -> dict[str, Tensor]:
    try:
        return asked.read_inputs()
    except HeadraceError:
        raise
    except PLUG_IN_FAULTS as err:
        raise InvalidRequest(f"the inputs cannot be read: {words_of(err)}") from err


def _address(asked: Asked) -> tuple[ReplyTo | None, S3Prefix | None]:
    try:
        return read_return_address(asked.parameters["reply_to"])
    except (KeyError, InvalidRequest):
        return None, None


def read_reply(told: Told) -> Reply | HeadraceError:
    """The reply; one whose outputs cannot be read here comes back as InvalidRequest, its id set.

    Raises:
        Undecodable: where it is stored cannot be read.
    """
    try:
        ref = DataRef.optional(told.ref)
    except InvalidRequest as err:
        raise Undecodable(f"the record is no reply: {err.message}", id=told.id) from err
    if told.code is not None:
        error = HeadraceError.from_code(told.code, told.error, id=told.id)
        error.parameters, error.ref = told.parameters, ref
        return error
    try:
        outputs = {name: tensor.to_array() for name, tensor in told.read_outputs().items()}
    except InvalidRequest as err:
        err.id = told.id
        return err
    return Reply(told.id, told.model, told.version, outputs, told.parameters, None, ref)


def make_tensor(datatype: str, shape: Sequence[int], data: Buffer) -> Tensor:
    """The tensor of these parts.

    Raises:
        InvalidRequest: the datatype is not known, or shape and data do not agree.
    """
    if datatype not in Datatype.__members__:
        raise InvalidRequest(f"datatype {shown(datatype)} is not known: use one of {', '.join(Datatype)}")
    if len(shape) > MAX_DIMENSIONS:
        raise InvalidRequest(f"a tensor claims {len(shape)} dimensions: at most {MAX_DIMENSIONS}")
    if not all(0 <= size < 2**32 for size in shape):
        raise InvalidRequest(f"shape {list(shape)} is not valid: dimensions are 0 to {2**32 - 1}")
    check_size(Datatype(datatype), tuple(shape), len(data))
    return Tensor(Datatype(datatype), tuple(shape), data)


def name_tensors(tensors: Iterable[tuple[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors by name.

    Raises:
        InvalidRequest: more than 64, one name twice, or one that none can have.
    """
    named: dict[str, Tensor] = {}
    for name, tensor in tensors:
        if not 0 < len(name) <= MAX_NAME_CHARS:
            raise InvalidRequest(f"tensor name {shown(name)} is not valid: give 1 to {MAX_NAME_CHARS} characters")
        if name in named:
            raise InvalidRequest(f"tensor {shown(name)} is there twice")
        if len(named) == MAX_TENSORS:
            raise InvalidRequest(f"there are more than {MAX_TENSORS} tensors")
        named[name] = tensor
    return named
