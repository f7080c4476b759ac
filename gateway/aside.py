"""Work on large bodies in a thread beside the event loop, so that small requests are answered meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from producer_sdk.tensors import Array

P = ParamSpec("P")
T = TypeVar("T")

LARGE_BYTES = 1 << 20


async def aside(nbytes: int, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """The work's result, in a thread where it is about many bytes."""
    if nbytes <= LARGE_BYTES:
        return work(*args, **named)
    return await asyncio.to_thread(work, *args, **named)


def bytes_of(outputs: Mapping[str, Array]) -> int:
    """Bytes of some outputs, BYTES elements included."""
    nbytes = 0
    for array in outputs.values():
        nbytes += sum(map(len, array.flat)) if array.dtype.kind == "O" else array.nbytes
    return nbytes
