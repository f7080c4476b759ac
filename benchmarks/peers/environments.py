"""An interpreter for each peer, in the user's cache, made on first use: peers' packages bear no other's versions."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from headrace.kafka_jars import cache_dir

COMMON = ("onnxruntime>=1.32", "numpy>=1.26")
INSTALL_LIMIT_S = 1800.0
DONE = "installed"  # written last: an environment without it is half made


class NotInstalled(Exception):
    """A peer's packages could not be installed; the message is pip's last line."""


def interpreter(peer: str, packages: tuple[str, ...], say: Callable[[str], None]) -> str:
    """The Python that has the peer's packages; changed packages make another environment. Raises NotInstalled."""
    wanted = (*packages, *COMMON)
    mark = hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:8]
    folder = cache_dir() / "benchmarks" / "peers" / f"{peer}-{mark}"
    python = folder / "bin" / "python"
    if not (folder / DONE).is_file():
        say(f"{peer}: installing {', '.join(packages)} into {folder} (once)")
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        _make(folder, python, wanted)
    return str(python)


def _make(folder: Path, python: Path, packages: tuple[str, ...]) -> None:
    _run([sys.executable, "-m", "venv", str(folder)])
    _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])
    (folder / DONE).touch()


def _run(command: list[str]) -> None:
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False)
    except subprocess.TimeoutExpired as err:
        raise NotInstalled(f"not installed within {INSTALL_LIMIT_S:.0f} s") from err
    if finished.returncode != 0:
        last = (finished.stderr.strip().splitlines() or [f"exit code {finished.returncode}"])[-1]
        raise NotInstalled(last)
