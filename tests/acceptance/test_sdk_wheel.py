"""The light distribution: its wheel alone, in an empty environment, beside files that bear our folders' names."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "producer_sdk"
HEAVY = {"torch", "onnxruntime", "onnxruntime-gpu", "starlette", "uvicorn", "typer", "headrace"}
BROKEN = "raise ImportError('the SDK imported a file of the application')\n"

ROUNDTRIP = """
import asyncio
from importlib.metadata import metadata
import numpy as np
import schemas, producer_sdk
from producer_sdk import Client, HeadraceError, Reply
from producer_sdk.broker import Misconfigured
from producer_sdk.testing import FakeWorker, MemoryBroker

async def main():
    broker = MemoryBroker()
    async with FakeWorker(broker, "iris", lambda inputs: {"y": inputs["x"] * 2}), Client(broker) as client:
        reply = await client.infer("iris", {"x": np.ones((1, 4), np.float32)})
        assert isinstance(reply, Reply) and (reply.outputs["y"] == 2).all(), reply
        try:
            await client.infer("rose", {"x": 1})
        except HeadraceError as error:
            assert error.code == "UNKNOWN_MODEL", error
        from producer_sdk import kafka, sync
    assert {"bf16", "librdkafka"} <= set(metadata("headrace-sdk").get_all("Provides-Extra"))
    try:
        from producer_sdk import rdkafka
    except Misconfigured as error:
        assert "headrace-sdk[librdkafka]" in str(error), error
    else:
        raise AssertionError(f"{rdkafka} needs what the extra brings, which is not installed")
    assert schemas.MINE and "site-packages" in producer_sdk.__file__
    print("answered")

asyncio.run(main())
"""


def run(*command: str | Path, cwd: Path) -> str:
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=alone, capture_output=True, text=True, check=False, timeout=150)
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an empty environment in which the wheel was installed."""
    folder = tmp_path_factory.mktemp("sdk")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, FOLDER, cwd=folder)
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    (wheel,) = folder.glob("headrace_sdk-*.whl")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=folder)
    return python


@pytest.mark.timeout(180)
def test_the_wheel_pulls_no_model_library_and_no_web_framework(environment: Path, tmp_path: Path) -> None:
    lines = run(environment, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check", cwd=tmp_path)
    installed = {line.partition("==")[0].lower() for line in lines.split()}
    assert installed >= {"headrace-sdk", "aiokafka", "msgspec", "numpy"}
    assert installed & HEAVY == set()
    assert len(installed) <= 12


@pytest.mark.timeout(180)
def test_the_wheel_answers_beside_files_named_like_our_folders(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "schemas.py").write_text("MINE = True\n")
    (tmp_path / "workers.py").write_text(BROKEN)
    (tmp_path / "gateway.py").write_text(BROKEN)
    (tmp_path / "application.py").write_text(ROUNDTRIP)
    assert run(environment, "-W", "error", "application.py", cwd=tmp_path) == "answered\n"
