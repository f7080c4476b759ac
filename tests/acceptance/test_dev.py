"""`headrace dev`: one command gives a stack that answers, and leaves no process behind however it ends."""

import shutil
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from dev_process import dev, environment, headrace, left_over

from headrace.dev_models import EXAMPLE_MODELS
from headrace.free_ports import is_free

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

WITHOUT_WEIGHTS = """
class Model:
    def load(self, context):
        raise RuntimeError("no weights here")

    def predict(self, inputs):
        return {"total": inputs["x"]}
"""


def answer(line: str, cwd: Path) -> str:
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=60, env=environment(), cwd=cwd, check=True
    )
    return done.stdout


def test_the_printed_lines_answer_and_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    for name in ("gateway.py", "workers.py", "schemas.py"):
        (tmp_path / name).write_text("raise SystemExit('a file of the user shadows headrace')\n")
    with dev("--port", "0", cwd=tmp_path) as stack:
        commands = [line for line in stack.lines if line.startswith("  ")]
        answers = [answer(line, Path("/")) for line in commands]
        family = stack.family()
        assert stack.stop(signal.SIGINT) == 0
    assert [next(word for word in ("HELLO", "6") if word in text) for text in answers] == ["HELLO", "HELLO", "6", "6"]
    assert len(family) >= 4  # kafka, its java, worker, gateway
    assert left_over(family, within_s=0.5) == []


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """One good model, one that cannot be loaded, one whose settings are wrong."""
    shutil.copytree(EXAMPLE_MODELS / "shout", tmp_path / "models" / "shout")
    shutil.copytree(EXAMPLE_MODELS / "sum", tmp_path / "models" / "broken")
    (tmp_path / "models" / "broken" / "1" / "model.py").write_text(WITHOUT_WEIGHTS)
    shutil.copytree(EXAMPLE_MODELS / "sum", tmp_path / "models" / "wrong")
    (tmp_path / "models" / "wrong" / "model.yaml").write_text("engine: abacus\n")
    return tmp_path / "models"


def test_a_model_that_fails_is_named_and_the_others_are_served(models: Path) -> None:
    with dev("--json", "--models", str(models), "--prefix", "mine", cwd=models) as stack:
        document = stack.document
        assert document["models"] == ["shout"]
        assert "no weights here" in document["failed"]["broken"]
        assert "abacus" in document["failed"]["wrong"]
        flags = ("--bootstrap-servers", document["bootstrap_servers"], "--prefix", "mine")
        assert "HELLO" in headrace("infer", "shout", "--input", "prompt=hello", *flags).stdout
        family = stack.family()
        stack.process.kill()
        stack.process.wait(10)
        assert left_over(family, within_s=5) == []


def test_usual_ports_that_are_taken_are_passed_by(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_free(8000):
            taken.bind(("127.0.0.1", 8000))
            taken.listen()
        with dev("--json", cwd=tmp_path) as stack:
            assert not stack.document["gateway"].endswith(":8000")
            assert stack.stop(signal.SIGTERM) == 0


def test_two_stacks_started_at_once_both_serve(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as threads, ExitStack() as stacks:
        starts = [threads.submit(stacks.enter_context, dev("--json", cwd=tmp_path)) for _ in range(2)]
        one, other = (start.result().document for start in starts)
    assert {key: one[key] == other[key] for key in ("bootstrap_servers", "gateway", "gateway_admin")} == {
        "bootstrap_servers": False,
        "gateway": False,
        "gateway_admin": False,
    }


def test_a_named_port_that_is_taken_is_wrong_usage() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = headrace("dev", "--port", str(taken.getsockname()[1]))
    assert (done.returncode, done.stdout) == (2, "")
    assert "is in use by another program" in done.stderr


def test_the_death_of_a_child_ends_the_stack_and_is_said(tmp_path: Path) -> None:
    with dev("--json", "--port", "0", cwd=tmp_path) as stack:
        family = stack.family()
        gateway = next(each for each in family if "gateway" in each.cmdline())
        gateway.kill()
        assert stack.process.wait(30) == 1
    assert left_over(family, within_s=0.5) == []


def test_without_a_model_it_is_wrong_usage(tmp_path: Path) -> None:
    done = headrace("dev", "--models", str(tmp_path))
    assert done.returncode == 2
    assert "holds no model" in done.stderr


def seconds_to_start(folder: Path) -> float:
    started = time.monotonic()
    with dev("--json", "--port", "0", cwd=folder) as stack:
        took_s = time.monotonic() - started
        stack.stop()
    return took_s


def test_the_stack_is_up_before_anybody_wonders(tmp_path: Path) -> None:
    # 5 s on two free cores; a busy machine must not fail the test, only a stack that waits for a time limit somewhere.
    assert seconds_to_start(tmp_path) < 60
