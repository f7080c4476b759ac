"""A request like one before is read without a decoder: as the decoder reads it, or not at all."""

from typing import Any

import msgspec
import numpy as np
import pytest
from decode_rig import NOW, REPLIES, SOURCE, ARecord, accepted, decoder, read, refused
from hypothesis import given, settings
from hypothesis import strategies as st

from producer_sdk.alike import MAX_KINDS, Kinds
from producer_sdk.errors import Code
from producer_sdk.tensors import Datatype, Tensor
from producer_sdk.topics import Lane, ReplyTo
from producer_sdk.wire import Request, decode_request, encode_request
from workers.runners.engine import TensorSpec

NAMES: dict[str, Any] = {
    "x": np.arange(40, dtype=np.float32).reshape(1, 40),
    "w": np.arange(9, dtype=np.int16).reshape(1, 9),
}
WIDE = TensorSpec("x", Datatype.FP32, (40,))


def message(id: str | None = "id-1", arrays: Any = NAMES, **fields: Any) -> bytes:
    tensors = {name: Tensor.from_array(array) for name, array in arrays.items()}
    facts = {"reply_to": ReplyTo("p.replies", 7), "tenant": "t", "version": "2", "parameters": {"k": 1}}
    return encode_request(Request(id, tensors, **(facts | fields)))  # type: ignore[arg-type]


def request_in(value: bytes) -> Request:
    request = decode_request(value, "derived")
    assert isinstance(request, Request), request
    return request


def kinds_of(value: bytes) -> Kinds[str]:
    kinds: Kinds[str] = Kinds()
    kinds.learn(value, request_in(value), "note")
    return kinds


def recalled(value: bytes, kinds: Kinds[Any] | None = None) -> tuple[Request, Any] | None:
    requests, notes, _ = (kinds or kinds_of(message())).recall([ARecord(value)])
    return (requests[0], notes[0]) if requests else None


@pytest.mark.parametrize("id", ["i", "a" * 31, "a" * 32, "a" * 128, "A-z_0.9:x"])
@pytest.mark.parametrize("deadline_ms", [None, 1_800_000_000_000])
def test_other_ids_deadlines_and_content_are_read_as_the_decoder_reads_them(id: str, deadline_ms: int | None) -> None:
    other = message(id, {name: array + 1 for name, array in NAMES.items()}, deadline_ms=deadline_ms)
    assert recalled(other) == (request_in(other), "note")


@pytest.mark.parametrize(
    "other",
    [
        message(None),
        message(reply_to=ReplyTo("p.replies", 8)),
        message(tenant="u"),
        message(version="3"),
        message(parameters={"k": 2}),
        message(outputs=("y",)),
        message(arrays={"x": NAMES["x"], "v": NAMES["w"]}),
        message(arrays={"x": NAMES["x"].reshape(2, 20), "w": NAMES["w"]}),
        message(arrays={"x": NAMES["x"].view(np.int32), "w": NAMES["w"]}),
        message(arrays={"w": NAMES["w"], "x": NAMES["x"]}),
        message(deadline_ms=5),
        message()[:-1],
        message() + b"\0",
        b"\x99\x01\xd9\x00" + message()[7:],
        b"\x99\x01\xa2.." + message()[7:],
        b"\x99\x01",
        b"",
    ],
)
def test_whatever_differs_elsewhere_is_left_to_the_decoder(other: bytes) -> None:
    assert recalled(other) is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=3), st.booleans())
def test_no_damage_is_read_as_anything_else_than_the_decoder_reads(
    damages: list[tuple[int, int]], with_deadline: bool
) -> None:
    value = bytearray(message(deadline_ms=1_800_000_000_000 if with_deadline else None))
    for place, byte in damages:
        value[place % len(value)] = byte
    read_again = recalled(bytes(value))
    assert read_again is None or read_again[0] == decode_request(bytes(value), "derived")


def test_tensors_without_bytes_and_requests_without_tensors_are_not_learned() -> None:
    for arrays in ({"x": np.zeros((0, 40), np.float32), "w": NAMES["w"]}, {}):
        value = message("i" * 99, arrays, parameters={"k": "v" * 99})
        assert recalled(value, kinds_of(value)) is None


def test_the_kinds_kept_are_bounded_and_new_ones_take_the_place_of_old_ones() -> None:
    kinds: Kinds[int] = Kinds()
    values = [message(reply_to=ReplyTo("p.replies", number)) for number in range(MAX_KINDS + 1)]
    for number, value in enumerate(values):
        for _ in range(16):
            kinds.learn(value, request_in(value), number)
    assert recalled(values[0], kinds) is None
    assert recalled(values[-1], kinds) == (request_in(values[-1]), MAX_KINDS)


def test_a_kind_with_endless_facts_is_not_kept() -> None:
    value = message(parameters={f"key{number}": "v" * 250 for number in range(30)})
    assert recalled(value, kinds_of(value)) is None


def wide(id: str = "a", fill: Any = 1, dtype: Any = np.float32, **fields: Any) -> ARecord:
    tensors = {"x": Tensor.from_array(np.full((1, 40), fill, dtype))}
    return ARecord(encode_request(Request(id, tensors, reply_to=REPLIES, **fields)))


