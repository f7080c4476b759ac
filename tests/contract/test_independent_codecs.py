"""Clients of the codecs written from the documents alone understand headrace and are understood."""

import ast
import base64
import json
import sys
from pathlib import Path
from typing import Any

import independent_codecs
import pytest
import rendition
from generate import SCHEMAS
from golden_codecs import CODECS
from proto_file import described

from producer_sdk import _protobuf_schema
from producer_sdk.flatbuffers_codec import CODES
from producer_sdk.tensors import Datatype
from producer_sdk.wire import Request

INDEX = json.loads((SCHEMAS / "examples/index.json").read_bytes())
FALLBACK_ID, TIMESTAMP_MS = INDEX["fallback_id"], INDEX["timestamp_ms"]


def messages(*kinds: str) -> Any:
    forms = ("protobuf", "flatbuffers")
    chosen = [entry for entry in INDEX["messages"] if entry["kind"] in kinds and entry["form"] in forms]
    return pytest.mark.parametrize("entry", chosen, ids=lambda entry: entry["file"])


def value_of(entry: dict[str, Any]) -> bytes:
    return (SCHEMAS / "examples" / entry["file"]).read_bytes()


def test_the_readers_import_nothing_of_ours() -> None:
    tree = ast.parse(Path(independent_codecs.__file__).read_bytes())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    foreign = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names
    assert foreign == {"flatbuffers", "independent_reader", "proto_file"}


def fields(message: Any, outer: str = "") -> list[tuple[object, ...]]:
    own = [(outer + message.name, *(getattr(field, part) for part in ("name", "number", "label", "type", "type_name")))
           for field in message.field]  # fmt: skip
    return own + [each for nested in message.nested_type for each in fields(nested, f"{outer}{message.name}.")]


def test_the_messages_of_the_code_are_those_of_the_proto_file() -> None:
    written, made = described(SCHEMAS / "oip.v1.proto"), _protobuf_schema.file_descriptor()
    both = [sorted(each for message in file.message_type for each in fields(message)) for file in (written, made)]
    assert both[0] == both[1]


def test_the_datatypes_of_the_flatbuffers_schema_are_those_of_the_code() -> None:
    text = (SCHEMAS / "inference.fbs").read_text().split("enum Datatype")[1].split("{")[1].split("}")[0]
    named = {name: int(number) for name, number in (part.split(" = ") for part in text.replace("\n", "").split(","))}
    assert {name.strip(): number for name, number in named.items()} == {"NONE": 0} | {
        str(datatype): CODES[datatype] for datatype in Datatype
    }


@messages("request")
def test_they_read_golden_requests(entry: dict[str, Any]) -> None:
    found = independent_codecs.read_request(entry["form"], value_of(entry), FALLBACK_ID, TIMESTAMP_MS)
    assert found == entry["reads_as"]


@messages("reply", "error")
def test_they_read_golden_replies(entry: dict[str, Any]) -> None:
    assert independent_codecs.read_reply(entry["form"], value_of(entry)) == entry["reads_as"]


@messages("request")
def test_headrace_takes_protobuf_that_they_write(entry: dict[str, Any]) -> None:
    value = independent_codecs.write_protobuf_request(
        entry["reads_as"], TIMESTAMP_MS, lambda tensor: base64.b64decode(tensor["base64"])
    )
    found = CODECS["protobuf"].decode_request(value, FALLBACK_ID, TIMESTAMP_MS)
    assert isinstance(found, Request)
    assert rendition.message(found) == entry["reads_as"]
