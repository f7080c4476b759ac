"""The folder of one local Kafka: settings, log and topics; a temporary one goes away with its owner."""

import base64
import fcntl
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from headrace.kafka_java import LocalKafkaError
from headrace.kafka_settings import LOG4J2
from headrace.temporary_folder import OWNER_FILE, TemporaryFolder

TEMPORARY_PREFIX = "headrace-kafka-"
FORMAT_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class KafkaFolder:
    """Paths of one broker's files. `temporary` is None where the user named the folder, which `owner` locks then."""

    path: Path
    temporary: TemporaryFolder | None = None
    owner: IO[str] | None = None

    @classmethod
    def open(cls, data_dir: Path | None) -> "KafkaFolder":
        """Take the folder the user named, else a fresh temporary one. Raises OSError, LocalKafkaError."""
        if data_dir is not None:
            data_dir.mkdir(parents=True, exist_ok=True)
            return cls(data_dir.absolute(), owner=_locked(data_dir))
        temporary = TemporaryFolder.make(TEMPORARY_PREFIX)
        return cls(temporary.path, temporary)

    @property
    def topics_dir(self) -> Path:
        """Kafka's log.dirs."""
        return self.path / "topics"

    @property
    def settings_file(self) -> Path:
        """server.properties, written anew at each start."""
        return self.path / "server.properties"

    @property
    def log4j2_file(self) -> Path:
        """The configuration of Kafka's own log."""
        return self.path / "log4j2.properties"

    @property
    def log_file(self) -> Path:
        """What Kafka's Java writes to stdout and stderr, its log included."""
        return self.path / "broker.log"

    @property
    def is_formatted(self) -> bool:
        """Whether Kafka has used this folder before."""
        return (self.topics_dir / "meta.properties").exists()

    def write_settings(self, properties: str) -> None:
        """Write the two configuration files."""
        self.settings_file.write_text(properties)
        self.log4j2_file.write_text(LOG4J2)

    def format(self, java: list[str]) -> None:
        """Have Kafka prepare the folder for its first start. Raises LocalKafkaError, OSError, SubprocessError."""
        # The fixed first bytes keep the id from beginning with '-', which would read as an option.
        cluster_id = base64.urlsafe_b64encode(b"head" + secrets.token_bytes(12)).rstrip(b"=").decode()
        command = [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self.settings_file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_LIMIT_S, check=False)
        if done.returncode != 0:
            shutil.rmtree(self.topics_dir, ignore_errors=True)
            raise LocalKafkaError(f"Kafka could not prepare its folder {self.path}:\n{done.stderr or done.stdout}")

    def log_size(self) -> int:
        """Bytes in the log now, a mark for log_since."""
        return self.log_file.stat().st_size if self.log_file.exists() else 0

    def log_since(self, mark: int, max_lines: int) -> str:
        """The last lines of the log after the mark; without the frames of stack traces, which hide what went wrong."""
        with self.log_file.open("rb") as log:
            log.seek(mark)
            text = log.read().decode(errors="replace")
        lines = [line for line in text.splitlines() if not line.startswith("\t")]
        return "\n".join(lines[-max_lines:]) or "(empty)"

    def leave(self) -> None:
        """Remove the folder if it is a temporary one, else let another broker have it."""
        if self.temporary is not None:
            self.temporary.leave()
        if self.owner is not None:
            self.owner.close()


def _locked(folder: Path) -> IO[str]:
    """The lock of a folder: Kafka's own comes too late, when a second broker has spoilt the metadata of the first."""
    owner = (folder / OWNER_FILE).open("w")
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as err:
        owner.close()
        raise LocalKafkaError(
            f"The folder {folder} is in use by another local Kafka: name another folder or stop that one."
        ) from err
    return owner
