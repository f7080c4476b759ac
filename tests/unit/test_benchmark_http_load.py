"""The HTTP load generator's reading of answers: in any pieces, of any status, from connections that end."""

import asyncio
import json
import time
from pathlib import Path

import msgspec
import pytest

from benchmarks import http_load
from benchmarks.http_load import Connection, HttpLoad, HttpSpec
from benchmarks.latencies import Summary, TooSlow
from benchmarks.over_http import summary_of

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"


class Wire(asyncio.Transport):
    """Keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))


class Heard(HttpLoad):
    """Keeps what the connection told."""

    def __init__(self) -> None:
        super().__init__(HttpSpec("h", 1, "/infer", "text/plain", (b"one", b"three"), 1, 1.0, headers="X: y\r\n"))
        self.told: list[tuple[int, bool]] = []

    def answered(self, connection: Connection | None, number: int, good: bool) -> None:
        self.told.append((number, good))


@pytest.fixture
def load() -> Heard:
    return Heard()


@pytest.fixture
def asked(load: Heard) -> Connection:
    connection = Connection(load)
    connection.connection_made(Wire())
    connection.ask(7, b"request")
    return connection


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_an_answer_counts_once_in_whatever_pieces_it_comes(load: Heard, asked: Connection, step: int) -> None:
    for start in range(0, len(ANSWER), step):
        asked.data_received(ANSWER[start : start + step])
    assert load.told == [(7, True)]


def test_an_answer_is_not_there_before_its_last_byte(load: Heard, asked: Connection) -> None:
    asked.data_received(ANSWER[:-1])
    assert load.told == []


def test_a_status_other_than_200_is_an_error(load: Heard, asked: Connection) -> None:
    asked.data_received(ANSWER.replace(b"200 OK", b"503 Busy"))
    assert load.told == [(7, False)]


def test_a_connection_that_ends_before_its_answer_is_an_error(load: Heard, asked: Connection) -> None:
    asked.connection_lost(None)
    assert load.told == [(7, False)]


def test_a_connection_that_ends_idle_is_none(load: Heard, asked: Connection) -> None:
    asked.data_received(ANSWER)
    asked.connection_lost(None)
    assert load.told == [(7, True)]


def test_an_answer_without_a_length_is_no_answer_that_can_be_timed(asked: Connection) -> None:
    with pytest.raises(ValueError, match="without a length"):
        asked.data_received(b"HTTP/1.1 200 OK\r\n\r\n")


def test_a_request_names_its_length_and_all_headers() -> None:
    spec = HttpSpec("h", 1, "/infer", "text/plain", (b"one", b"three"), 1, 1.0, headers="X: y\r\n")
    assert spec.requests()[1].endswith(b"X: y\r\nContent-Length: 5\r\n\r\nthree")


def test_an_open_load_gives_a_free_connection_what_waits() -> None:
    spec = HttpSpec("h", 1, "/", "text/plain", (b"one",), 1, 1.0, per_s=1.0)
    load, wire = HttpLoad(spec), Wire()
    connection = Connection(load)
    connection.connection_made(wire)
    load.use(connection)
    for _ in range(2):
        load.ask_next(time.perf_counter())
    assert len(wire.written) == 1
    connection.data_received(ANSWER)
    assert len(wire.written) == 2


class Reopening(HttpLoad):
    """An open load whose new connections are kept here; without `answers` nobody listens any more."""

    def __init__(self, answers: bool = True) -> None:
        super().__init__(HttpSpec("h", 1, "/", "text/plain", (b"one",), 1, 1.0, per_s=0.1))
        self.opened: list[Connection] = []
        self.failed: list[int] = []
        self._answers = answers

    async def _open(self) -> Connection:
        if not self._answers:
            raise ConnectionRefusedError
        connection = Connection(self)
        connection.connection_made(Wire())
        self.opened.append(connection)
        return connection

    def answered(self, connection: Connection | None, number: int, good: bool) -> None:
        super().answered(connection, number, good)
        if not good:
            self.failed.append(number)


async def test_a_connection_that_the_server_closed_idle_is_opened_again_for_the_next_request() -> None:
    load = Reopening()
    load.use(await load._open())
    load.opened[0].connection_lost(None)
    load.ask_next(time.perf_counter())
    await asyncio.gather(*load._opening)
    load.opened[1].data_received(ANSWER)
    assert load._done[0] is not None


async def test_a_request_for_which_no_connection_can_be_opened_is_an_error() -> None:
    load = Reopening(answers=False)
    connection = Connection(load)
    load.use(connection)
    connection.connection_lost(None)
    load.ask_next(time.perf_counter())
    await asyncio.gather(*load._opening)
    assert load.failed == [0]


def test_a_load_too_slow_to_measure_is_a_sentence_on_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def too_slow(load: HttpLoad) -> Summary:
        raise TooSlow("too slow to measure: 0 requests in 4 s")

    monkeypatch.setattr(HttpLoad, "run", too_slow)
    file = tmp_path / "spec"
    file.write_bytes(msgspec.msgpack.encode(HttpSpec("h", 1, "/", "text/plain", (b"one",), 1, 4.0)))
    assert http_load.main(str(file)) == 0
    with pytest.raises(TooSlow, match="0 requests in 4 s"):
        summary_of(capsys.readouterr().out)


def test_figures_are_read_as_they_were_said() -> None:
    found = Summary(1, 1, 4, 1.5, float("inf"), float("inf"), 0.5, 0, 0, 0)
    assert summary_of(json.dumps(msgspec.to_builtins(found))) == found
