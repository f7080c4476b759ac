"""What of this machine is looked at: memory for batches, cores, open files. Facts first, then what they mean (pure)."""

import os
import resource
import shutil
import tempfile
from collections.abc import Sequence

from msgspec import Struct

from headrace.doctor_line import Area, Line, counted
from producer_sdk.tensors import item_bytes
from workers.cpus import cgroup_cpus
from workers.free_memory import free_memory_bytes
from workers.runners.engine import ModelSpec

MACHINE = Area("machine")
PROBE_BYTES = 1 << 20
MIB, GIB = 1 << 20, 1 << 30
SLOTS_A_RUNNER = 2
OWN_FILES = 256  # of a process with its clients, logs and libraries
FILES_A_RUNNER = 32


class MemoryFacts(Struct, frozen=True):
    """Where batches can lie.

    Attributes:
        is_nameless: the system has files in memory without a name (memfd), to which no limit of /dev/shm applies.
        fault: why a small one could not be made; "" when it could.
        free_bytes: of the machine or below the cgroup's limit; None where nobody says.
        folder: where such files are without memfd, with `folder_free_bytes`.
    """

    is_nameless: bool
    fault: str
    free_bytes: int | None
    folder: str
    folder_free_bytes: int


def look_at_memory() -> MemoryFacts:
    """Makes a nameless file of 1 MiB, and lets it go."""
    folder = tempfile.gettempdir()
    is_nameless = hasattr(os, "memfd_create")
    fault = ""
    try:
        if is_nameless:
            fd = os.memfd_create("headrace-doctor", os.MFD_CLOEXEC)
            try:
                os.posix_fallocate(fd, 0, PROBE_BYTES)
            finally:
                os.close(fd)
    except OSError as err:
        fault = err.strerror or str(err)
    return MemoryFacts(is_nameless, fault, free_memory_bytes(), folder, shutil.disk_usage(folder).free)


def batch_bytes(spec: ModelSpec, most: int) -> int | None:
    """Bytes of the largest batch's inputs; None where the declared shapes do not tell. `most` is the worker's limit."""
    total = 0
    for each in spec.inputs:
        rows = spec.max_batch_size if each.batched else 1
        size = item_bytes(each.datatype)
        if size == 0 or any(dim < 0 for dim in each.shape):
            return None
        for dim in each.shape:
            size *= dim
        total += rows * size
    return min(total, most) if spec.inputs else None


def judge_memory(facts: MemoryFacts, specs: Sequence[ModelSpec], max_batch_bytes: int) -> Line:
    """Whether two batches of each runner fit."""
    if facts.fault:
        text = f"No memory can be shared with runners: {facts.fault}. Raise the container's memory limit."
        return MACHINE.fault("shared memory", text)
    sizes = [(spec, batch_bytes(spec, max_batch_bytes)) for spec in specs if spec.isolation == "process"]
    needed = sum(SLOTS_A_RUNNER * spec.replicas * size for spec, size in sizes if size is not None)
    free = facts.free_bytes if facts.is_nameless else facts.folder_free_bytes
    where = "in memory (memfd; /dev/shm is not used)" if facts.is_nameless else f"in files in {facts.folder}"
    if free is None:
        return MACHINE.ok("shared memory", f"Batches lie {where}; how much is free nobody says.")
    told = f"Batches lie {where}: {in_units(free)} are free, and the largest ones need {in_units(needed)}"
    open_ones = [spec.name for spec, size in sizes if size is None]
    beside = f", beside those of {', '.join(open_ones)}, whose shapes vary or are in the file" if open_ones else ""
    if needed > free:
        cure = "Lower max_batch_size or replicas, or give the machine or the container more memory."
        return MACHINE.fault("shared memory", f"{told}{beside}. {cure}")
    return MACHINE.ok("shared memory", f"{told}{beside}.")


def judge_cores(cores: int, specs: Sequence[ModelSpec]) -> Line:
    """Whether the runners' threads have cores, and the worker one of its own."""
    threads = sum(spec.threads * spec.replicas for spec in specs)
    runners = sum(spec.replicas for spec in specs)
    told = (
        f"{counted(cores, 'core')} for {counted(runners, 'runner')} with {counted(threads, 'thread')}, and the worker"
    )
    if threads + 1 <= cores:
        return MACHINE.ok("cores", f"{told}.")
    cure = "They will wait for each other: raise the CPU limit, or set `threads:` or `replicas:` lower in model.yaml."
    return MACHINE.note("cores", f"{told}. {cure}")


def judge_files(limit: int, runners: int, connections: int) -> Line:
    """Whether the process may open as many files as it will."""
    needed = OWN_FILES + FILES_A_RUNNER * runners + connections
    if limit == resource.RLIM_INFINITY:
        return MACHINE.ok("open files", "There is no limit.")
    if limit >= needed:
        return MACHINE.ok("open files", f"The limit is {limit:,}, about {needed:,} are needed.")
    cure = f"Raise it: `ulimit -n {needed}`, LimitNOFILE= of systemd, or --ulimit nofile={needed} of Docker."
    return MACHINE.fault("open files", f"The limit is {limit:,}, but about {needed:,} are needed. {cure}")


def machine_lines(specs: Sequence[ModelSpec] | None, max_batch_bytes: int, connections: int) -> list[Line]:
    """Everything of the machine; `specs` None where no models are to run."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = judge_files(limit, sum(spec.replicas for spec in specs or ()), connections)
    if specs is None:
        return [files]
    if not specs:
        return [*(MACHINE.skipped(name, "No model is known.") for name in ("shared memory", "cores")), files]
    return [judge_memory(look_at_memory(), specs, max_batch_bytes), judge_cores(cgroup_cpus(), specs), files]


def in_units(nbytes: int) -> str:
    """As `12.5 GiB`, `3.0 MiB` or `256 bytes`."""
    if nbytes < MIB:
        return f"{nbytes:,} bytes"
    return f"{nbytes / GIB:.1f} GiB" if nbytes >= GIB else f"{nbytes / MIB:.1f} MiB"
