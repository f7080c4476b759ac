"""How many cores this process may really use."""

from __future__ import annotations

import math
import os
from pathlib import Path

from .cgroup import CGROUP, OWN_CGROUP, own_groups, read_number, read_words


def cgroup_cpus(cgroup: Path = CGROUP, own: Path = OWN_CGROUP) -> int:
    """Cores of the CPU quota or of the affinity mask, whichever is less; a part of a core counts as one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = [quota for group in own_groups("cpu", cgroup, own) if (quota := _quota(group)) is not None]
    return max(1, math.ceil(min([float(cores), *quotas])))


def _quota(group: Path) -> float | None:
    """Cores that a group may use, from microseconds a period; None without a limit."""
    words = read_words(group / "cpu.max")
    if len(words) == 2 and words[0].isdigit():
        return int(words[0]) / int(words[1])
    quota, period = read_number(group / "cpu.cfs_quota_us"), read_number(group / "cpu.cfs_period_us")
    return quota / period if quota and period else None
