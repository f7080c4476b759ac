"""How bodies of Open Inference Protocol JSON are read: one pass for the objects, one for tensor data."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from ._binary_tail import SIZE, Part, Tail, read_binary
from ._decode_faults import in_words, no_json
from ._json_alike import MAX_DESCRIPTION_BYTES, Alike, AlikeBodies, numbers_of
from ._json_keys import BYTE_ORDER_MARK, check_keys
from ._json_objects import UNLIKE as UNLIKE
from ._json_objects import (
    FloatsBody,
    FloatsRequest,
    IntegersBody,
    IntegersRequest,
    ReplyBody,
    RequestBody,
    TensorBody,
    WantedOutput,
)
from ._json_objects import InferBody as InferBody
from ._json_objects import Likeness as Likeness
from ._json_tensors import BASE64, PART_BYTES, pack_numbers, read_data
from ._limits import read_output_names
from .dataref import REF_KEYS, DataRef
from .errors import InvalidRequest
from .tensors import Tensor
from .topics import check_id, shown
from .wire import Undecodable, check_one_source

_NOT_BESIDE_BYTES = ("shared_memory_region", "classification")
_NOT_TAKEN = (SIZE, *_NOT_BESIDE_BYTES)


_STAND_IN_BYTES = b'["stands in"]'
_STAND_IN = Raw(_STAND_IN_BYTES)

_requests = msgspec.json.Decoder(RequestBody)
_of_numbers = (
    (b'"FP', "FP", msgspec.json.Decoder(FloatsRequest)),
    (b'INT', "INT", msgspec.json.Decoder(IntegersRequest)),
)  # fmt: skip


def read_infer_body(body: bytes, tail: Tail | None = None) -> InferBody:
    """Read the body of an infer request, without looking into the meaning of its parameters.

    `tail` is what follows the JSON where binary tensors are taken.

    Raises:
        Undecodable: it is no JSON.
        InvalidRequest: naming the field at fault.
    """
    if tail is None:
        return _alike.read(body) or _body_of(_parse(body), None)
    described = _describe(body) if len(body) <= MAX_DESCRIPTION_BYTES else None
    if described is not None and described.nbytes == tail.left:
        return replace(described.asked, inputs=tail.tensors(described.inputs))
    return _body_of(_parse(body), tail)


class _Described(Struct, frozen=True):
    """A body whose tensors all follow it: a client sends the same one again and again, so it is read once."""

    asked: InferBody
    inputs: tuple[Part, ...]
    nbytes: int


@lru_cache(maxsize=256)
def _describe(body: bytes) -> _Described | None:
    """None: it must be read together with what follows it."""
    parsed, parts = _parse(body), list[Part]()
    for item in parsed.inputs or ():
        parameters = item.parameters or {}
        part = Part.of(item.name, item.datatype, item.shape, parameters.get(SIZE))
        if part is None or item.has_data or _asked(parameters, _NOT_BESIDE_BYTES):
            return None
        parts.append(part)
    if read_ref(parsed) is not None or not parts or len({part.name for part in parts}) < len(parts):
        return None
    asked = replace(_body_of(replace(parsed, inputs=[]), None), like=Likeness())
    return _Described(asked, tuple(parts), sum(part.nbytes for part in parts))


def _learn(begin: bytes, end: bytes) -> Alike | None:
    """None: what is between them is not the data of the only tensor, or may be anything but a flat list of numbers."""
    if _STAND_IN_BYTES in begin or _STAND_IN_BYTES in end:
        return None  # which of the two is the data could not be told
    try:
        parsed = _parse(b"".join((begin, _STAND_IN_BYTES, end)))
        asked = replace(_body_of(replace(parsed, inputs=[]), None), like=Likeness())
    except InvalidRequest:
        return None
    items = parsed.inputs or ()
    if asked.ref is not None or len(items) != 1 or items[0].data != _STAND_IN:
        return None
    (item,) = items
    numbers = numbers_of(item.datatype)
    if numbers is None or _asked(item.parameters or {}, _NOT_TAKEN):
        return None
    return Alike(asked, item.name, item.datatype, item.shape, prod(item.shape), numbers)


_alike = AlikeBodies(_learn)


def _parse(body: bytes) -> RequestBody:
    body = body.removeprefix(BYTE_ORDER_MARK)
    try:
        if not body.isascii():
            body.decode()
        parsed = _read_numbers(body) or _requests.decode(body)
    except msgspec.ValidationError as err:
        raise InvalidRequest(in_words(err, "the request")) from err
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as err:
        raise Undecodable(no_json(body, err, "the request")) from err
    check_keys(body, parsed.keys())
    return parsed


def _body_of(parsed: RequestBody, tail: Tail | None) -> InferBody:
    parameters = parsed.parameters or {}
    for wanted in parsed.outputs or ():
        _refuse_extensions(f"output {shown(wanted.name)}", wanted.parameters or {})
    id = check_id(parsed.id) if parsed.id else None
    inputs, ref = _read_inputs_or_ref(parsed, tail)
    if not parsed.outputs:
        return InferBody(id, inputs, parameters, None, ref)
    names = read_output_names([wanted.name for wanted in parsed.outputs])
    return InferBody(id, inputs, parameters, names, ref, _binary_wishes(parsed.outputs))


def _read_numbers(body: bytes) -> RequestBody | None:
    """A body whose tensors are all flat lists of numbers that fill their shapes; None: read it in the usual way.

    The usual way reads tensor data in a second pass, and says what is wrong; what is taken here gives the same there.
    """
    if len(body) > PART_BYTES:
        return None
    for mark, kind, decoder in _of_numbers:
        if mark not in body:
            continue
        try:
            parsed: RequestBody = decoder.decode(body)
        except (msgspec.MsgspecError, RecursionError):
            return None
        for item in parsed.inputs or ():
            if kind not in item.datatype or len(item.data) != prod(item.shape):
                return None
        return parsed
    return None


def _binary_wishes(outputs: Sequence[WantedOutput]) -> dict[str, bool]:
    wishes: dict[str, bool] = {}
    for wanted in outputs:
        wish = (wanted.parameters or {}).get("binary_data")
        if isinstance(wish, bool):
            wishes[wanted.name] = wish
    return wishes


def read_ref(body: RequestBody | ReplyBody) -> DataRef | None:
    """The reference to stored tensors; None where there is none.

    Raises:
        InvalidRequest: it is not valid.
    """
    if body.dataref is UNSET or body.dataref is None:  # as nearly all are
        return None
    fields = {name: getattr(body, name) for name in REF_KEYS}
    return DataRef.optional({name: value for name, value in fields.items() if value is not UNSET})


def _read_inputs_or_ref(parsed: RequestBody, tail: Tail | None) -> tuple[dict[str, Tensor], DataRef | None]:
    ref = read_ref(parsed)
    if not parsed.inputs and parsed.inputs != [] and ref is None:
        raise InvalidRequest("the request has no inputs")
    inputs = read_tensors("input", parsed.inputs or (), tail)
    if tail is not None:
        tail.check_end()
    check_one_source(inputs, ref)
    return inputs, ref


def read_tensors(what: str, bodies: Sequence[TensorBody], tail: Tail | None = None) -> dict[str, Tensor]:
    """The tensors by name.

    Raises:
        InvalidRequest: naming the tensor at fault.
    """
    tensors: dict[str, Tensor] = {}
    for body in bodies:
        try:
            tensors[body.name] = _read_tensor(body, tail)
        except InvalidRequest as err:
            raise InvalidRequest(f"{what} {shown(body.name)}: {err.message}") from err
    if len(tensors) < len(bodies):
        raise InvalidRequest(f"the {what}s name one tensor twice")
    return tensors


def _read_tensor(body: TensorBody, tail: Tail | None) -> Tensor:
    parameters = body.parameters or {}
    size = parameters.get(SIZE) if tail is not None else None
    _refuse_extensions("it", parameters, _NOT_TAKEN if tail is None else _NOT_BESIDE_BYTES)
    if tail is not None and size is not None:
        if body.has_data:
            raise InvalidRequest(f"it has both data and {SIZE}")
        return read_binary(body.datatype, body.shape, tail.take(size))
    if isinstance(body, FloatsBody | IntegersBody):
        return Tensor(body.datatype, body.shape, pack_numbers(body.datatype, body.data))
    if not body.has_data:
        raise InvalidRequest("it has no data")
    return read_data(body.datatype, body.shape, body.data, parameters.get("content_type") == BASE64)


def _refuse_extensions(what: str, parameters: dict[str, Any], names: Sequence[str] = _NOT_TAKEN) -> None:
    name = _asked(parameters, names)
    if name is not None:
        raise InvalidRequest(f"{what} asks for {name}, which is not taken: send and expect plain JSON tensors")


def _asked(parameters: dict[str, Any], names: Sequence[str]) -> str | None:
    """The first of these parameters that is there and not declined."""
    for name in names if parameters else ():
        if parameters.get(name) not in (None, False):
            return name
    return None
