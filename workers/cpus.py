"""How many cores this process may really use."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")


def cgroup_cpus(cgroup: Path = CGROUP, own: Path = OWN_CGROUP) -> int:
    """Cores of the CPU quota or of the affinity mask, whichever is less; a part of a core counts as one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min([float(cores), *_quotas_v2(cgroup, _read(own)), *_quotas_v1(cgroup)])))


def _quotas_v2(cgroup: Path, own: str) -> Iterator[float]:
    """Quotas from this process's group up to the root: each one of them binds."""
    below = next((line[3:].strip("/") for line in own.splitlines() if line.startswith("0::")), "")
    group = cgroup / below
    for folder in (group, *group.parents):
        if folder.is_relative_to(cgroup):
            words = _read(folder / "cpu.max").split()
            yield from _cores(*words) if len(words) == 2 else ()


def _quotas_v1(cgroup: Path) -> Iterator[float]:
    return _cores(_read(cgroup / "cpu" / "cpu.cfs_quota_us"), _read(cgroup / "cpu" / "cpu.cfs_period_us"))


def _cores(quota: str, period: str) -> Iterator[float]:
    """Cores of a quota in microseconds a period; nothing where it reads `max`, -1 or is not there."""
    if quota.isdigit() and period.isdigit() and int(quota) and int(period):
        yield int(quota) / int(period)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
