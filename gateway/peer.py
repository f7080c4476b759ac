"""What a socket tells of the peer while nothing is read from it."""

from __future__ import annotations

import asyncio
import select
import socket

_ENDED = getattr(select, "POLLRDHUP", 0)  # elsewhere than on Linux, poll tells it unasked


def is_broken(transport: asyncio.BaseTransport) -> bool:
    """Whether the peer refused what it was sent, or reset the connection."""
    return bool(transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


def has_ended(transport: asyncio.BaseTransport) -> bool:
    """Whether the peer has ended its side, even where what it sent before is not read yet."""
    look = select.poll()
    look.register(transport.get_extra_info("socket").fileno(), _ENDED)
    return bool(look.poll(0))
