"""Names that the Kafka binding of CloudEvents gives to headers, and what a content type says of a value's form."""

from __future__ import annotations

from .errors import InvalidRequest
from .topics import shown
from .wire import Form

PREFIX = "ce_"
CONTENT_TYPE = "content-type"
SPEC_VERSION = "1.0"
JSON_TYPE = "application/json"
MSGPACK_TYPE = "application/vnd.msgpack"
_MSGPACK_TYPES = frozenset((MSGPACK_TYPE, "application/msgpack", "application/x-msgpack"))
_EITHER = frozenset(("", "application/octet-stream"))  # the value's first byte tells


def media_type(content: bytes | None) -> tuple[str, bool]:
    """Type and subtype of a content type in lower case, and whether its charset, if it names one, is UTF-8."""
    kind, *parameters = (content or b"").decode("utf-8", "replace").lower().split(";")
    for parameter in parameters:
        name, _, charset = parameter.partition("=")
        if name.strip() == "charset":
            return kind.strip(), charset.strip().strip('"') in ("utf-8", "utf8", "us-ascii")
    return kind.strip(), True


def form_of(content_type: str) -> Form | None:
    """The form that data of this type has; None where the data itself tells.

    Raises:
        InvalidRequest: it is another type, or text in another encoding than UTF-8.
    """
    kind, is_utf8 = media_type(content_type.encode())
    if kind in _EITHER:
        return None
    if kind in _MSGPACK_TYPES:
        return Form.MSGPACK
    if is_utf8 and (kind in (JSON_TYPE, "text/json") or kind.endswith("+json")):
        return Form.JSON
    raise InvalidRequest(
        f"datacontenttype {shown(content_type)} is not taken: send {JSON_TYPE} in UTF-8, or {MSGPACK_TYPE}"
    )


def content_type_of(form: Form) -> str:
    """What data of this form is said to be."""
    return JSON_TYPE if form is Form.JSON else MSGPACK_TYPE
