"""schemas/ says what the code does: generated files are current, and golden messages keep to their schemas."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgpack
import pytest
from generate import SCHEMAS, files, reads_as
from golden_codecs import all_messages, read_request
from golden_messages import Golden
from independent_reader import read_tensor
from schema_documents import (
    DOCUMENTS,
    CancelRecord,
    ErrorArray,
    JsonReply,
    JsonRequest,
    JsonTensor,
    JsonWanted,
    ReplyArray,
    RequestArray,
)

from producer_sdk import _json_objects as bodies
from producer_sdk import wire
from producer_sdk.cancels import Cancel
from producer_sdk.wire import Undecodable

BY_HAND = (".md", ".proto", ".fbs")
INDEX = json.loads((SCHEMAS / "examples/index.json").read_bytes())
GOLDEN = {golden.file: golden for golden in all_messages()}


def on_disk() -> dict[str, bytes]:
    paths = [path for path in SCHEMAS.rglob("*") if path.is_file() and path.suffix not in BY_HAND]
    return {str(path.relative_to(SCHEMAS)): path.read_bytes() for path in paths}


def test_schemas_are_what_the_generator_writes() -> None:
    wanted, found = files(), on_disk()
    assert sorted(wanted) == sorted(found)
    stale = [name for name in wanted if wanted[name] != found[name]]
    assert stale == [], "run: python tests/contract/generate.py"


def test_generating_twice_gives_the_same_bytes() -> None:
    assert files() == files()


def test_schemas_hold_no_python() -> None:
    assert list(SCHEMAS.rglob("*.py")) == []


@pytest.mark.parametrize("file", DOCUMENTS)
def test_every_schema_is_valid_json_schema(file: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads((SCHEMAS / file).read_bytes()))


@pytest.mark.parametrize(
    ("mirror", "original"),
    [
        (RequestArray, wire._ReferringOut),
        (RequestArray, wire._RequestEnvelope),
        (ReplyArray, wire._ReplyEnvelope),
        (ErrorArray, wire._ReplyEnvelope),
    ],
)
def test_arrays_have_the_elements_of_the_code_in_order(mirror: Any, original: Any) -> None:
    assert mirror.__struct_fields__ == original.__struct_fields__


@pytest.mark.parametrize(
    ("mirror", "original"),
    [
        (JsonTensor, bodies.TensorBody),
        (JsonWanted, bodies.WantedOutput),
        (JsonRequest, bodies.RequestBody),
        (CancelRecord, Cancel),
    ],
)
def test_objects_have_the_keys_of_the_code(mirror: Any, original: Any) -> None:
    assert set(mirror.__struct_fields__) == set(original.__struct_fields__)


def test_replies_have_keys_of_the_code() -> None:
    assert set(JsonReply.__struct_fields__) < set(bodies.ReplyBody.__struct_fields__)


def shown(golden: Golden) -> Any:
    if golden.file.endswith(".msgpack"):
        return msgpack.unpackb(golden.value, ext_hook=read_tensor)
    return json.loads(golden.value.decode("utf-8-sig"))


@pytest.mark.parametrize("entry", [entry for entry in INDEX["messages"] if entry["schema"]], ids=lambda e: e["file"])
def test_golden_messages_keep_to_their_schema(entry: dict[str, Any]) -> None:
    schema = json.loads((SCHEMAS / entry["schema"]).read_bytes())
    jsonschema.validate(shown(GOLDEN[entry["file"]]), schema, cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize("entry", INDEX["messages"], ids=lambda e: e["file"])
def test_golden_messages_read_as_the_index_says(entry: dict[str, Any]) -> None:
    golden = Golden(entry["file"], entry["kind"], "", (SCHEMAS / "examples" / entry["file"]).read_bytes())
    if golden.kind != "undecodable":
        assert reads_as(golden) == entry["reads_as"]
        return
    with pytest.raises(Undecodable):
        read_request(golden)


def test_every_message_has_its_line_in_the_index() -> None:
    listed = {entry["file"] for entry in INDEX["messages"]}
    assert listed == {path.name for path in Path(SCHEMAS / "examples").iterdir()} - {"index.json"}
