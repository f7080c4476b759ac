"""A client written from the documents alone, with no code of ours, understands headrace and is understood."""

import ast
import json
import sys
from pathlib import Path
from typing import Any

import independent_reader
import pytest
import rendition
from generate import SCHEMAS

from producer_sdk.records import decode_record
from producer_sdk.wire import Form, Request

INDEX = json.loads((SCHEMAS / "examples/index.json").read_bytes())
FORMS = ("msgpack", "json")
FALLBACK_ID, TIMESTAMP_MS = INDEX["fallback_id"], INDEX["timestamp_ms"]


def messages(*kinds: str) -> Any:
    chosen = [entry for entry in INDEX["messages"] if entry["kind"] in kinds and entry["form"] in FORMS]
    return pytest.mark.parametrize("entry", chosen, ids=lambda entry: entry["file"])


def value_of(entry: dict[str, Any]) -> bytes:
    return (SCHEMAS / "examples" / entry["file"]).read_bytes()


def test_the_reader_imports_nothing_of_ours() -> None:
    tree = ast.parse(Path(independent_reader.__file__).read_bytes())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} - sys.stdlib_module_names == {"msgpack"}


@messages("request")
def test_it_reads_golden_requests(entry: dict[str, Any]) -> None:
    assert independent_reader.read_request(value_of(entry), FALLBACK_ID, TIMESTAMP_MS) == entry["reads_as"]


@messages("reply", "error")
def test_it_reads_golden_replies(entry: dict[str, Any]) -> None:
    assert independent_reader.read_reply(value_of(entry)) == entry["reads_as"]


@messages("request")
def test_headrace_takes_its_msgpack_requests(entry: dict[str, Any]) -> None:
    value = independent_reader.write_msgpack_request(entry["reads_as"])
    found = decode_record(value, (), FALLBACK_ID, TIMESTAMP_MS)
    assert isinstance(found, Request)
    assert (found.form, rendition.message(found)) == (Form.MSGPACK, entry["reads_as"])


@messages("request")
def test_headrace_takes_its_json_requests(entry: dict[str, Any]) -> None:
    value = independent_reader.write_json_request(entry["reads_as"], TIMESTAMP_MS)
    found = decode_record(value, (), FALLBACK_ID, TIMESTAMP_MS)
    assert isinstance(found, Request)
    assert (found.form, rendition.message(found)) == (Form.JSON, entry["reads_as"])
