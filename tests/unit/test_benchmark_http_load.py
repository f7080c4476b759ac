"""The HTTP load generator's reading of answers: in any pieces, of any status, from connections that end."""

import asyncio
import time

import pytest

from benchmarks.http_load import Connection, HttpLoad, HttpSpec

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
