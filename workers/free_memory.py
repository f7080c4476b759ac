"""How much memory can still be taken before the kernel ends a process for it."""

from __future__ import annotations

from pathlib import Path

from .cgroup import CGROUP, OWN_CGROUP, own_groups, read_number, read_words

MEMINFO = Path("/proc/meminfo")
_IDLE_FILE_PAGES = ("inactive_file", "total_inactive_file")


def free_memory_bytes(meminfo: Path = MEMINFO, cgroup: Path = CGROUP, own: Path = OWN_CGROUP) -> int | None:
    """Bytes free on the machine or below the cgroup's limit, whichever is less; None where nobody says."""
    words = read_words(meminfo)
    free = [int(words[place + 1]) * 1024 for place, word in enumerate(words) if word == "MemAvailable:"]
    free += [left for group in own_groups("memory", cgroup, own) if (left := _left(group)) is not None]
    return max(0, min(free)) if free else None


def _left(group: Path) -> int | None:
    """Bytes below a group's limit; file pages that nobody used lately are given back first, so they count as free."""
    for limit_name, used_name in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        limit, used = read_number(group / limit_name), read_number(group / used_name)
        if limit is not None and used is not None:
            words = read_words(group / "memory.stat")
            idle = [int(words[place + 1]) for place, word in enumerate(words) if word in _IDLE_FILE_PAGES]
            return limit - used + max(idle, default=0)
    return None
