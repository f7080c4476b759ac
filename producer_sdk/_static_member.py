"""Static membership: a member with an `instance_id` that comes back in time finds its partitions where they were."""

from __future__ import annotations

from .broker import Misconfigured


def taken_over(group: str, instance_id: str | None) -> Misconfigured:
    """The end of a member whose place another has taken."""
    return Misconfigured(
        f"another worker uses group_instance_id {instance_id!r} in group {group!r} and has taken this one's place: "
        "give each worker an id of its own"
    )
