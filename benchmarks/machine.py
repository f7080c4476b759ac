"""What a figure depends on besides the code: the machine and the versions."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from headrace.kafka_jars import KAFKA_VERSION
from workers.cpus import cgroup_cpus

CPU_INFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts to print beside figures. `load` is the load average of the last minute when the run began."""

    processor: str
    cores: int
    load: float
    python: str
    kafka: str
    onnxruntime: str
    aiokafka: str

    @staticmethod
    def here() -> Machine:
        return Machine(
            _processor(),
            cgroup_cpus(),
            round(os.getloadavg()[0], 2),
            platform.python_version(),
            KAFKA_VERSION,
            version("onnxruntime"),
            version("aiokafka"),
        )

    def __str__(self) -> str:
        return (
            f"{self.cores} cores ({self.processor}), load {self.load} at the start; Python {self.python}, Apache Kafka "
            f"{self.kafka}, onnxruntime {self.onnxruntime}, aiokafka {self.aiokafka}"
        )


def _processor() -> str:
    if CPU_INFO.is_file():
        for line in CPU_INFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
