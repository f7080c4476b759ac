"""A trace: when requests arrive and what each asks for; as a file of one JSON line a request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from producer_sdk.topics import Lane
from workers.shapes import Bucket

FORMAT = 1


class Arrival(Struct, frozen=True, array_like=True, gc=False):
    """One request of a trace.

    Attributes:
        at_s: seconds from the beginning of the trace to its publication.
        lane: its lane.
        rows: its rows.
        cost: what the model declares it to cost; its rows where it declares nothing.
        nbytes: bytes of its inputs in a batch.
        deadline_s: seconds from publication within which its reply is of use; None is for ever.
        bucket: only requests of one bucket can share a batch.
        tenant: whom it is counted for.
        priority: 1 is served first; 0 where the model has no levels.
    """

    at_s: float
    lane: Lane = Lane.ASYNC
    rows: int = 1
    cost: float = 1.0
    nbytes: int = 0
    deadline_s: float | None = None
    bucket: object = ()
    tenant: str | None = None
    priority: int = 0


class Trace(Struct, frozen=True):
    """Arrivals in order of time, and where they are from, in words."""

    source: str
    arrivals: tuple[Arrival, ...]

    @property
    def seconds(self) -> float:
        """From the first arrival to the last."""
        return self.arrivals[-1].at_s - self.arrivals[0].at_s if self.arrivals else 0.0

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.arrivals)


class TraceUnreadable(Exception):
    """A file is no trace; the message says which line is at fault, and why."""


class _Head(Struct, frozen=True):
    headrace_trace: int
    source: str = ""


def save_trace(trace: Trace, path: Path) -> None:
    """Write a head, then a line for each arrival. Raises OSError."""
    arrivals = [replace(each, bucket=_plain(each.bucket)) for each in trace.arrivals]
    lines = [msgspec.json.encode(_Head(FORMAT, trace.source)), *map(msgspec.json.encode, arrivals), b""]
    path.write_bytes(b"\n".join(lines))


def load_trace(path: Path) -> Trace:
    """Read what `save_trace` wrote.

    Raises:
        TraceUnreadable: it is no such file.
        OSError: it cannot be read.
    """
    head, *lines = path.read_bytes().splitlines() or [b""]
    told = _decoded(head, _Head, path, 1)
    if told.headrace_trace != FORMAT:
        raise TraceUnreadable(f"{path} is a trace of format {told.headrace_trace}: this release reads {FORMAT}")
    return Trace(told.source, in_order(_arrivals(lines, path)))


def in_order(arrivals: Iterable[Arrival]) -> tuple[Arrival, ...]:
    return tuple(sorted(arrivals, key=lambda each: each.at_s))


def _arrivals(lines: Iterable[bytes], path: Path) -> Iterator[Arrival]:
    for number, line in enumerate(lines, 2):
        if line.strip():
            arrival = _decoded(line, Arrival, path, number)
            yield replace(arrival, bucket=hashable(arrival.bucket))


def _decoded(line: bytes, kind: Any, path: Path, number: int) -> Any:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as err:
        raise TraceUnreadable(f"{path}, line {number}, is not of a trace: {err}") from err


def hashable(bucket: object) -> object:
    """A bucket as it was before JSON made lists of its tuples."""
    if isinstance(bucket, dict):
        return Bucket(hashable(bucket.get("exact", [])), hashable(bucket.get("sizes", [])))  # type: ignore[arg-type]
    return tuple(map(hashable, bucket)) if isinstance(bucket, list) else bucket


def _plain(bucket: object) -> object:
    """A bucket as JSON, in which those that are padded can be told from the others."""
    return {"exact": bucket.exact, "sizes": bucket.sizes} if isinstance(bucket, Bucket) and bucket.sizes else bucket
