"""The place of a static member: it is never taken back from another that came under the same `instance_id`.

aiokafka does not know Kafka's error for that. It learns from a heartbeat that the group knows its member no longer,
joins as a new one and so puts the other out, which does the same: for ever in turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka.errors import KafkaError
from aiokafka.protocol.group import SyncGroupRequest

from ._kafka_offsets import Membership

_FENCED_INSTANCE_ID = 82


def watch_place(coordinator: Any, displaced: Callable[[], None]) -> None:
    """Have it called when Kafka answers that another member has the place; the coordinator then asks nothing more."""
    send = coordinator._send_req

    async def watched(request: Any) -> Any:
        response = await send(request)
        if getattr(response, "error_code", 0) == _FENCED_INSTANCE_ID:
            displaced()
            raise asyncio.CancelledError("another member has the place")
        return response

    coordinator._send_req = watched


async def keep_place(coordinator: Any, membership: Membership) -> None:
    """To be awaited before joining again: ask, as the member of then, for what it was assigned.

    That changes nothing. When the place is another's, `watch_place` ends the coordination; other answers are no matter.
    """
    if coordinator.member_id == membership.member_id:
        return  # the group knows it, and refuses it itself if the place is lost meanwhile
    instance_id = coordinator._group_instance_id
    request = SyncGroupRequest(coordinator.group_id, membership.generation, membership.member_id, instance_id, [])
    try:
        await coordinator.ensure_coordinator_known()
        await coordinator._send_req(request)
    except KafkaError:
        pass  # no way to the group: it has expired meanwhile, or the next attempt to join tells
