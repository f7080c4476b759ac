"""Whatever a plug-in gives or raises, it is the fault of one record, and somebody is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from codec_plug_ins import plug_ins

from producer_sdk.errors import DeadlineExceeded, InferenceFailed, InvalidRequest
from producer_sdk.forms import error_value, form_named, headers_of, name_of, request_value, result_value
from producer_sdk.records import decode_record, decode_reply_record
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import AnyForm, Refused, Request, Undecodable

ODD = """
from producer_sdk.codecs import Asked, Request, Undecodable, read_request
from producer_sdk.wire import Reply

class Unsayable(Exception):
    def __str__(self):
        raise OSError("no words")

def unsayable():
    raise Unsayable

def endless():
    raise ValueError("x" * 5_000_000)

def asked(inputs):
    return read_request(Asked("a", {"reply_to": "answers"}, inputs), "fallback", 0)

def unsendable():
    raise ValueError("\\ud800")

class Odd:
    name, content_types = "odd", ("application/x-odd",)

    def decode_request(self, value, fallback_id, timestamp_ms):
        return eval(value)

    def decode_reply(self, value):
        return eval(value)

    def encode_request(self, request, *, deadline_s):
        return eval(request.id)

    def encode_reply(self, id, *others):
        return eval(id)

    encode_error = encode_reply
"""


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[AnyForm]:
    """A codec that does what it reads."""
    with plug_ins(tmp_path, {"odd": "odd_codec:Odd"}, odd_codec=ODD):
        yield form_named("odd")


@pytest.mark.parametrize("given", ["'text'", "None", "bytearray(b'x')", "unsayable()", "endless()", "exit(1)"])
def test_what_a_codec_writes_is_bytes_or_its_fault_is_told(odd: AnyForm, given: str) -> None:
    with pytest.raises(InferenceFailed, match="codec odd could not write") as caught:
        result_value(odd, given, "m", "1", {}, {})
    assert len(error_value(odd, "a", "m", "1", caught.value)) < 2000
    with pytest.raises(InvalidRequest, match="codec odd could not write"):
        request_value(Request(given, {}, odd), deadline_s=None)
    assert b"too late" in error_value(odd, given, "m", "1", DeadlineExceeded("too late"))


@pytest.mark.parametrize(
    "given",
    [
        "Request('a', [])",
        "Request('a', {'x': 7})",
        "Request(7, {})",
        r"Request('\ud800', {})",
        "Request('a', {}, deadline_ms='soon')",
        "Request('a', {}, reply_to='topic')",
        "unsayable()",
        "endless()",
        "unsendable()",
        "exit(1)",
    ],
)
def test_a_codec_that_reads_a_request_wrongly_spoils_one_record(odd: AnyForm, given: str) -> None:
    with pytest.raises(Undecodable, match="codec odd could not read") as caught:
        decode_record(given.encode(), headers_of(odd), "fallback", 0)
    assert caught.value.id == "fallback"
    assert len(caught.value.message.encode()) < 2000


@pytest.mark.parametrize("inputs", ["unsayable", "endless", "unsendable", "exit"])
def test_what_a_codec_raises_as_it_reads_inputs_is_told_to_the_return_address(odd: AnyForm, inputs: str) -> None:
    refused = decode_record(f"asked({inputs})".encode(), headers_of(odd), "fallback", 0)
    assert isinstance(refused, Refused)
    assert (refused.id, refused.reply_to) == ("a", ReplyTo("answers", None))
    assert len(refused.error.message.encode()) < 2000
    assert refused.error.message.startswith("the inputs cannot be read: ")


@pytest.mark.parametrize(
    "given", ["None", "Reply(7, 'm', '1', {})", "Reply('a', 'm', '1', None)", "unsayable()", "exit(1)"]
)
def test_a_codec_that_reads_a_reply_wrongly_ends_no_client(odd: AnyForm, given: str) -> None:
    with pytest.raises(Undecodable, match="codec odd could not read"):
        decode_reply_record(given.encode(), headers_of(odd))


TAKER = """
class Taker:
    def __init__(self, name="taker", *types):
        self.name, self.content_types = name, types or ("application/x-taker",)

first = Taker()
again = Taker("again")
named = Taker("taker", "application/x-second")
json = Taker("third", "application/json")
protobuf = Taker("fourth", "application/x-protobuf")
"""
LEAVING = "raise SystemExit('needs a licence')\n"


def test_a_plug_in_whose_types_or_name_are_taken_is_left_out_and_named(tmp_path: Path) -> None:
    entries = {name: f"taker_codec:{name}" for name in ("first", "again", "named", "json", "protobuf")}
    with plug_ins(tmp_path, entries, taker_codec=TAKER):
        assert name_of(form_named("taker")) == "taker"
        for name in ("again", "third", "fourth"):
            with pytest.raises(
                InvalidRequest, match="is not known here: use one of msgpack, json, protobuf, taker"
            ) as caught:
                form_named(name)
    for each in ("again", "named", "json", "protobuf"):
        assert f"plug-in {each} could not be loaded (ValueError: " in caught.value.message


def test_a_plug_in_that_ends_the_program_where_it_is_imported_is_left_out_and_named(tmp_path: Path) -> None:
    entries, said = {"leaving": "leaving_codec:Codec"}, r"leaving could not be loaded \(SystemExit: needs a licence\)"
    with plug_ins(tmp_path, entries, leaving_codec=LEAVING), pytest.raises(InvalidRequest, match=said):
        form_named("leaving")
