"""Requests and replies written in any form: MessagePack, JSON, or that of a codec. Pure but for plug-ins."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ._ce_types import content_type_of as content_type_of
from ._ce_types import form_of as form_of
from ._ce_types import type_header
from ._codec_faults import PLUG_IN_FAULTS, check_value, failed
from .broker import Headers
from .codecs import codec_named, name_not_known, unwritable
from .dataref import DataRef
from .errors import HeadraceError, InvalidRequest
from .oip import encode_json_error, encode_json_reply, encode_json_request
from .tensors import Tensor
from .wire import AnyForm, Form, Request, encode_error, encode_reply, encode_request

_OWN = {form.value: form for form in Form}
_log = logging.getLogger("headrace.codecs")


def name_of(form: AnyForm) -> str:
    """What people call it; the suffix of stored replies."""
    return form.value if isinstance(form, Form) else form.name


def form_named(name: str) -> AnyForm:
    """`msgpack`, `json`, or the codec of that name or content type.

    Raises:
        InvalidRequest: there is none, or its package is missing here.
    """
    if name in _OWN:
        return _OWN[name]
    codec = codec_named(name)
    if codec is None:
        raise InvalidRequest(name_not_known(name))
    return codec


def headers_of(form: AnyForm) -> Headers:
    """Those without which a record in this form could not be read; none where its first byte tells."""
    return () if isinstance(form, Form) else type_header(content_type_of(form))


def request_value(request: Request, *, deadline_s: float | None) -> bytes:
    """The record value of a request, in its form; `deadline_s` is its deadline from when it is sent.

    Raises:
        InvalidRequest: it cannot be written.
    """
    form = request.form
    if form is Form.MSGPACK:
        return encode_request(request)
    if form is Form.JSON:
        return encode_json_request(request, deadline_s=deadline_s)
    try:
        return check_value(form.encode_request(request, deadline_s=deadline_s))
    except HeadraceError:
        raise
    except PLUG_IN_FAULTS as err:
        raise InvalidRequest(failed(form, "write the request", err), id=request.id) from err


def result_value(
    form: AnyForm,
    id: str,
    model: str,
    version: str,
    outputs: Mapping[str, Tensor],
    parameters: Mapping[str, Any],
    ref: DataRef | None = None,
) -> bytes:
    """The record value of a result; with `ref`, where the whole reply is stored, it is a pointer without outputs.

    Raises:
        InferenceFailed: what the model gave cannot be written.
    """
    if form is Form.MSGPACK:
        tensors = {name: tensor.to_ext() for name, tensor in outputs.items()}
        return encode_reply(id, model, version, tensors, parameters, ref)
    if form is Form.JSON:
        return encode_json_reply(id, model, version, outputs, parameters, ref)
    try:
        return check_value(form.encode_reply(id, model, version, outputs, parameters, ref))
    except PLUG_IN_FAULTS as err:
        raise unwritable(form, id, err) from err


def error_value(
    form: AnyForm, id: str, model: str, version: str, error: HeadraceError, ref: DataRef | None = None
) -> bytes:
    """The record value of an error reply; with `ref` where the same is stored, too."""
    if form is Form.JSON:
        return encode_json_error(id, error, ref)
    if form is Form.MSGPACK:
        return encode_error(id, model, version, error, ref)
    try:
        return check_value(form.encode_error(id, model, version, error, ref))
    except PLUG_IN_FAULTS:
        _log.exception("Codec %s could not write an error reply", form.name, extra={"action": "codec_failed"})
        return encode_json_error(id, error, ref)  # a value that people can read is better than none
