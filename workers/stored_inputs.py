"""The inputs of a request that were stored elsewhere, read from the object that holds them. Pure."""

from __future__ import annotations

from producer_sdk.errors import InvalidRequest, PayloadTooLarge
from producer_sdk.records import JSON_STARTS, decode_stored
from producer_sdk.tensors import Tensor
from producer_sdk.wire import Form, Refused, Request, Undecodable

MAX_JSON_BYTES = 32 * 1024 * 1024  # of a stored request: a second or two of this process's one loop


def inputs_in(request: Request, data: bytes) -> dict[str, Tensor]:
    """The inputs that an object holds: a record's value, of which nothing else counts.

    Raises:
        InvalidRequest: it holds no request, or one that refers to yet another object.
        PayloadTooLarge: reading so much JSON would hold up the worker's loop for seconds.
    """
    assert request.ref is not None, "the caller has fetched what it refers to"
    uri = request.ref.uri
    if isinstance(request.form, Form) and data[:1] and data[0] in JSON_STARTS and len(data) > MAX_JSON_BYTES:
        raise PayloadTooLarge(f"{uri} has {len(data)} bytes of JSON; at most {MAX_JSON_BYTES} are read")
    try:
        read = decode_stored(data, request.form, request.id)
    except Undecodable as err:
        raise InvalidRequest(f"{uri} holds no request: {err.message}") from err
    if type(read) is Refused:
        raise InvalidRequest(f"the request in {uri} is not valid: {read.error.message}")
    assert isinstance(read, Request)
    if read.ref is not None:
        raise InvalidRequest(f"{uri} holds a reference to another object: store the inputs themselves")
    return read.inputs
