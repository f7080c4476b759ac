"""One try of one request to the store, on a thread of the pool, which the loop can end."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any

from ._s3_clients import LONGEST_WAIT_S, Clients
from ._s3_errors import Refusal, S3Refused

_CHUNK = 256 << 10
_AT_ONCE_S = 0.001


class Attempt:
    """Made and ended by the loop, used by one thread.

    A thread cannot be cancelled, so it looks whether it is still wanted: between chunks of what it sends and reads.
    Within a chunk of a body the timeout of the socket is cut to nothing, which counts from the next packet on.
    """

    def __init__(self, clients: Clients, left_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clients = clients
        self._clock = clock
        self._ends_at = clock() + left_s
        self.ended = False
        self._body: Any = None

    @property
    def client(self) -> Any:
        """boto3's client, its timeouts within what is left."""
        self.check()
        return self._clients.within(self._left_s())

    def _left_s(self) -> float:
        return self._ends_at - self._clock()

    def check(self) -> None:
        """Go on only while somebody waits.

        Raises:
            S3Refused: nobody does.
        """
        if self.ended or self._left_s() <= 0:
            raise S3Refused(Refusal.AGAIN, "the time for it ran out")

    def end(self) -> None:
        """Nobody waits any more. Called on the loop."""
        self.ended = True
        body = self._body
        if body is not None:
            _limit(body, _AT_ONCE_S)

    def read(self, body: Any, size: int) -> list[bytes]:
        """The chunks of a body of `size` bytes."""
        chunks: list[bytes] = []
        self._body = body
        try:
            _limit(body, min(LONGEST_WAIT_S, max(self._left_s(), _AT_ONCE_S)))
            while size > 0:
                self.check()
                chunk = body.read(min(_CHUNK, size))
                if not chunk:
                    raise S3Refused(Refusal.AGAIN, f"the body ended {size} bytes early")
                chunks.append(chunk)
                size -= len(chunk)
        finally:
            self._body = None
        return chunks


def _limit(body: Any, timeout_s: float) -> None:
    try:
        body.set_socket_timeout(timeout_s)
    except (AttributeError, ValueError, OSError):
        pass  # a body whose end was read has no socket any more


class Outgoing(io.RawIOBase):
    """Bytes to send, read by boto3 without a copy of the whole; a read fails once nobody waits for the attempt."""

    def __init__(self, data: memoryview, attempt: Attempt) -> None:
        super().__init__()
        self._data = data
        self._attempt = attempt
        self._at = 0

    def __len__(self) -> int:
        return self._data.nbytes

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        self._attempt.check()
        end = self._data.nbytes if size is None or size < 0 else self._at + size
        chunk = bytes(self._data[self._at : end])
        self._at += len(chunk)
        return chunk

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._data.nbytes}[whence]
        self._at = min(max(start + offset, 0), self._data.nbytes)
        return self._at

    def tell(self) -> int:
        return self._at
