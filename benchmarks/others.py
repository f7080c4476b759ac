"""CPU that is taken from the measured programs: by Kafka on the same cores, and by other machines on the same host."""

from __future__ import annotations

from typing import NamedTuple

import psutil


class Taken(NamedTuple):
    """CPU seconds so far: Kafka's, and what the hypervisor gave to others (Linux's "steal"), of the average core."""

    kafka_s: float
    stolen_s: float


class Others:
    """Reads what they have taken; `kafka_pid` is the broker's process."""

    def __init__(self, kafka_pid: int) -> None:
        self._kafka = psutil.Process(kafka_pid)

    def taken(self) -> Taken:
        """Systems that do not count what is stolen have 0."""
        kafka = self._kafka.cpu_times()
        return Taken(kafka.user + kafka.system, getattr(psutil.cpu_times(), "steal", 0.0) / (psutil.cpu_count() or 1))
