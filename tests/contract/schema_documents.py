"""JSON Schemas of all messages, taken from the structs that read and write them and from the limits that they keep."""

from collections.abc import Mapping
from typing import Any

import msgspec

from producer_sdk import _json_bodies as bodies
from producer_sdk import topics, wire
from producer_sdk._limits import MAX_TENANT_CHARS, MAX_VERSION_CHARS
from producer_sdk.announcements import Announcement
from producer_sdk.errors import Code
from producer_sdk.tensors import MAX_DIMENSIONS, Datatype

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]


class TensorExt:
    """Stands for a tensor in the structs, which JSON Schema cannot describe."""


RequestArray = msgspec.defstruct(
    "RequestArray",
    [
        (name, dict[str, TensorExt] if name == "inputs" else kind)
        for name, kind in wire._RequestOut.__annotations__.items()
    ],
    namespace={"__doc__": "A request as MessagePack."},
    array_like=True,
)


def python_pattern(pattern: str) -> str:
    """The pattern for readers that search (JSON Schema) instead of matching whole texts."""
    return f"^(?:{pattern})$".replace(r"\Z", "$")


ID: Schema = {"type": "string", "pattern": python_pattern(topics.REQUEST_ID.pattern)}
REPLY_TO: Schema = {"type": "string", "pattern": r"^[A-Za-z0-9._-]{1,249}(:[0-9]{1,5})?$"}
TENANT: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_TENANT_CHARS}
VERSION: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_VERSION_CHARS}
NAME: Schema = {"type": "string", "minLength": 1, "maxLength": wire.MAX_NAME_CHARS}
SCALAR: Schema = {"type": ["string", "number", "boolean"]}
TENSOR_SHOWN: Schema = {
    "description": "MessagePack ext type 1, shown as its parts: see docs/wire.md, section 4",
    "type": "object",
    "properties": {
        "datatype": {"enum": [str(datatype) for datatype in Datatype]},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0, "exclusiveMaximum": 2**32}, "maxItems": MAX_DIMENSIONS},
        "base64": {"description": "the elements, row-major and little-endian", "type": "string"},
    },
    "required": ["datatype", "shape", "base64"],
    "additionalProperties": False,
}  # fmt: skip
