"""What workers tell on the events topic when their setting `events` is on: which requests they started, which offsets
they committed. A JSON object a record, with the worker's name as key; docs/wire.md states the form.

Events prove things that requests, replies and offsets alone cannot show; nothing depends on them.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct


class StartedRequest(Struct, frozen=True, omit_defaults=True, gc=False):
    """One request of a batch that was given to the model.

    Attributes:
        id: of the request.
        topic, partition, offset: the record that it was read from.
        attempts: failed attempts before this one.
        alone: it runs by itself, being suspected of ending the process that runs it.
        deadline_ms: epoch milliseconds after which no answer is of use; None where there is none.
    """

    id: str
    topic: str
    partition: int
    offset: int
    attempts: int = 0
    alone: bool = False
    deadline_ms: int | None = None


class CommittedOffset(Struct, frozen=True, omit_defaults=True, gc=False):
    """What was committed of one partition: the offset, and the text beside it."""

    topic: str
    partition: int
    offset: int
    metadata: str = ""


class Event(Struct, frozen=True, omit_defaults=True):
    """What one worker did at one moment.

    Attributes:
        worker: its name, `HEADRACE_WORKER_ID`.
        life: differs between any two processes, also where they share a name.
        number: counts the events of a life from 0. One that comes twice is the same event; a number that is missing is
            an event that was not kept.
        at_ms: epoch milliseconds by the worker's clock: when the requests were given, or a commit was asked for.
        started: the requests that were given to a model.
        committed: the offsets that the broker has accepted.
    """

    worker: str
    life: str
    number: int
    at_ms: int
    started: tuple[StartedRequest, ...] = ()
    committed: tuple[CommittedOffset, ...] = ()


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Event)


def encode_event(event: Event) -> bytes:
    """The value of its record."""
    return _encoder.encode(event)


def decode_event(value: bytes | None) -> Event | None:
    """The event of a record; None for a value that is none (of a later release, or foreign)."""
    try:
        return _decoder.decode(value or b"")
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
