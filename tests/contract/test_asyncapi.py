"""schemas/asyncapi.v1.json names every topic of docs/wire.md, refers to what is there only, and is AsyncAPI 3.0."""

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from generate import SCHEMAS

DOCUMENT: dict[str, Any] = json.loads((SCHEMAS / "asyncapi.v1.json").read_bytes())
WIRE = (SCHEMAS.parent / "docs/wire.md").read_text()
CHANNELS: dict[str, Any] = DOCUMENT["channels"]


def only(*needed: str, **optional: Any) -> dict[str, Any]:
    """An object that has these keys and may have those."""
    known = {**{key: {} for key in needed}, **optional}
    return {"type": "object", "required": list(needed), "additionalProperties": False, "properties": known}


REF = only("$ref")
BINDINGS = {"bindings": only("kafka")}
TOLD = {"description": {"type": "string"}, "summary": {"type": "string"}}
SCHEMA_OF_PAYLOAD = {"anyOf": [REF, {"const": {}}, only("schemaFormat", "schema")]}
MESSAGE = only(
    contentType={"type": "string"},
    correlationId=only(location={"type": "string", "pattern": r"^\$message\.(header|payload)#"}),
    payload=SCHEMA_OF_PAYLOAD,
    headers={"type": "object"},
    traits={"type": "array", "items": REF},
    **TOLD,
    **BINDINGS,
)
OPERATION = only("action", "channel", reply=only("channel", address=only("location", **TOLD)), **TOLD)
CHANNEL = only("address", "messages", parameters={"type": "object"}, **TOLD, **BINDINGS)
# What the specification says of the parts that are used; the official schema and parser were asked when they were new.
SHAPE = only("asyncapi", "info", "channels", "operations", "components", defaultContentType={"type": "string"})
SHAPE["properties"] |= {
    "asyncapi": {"const": "3.0.0"},
    "info": only("title", "version", **TOLD),
    "channels": {"additionalProperties": CHANNEL},
    "operations": {"additionalProperties": OPERATION | {"properties": OPERATION["properties"] | {
        "action": {"enum": ["send", "receive"]}, "channel": REF}}},
    "components": only("messages", "messageTraits", "schemas"),
}  # fmt: skip
SHAPE["properties"]["components"]["properties"]["messages"] = {"additionalProperties": MESSAGE}


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"]
        part = list(part.values())
    for each in part if isinstance(part, list) else ():
        yield from references(each)


def target(reference: str) -> Any:
    found: Any = DOCUMENT
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return found


def test_it_has_the_shape_of_asyncapi() -> None:
    jsonschema.validate(DOCUMENT, SHAPE, cls=jsonschema.Draft202012Validator)


def test_all_references_lead_somewhere() -> None:
    found = set(references(DOCUMENT))
    assert {name for name in found if not name.startswith("#") and not (SCHEMAS / name).is_file()} == set()
    assert all(target(name) for name in found if name.startswith("#"))


def test_every_topic_of_the_docs_has_a_channel_and_no_other_has() -> None:
    written = set(re.findall(r"^\| `(<prefix>\.[^`]+)` \|", WIRE, re.MULTILINE))
    addresses = {
        address.replace("{prefix}", "<prefix>").replace("{model}", "<model>").replace("{lane}", lane)
        for address in (channel["address"] for channel in CHANNELS.values() if channel["address"])
        for lane in CHANNELS["requests"]["parameters"]["lane"]["enum"]
    }
    assert addresses == written


@pytest.mark.parametrize("name", CHANNELS)
def test_a_channel_declares_the_parameters_of_its_address(name: str) -> None:
    channel = CHANNELS[name]
    assert set(re.findall(r"{(\w+)}", channel["address"] or "")) == set(channel.get("parameters", {}))


def test_each_channel_is_used_by_an_operation_and_replies_go_where_the_request_says() -> None:
    operations = DOCUMENT["operations"].values()
    used = {operation["channel"]["$ref"] for operation in operations}
    replies = {operation["reply"]["channel"]["$ref"] for operation in operations if "reply" in operation}
    assert used | replies == {f"#/channels/{name}" for name in CHANNELS}
    assert [target(reference)["address"] for reference in replies] == [None]
