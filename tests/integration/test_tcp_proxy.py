"""The proxy of the tests does to connections what it says, or the tests that use it would prove nothing."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator

import pytest
from tcp_proxy import TcpProxy, proxy_in_thread

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def echo_port() -> AsyncIterator[int]:
    """A server that sends back what it gets."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(1 << 16):
                writer.write(chunk)
                await writer.drain()
        except OSError:
            pass
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


@pytest.fixture
async def proxy(echo_port: int) -> AsyncIterator[TcpProxy]:
    async with TcpProxy(echo_port) as proxy:
        yield proxy


@pytest.fixture
async def ends(proxy: TcpProxy) -> AsyncIterator[Ends]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    yield reader, writer
    writer.transport.abort()


async def answer_s(ends: Ends, text: bytes = b"hello") -> float:
    """How long an answer takes."""
    started = time.monotonic()
    ends[1].write(text)
    assert await ends[0].readexactly(len(text)) == text
    return time.monotonic() - started


async def is_reset(proxy: TcpProxy) -> None:
    """A new connection is reset."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    with pytest.raises(ConnectionResetError):
        await reader.readexactly(1)
    writer.transport.abort()


async def test_what_is_sent_arrives_whole_and_an_end_is_passed_on(ends: Ends) -> None:
    text = bytes(range(256)) * 4096
    await answer_s(ends, text)
    ends[1].write_eof()
    assert await ends[0].read() == b""


async def test_latency_counts_each_way_and_healing_ends_it(proxy: TcpProxy, ends: Ends) -> None:
    proxy.delay(0.1, jitter_s=0.05)
    assert 0.2 <= await answer_s(ends) < 1.0
    proxy.heal()
    assert await answer_s(ends) < 0.1


async def test_little_bandwidth_makes_large_answers_late(proxy: TcpProxy, ends: Ends) -> None:
    proxy.limit(500_000)
    assert await answer_s(ends, b"x" * 50_000) >= 0.2


async def test_nothing_leaves_a_black_hole_until_it_ends(proxy: TcpProxy, ends: Ends) -> None:
    proxy.black_hole()
    ends[1].write(b"held")
    other, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"new")
    for reader in (ends[0], other):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.1)
    proxy.heal()
    assert await ends[0].readexactly(4) == b"held"
    assert await other.readexactly(3) == b"new"
    writer.transport.abort()


@pytest.mark.parametrize("up", [True, False])
async def test_a_black_hole_can_be_one_way(proxy: TcpProxy, ends: Ends, up: bool) -> None:
    proxy.black_hole(up=up, down=not up)
    ends[1].write(b"x")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ends[0].read(1), 0.1)


async def test_a_reset_ends_connections_old_and_new_until_it_heals(proxy: TcpProxy, ends: Ends) -> None:
    await answer_s(ends)
    proxy.reset()
    with pytest.raises(ConnectionResetError):
        await ends[0].readexactly(1)
    await is_reset(proxy)
    proxy.heal()
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    await answer_s((reader, writer))
    writer.transport.abort()


async def test_a_target_that_is_not_there_resets_the_client(proxy: TcpProxy) -> None:
    proxy.target_port = 1
    await is_reset(proxy)


async def test_a_proxy_in_a_thread_changes_at_once(echo_port: int) -> None:
    with proxy_in_thread(echo_port) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        await answer_s((reader, writer))
        await asyncio.to_thread(proxy.reset)
        with pytest.raises(ConnectionResetError):
            await reader.readexactly(1)
        with socket.create_connection(("127.0.0.1", proxy.port)) as late, pytest.raises(ConnectionResetError):
            await asyncio.to_thread(late.recv, 1)
        writer.transport.abort()
