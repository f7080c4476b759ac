"""The SDK's public face, and what its files may import."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import producer_sdk
from producer_sdk.errors import Code, HeadraceError

FOLDER = Path(producer_sdk.__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))
# urllib3 is one of boto3's, google is protobuf's
OPTIONAL = {"boto3", "botocore", "confluent_kafka", "flatbuffers", "google", "ml_dtypes", "urllib3"}
ALLOWED = sys.stdlib_module_names | {"aiokafka", "msgspec", "numpy"} | OPTIONAL


def imports(tree: ast.AST) -> Iterator[str]:
    """Top-level names of absolute imports; a relative import is named by its dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level or (node.module or "").partition(".")[0]


def test_the_public_names_are_sorted_and_exist() -> None:
    assert list(producer_sdk.__all__) == sorted(set(producer_sdk.__all__))
    assert all(hasattr(producer_sdk, name) for name in producer_sdk.__all__)


def test_the_issues_names_and_every_error_class_are_public() -> None:
    classes = {HeadraceError.from_code(code, "x").__class__.__name__ for code in Code}
    assert classes | {"Client", "Reply", "HeadraceError"} <= set(producer_sdk.__all__)


def test_every_public_name_has_a_docstring() -> None:
    assert [name for name in producer_sdk.__all__ if not getattr(producer_sdk, name).__doc__] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_sdk_imports_only_its_dependencies_and_itself_relatively(file: Path) -> None:
    found = set(imports(ast.parse(file.read_text("utf-8"))))
    own_level = {"." * (level + 1) for level in range(len(file.relative_to(FOLDER).parts))}
    assert found - ALLOWED - own_level == set()


def test_the_import_check_sees_a_foreign_and_an_absolute_own_import() -> None:
    tree = ast.parse("import torch\ndef f():\n    from producer_sdk.wire import Reply\n    from ..gateway import app")
    assert set(imports(tree)) == {"torch", "producer_sdk", ".."}
