"""A model's runners beside each other, with the face of one device."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial

from producer_sdk.announcements import ModelState

from .lessons import Lessons, Observed
from .quarantine import Quarantine
from .reply import Scribe
from .run import Device, Ran
from .runners.engine import Loaded, ModelSpec
from .runners.fetching import LayOut
from .runners.load import make_runner
from .settings import WorkerSettings
from .work import Batch

_BEST_FIRST = (ModelState.READY, ModelState.LOADING)


class Replicas:
    """Runs batches on several devices of one model. One event loop touches it.

    With N devices slot k is one of device k % N, so that the first N batches run at a time, and the next N are
    assembled behind them. What a device has learned the others know. It is as ready as the best of its devices is, and
    a device that restarts takes no batches meanwhile.
    """

    def __init__(self, devices: list[Device], lessons: Lessons) -> None:
        """All of the devices have these lessons."""
        self._devices = devices
        self.runners = len(devices)
        self.slots = sum(device.slots for device in devices)
        self.lessons = lessons
        self._told = 1  # how many of them count for what others are told: the others wait for the first

    @property
    def ready(self) -> bool:
        """See Device."""
        return any(device.ready for device in self._devices)

    @property
    def state(self) -> ModelState:
        """See Device."""
        return self._best.state

    @property
    def reason(self) -> str:
        """See Device."""
        return self._best.reason

    @property
    def deaths(self) -> int:
        """How often one of its runners has died."""
        return sum(device.deaths for device in self._devices)

    @property
    def quarantine(self) -> Quarantine:
        """See Device."""
        return self.lessons.quarantine

    @property
    def busy_runners(self) -> int:
        """Runners that have a batch."""
        return sum(device.busy_runners for device in self._devices)

    @property
    def _best(self) -> Device:
        states = {device.state: device for device in reversed(self._devices[: self._told])}
        return next((states[state] for state in _BEST_FIRST if state in states), self._devices[0])

    def row_cap(self, bucket: object) -> int:
        """See Device."""
        return self.lessons.caps.rows(bucket)

    def free_slot(self, taken: Collection[int]) -> int | None:
        """See Device. Of several it is one of the device that has the fewest batches."""
        free = [
            (len(busy), slot * len(self._devices) + place)
            for place, device in enumerate(self._devices)
            if (slot := device.free_slot(busy := self._taken_of(place, taken))) is not None
        ]
        return min(free)[1] if free else None

    def idle(self, taken: Collection[int]) -> bool:
        """See Device."""
        return any(device.idle(self._taken_of(place, taken)) for place, device in enumerate(self._devices))

    async def start(self) -> Loaded:
        """See Device. Once the first is up the others follow, while it serves."""
        first, *others = self._devices
        loaded = await first.start()
        self._told = len(self._devices)
        for device in others:
            device.start_soon()
        return loaded

    async def stop(self, timeout_s: float) -> None:
        """See Device."""
        await asyncio.gather(*[device.stop(timeout_s) for device in self._devices])

    async def run(self, slot: int, batch: Batch, scribe: Scribe) -> Ran:
        """See Device."""
        slot, place = divmod(slot, len(self._devices))
        return await self._devices[place].run(slot, batch, scribe)

    def _taken_of(self, place: int, taken: Collection[int]) -> list[int]:
        """Of the slots that are taken those of one device, as it numbers them."""
        count = len(self._devices)
        return [slot // count for slot in taken if slot % count == place]


AnyDevice = Device | Replicas


def device_for(
    spec: ModelSpec,
    settings: WorkerSettings,
    changed: Callable[[], None],
    observed: Observed | None = None,
    lay_out: LayOut | None = None,
) -> AnyDevice:
    """The device of a model, not started, or as many as it has replicas.

    Args:
        changed: called when what others are told of it has changed, or when a batch may be run that could not before.
        observed: told bucket, rows, cost and seconds of each run that passed.
        lay_out: gives the folder that a model with artifacts is loaded from.
    """
    lessons = Lessons(quarantine_s=settings.quarantine_s, observed=observed)
    devices = [
        Device(
            partial(make_runner, spec, max_batch_bytes=settings.max_batch_bytes, lay_out=lay_out),
            settings.attempt_limit,
            spec.name,
            changed,
            policy=spec.retry,
            lessons=lessons,
            circuit_limit=settings.circuit_limit,
        )
        for _ in range(spec.replicas)
    ]
    return devices[0] if len(devices) == 1 else Replicas(devices, lessons)
