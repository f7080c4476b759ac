"""The AsyncAPI 3.0 document: every topic, who writes and reads it, and what lies there, drawn from the code."""

from __future__ import annotations

from typing import Any

import msgspec

from producer_sdk import _ce_attributes, cloudevents, dead_letters
from producer_sdk._ce_structured import STRUCTURED
from producer_sdk._ce_types import JSON_TYPE, MSGPACK_TYPE
from producer_sdk.broker import Topic
from producer_sdk.codecs import PROTOBUF_TYPES
from producer_sdk.event_records import Event
from producer_sdk.flatbuffers_codec import FlatBuffers
from producer_sdk.model_topics import model_topics
from producer_sdk.system_topics import events_topic, system_topics
from producer_sdk.topics import MODEL_NAME, PREFIX, Lane, Topics
from producer_sdk.wire import Form
from workers import retry_records

VERSION = "1"  # of the wire
_TOPICS = Topics("PREFIX")
_DRAFT = "application/schema+json;version=draft-2020-12"
_KAFKA = "0.5.0"
_TEXT = {"type": "string"}
_PARAMETERS = {
    "prefix": {"description": f"The operator's choice: {PREFIX.pattern}.", "default": "headrace"},
    "model": {"description": f"Name of the model: {MODEL_NAME.pattern}."},
    "lane": {"description": "How urgent the requests are.", "enum": [str(lane) for lane in Lane]},
}
_ID = {"type": "string", "description": "The request's id."}
_ANY_KEY = {"description": "Any; it decides the partition and nothing else."}
_CODECS = {
    "Protobuf": (PROTOBUF_TYPES[0], "oip.v1.proto"),
    "FlatBuffers": (FlatBuffers.content_types[0], "inference.fbs"),
}
_ASKED = ("requestMsgpack", "requestJson", "requestEvent", *(f"request{name}" for name in _CODECS))
_ANSWERED = ("resultMsgpack", "errorMsgpack", "resultJson", "errorJson", *(f"reply{name}" for name in _CODECS))

# What each topic is for. Names in braces are parameters of its address; partitions and settings come from the code.
_CHANNELS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "requests": ("{prefix}.{model}.{lane}", "Requests of one lane of a model.", _ASKED),
    "results": (_TOPICS.results("MODEL"), "Replies to requests without a usable return address.", _ANSWERED),
    "retry": (_TOPICS.retry("MODEL"), "Requests that wait for another attempt.", ("retried",)),
    "dead": (_TOPICS.dead("MODEL"), "Records that failed, kept whole.", ("deadLetter",)),
    "replies": (_TOPICS.replies, "Replies to callers who wait, each on the partition that it named.", _ANSWERED),
    "control": (_TOPICS.control, "Which models are served; compacted.", ("announcement",)),
    "cancels": (_TOPICS.cancels, "What ends requests early.", ("cancel",)),
    "events": (_TOPICS.events, "What workers did, where they are told to say so.", ("event",)),
}

# operation: action of headrace, channel, summary
_OPERATIONS = {
    "takeRequests": ("receive", "requests", "A worker answers every request once, in the form that it came in."),
    "giveResults": ("send", "results", "A worker answers who named no return address."),
    "postpone": ("send", "retry", "A worker puts a request off to a later attempt."),
    "takeUpAgain": ("receive", "retry", "A worker runs a request when it is due."),
    "bury": ("send", "dead", "A worker keeps what failed."),
    "giveReplies": ("send", "replies", "A worker answers who waits."),
    "announce": ("send", "control", "A worker says which models it serves."),
    "takeCancels": ("receive", "cancels", "A worker ends requests early."),
    "tellEvents": ("send", "events", "A worker tells what it did."),
}


def document() -> dict[str, Any]:
    """The document; payloads refer to the JSON Schemas beside it."""
    _, schemas = msgspec.json.schema_components([Event], ref_template="#/components/schemas/{name}")
    channels = {name: _channel(name) for name in _CHANNELS}
    channels["returnAddress"] = {
        "address": None,
        "description": "The topic that a request names under reply_to, on the partition that it names, if any.",
        "messages": _messages(_ANSWERED),
    }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "headrace",
            "version": VERSION,
            "description": "Inference requests and replies in Kafka, as headrace's workers read and write them. "
            "docs/wire.md says the same in words.",
        },
        "defaultContentType": JSON_TYPE,
        "channels": channels,
        "operations": {name: _operation(name) for name in _OPERATIONS},
        "components": {
            "messages": _all_messages(),
            "messageTraits": {"request": _request_trait(), "reply": _reply_trait()},
            "schemas": schemas,
        },
    }


def address_of(topic: str) -> str:
    """The address, with parameters for what differs."""
    return topic.replace("PREFIX", "{prefix}").replace("MODEL", "{model}")


def _known_topics() -> dict[str, Topic]:
    made = [*system_topics(_TOPICS), events_topic(_TOPICS), *model_topics(_TOPICS, "MODEL")]
    known = {address_of(topic.name): topic for topic in made}
    for name in _TOPICS.lanes("MODEL"):
        known["{prefix}.{model}.{lane}"] = known.pop(address_of(name))
    return known


def _channel(name: str) -> dict[str, Any]:
    topic, description, messages = _CHANNELS[name]
    address = address_of(topic)
    made = _known_topics()[address]
    settings: dict[str, Any] = {}
    for key, value in made.config.items():
        settings[key] = [value] if key == "cleanup.policy" else int(value) if value.isdigit() else value
    kafka = {"partitions": made.partitions, "bindingVersion": _KAFKA}
    return {
        "address": address,
        "description": description,
        "messages": _messages(messages),
        "parameters": {key: value for key, value in _PARAMETERS.items() if f"{{{key}}}" in address},
        "bindings": {"kafka": kafka | ({"topicConfiguration": settings} if settings else {})},
    }


