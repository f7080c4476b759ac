"""Sizes of files and functions, where names may come from, and what the install is pinned to."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("producer_sdk", "workers", "gateway", "headrace")
MOST_LINES_OF_A_FILE = 300
MOST_LINES_OF_A_FUNCTION = 50
MOST_LINES_IN_THE_LOOP = 60
SHORT_FUNCTION, SHARE_OF_SHORT_FUNCTIONS = 30, 0.9
VAGUE_NAMES = {"utils", "common", "helpers", "manager", "base", "misc", "queue", "torch", "onnx", "logging"}

# What a package may import of ours, beside itself.
ARROWS = {
    "producer_sdk": set(),
    "workers": {"producer_sdk"},
    "gateway": {"producer_sdk"},
    "headrace": {"producer_sdk", "workers", "gateway"},
}


def source_files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Name and lines of each function, without decorators."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield f"{name_of(path)}: {node.name}", node.end_lineno - node.lineno + 1


def imported_packages(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


def test_no_file_is_longer_than_the_limit() -> None:
    lengths = {name_of(path): len(path.read_bytes().splitlines()) for path in source_files(*PACKAGES, "tests")}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FILE} == {}


def test_no_function_is_longer_than_the_limit() -> None:
    too_long = {}
    for path in source_files(*PACKAGES):
        limit = MOST_LINES_IN_THE_LOOP if name_of(path) == "workers/loop.py" else MOST_LINES_OF_A_FUNCTION
        too_long |= {name: lines for name, lines in functions(path) if lines > limit}
    assert too_long == {}


def test_nine_of_ten_functions_are_short() -> None:
    lengths = [lines for path in source_files(*PACKAGES) for _, lines in functions(path)]
    assert sum(lines <= SHORT_FUNCTION for lines in lengths) >= SHARE_OF_SHORT_FUNCTIONS * len(lengths)


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_follow_the_arrows(package: str) -> None:
    allowed = ARROWS[package] | {package}
    wrong = {
        (name_of(path), name)
        for path in source_files(package)
        for name in imported_packages(path)
        if name in (*PACKAGES, "schemas", "tests") and name not in allowed
    }
    assert wrong == set()


def test_no_file_has_a_name_that_says_nothing_or_shadows_a_library() -> None:
    assert [name_of(path) for path in source_files(*PACKAGES) if path.stem in VAGUE_NAMES] == []


def test_constraints_are_names_and_versions_alone() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.+!-]+", line)] == []
