"""Keeps the server compiler of Kafka's Java from the cores while something is measured.

However long Kafka was warmed up, its compiler found more to do in most drains: up to a third of a core for the whole
drain, by chance, and only from systems that need both cores. What it is not let compile runs as the quick compiler left
it, which costs a broker that is warm little.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.subjects import to_stderr

SOCKETS = Path("/tmp")  # where Java on Linux makes them, whatever TMPDIR says
NOTHING = [{"match": "*.*", "c2": {"Exclude": True}}]
ANSWER_LIMIT_S = 10.0


class NoAnswer(Exception):
    """Java was not reached, or refused."""


@contextmanager
def compiler_stopped(pid: int) -> Iterator[None]:
    """The compiler of this Java, which was started with -XX:+StartAttachListener, begins nothing meanwhile.

    Where it cannot be told (as on other systems than Linux), that is said, and it goes on.
    """
    with TemporaryDirectory(prefix="headrace-benchmark-") as folder:
        file = Path(folder) / "directives.json"
        file.write_text(json.dumps(NOTHING), encoding="utf-8")
        try:
            tell(pid, f"Compiler.directives_add {file}")
        except NoAnswer as err:
            to_stderr(f"Kafka's Java compiles on while it is measured: {err}")
            yield
            return
        try:
            yield
        finally:
            with suppress(NoAnswer):  # it has ended
                tell(pid, "Compiler.directives_remove")


def tell(pid: int, command: str) -> str:
    """Give a running Java a command of `jcmd`; what it says. Raises NoAnswer."""
    try:
        with socket.socket(socket.AF_UNIX) as java:
            java.settimeout(ANSWER_LIMIT_S)
            java.connect(str(SOCKETS / f".java_pid{pid}"))
            java.sendall(b"".join(word.encode() + b"\0" for word in ("1", "jcmd", command, "", "")))
            answer = b"".join(iter(lambda: java.recv(65536), b"")).decode(errors="replace")
    except OSError as err:
        raise NoAnswer(f"{err} ({command})") from err
    code, _, text = answer.partition("\n")
    if code != "0":
        raise NoAnswer(f"it said {answer.strip()!r} to {command!r}")
    return text
