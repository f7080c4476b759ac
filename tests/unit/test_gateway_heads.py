"""A head that is known spares the parser only where the parser would find the same."""

import pytest

from gateway.heads import MOST_HEADS, Head, KnownHeads, read_head

START = b"POST /v2/models/mlp/infer HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n"
HEADERS = [(b"host", b"a"), (b"content-length", b"3")]


def head(headers: list[tuple[bytes, bytes]] = HEADERS, method: str = "POST", version: str = "1.1") -> Head:
    return read_head(method, b"/v2/models/mlp/infer?x=1", version, headers)


def test_a_known_head_and_a_whole_body_are_split() -> None:
    heads, known = KnownHeads(), head()
    assert heads.split(START + b"abc") is None
    heads.learn(START + b"abc", known, 3)
    assert heads.split(START + b"xyz") == (known, b"xyz", 0)
    assert (known.raw_path, known.target and known.target.model) == (b"/v2/models/mlp/infer", "mlp")


@pytest.mark.parametrize("begin", [b"", b"a", b"ab"])
def test_the_body_may_come_later(begin: bytes) -> None:
    heads, known = KnownHeads(), head()
    heads.learn(START + begin, known, len(begin))
    for body in (b"", b"x", b"xy", b"xyz"):
        assert heads.split(START + body) == (known, body, 3 - len(body))


@pytest.mark.parametrize("body_bytes", [0, 2, 4])
def test_a_head_whose_end_the_parser_saw_elsewhere_is_not_learnt(body_bytes: int) -> None:
    heads = KnownHeads()
    heads.learn(START + b"abc", head(), body_bytes)
    assert heads.split(START + b"abc") is None


def test_a_wish_to_keep_the_connection_changes_nothing() -> None:
    heads, known = KnownHeads(), head([*HEADERS, (b"connection", b"Keep-Alive")])
    heads.learn(START + b"abc", known, 3)
    assert heads.split(START + b"abc") == (known, b"abc", 0)


@pytest.mark.parametrize("data", [b"", START[:-1], START + b"abcd", START + b"abc" + START, b"\r\n" + START])
def test_anything_else_is_for_the_parser(data: bytes) -> None:
    heads = KnownHeads()
    heads.learn(START + b"abc", head(), 3)
    assert heads.split(data) is None


@pytest.mark.parametrize(
    "known",
    [
        *(head([*HEADERS, (name, b"x")]) for name in (b"transfer-encoding", b"connection", b"expect", b"upgrade")),
        head([*HEADERS, (b"content-length", b"3")]),
        head([(b"host", b"a")]),
        head([(b"content-length", b"2")]),
        head(method="GET"),
        head(version="1.0"),
    ],
)
def test_a_head_that_changes_what_follows_is_not_learnt(known: Head) -> None:
    heads = KnownHeads()
    heads.learn(START + b"abc", known, 3)
    assert heads.split(START + b"abc") is None


def test_no_more_are_kept_than_the_limit() -> None:
    heads = KnownHeads()
    for number in range(3 * MOST_HEADS):
        heads.learn(b"POST /%d\r\n\r\nabc" % number, head(), 3)
    assert len(heads._heads) <= MOST_HEADS