def test_work_like_that_before_has_its_own_id_content_and_deadline() -> None:
    by = decoder(WIDE, clock_skew_allowance_s=0.0)
    first, second = (accepted(read(wide(id, fill), by)) for id, fill in (("a", 1), ("b", 2)))
    assert (first.request.id, second.request.id) == ("a", "b")
    assert bytes(second.request.inputs["x"].data) == np.full(40, 2, np.float32).tobytes()
    assert (first.rows, first.nbytes, first.bucket, first.cost) == (second.rows, second.nbytes, second.bucket, 1.0)
    assert second.request.parameters is first.request.parameters  # it did not go the long way


def test_requests_like_one_before_expire_and_are_cancelled_as_that_could_be() -> None:
    class Cancels:
        def __len__(self) -> int:
            return 1

        def covers(self, id: str, published_ms: int) -> bool:
            return (id, published_ms) == ("gone", 999)

    by = decoder(WIDE, default_deadline_s=1.0, cancels=Cancels())
    assert accepted(read(wide(), by)).expires == NOW.monotonic + 1.0
    assert accepted(read(wide("b")._replace(timestamp=NOW.epoch_ms - 400), by)).expires == NOW.monotonic + 0.6
    assert refused(read(wide("c")._replace(timestamp=5), by)).error.code == Code.DEADLINE_EXCEEDED
    cancelled = refused(read(wide("gone")._replace(timestamp=999), by))
    assert (cancelled.error.code, cancelled.id, cancelled.reply_to) == (Code.CANCELLED, "gone", REPLIES)


def test_content_is_looked_at_where_a_shape_does_not_tell_all() -> None:
    by = decoder(TensorSpec("x", Datatype.BOOL, (40,)))
    accepted(read(wide(fill=1, dtype=bool), by))
    value = wide("b", fill=1, dtype=bool).value
    assert value is not None
    rejected = refused(read(ARecord(value[:-1] + b"\x02"), by))
    assert (rejected.id, rejected.error.code) == ("b", Code.INVALID_REQUEST)


def test_what_was_refused_is_refused_again() -> None:
    by = decoder(WIDE)
    for record in (wide(version="1"), wide(outputs=("q",)), wide(dtype=np.float64)) * 2:
        assert refused(read(record, by)).error.code in (Code.INVALID_REQUEST, Code.UNKNOWN_MODEL)


def test_a_retried_record_and_one_with_headers_go_the_long_way() -> None:
    by = decoder(WIDE)
    accepted(read(wide(), by))
    moved = wide("b")._replace(topic="p.m.retry", headers=[("headrace-retry-attempts", b"x")])
    assert accepted(read(moved, by)).request.id == "b"
    dated = wide("c")._replace(headers=[("ce_expirytime", b"1970-01-01T00:00:01Z")])
    assert refused(read(dated, by)).error.code == Code.DEADLINE_EXCEEDED


def facts_of(item: Any) -> dict[str, Any]:
    """All that an item says; errors, which have no equality, as texts."""
    facts = msgspec.structs.asdict(item)
    return facts | {"error": repr(error)} if (error := facts.get("error")) else facts


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                wide("id-1"),
                wide("id-2", fill=2),
                wide("longer-id"),
                wide("in-time", deadline_ms=NOW.epoch_ms + 500),
                wide("too-late", deadline_ms=NOW.epoch_ms),
                wide("z" * 8, tenant="u"),
                wide("1"),
                wide("dated")._replace(headers=[("ce_expirytime", b"1970-01-01T00:00:01Z")]),
                wide("old-one")._replace(timestamp=5),
                wide("f64-one", dtype=np.float64),
                ARecord(None),
                ARecord((wide("id-3").value or b"").replace(b"id-3", b"i /3")),
            ]
        ),
        max_size=12,
    ),
    st.sampled_from([None, 1.0]),
)
def test_neighbours_read_together_are_what_each_is_by_itself(records: list[ARecord], default_s: float | None) -> None:
    records = [record._replace(offset=offset) for offset, record in enumerate(records)]
    by = decoder(WIDE, default_deadline_s=default_s)
    together: list[Any] = []
    while len(together) < len(records):
        works, others, one_kind = by.decode(records, len(together), SOURCE.ledger, Lane.BULK, NOW)
        assert not one_kind or len({(work.bucket, work.request.tenant, work.alone) for work in works}) == 1
        together += [*works, *others]
    each = [decoder(WIDE, default_deadline_s=default_s).decode([record], 0, SOURCE.ledger, Lane.BULK, NOW).others[0]
            for record in records]  # fmt: skip
    assert [facts_of(item) for item in together] == [facts_of(item) for item in each]


def test_neighbours_of_known_kinds_are_read_in_one_pass() -> None:
    by = decoder(WIDE)
    one = [wide(f"id-{number}") for number in range(20)]
    other = [wide(f"id-{number}", tenant="u") for number in range(20)]
    accepted(read(one[0], by))
    works, others, one_kind = by.decode([*one[:3], other[0], one[3]], 0, SOURCE.ledger, Lane.ASYNC, NOW)
    assert ([work.request.id for work in works], others, one_kind) == (["id-0", "id-1", "id-2"], (), True)
    for record in other:  # a kind is learned now and then only
        accepted(read(record, by))
    mixed = [*one[:2], *other[:2], one[2]]
    works, others, one_kind = by.decode(mixed, 0, SOURCE.ledger, Lane.ASYNC, NOW)
    assert ([work.request.tenant for work in works], others, one_kind) == ([None, None, "u", "u", None], (), False)
