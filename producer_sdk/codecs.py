"""Codecs: which one a content type asks for; and, for who writes one, all that there is to share.

OIP protobuf is built in. Others are plug-ins: an entry point of the group `headrace.codecs` names a `Codec`, as an
object or as a class. They are looked for once, when a content type comes that is not built in. docs/codecs.md tells how
to write one.
"""

from __future__ import annotations

import logging
import re
from functools import cache
from importlib import import_module
from threading import Lock
from typing import cast

from msgspec import Struct

from ._codec_faults import PLUG_IN_FAULTS, check_reply, check_request, failed, words_of
from ._codec_messages import Asked as Asked
from ._codec_messages import Told as Told
from ._codec_messages import make_tensor as make_tensor
from ._codec_messages import name_tensors as name_tensors
from ._codec_messages import read_reply as read_reply
from ._codec_messages import read_request as read_request
from .errors import HeadraceError, InferenceFailed, InvalidRequest
from .topics import shown
from .wire import Codec as Codec
from .wire import Refused as Refused
from .wire import Reply as Reply
from .wire import Request as Request
from .wire import Undecodable as Undecodable
from .wire import sendable as sendable

GROUP = "headrace.codecs"
PROTOBUF_TYPES = ("application/x-protobuf", "application/protobuf")
_MESSAGES = frozenset(("inference.modelinferrequest", "inference.modelinferresponse"))
_BUILT_IN = dict.fromkeys((*PROTOBUF_TYPES, "protobuf"), "oip_protobuf")
_TAKEN = ("json", "msgpack", "protobuf")
_NAME = re.compile(r"[a-z0-9]{1,32}", re.ASCII)
_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}", re.ASCII)
_log = logging.getLogger("headrace.codecs")
_lock = Lock()


class _PlugIns(Struct):
    """What the entry points gave: codecs by content type and by name, and why others could not be had."""

    codecs: dict[str, Codec] = {}
    faults: list[str] = []


def codec_of(content_type: str) -> Codec | None:
    """The codec of a content type, whose parameters and case do not matter; None: there is none.

    Raises:
        InvalidRequest: it is built in, and a package is missing here; or it is another protobuf message.
    """
    kind, *parameters = content_type.lower().split(";")
    kind = kind.strip()
    if kind in PROTOBUF_TYPES:
        _check_message(parameters, content_type)
    return _find(kind) if "/" in kind else None


def codec_named(name: str) -> Codec | None:
    """The codec of that name or content type; None: there is none.

    Raises:
        InvalidRequest: as for `codec_of`.
    """
    return codec_of(name) if "/" in name else _find(name)


def not_known(content_type: str) -> str:
    """What is wrong with a content type that no codec has: a sentence with those that there are."""
    known = [*PROTOBUF_TYPES, *(each for each in _plug_ins().codecs if "/" in each)]
    return (
        f"content-type {shown(content_type)} is not known here: send application/json, application/vnd.msgpack"
        f" or one of the codecs' types, {', '.join(known)}{_faults()}"
    )


def name_not_known(name: str) -> str:
    """The same of a codec's name."""
    known = ["msgpack", "json", "protobuf", *(each for each in _plug_ins().codecs if "/" not in each)]
    return f"{shown(name)} is not known here: use one of {', '.join(known)}{_faults()}"


def _faults() -> str:
    return "".join(f"; {fault}" for fault in _plug_ins().faults)


def decode_request_by(codec: Codec, value: bytes, fallback_id: str, timestamp_ms: int) -> Request | Refused:
    """What `codec` reads. Whatever a plug-in does, one record's fault is that record's alone.

    Raises:
        Undecodable: nobody can be answered.
    """
    try:
        return check_request(codec.decode_request(value, fallback_id, timestamp_ms))
    except Undecodable as err:
        err.id = err.id or fallback_id
        raise
    except PLUG_IN_FAULTS as err:
        raise Undecodable(failed(codec, "read the request", err), id=fallback_id) from err


def decode_reply_by(codec: Codec, value: bytes) -> Reply | HeadraceError:
    """What `codec` reads.

    Raises:
        Undecodable: the value is no reply.
    """
    try:
        return check_reply(codec.decode_reply(value))
    except Undecodable:
        raise
    except PLUG_IN_FAULTS as err:
        raise Undecodable(failed(codec, "read the reply", err)) from err


def unwritable(codec: Codec, id: str, err: BaseException) -> HeadraceError:
    """The error reply in place of a result that a codec could not write."""
    return InferenceFailed(failed(codec, "write the model's reply", err), id=id)


def _check_message(parameters: list[str], content_type: str) -> None:
    for parameter in parameters:
        name, _, message = parameter.partition("=")
        if name.strip() in ("message", "messagetype") and message.strip().strip('"') not in _MESSAGES:
            raise InvalidRequest(
                f"content-type {shown(content_type)} names another message: send inference.ModelInferRequest"
            )


def _find(key: str) -> Codec | None:
    return _built_in(_BUILT_IN[key]) if key in _BUILT_IN else _plug_ins().codecs.get(key)


@cache
def _built_in(module: str) -> Codec:
    try:
        return cast(Codec, import_module(f".{module}", __package__).CODEC)
    except ImportError as err:
        raise InvalidRequest(f"protobuf is not installed here: pip install 'headrace[protobuf]' ({err})") from err


def _plug_ins() -> _PlugIns:
    with _lock:  # a codec is one object in a process, whoever asks first
        return _look_up()


@cache
def _look_up() -> _PlugIns:
    from importlib import metadata  # slow to import, and few need it

    found = _PlugIns()
    entries = metadata.entry_points(group=GROUP)
    for entry in {each.value: each for each in entries}.values():  # two distributions may bring the same one
        try:
            loaded = entry.load()
            codec = cast(Codec, loaded() if isinstance(loaded, type) else loaded)
            keys = _keys_of(codec, found.codecs)
        except PLUG_IN_FAULTS as err:
            reason = words_of(err)
            found.faults.append(f"plug-in {entry.name} could not be loaded ({reason})")
            _log.warning("Codec %s is left out: %s", entry.name, reason, extra={"action": "codec_left_out"})
            continue
        for key in keys:
            found.codecs[key] = codec
    return found


def _keys_of(codec: Codec, others: dict[str, Codec]) -> tuple[str, ...]:
    name, types = codec.name, codec.content_types
    if not _NAME.fullmatch(name) or name in _TAKEN:
        raise ValueError(f"its name {name!r} is taken, or is not 1 to 32 of a-z 0-9")
    if not types or not all(_TYPE.fullmatch(each) for each in types):
        raise ValueError(f"its content types {types!r} are not type/subtype in lower case")
    from ._ce_types import is_self_told  # which imports this module

    taken = [key for key in (*types, name) if key in _BUILT_IN or key in others or ("/" in key and is_self_told(key))]
    if taken:
        raise ValueError(f"{' and '.join(taken)} is taken already")
    return (*types, name)
