"""The worker's end of the socket to a runner process: messages in and out without ever blocking the loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from .messages import Frames, framed

CHUNK_BYTES = 64 * 1024


class Channel:
    """The event loop's thread uses it. `on_message` is called for each message, `on_end` once the other end is gone."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        on_message: Callable[[bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        sock.setblocking(False)
        self._loop = loop
        self._sock = sock
        self._on_message = on_message
        self._on_end = on_end
        self._frames = Frames()
        self._unsent = b""
        self._reading = True
        loop.add_reader(sock, self._readable)

    def send(self, message: bytes) -> None:
        """Send a message, now or as soon as the socket takes it; one to a runner that is gone vanishes."""
        data = framed(message)
        if self._unsent:
            self._unsent += data
            return
        self._unsent = data[self._try_send(data) :]
        if self._unsent:
            self._loop.add_writer(self._sock, self._writable)

    def say_end(self) -> None:
        """Tell the runner that nothing more comes."""
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the runner is gone already

    def drain(self) -> None:
        """Read what a runner that has ended left behind."""
        while self._reading and self._read():
            pass

    def close(self) -> None:
        self._stop_reading()
        if self._sock.fileno() >= 0:
            self._loop.remove_writer(self._sock)
            self._sock.close()

    def _readable(self) -> None:
        self._read()

    def _read(self) -> bool:
        """Read once; false when nothing is there."""
        try:
            data = self._sock.recv(CHUNK_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            self._stop_reading()
            self._on_end()
            return False
        for message in self._frames.feed(data):
            self._on_message(message)
        return True

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._sock)

    def _writable(self) -> None:
        self._unsent = self._unsent[self._try_send(self._unsent) :]
        if not self._unsent:
            self._loop.remove_writer(self._sock)

    def _try_send(self, data: bytes) -> int:
        try:
            return self._sock.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            return len(data)
