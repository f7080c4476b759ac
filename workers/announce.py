"""Announcements of this worker's models on the control topic, repeated as a heartbeat; tombstones when it leaves."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from producer_sdk.announcements import Announcement, ModelState, TensorAnnouncement, encode_announcement
from producer_sdk.broker import Outgoing, Producer
from producer_sdk.errors import HeadraceError
from producer_sdk.wire import sendable

from .runners.engine import Loaded, ModelSpec, TensorSpec
from .runners.policies import BatchPolicy
from .runners.variable import asked

MAX_REASON_CHARS = 1000
_log = logging.getLogger("headrace.worker")


def announcement(
    worker: str,
    spec: ModelSpec,
    loaded: Loaded | None,
    state: ModelState,
    reason: str,
    *,
    heartbeat_s: float,
    max_record_bytes: int,
    now_ms: int,
) -> Announcement:
    """This worker's word on one model."""
    return Announcement(
        worker=worker,
        model=spec.name,
        versions=(spec.version,),
        state=state,
        at_ms=now_ms,
        heartbeat_s=heartbeat_s,
        platform=loaded.platform if loaded else "",
        inputs=tuple(_tensor(*each) for each in asked(loaded.signature.inputs)) if loaded else (),
        outputs=tuple(map(_tensor, loaded.signature.outputs)) if loaded else (),
        max_batch_size=loaded.max_batch_size if loaded else 0,
        max_record_bytes=max_record_bytes,
        v1_input=spec.v1_input,
        v1_output=spec.v1_output,
        default_deadline_s=spec.default_deadline_s,
        queue_limits=queue_limits(spec.batching),
        priority_levels=spec.batching.priority_levels,
        default_priority=spec.batching.default_priority,
        reason=sendable(reason[:MAX_REASON_CHARS]),
    )


def queue_limits(policy: BatchPolicy) -> dict[int, int]:
    """Most requests of each priority level that a gateway lets wait; 0 stands for levels without their own queue."""
    queues = {0: policy.queue, **policy.queues}
    return {level: queue.max_queue_size for level, queue in queues.items() if queue.max_queue_size}


def _tensor(spec: TensorSpec, optional: bool = False) -> TensorAnnouncement:
    return TensorAnnouncement(spec.name, spec.datatype, spec.shape, spec.batched, optional)


def standing(state: ModelState, reason: str, quiet: bool, assigned: bool) -> tuple[ModelState, str]:
    """What others are told of a model: READY once it is loaded and its group has given out partitions."""
    if state is ModelState.READY and quiet:
        return ModelState.UNAVAILABLE, "the worker is quiet: it takes no new work"
    if state is ModelState.READY and not assigned:
        return ModelState.LOADING, "it waits for partitions"
    return state, reason


class Announcer:
    """Publishes what `current` says, every heartbeat and when `changed` is set. One event loop touches it."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        current: Callable[[int], Sequence[Announcement]],
        heartbeat_s: float,
        changed: asyncio.Event,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._current = current
        self._heartbeat_s = heartbeat_s
        self._changed = changed
        self.acknowledged_at = time.monotonic()  # when Kafka was last known to be there

    async def run(self) -> None:
        """Announce until cancelled."""
        while True:
            self._changed.clear()
            await self._publish([Outgoing(each.key, encode_announcement(each)) for each in self._now()])
            try:
                async with asyncio.timeout(self._heartbeat_s):
                    await self._changed.wait()
            except TimeoutError:
                pass  # the heartbeat is due

    async def leave(self, timeout_s: float) -> None:
        """Take the announcements back. Past the time they are left to become stale."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._publish([Outgoing(each.key, None) for each in self._now()])
        except TimeoutError:
            _log.warning("The announcements are not taken back within %g s: they will become stale", timeout_s,
                         extra={"action": "leave_unannounced"})  # fmt: skip

    def _now(self) -> Sequence[Announcement]:
        return self._current(int(time.time() * 1000))

    async def _publish(self, records: Sequence[Outgoing]) -> None:
        try:
            await self._producer.publish_batch(self._topic, 0, records)
            self.acknowledged_at = time.monotonic()
        except HeadraceError as err:  # of the broker, or the announcement is too large for it
            _log.warning("The announcement is not acknowledged: %s", err, extra={"action": "announce_failed"})
