"""Names that the Kafka binding of CloudEvents gives to headers, and what a content type says of a value's form."""

from __future__ import annotations

from .broker import Headers
from .codecs import codec_of, not_known
from .errors import InvalidRequest
from .topics import shown
from .wire import AnyForm, Codec, Form

PREFIX = "ce_"
CONTENT_TYPE = "content-type"
SPEC_VERSION = "1.0"
JSON_TYPE = "application/json"
MSGPACK_TYPE = "application/vnd.msgpack"
_MSGPACK_TYPES = frozenset((MSGPACK_TYPE, "application/msgpack", "application/x-msgpack"))
_JSON_TYPES = frozenset((JSON_TYPE, "text/json"))
_EITHER = frozenset(("", "application/octet-stream"))  # the value's first byte tells


def media_type(content: bytes | None) -> tuple[str, bool]:
    """Type and subtype of a content type in lower case, and whether its charset, if it names one, is UTF-8."""
    kind, *parameters = (content or b"").decode("utf-8", "replace").lower().split(";")
    for parameter in parameters:
        name, _, charset = parameter.partition("=")
        if name.strip() == "charset":
            return kind.strip(), charset.strip().strip('"') in ("utf-8", "utf8", "us-ascii")
    return kind.strip(), True


def told_type(headers: Headers) -> str:
    """The content type that a record's headers name first; empty where they name none."""
    for name, content in headers:
        if len(name) == len(CONTENT_TYPE) and name.lower() == CONTENT_TYPE:
            return (content or b"").decode("utf-8", "replace")
    return ""


def is_self_told(content_type: str) -> bool:
    """Whether a value of this type tells its form by itself, as MessagePack and JSON do, or none is named."""
    kind, _ = media_type(content_type.encode())
    return kind in _EITHER or kind in _MSGPACK_TYPES or kind in _JSON_TYPES or kind.endswith("+json")


def codec_for(content_type: str) -> Codec | None:
    """The codec that reads data of this type; None: MessagePack or JSON, or a type that nobody knows.

    Raises:
        InvalidRequest: it is known, and cannot be read here.
    """
    return None if not content_type or is_self_told(content_type) else codec_of(content_type)


def form_of(content_type: str) -> AnyForm | None:
    """The form that data of this type has; None where the data itself tells.

    Raises:
        InvalidRequest: it is another type, or text in another encoding than UTF-8.
    """
    kind, is_utf8 = media_type(content_type.encode())
    if kind in _EITHER:
        return None
    if kind in _MSGPACK_TYPES:
        return Form.MSGPACK
    if is_self_told(content_type):
        if is_utf8:
            return Form.JSON
        raise InvalidRequest(f"datacontenttype {shown(content_type)} is not taken: send {JSON_TYPE} in UTF-8")
    codec = codec_of(content_type)
    if codec is None:
        raise InvalidRequest(not_known(content_type))
    return codec


def type_header(content_type: str | None) -> Headers:
    """The header that says so; none for None."""
    return () if content_type is None else ((CONTENT_TYPE, content_type.encode()),)


def content_type_of(form: AnyForm) -> str:
    """What data of this form is said to be."""
    if isinstance(form, Form):
        return JSON_TYPE if form is Form.JSON else MSGPACK_TYPE
    return form.content_types[0]
