"""Priority levels, and how long requests of each may wait, in Triton's words. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from producer_sdk.errors import InvalidRequest
from producer_sdk.wire import Scalar

from .runners.policies import BatchPolicy, QueuePolicy
from .work import Work

PRIORITY, TIMEOUT = "priority", "timeout"  # parameters of a request: its level, and microseconds
MOST_US = 2**63


def priority_of(policy: BatchPolicy, parameters: Mapping[str, Scalar]) -> int:
    """The priority level of a request with these parameters; 0 where the model has no levels.

    As in Triton: 0, and a level that the model does not have, mean the default level. What a model without levels, or
    without timeouts that may be overridden, is given under these names is its own affair.

    Raises:
        InvalidRequest: `priority` is not a whole number from 0, or `timeout` not a number of microseconds.
    """
    if TIMEOUT in parameters and _may_override(policy):
        _check_timeout(parameters[TIMEOUT])
    if not policy.priority_levels:
        return 0
    level = parameters.get(PRIORITY, 0)
    if isinstance(level, bool) or not isinstance(level, int) or level < 0:
        raise InvalidRequest(
            f"parameter 'priority' is {level!r}: give a whole number, 1 for what is served first up to "
            f"{policy.priority_levels}, or 0 for the default"
        )
    return level if 0 < level <= policy.priority_levels else policy.default_priority


def queue_of(policy: BatchPolicy, priority: int) -> QueuePolicy:
    """The queue policy of a priority level."""
    return policy.queues.get(priority, policy.queue)


def overdue_at(queue: QueuePolicy, work: Work) -> float:
    """Monotonic seconds from which a request has waited too long; infinite where it may wait for ever."""
    timeout_s = math.inf if queue.queue_timeout_s is None else queue.queue_timeout_s
    if queue.allow_timeout_override:
        asked_us = work.request.parameters.get(TIMEOUT)
        if isinstance(asked_us, int) and asked_us > 0:  # 0 asks for no timeout, which would lengthen it
            timeout_s = min(timeout_s, asked_us / 1e6)
    return work.arrived + timeout_s


def has_timeouts(policy: BatchPolicy) -> bool:
    """Whether any request can become overdue."""
    queues = (policy.queue, *policy.queues.values())
    return any(queue.queue_timeout_s is not None or queue.allow_timeout_override for queue in queues)


def _may_override(policy: BatchPolicy) -> bool:
    return any(queue.allow_timeout_override for queue in (policy.queue, *policy.queues.values()))


def _check_timeout(timeout: Scalar) -> None:
    if isinstance(timeout, bool) or not isinstance(timeout, int) or not 0 <= timeout < MOST_US:
        raise InvalidRequest(f"parameter 'timeout' is {timeout!r}: give a whole number of microseconds, 0 for none")