def _operation(name: str) -> dict[str, Any]:
    action, channel, summary = _OPERATIONS[name]
    operation: dict[str, Any] = {"action": action, "channel": {"$ref": f"#/channels/{channel}"}, "summary": summary}
    if name == "takeRequests":
        where = "$message.payload#/parameters/reply_to"
        operation["reply"] = {
            "address": {"location": where, "description": "Of JSON; element 3 of the MessagePack array."},
            "channel": {"$ref": "#/channels/returnAddress"},
        }
    return operation


def _messages(names: tuple[str, ...]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/messages/{name}"} for name in names}


def _all_messages() -> dict[str, Any]:
    request, reply = [{"$ref": "#/components/messageTraits/request"}], [{"$ref": "#/components/messageTraits/reply"}]
    packed: dict[str, Any] = {"contentType": MSGPACK_TYPE, "correlationId": {"location": "$message.payload#/1"}}
    plain: dict[str, Any] = {"contentType": JSON_TYPE, "correlationId": {"location": "$message.payload#/id"}}
    event = {"contentType": STRUCTURED, "correlationId": {"location": "$message.payload#/id"}}
    return {
        "requestMsgpack": packed | {"payload": _file("request.msgpack.v1.json"), "traits": request},
        "requestJson": plain | {"payload": _file("request.v1.json"), "traits": request},
        "requestEvent": event | {"payload": _structured(), "bindings": _key(_ANY_KEY)},
        "resultMsgpack": packed | {"payload": _file("reply.msgpack.v1.json"), "traits": reply},
        "errorMsgpack": packed | {"payload": _file("error.msgpack.v1.json"), "traits": reply},
        "resultJson": plain | {"payload": _file("reply.v1.json"), "traits": reply},
        "errorJson": plain | {"payload": _file("error.v1.json"), "traits": reply},
        **_of_codecs(),
        "retried": {
            "summary": "A request, byte for byte, with headers that say where it was first and when it is due.",
            "headers": _headers([retry_records.RETRY_HEADERS + name for name in _RETRY_FACTS], needed=True),
            "payload": {},
        },
        "deadLetter": {
            "summary": "A record, byte for byte, with headers that say where it came from and why it is here.",
            "headers": _headers([name for name, _ in dead_letters.headers(_FACTS, ())], needed=False),
            "payload": {},
        },
        "announcement": {
            "contentType": JSON_TYPE,
            "payload": _file("announcement.v1.json"),
            "bindings": _key({"type": "string", "description": "worker/<worker>/<model>"}),
        },
        "cancel": {"contentType": JSON_TYPE, "payload": _file("cancel.v1.json"), "bindings": _key(_ID)},
        "event": {
            "contentType": JSON_TYPE,
            "payload": {"$ref": "#/components/schemas/Event"},
            "bindings": _key({"type": "string", "description": "The worker's name."}),
        },
    }


def _of_codecs() -> dict[str, Any]:
    """Their payloads are no JSON: a schema of their own describes them, and the header names them."""
    messages: dict[str, Any] = {}
    for name, (content_type, file) in _CODECS.items():
        for kind, key in (("request", _ANY_KEY), ("reply", _ID)):
            messages[f"{kind}{name}"] = {
                "contentType": content_type,
                "summary": f"A {kind} in {name}, as schemas/{file} describes it.",
                "headers": _headers(["content-type"], needed=True),
                "payload": {},
                "bindings": _key(key),
            }
    return messages


_RETRY_FACTS = ("topic", *retry_records._NUMBERS)
_FACTS = dead_letters.Facts("t", 0, 0, group="g", code="c", message="m", cut_from_bytes=1)


def _structured() -> dict[str, Any]:
    """The event of structured mode, whose `data` is a JSON request, or `data_base64` either form."""
    attributes = [name.removeprefix("ce_") for name in _ce_attributes._FOLLOWED if name.startswith("ce_")]
    properties: dict[str, Any] = dict.fromkeys(sorted(attributes), _TEXT)
    properties |= {"data": {"$ref": "request.v1.json"}, "data_base64": {"type": "string", "contentEncoding": "base64"}}
    needed = [name.removeprefix("ce_") for name in _ce_attributes._NEEDED]
    schema = {"type": "object", "required": needed, "properties": properties | {"databytes": {}}}
    return {"schemaFormat": _DRAFT, "schema": schema}


def _request_trait() -> dict[str, Any]:
    return {
        "description": "No header is needed. With one of ce_specversion, ce_type and ce_source the record is a "
        "CloudEvent in binary mode, which needs ce_id and all of them.",
        "headers": _headers(sorted(_ce_attributes._FOLLOWED), needed=False),
        "bindings": _key(_ANY_KEY),
    }


def _reply_trait() -> dict[str, Any]:
    written = cloudevents.reply_headers(cloudevents.NO_CAUSE, "r", "/h/m", Form.JSON, is_error=False, at_s=0)
    names = [name for name, _ in written] + ["ce_dataref", "ce_datasha256", "ce_databytes"]
    return {
        "description": "Headers are there where the request was a CloudEvent, or the model's profile is cloudevents.",
        "headers": _headers(names, needed=False),
        "bindings": _key(_ID),
    }


def _headers(names: list[str], *, needed: bool) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": dict.fromkeys(names, _TEXT)}
    return schema | ({"required": names} if needed else {})


def _key(schema: dict[str, Any]) -> dict[str, Any]:
    return {"kafka": {"key": schema, "bindingVersion": _KAFKA}}


def _file(name: str) -> dict[str, Any]:
    return {"schemaFormat": _DRAFT, "schema": {"$ref": name}}
