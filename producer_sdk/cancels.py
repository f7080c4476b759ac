"""What ends a request early: a record on the cancels topic, its key the request's id, its value JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from ._follow import Follower
from ._limits import MAX_DEADLINE_MS
from .broker import Broker, Outgoing, Record, TopicPartition
from .errors import InvalidRequest
from .topics import Topics, check_id

CANCELS_PARTITION = 0  # the topic has no other


class Cancel(Struct, frozen=True, gc=False):
    """Ends the requests of one id that were published up to a point in time: the id may be used again after it.

    Attributes:
        id: of the requests.
        at_ms: epoch milliseconds by the clock of who cancels. Workers allow for clocks that differ.
    """

    id: str
    at_ms: Annotated[int, Meta(ge=0, le=MAX_DEADLINE_MS)]


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Cancel)


def cancel_record(cancel: Cancel) -> Outgoing:
    return Outgoing(cancel.id.encode(), _encoder.encode(cancel))


def read_cancel(value: bytes | None) -> Cancel:
    """The cancel that a record's value holds; fields of later releases are passed over.

    Raises:
        InvalidRequest: it holds none.
    """
    if value is None:
        raise InvalidRequest("the record has no value, so it cancels nothing")
    try:
        cancel = _decoder.decode(value)
    except (msgspec.MsgspecError, RecursionError) as err:
        raise InvalidRequest(f"the record is no cancel: {err}") from err
    check_id(cancel.id)
    return cancel


def follow_cancels(broker: Broker, topics: Topics, handle: Callable[[Sequence[Record]], None]) -> Follower:
    """A follower, not started, of all cancels that the topic still has and of each that comes."""
    return Follower(broker, TopicPartition(topics.cancels, CANCELS_PARTITION), handle, from_end=False)
