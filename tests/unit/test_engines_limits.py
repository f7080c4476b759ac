"""Cores and memory are those that the control groups leave, and memory that is not there is refused, not taken."""

from pathlib import Path

import pytest

from producer_sdk.errors import OutOfMemory
from workers.cpus import cgroup_cpus
from workers.free_memory import free_memory_bytes
from workers.runners import shm

MIB = 1024 * 1024


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)


@pytest.mark.parametrize(("quota", "cores"), [("max 100000", 10**6), ("150000 100000", 2), ("10000 100000", 1)])
def test_cores_are_those_of_the_cgroup(tmp_path: Path, quota: str, cores: int) -> None:
    write(tmp_path, cpu__max=quota, own="0::/\n")
    assert cgroup_cpus(tmp_path, tmp_path / "own") == min(cores, cgroup_cpus(tmp_path, tmp_path / "absent"))


def test_a_quota_further_up_binds_too(tmp_path: Path) -> None:
    write(tmp_path / "slice" / "service")
    write(tmp_path / "slice", cpu__max="50000 100000")
    write(tmp_path, own="0::/slice/service\n")
    assert cgroup_cpus(tmp_path, tmp_path / "own") == 1


def test_a_quota_of_version_1_binds(tmp_path: Path) -> None:
    write(tmp_path / "cpu" / "box", cpu__cfs_quota_us="80000", cpu__cfs_period_us="100000")
    write(tmp_path, own="4:cpu,cpuacct:/box\n3:memory:/other\n")
    assert cgroup_cpus(tmp_path, tmp_path / "own") == 1


@pytest.mark.parametrize(
    ("files", "own", "free"),
    [
        ({}, "0::/\n", 100 * 1024),
        ({"memory__max": "max", "memory__current": "5"}, "0::/\n", 100 * 1024),
        ({"memory__max": "5000", "memory__current": "4000"}, "0::/\n", 1000),
        ({"memory__max": "5000", "memory__current": "4000", "memory__stat": "inactive_file 700"}, "0::/\n", 1700),
        ({"memory__max": "5000", "memory__current": "6000"}, "0::/\n", 0),
    ],
)
def test_free_memory_is_what_machine_and_cgroup_leave(
    tmp_path: Path, files: dict[str, str], own: str, free: int
) -> None:
    write(tmp_path, own=own, meminfo="MemTotal: 900 kB\nMemAvailable: 100 kB\n", **files)
    assert free_memory_bytes(tmp_path / "meminfo", tmp_path, tmp_path / "own") == free


def test_memory_that_is_not_there_is_refused_and_what_was_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    region = shm.Region.create(1)
    region.view[0] = 7
    monkeypatch.setattr(shm, "free_memory_bytes", lambda: 2 * MIB)
    with pytest.raises(OutOfMemory, match="there is no memory for"):
        region.reserve(4 * MIB)
    region.reserve(MIB)
    assert (region.view[0], len(region.view)) == (7, MIB)
    region.close()
