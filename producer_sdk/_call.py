"""What a caller asked for, checked before anything is sent, and its requests as record values."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ._claims import Claim, Sending, claim_expiry_ms
from ._limits import read_return_address
from .broker import Outgoing
from .dataref import DataRef, S3Prefix
from .errors import HeadraceError, InvalidRequest
from .forms import form_named, headers_of, request_value
from .tensors import Tensor
from .topics import Lane, ReplyTo, Topics, check_id, check_model_name
from .wire import (
    MAX_NAME_CHARS,
    MAX_PARAMETERS,
    MAX_TENSORS,
    Form,
    Request,
    Scalar,
    check_deadline_ms,
    read_output_names,
)

Inputs = Mapping[str, Any]
Address = ReplyTo | S3Prefix | None
MAX_TENANT_CHARS = 128
MAX_VERSION_CHARS = 64
MOST_OUTPUTS_KEPT = 8  # in what is remembered of a call: 64 long names for each of many would fill the memory
_LANES = frozenset(str(lane) for lane in Lane)


class Call(Struct, frozen=True, gc=False):
    """The arguments that the requests of one call share. `deadline_s` counts from the sending of each request."""

    model: str
    lane: str
    deadline_s: float | None
    tenant: str | None
    version: str | None
    parameters: dict[str, Scalar]
    outputs: tuple[str, ...] | None


def check_call(
    model: str,
    lane: str,
    deadline_s: float | None,
    tenant: str | None,
    version: str | None,
    parameters: Mapping[str, Scalar] | None,
    outputs: Sequence[str] | None,
) -> Call:
    """The checked arguments.

    Raises:
        InvalidRequest: naming the argument at fault.
    """
    check_model_name(model)
    if lane not in _LANES:
        raise InvalidRequest(f"lane {str(lane)[:40]!r} is not known: use one of {', '.join(Lane)}")
    check_duration(deadline_s)
    if tenant is not None:
        _check_text("tenant", tenant, MAX_TENANT_CHARS)
    if version is not None:
        _check_text("version", version, MAX_VERSION_CHARS)
    names = None if outputs is None else read_output_names([outputs] if isinstance(outputs, str) else list(outputs))
    return Call(model, lane, deadline_s, tenant, version, check_parameters(parameters), names)


@lru_cache(maxsize=1024)
def check_plain_call(
    model: str, lane: str, tenant: str | None, version: str | None, outputs: tuple[str, ...] | None
) -> Call:
    """As `check_call`, of a call without parameters whose deadline is said later."""
    return check_call(model, lane, None, tenant, version, None, outputs)


def check_parameters(parameters: Mapping[str, Scalar] | None) -> dict[str, Scalar]:
    """The parameters themselves.

    Raises:
        InvalidRequest: there are more than 64, or one is neither text, number nor boolean.
    """
    if not parameters:
        return {}
    if len(parameters) > MAX_PARAMETERS:
        raise InvalidRequest(f"{len(parameters)} parameters cannot be sent: at most {MAX_PARAMETERS}")
    for name, value in parameters.items():
        _check_text("parameter name", name, MAX_NAME_CHARS)
        if not isinstance(value, bool | int | float | str):
            raise InvalidRequest(f"parameter {name!r} is {type(value).__name__}: give text, a number or a boolean")
    return dict(parameters)


def required(deadline_s: float | None) -> float:
    """The deadline of a call whose reply is waited for. Raises InvalidRequest: there is none."""
    if deadline_s is None:
        raise InvalidRequest("deadline_s is None: a reply that is waited for needs a deadline")
    return deadline_s


def check_reply_to(topics: Topics, reply_to: str | None) -> Address:
    """The address that a caller gave. Raises InvalidRequest: no reply may go there."""
    if reply_to is None:
        return None
    address, store = read_return_address(reply_to)
    if address is None:
        return store
    if not topics.may_reply_to(address.topic):
        raise InvalidRequest(f"reply_to {reply_to!r} is not allowed: use a topic under {topics.prefix}.")
    return address


def encode_call(
    call: Call, id: str, inputs: Inputs, encoding: str, address: Address, most_bytes: int = sys.maxsize
) -> Sending:
    """One request of a call, with a claim where its record value has more than `most_bytes`.

    Raises:
        InvalidRequest: an input cannot be sent; names it and carries the id.
    """
    now_ms = int(time.time() * 1000)
    try:
        request = _request_of(call, id, inputs, encoding, address, now_ms)
        value = request_value(request, deadline_s=call.deadline_s)
        record = Outgoing(id.encode(), value, headers_of(request.form), now_ms)
        if len(value) <= most_bytes:
            return Sending(id, record)
    except HeadraceError as err:
        err.id = id
        raise
    bare = replace(request, inputs={})  # what is stored need not be kept here

    def refer(ref: DataRef) -> bytes:
        return request_value(replace(bare, ref=ref), deadline_s=call.deadline_s)

    return Sending(id, record, Claim(refer, call.deadline_s, claim_expiry_ms(now_ms, request.deadline_ms)))


def _request_of(call: Call, id: str, inputs: Inputs, encoding: str, address: Address, now_ms: int) -> Request:
    check_id(id)
    tensors = _tensors_of(inputs)
    deadline_ms = None
    if call.deadline_s is not None:
        deadline_ms = check_deadline_ms(now_ms + math.ceil(call.deadline_s * 1000))
    store = address if isinstance(address, S3Prefix) else None
    topic = None if isinstance(address, S3Prefix) else address
    return Request(
        id,
        tensors,
        Form.MSGPACK if encoding == "msgpack" else form_named(encoding),
        deadline_ms,
        topic,
        call.tenant,
        call.version,
        call.parameters,
        call.outputs,
        None,
        store,
    )


def _tensors_of(inputs: Inputs) -> dict[str, Tensor]:
    if not isinstance(inputs, Mapping):
        raise InvalidRequest(f"inputs are {type(inputs).__name__}: give a mapping of input name to array")
    if not 0 < len(inputs) <= MAX_TENSORS:
        raise InvalidRequest(f"{len(inputs)} inputs cannot be sent: give 1 to {MAX_TENSORS}")
    return {name: value if type(value) is Tensor else _tensor_of(name, value) for name, value in inputs.items()}


def _tensor_of(name: str, value: Any) -> Tensor:
    _check_text("input name", name, MAX_NAME_CHARS)
    try:
        return Tensor.from_array(value)
    except InvalidRequest as err:
        raise InvalidRequest(f"input {name!r}: {err.message}") from err
    except (TypeError, ValueError, RuntimeError, OverflowError) as err:
        # Raised by NumPy, or by the object's own conversion (a tensor on a GPU, say).
        raise InvalidRequest(f"input {name!r} cannot be made an array: {err}") from err


def check_duration(deadline_s: float | None) -> None:
    """Raises InvalidRequest: it is no time to come."""
    if deadline_s is not None and not _is_duration(deadline_s):
        raise InvalidRequest(f"deadline_s {str(deadline_s)[:40]} is not valid: give finite seconds above 0")


def _is_duration(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _check_text(what: str, value: object, most: int) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= most:
        raise InvalidRequest(f"{what} {str(value)[:40]!r} is not valid: give text of 1 to {most} characters")
