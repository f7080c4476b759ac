"""Whatever is remembered of earlier requests, each gets the answer that it would get alone."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_requests import BAD_HEADS, BINARIES, BODY, DATA, OBJECTS, USUAL, request
from two_ways import Gateway, gateway_both_ways

Both = tuple[asyncio.Runner, Gateway]


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    with asyncio.Runner() as runner:
        opened = gateway_both_ways()
        gateway = runner.run(opened.__aenter__())
        for usual in USUAL:
            for _ in range(3):
                answers, _ = runner.run(gateway.ask([usual], is_slow=False))
                assert answers.startswith(b"HTTP/1.1 200 "), answers
        yield runner, gateway
        runner.run(opened.__aexit__(None, None, None))


def compare(both: Both, *pieces: bytes, patiently: bool = False) -> None:
    runner, gateway = both
    alone = runner.run(gateway.slowly(pieces, patiently=patiently))
    for _ in range(3):  # what is learnt of the first two must not change the third
        assert runner.run(gateway.ask(pieces, is_slow=False, patiently=patiently)) == alone


@pytest.mark.parametrize(
    "datatype", [b"FP32", b"FP64", b"FP16", b"BF16", b"INT8", b"UINT64", b"INT32", b"BOOL", b"BYTES", b"x"]
)
def test_data_of_any_kind(both: Both, datatype: bytes) -> None:
    for data in DATA:
        compare(both, request(BODY.replace(b"FP32", datatype).replace(b"[1,2]}", data + b"}")))


@pytest.mark.parametrize("body", OBJECTS)
def test_objects_of_any_kind(both: Both, body: bytes) -> None:
    compare(both, request(body))


@pytest.mark.parametrize("asked", BINARIES)
def test_binary_tensors_of_any_kind(both: Both, asked: bytes) -> None:
    compare(both, asked)


@pytest.mark.parametrize("asked", BAD_HEADS)
def test_heads_of_any_kind_alone_and_between_usual_ones(both: Both, asked: bytes) -> None:
    compare(both, asked)
    for patiently in (False, True):
        compare(both, USUAL[1], asked, USUAL[0], patiently=patiently)
    compare(both, USUAL[0] + asked + USUAL[1])


@given(
    st.lists(st.sampled_from([*USUAL, *BAD_HEADS, *BINARIES]), min_size=1, max_size=4),
    st.lists(st.integers(0, 600), max_size=6),
    st.data(),
)
@settings(max_examples=40)
def test_requests_cut_anywhere(both: Both, asked: list[bytes], cuts: list[int], data: st.DataObject) -> None:
    whole = b"".join(asked)
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + data.draw(st.integers(0, 3)) :]
    places = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    pieces = [whole[a:b] for a, b in pairwise(places) if a < b]
    compare(both, *pieces, patiently=data.draw(st.booleans()))


def test_what_is_counted_is_the_same(both: Both) -> None:
    runner, gateway = both

    def counted(*, is_slow: bool, asked: bytes) -> set[str]:
        before = gateway.counts()
        runner.run(gateway.ask([asked], is_slow=is_slow))
        return {name for name, count in gateway.counts().items() if count != before.get(name)}

    for asked in (*USUAL, *BAD_HEADS, *map(request, OBJECTS)):
        assert counted(is_slow=False, asked=asked) == counted(is_slow=True, asked=asked)
    with gateway.full():
        assert counted(is_slow=False, asked=USUAL[0]) == counted(is_slow=True, asked=USUAL[0]) != set()


def test_a_caller_that_reads_nothing_holds_no_place_and_gets_its_answer_later(both: Both) -> None:
    runner, gateway = both
    for hangs_up in (False, True):
        wire = runner.run(gateway.unread(USUAL[0], hangs_up=hangs_up))
        assert bool(wire.written) != hangs_up


@pytest.mark.parametrize("path", [b"/v2/models/other/infer", b"/v2/models/mlp/versions/7/infer", b"/nowhere"])
def test_a_body_that_looks_like_a_known_request_is_no_request(
    both: Both, path: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer comes before the body, which the connection still owes."""
    monkeypatch.setattr("gateway.protocol.WAIT_FOR_BODY_S", 0.0)
    hidden = USUAL[0]
    head = b"POST %b HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % (path, 2 * len(hidden))
    for pieces in (
        (head, hidden, hidden, USUAL[1]),
        (head, hidden, hidden + USUAL[1]),
        (head + hidden, hidden, USUAL[1]),
    ):
        compare(both, *pieces, patiently=True)
    answers, _ = both[0].run(both[1].ask([head, hidden, hidden, USUAL[1]], is_slow=False, patiently=True))
    assert [answer[:3] for answer in answers.split(b"HTTP/1.1 ")[1:]] == [b"404", b"200"]
