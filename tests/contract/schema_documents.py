"""JSON Schemas of all messages, generated from structs that mirror those of producer_sdk with their limits and words.

A test holds the fields of each mirror against the struct that it mirrors.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from producer_sdk import dataref, topics, wire
from producer_sdk._json_objects import Name, Shape
from producer_sdk._limits import MAX_TENANT_CHARS, MAX_VERSION_CHARS
from producer_sdk.announcements import Announcement
from producer_sdk.tensors import Datatype
from producer_sdk.wire import Scalar

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TENSORS, PARAMETERS = Meta(max_length=wire.MAX_TENSORS), Meta(max_length=wire.MAX_PARAMETERS)


def searching(pattern: str) -> str:
    """The pattern for JSON Schema, which searches, of one for a whole text."""
    return f"^(?:{pattern})$".replace(r"\Z", "$")


Id = Annotated[str, Meta(pattern=searching(topics.REQUEST_ID.pattern), description="unique; the key of the reply")]
REPLY_TO = r"^([A-Za-z0-9._-]{1,249}(:[0-9]{1,5})?|s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/(.*/)?)$"
ReplyTo = Annotated[str, Meta(pattern=REPLY_TO, description="topic, topic:partition or s3://bucket/prefix/")]
Tenant = Annotated[str, Meta(min_length=1, max_length=MAX_TENANT_CHARS)]
Version = Annotated[str, Meta(min_length=1, max_length=MAX_VERSION_CHARS)]
Moment = Annotated[int, Meta(ge=0, le=wire.MAX_DEADLINE_MS, description="milliseconds since 1970 UTC")]
Model = Annotated[str, Meta(pattern=searching(topics.MODEL_NAME.pattern))]
Code = Annotated[str, Meta(description="docs/wire.md, section 7; later releases may add codes")]
Sentence = Annotated[str, Meta(description="for people; may change")]
Facts = Annotated[dict[str, Any], Meta(description="batch_rows, queue_ms, run_ms, and what the model adds")]
Wire = Annotated[Literal[1], Meta(description="wire version")]


Uri = Annotated[str, Meta(pattern="^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/.+$", description="s3://bucket/key")]
Sha256 = Annotated[str, Meta(pattern="^([0-9a-fA-F]{64})?$", description="of the whole object")]
Size = Annotated[int, Meta(ge=dataref.UNKNOWN_BYTES, description="of the object; -1 unknown")]
Expiry = Annotated[int, Meta(ge=0, description="milliseconds since 1970 UTC; from then on it may be gone")]


class Reference(Struct):
    """Where a message is stored whole, of which a record holds the rest. Without `dataref` it means nothing."""

    dataref: Uri | None = None
    sha256: Sha256 | None = None
    bytes: Size | None = None
    expires_ms: Expiry | None = None


class TensorShown(Struct, forbid_unknown_fields=True):
    """MessagePack ext type 1, shown here as its parts."""

    datatype: Datatype
    shape: Shape
    base64: Annotated[str, Meta(description="the elements, row-major and little-endian")]


class RequestArray(Struct, array_like=True):
    """A request as MessagePack. Nil is the default; elements behind these are ignored.

    Where there is a reference, `inputs` is empty.
    """

    wire: Wire
    id: Id | None
    deadline_ms: Moment | None
    reply_to: ReplyTo | None
    tenant: Tenant | None
    version: Version | None
    parameters: Annotated[dict[Name, Scalar], PARAMETERS] | None
    outputs: Annotated[list[Name], TENSORS, Meta(min_length=1)] | None
    inputs: Annotated[dict[Name, TensorShown], TENSORS] | None
    ref: Reference | None = None


class ReplyArray(Struct, array_like=True):
    """A result as MessagePack. Where there is a reference, `outputs` is empty."""

    wire: Wire
    id: Id
    model: Model
    version: str
    code: None
    error: None
    parameters: Facts
    outputs: dict[str, TensorShown]
    ref: Reference | None = None


class ErrorArray(Struct, array_like=True):
    """An error reply as MessagePack."""

    wire: Wire
    id: Id
    model: Model
    version: str
    code: Code
    error: Sentence
    parameters: Facts
    outputs: Annotated[dict[str, TensorShown], Meta(max_length=0)]
    ref: Reference | None = None


Data = Annotated[Any, Meta(description="elements, flat or nested row-major: docs/wire.md, section 6")]


class JsonTensor(Struct):
    """A tensor in JSON; `parameters.content_type` "base64" marks BYTES elements as base64."""

    name: Name
    datatype: Datatype
    shape: Shape
    data: Data
    parameters: dict[str, Any] | None = None


class JsonWanted(Struct):
    """An output that is wanted."""

    name: Name
    parameters: dict[str, Any] | None = None


class JsonParameters(Struct):
    """Four names mean something to headrace; all others, text, numbers and booleans, go to the model."""

    reply_to: ReplyTo | None = None
    deadline_s: Annotated[float, Meta(gt=0, description="seconds from the record's timestamp")] | None = None
    tenant: Tenant | None = None
    version: Version | int | None = None


class JsonRequest(Struct):
    """A request as Open Inference Protocol v2 JSON; with `dataref`, the keys of a reference, `inputs` may be absent."""

    inputs: Annotated[list[JsonTensor], TENSORS] | None = None
    id: Id | Literal[""] | None = None
    parameters: JsonParameters | None = None
    outputs: Annotated[list[JsonWanted], TENSORS] | None = None
    dataref: Uri | None = None
    sha256: Sha256 | None = None
    bytes: Size | None = None
    expires_ms: Expiry | None = None


class JsonReply(Struct):
    """A result as Open Inference Protocol v2 JSON; with `dataref`, the keys of a reference, `outputs` is empty."""

    id: Id
    model_name: Model
    model_version: str
    parameters: Facts
    outputs: list[JsonTensor]
    dataref: Uri | None = None
    sha256: Sha256 | None = None
    bytes: Size | None = None
    expires_ms: Expiry | None = None


class JsonError(Struct):
    """An error as JSON, of one shape on Kafka and over HTTP."""

    id: Id | None
    error: Sentence
    code: Code
    dataref: Uri | None = None
    sha256: Sha256 | None = None
    bytes: Size | None = None
    expires_ms: Expiry | None = None


class CancelRecord(Struct):
    """Ends the requests of an id that were published up to `at_ms`, by the clock of who cancels."""

    id: Id
    at_ms: Moment


DOCUMENTS: dict[str, type[Struct]] = {
    "request.msgpack.v1.json": RequestArray,
    "reply.msgpack.v1.json": ReplyArray,
    "error.msgpack.v1.json": ErrorArray,
    "request.v1.json": JsonRequest,
    "reply.v1.json": JsonReply,
    "error.v1.json": JsonError,
    "announcement.v1.json": Announcement,
    "cancel.v1.json": CancelRecord,
}


def documents() -> dict[str, dict[str, Any]]:
    """File name -> JSON Schema."""
    found = {file: {"$schema": DIALECT, "title": file, **msgspec.json.schema(kind)} for file, kind in DOCUMENTS.items()}
    found["request.v1.json"]["anyOf"] = [{"required": ["inputs"]}, {"required": ["dataref"]}]
    return found
