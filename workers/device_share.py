"""Whose batch starts next on a device that several models use. Pure: claims, seconds and `now` in, a decision out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from producer_sdk.topics import Lane

from .runners.engine import ModelSpec
from .runners.policies import LANES, LanePolicy

RUNNING_AND_PREPARED = 2  # batches of one runner


class Urgency(Struct, frozen=True):
    """A model's next batch, by the request in it that has to go first: its lane, and when it arrived (monotonic s)."""

    lane: Lane
    arrived: float


class _Member(Struct):
    """A model. `paid` are its seconds on the device by lane, divided by the weight that it has there."""

    wake: Callable[[], None]
    weight: float
    most: int
    paid: dict[Lane, float]
    claim: Urgency | None = None
    running: tuple[Lane, ...] = ()


class DeviceShare:
    """Lets one model at a time use the device, by weighted fair queueing of seconds. One event loop touches it.

    A lane of a model pays for the seconds that its batches take, divided by the weights of model and lane, and who has
    paid least goes first; one that comes back after a pause has saved nothing up. A request that has waited the
    `max_wait_s` of its lane goes before all that have not. A model that has the device may prepare its next batch
    behind the running one only while it would be next in any case: else the device falls to the other.

    Nobody who waits may be forgotten: a model whose batch is not due any more has to withdraw its claim by
    `waiting(model, None)`, for while it stands the others may wait for it.
    """

    def __init__(self, lanes: Mapping[Lane, LanePolicy] = LANES) -> None:
        self._lanes = lanes
        self._members: dict[str, _Member] = {}
        self._clock = 0.0  # what the lane had paid that started last

    def join(
        self, model: str, wake: Callable[[], None], *, weight: float = 1.0, most: int = RUNNING_AND_PREPARED
    ) -> None:
        """`wake` is called when it should ask again; `most` are the batches that it may have on the device."""
        self._members[model] = _Member(wake, weight, most, dict.fromkeys(Lane, 0.0))

    def waiting(self, model: str, urgency: Urgency | None) -> None:
        """The model has a batch that is due; None: it has none any more."""
        member = self._members[model]
        before, member.claim = member.claim, urgency
        if urgency is None:
            if before is not None:
                self._wake_others(member)
        elif (before is None or before.lane is not urgency.lane) and urgency.lane not in member.running:
            member.paid[urgency.lane] = max(member.paid[urgency.lane], self._clock)

    def may_start(self, model: str, now: float, urgency: Urgency) -> bool:
        """Whether its next batch may start now. If not it waits, and is woken when it should ask again."""
        self.waiting(model, urgency)
        member = self._members[model]
        if len(member.running) >= member.most:
            return False
        others = [each for each in self._members.values() if each is not member]
        if any(each.running for each in others):
            return False
        ours = self._key(member, now)
        before = [each for each in others if each.claim is not None and self._key(each, now) < ours]
        if not member.running:  # whom an overtaken claim has refused asks again only if told: nothing runs that ends
            for each in before:
                each.wake()
        return not before

    def started(self, model: str, now: float) -> None:
        """The batch that it waited with has started."""
        member = self._members[model]
        assert member.claim is not None, "a batch starts after it may"
        lane, member.claim = member.claim.lane, None
        member.running += (lane,)
        self._clock = max(self._clock, member.paid[lane])

    def ended(self, model: str, run_s: float, now: float) -> None:
        """The oldest batch of the model has ended, after so many seconds on the device."""
        member = self._members[model]
        lane, *left = member.running
        member.running = tuple(left)
        member.paid[lane] += run_s / (member.weight * self._lanes[lane].weight)
        if not left:
            self._wake_others(member)

    def _key(self, member: _Member, now: float) -> tuple[bool, float, float]:
        """The smaller, the sooner."""
        claim = member.claim
        assert claim is not None, "only who waits is compared"
        overdue = now - claim.arrived >= self._lanes[claim.lane].max_wait_s
        return not overdue, 0.0 if overdue else member.paid[claim.lane], claim.arrived

    def _wake_others(self, member: _Member) -> None:
        for each in self._members.values():
            if each is not member and each.claim is not None:
                each.wake()


def shares(specs: Sequence[ModelSpec]) -> dict[str, DeviceShare]:
    """One for each device that several models use, by name; the CPU's cores the operating system shares out."""
    users = Counter(spec.device for spec in specs)
    return {device: DeviceShare() for device, models in users.items() if models > 1 and device != "cpu"}
