"""How a model's requests are put together and in which order, as its model.yaml says. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from producer_sdk.topics import Lane


class Overdue(StrEnum):
    """What becomes of a request that has waited longer than `queue_timeout_s`, while its deadline has not passed."""

    SINGLY = "singly"  # it runs by itself, before the others
    DROP = "drop"  # it is answered DEADLINE_EXCEEDED; Triton's REJECT
    INCLUDE = "include"  # it runs behind all that are not overdue; Triton's DELAY


class QueuePolicy(Struct, frozen=True):
    """How long requests of one priority may wait.

    Attributes:
        queue_timeout_s: most seconds from arrival to the start of a batch; None is no limit.
        overdue: what becomes of a request that has waited longer.
        allow_timeout_override: a request's parameter `timeout` (microseconds) may shorten the limit.
        max_queue_size: most requests that a gateway lets wait; 0 is no limit. Records in the log wait in any case.
    """

    queue_timeout_s: float | None = None
    overdue: Overdue = Overdue.INCLUDE
    allow_timeout_override: bool = False
    max_queue_size: int = 0


class LanePolicy(Struct, frozen=True):
    """A lane's share while several lanes wait.

    Attributes:
        weight: its share of the device's time beside the other lanes that wait.
        max_wait_s: a request that has waited so long goes before those of higher lanes, whatever the weights say.
    """

    weight: float
    max_wait_s: float


LANES: Mapping[Lane, LanePolicy] = {
    Lane.INTERACTIVE: LanePolicy(16.0, 1.0),
    Lane.ASYNC: LanePolicy(4.0, 10.0),
    Lane.BULK: LanePolicy(1.0, 60.0),
}


class TenantPolicy(Struct, frozen=True):
    """How many requests of one tenant may wait in a lane of a worker; 0 is no limit.

    Attributes:
        max_waiting: of a tenant that `max_waiting_of` does not name.
        max_waiting_of: by tenant; the empty name stands for requests without one, which are one tenant.
    """

    max_waiting: int = 0
    max_waiting_of: Mapping[str, int] = {}

    def most_waiting(self, tenant: str | None) -> int:
        """The limit of a tenant."""
        return self.max_waiting_of.get(tenant or "", self.max_waiting)


class BatchPolicy(Struct, frozen=True):
    """How batches of one model close.

    Attributes:
        preferred_rows: sizes at which a batch closes at once; Triton's preferred_batch_size.
        cost: expression over the shapes of one request's inputs, its cost (workers/cost.py); None counts rows.
        max_cost: most cost a batch; None is no bound.
        slo_ms: the time within which requests are to be answered; the batch size is then found by itself.
        preserve_ordering: replies leave in the order of arrival, partition by partition.
        priority_levels: how many there are, 1 is served first; 0 is none.
        default_priority: the level of a request that names none.
        queue: for requests whose priority has no policy of its own.
        queues: by priority level.
        lanes: shares of the lanes.
        tenants: how many requests of one tenant may wait; None is no limit.
    """

    preferred_rows: tuple[int, ...] = ()
    cost: str | None = None
    max_cost: float | None = None
    slo_ms: float | None = None
    preserve_ordering: bool = False
    priority_levels: int = 0
    default_priority: int = 0
    queue: QueuePolicy = QueuePolicy()
    queues: Mapping[int, QueuePolicy] = {}
    lanes: Mapping[Lane, LanePolicy] = field(default_factory=lambda: dict(LANES))
    tenants: TenantPolicy | None = None
