"""The docs name what there is: modules, files, flags, keys, metrics, codes; and their examples run."""

import ast
import asyncio
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main
from fake_payloads import FakePayloads

from gateway.metrics import GatewayMetrics
from gateway.serve import Exit as GatewayExit
from gateway.status import STATUS
from headrace.cli import VERBS
from headrace.cli import app as headrace_app
from producer_sdk import Client, HeadraceError
from producer_sdk.errors import Code
from producer_sdk.testing import FakeWorker, MemoryBroker
from workers.check import check_models
from workers.drain import Exit as WorkerExit
from workers.manifest import KEYS
from workers.metrics import ModelMetrics, WorkerMetrics
from workers.models import find_models
from workers.runners.python_model import PythonModel

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
PACKAGES = ("workers", "workers/runners", "producer_sdk", "gateway", "headrace", "headrace/demo")
# Its flags are those of `python -m benchmarks`.
FOREIGN_FLAGS = {"benchmarks.md", "kafka-security.md", "large-payloads.md"}


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def sections(text: str) -> dict[str, str]:
    """Text by heading of the second level."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def cells(text: str) -> Iterator[list[str]]:
    """The rows of the tables in a text, each cell stripped."""
    for line in re.findall(r"^\|(.*)\|$", text, re.MULTILINE):
        yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]


def python_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_architecture_names_every_module_and_no_other(package: str) -> None:
    named = re.findall(r"`(\w+\.py)`", sections(page("architecture.md"))[f"`{package}/`"])
    there = {path.name for path in (ROOT / package).glob("*.py")} - {"__init__.py"}
    assert sorted(named) == sorted(there)


def test_the_architecture_knows_every_package() -> None:
    packages = {str(path.parent.relative_to(ROOT)) for top in PACKAGES for path in (ROOT / top).glob("*/__init__.py")}
    assert packages <= set(PACKAGES)


def test_paths_of_our_files_in_the_docs_exist() -> None:
    pattern = re.compile(
        r"\b(?:workers|producer_sdk|gateway|headrace|tests|benchmarks|schemas)/[\w./-]+\.(?:py|json|md)"
    )
    named = {(file.name, path) for file in PAGES for path in pattern.findall(file.read_text("utf-8"))}
    assert {(name, path) for name, path in named if not (ROOT / path).exists()} == set()
    assert len(named) > 5


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.name)
def test_links_lead_somewhere(file: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", file.read_text("utf-8"))
    local = [target.partition("#")[0] for target in targets if "://" not in target]
    assert [target for target in local if not (file.parent / target).exists()] == []


def test_every_page_is_reached_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert [file.name for file in DOCS.glob("*.md") if f"(docs/{file.name})" not in readme] == []


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150


@pytest.mark.parametrize("code", list(Code))
def test_every_error_code_is_explained_with_its_status(code: Code) -> None:
    assert code in {row[0] for row in cells(page("wire.md"))}
    rows = {name: row[0] for row in cells(page("http.md")) for name in row[1].split(", ")}
    assert rows[code] == str(STATUS[code])


def known_flags() -> Iterator[str]:
    """The flags of every command of `headrace`, groups included."""
    waiting: list[Any] = [typer.main.get_command(headrace_app)]
    waiting += [typer.main.get_command(importlib.import_module(f"headrace.{verb}").app) for verb in VERBS]
    while waiting:
        command = waiting.pop()
        for option in command.params:
            yield from (*option.opts, *option.secondary_opts)
        waiting += getattr(command, "commands", {}).values()


def chaos_flags() -> Iterator[str]:
    """Those of the script behind `make chaos`."""
    yield from re.findall(r'add_argument\("(--[a-z-]+)"', (ROOT / "tests/chaos/run.py").read_text("utf-8"))


def test_the_flags_in_the_docs_exist() -> None:
    flags = {*known_flags(), *chaos_flags()}
    quoted = {
        (file.name, flag)
        for file in PAGES
        if file.name not in FOREIGN_FLAGS
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", file.read_text("utf-8"))
    }
    assert {(name, flag) for name, flag in quoted if flag not in flags} == set()


def test_the_keys_of_a_manifest_are_those_of_the_table() -> None:
    table = sections(page("models.md"))["model.yaml"]
    named = [key for row in cells(table) for key in re.findall(r"`(\w+)`", row[0])]
    assert sorted(named) == sorted(KEYS)


def test_the_metrics_are_those_that_are_counted() -> None:
    worker, gateway = WorkerMetrics(), GatewayMetrics(lambda: 0)
    worker.models = [ModelMetrics("m", backlog=lambda: 0, lag=lambda: 0, deaths=lambda: 0)]
    gateway.count("m", "oip", "OK", 0.1)
    text = (worker.text() + gateway.text()).decode()
    counted = set(re.findall(r"^# TYPE (headrace_\w+)", text, re.MULTILINE))
    rows = [row[0].strip("`") for row in cells(page("operations.md")) if row[0].startswith("`headrace_")]
    assert set(rows) == {name for name in counted if not name.endswith("_created")}
    assert len(rows) == len(set(rows))


def test_the_exit_codes_are_those_of_the_processes() -> None:
    rows = {row[0] for row in cells(sections(page("operations.md"))["The end of a process"])}
    assert {row for row in rows if row.isdigit()} == {str(int(code)) for code in (*WorkerExit, *GatewayExit)} | {"2"}


async def run(code: str, names: dict[str, Any]) -> None:
    """Run a block in which await may stand outside a function."""
    result = eval(compile(code, "docs", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.iscoroutine(result):
        await result


async def test_the_examples_of_the_client_run(capsys: pytest.CaptureFixture[str]) -> None:
    asking, more, large, giving_up, blocking, _ = python_blocks(page("sdk.md"))
    store = FakePayloads()
    broker = MemoryBroker()
    async with FakeWorker(broker, "iris", lambda inputs: {"y": inputs["x"]}, s3=store), Client(broker) as client:
        names = {"np": np, "Client": lambda _: Client(broker), "HeadraceError": HeadraceError, "client": client}
        await run(asking, dict(names))
        await run(more, dict(names))
        await run(large, names | {"Client": lambda _, s3: Client(broker, s3=store)})
        await run(giving_up, names | {"asyncio": asyncio, "id": "job-1"})
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["[[0. 0. 0. 0.]] 1 {}", "0 [[0. 0. 0. 0.]]"]
    assert lines[-1] == "999 [[999. 999. 999. 999.]]"
    compile(blocking, "docs", "exec")


def test_the_example_without_kafka_runs_alone(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(python_blocks(page("sdk.md"))[-1], "docs", "exec"), {})
    assert capsys.readouterr().out == "[[2. 2. 2. 2.]] 1\nMODEL_NOT_READY True\n"


def test_the_example_model_is_served(tmp_path: Path) -> None:
    (code,) = python_blocks(page("models.md"))
    version = tmp_path / "scorer" / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(code)
    tensors = "\n".join(f"{key}: [{{name: {name}, datatype: FP32, shape: [2]}}]" for key, name in
                        (("inputs", "x"), ("outputs", "y")))  # fmt: skip
    (version.parent / "model.yaml").write_text(tensors)
    assert check_models(tmp_path).faults == ()
    model = PythonModel()
    model.load(find_models(tmp_path)[0])
    results: Any = model.run({"x": np.array([[1, 2], [3, 200]], np.float32)}, [{}, {}])
    assert results[0]["y"].tolist() == [2, 4]
    assert str(results[1]) == "200.0 is above 99"
