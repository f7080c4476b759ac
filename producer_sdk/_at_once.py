"""Requests that are sent without a wait, for who has no task to wait in."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from msgspec.structs import replace

from ._call import Call, encode_call
from ._claims import Sending
from ._connection import Connection
from ._pending import Waiter
from ._replies import Replies
from ._requests_alike import Kind, encode_alike
from .broker import Outgoing
from .tensors import Tensor
from .topics import ReplyTo, check_id
from .wire import check_deadline_ms


def send_at_once(
    connection: Connection,
    replies: Replies,
    call: Call,
    deadline_s: float,
    id: str,
    inputs: Mapping[str, Tensor],
    waiter: Waiter,
    encoding: str,
    most_bytes: int,
) -> bool:
    """Publish one request and have the waiter told its outcome; False where that would take a wait.

    Nothing was published then. Raises HeadraceError, as `Client.infer` does before it waits.
    """
    sender = connection.sender
    route, reply_to = sender.known_route(call.model, call.lane), replies.address
    if route is None or reply_to is None:
        return False
    replies.check(id)
    sending = _written(call, deadline_s, id, inputs, reply_to) if encoding == "msgpack" else None
    if sending is None:
        sending = encode_call(replace(call, deadline_s=deadline_s), id, inputs, encoding, reply_to)
    record = sending.record
    if len(record.value or b"") > most_bytes or not sender.send_now(route, sending):
        return False
    # No reply can have come: the reader is a task of this loop.
    replies.expect(id, deadline_s, waiter, record.timestamp_ms or 0, takes_tensors=True)
    return True


def _written(call: Call, deadline_s: float, id: str, inputs: Mapping[str, Tensor], reply_to: ReplyTo) -> Sending | None:
    """A request like those before it; None: it is written in the usual way."""
    if call.parameters:
        return None
    now_ms = int(time.time() * 1000)
    deadline_ms = check_deadline_ms(now_ms + math.ceil(deadline_s * 1000))
    kind = Kind(reply_to, call.tenant, call.version, call.outputs)
    value = encode_alike(check_id(id), deadline_ms, kind, inputs)
    return None if value is None else Sending(id, Outgoing(id.encode(), value, (), now_ms))
