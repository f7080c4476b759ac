"""What is wrong with a `model.py`, told from its text: nothing of it is run.

Only what is certain counts: a class made by other means than a plain `class Model` is left to the runner that loads it.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from typing import NamedTuple

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
# Whoever uses these may make names and methods that the text does not show.
_HIDDEN_WAYS = frozenset({"exec", "globals", "setattr", "vars", "__dict__", "__getattr__", "__getattribute__"})
_LOOKED_FOR = frozenset({"Model", "predict", "load"})


class CodeFault(NamedTuple):
    """One thing that keeps the model from loading; `line` counts from 1."""

    line: int
    reason: str


class _Taken(NamedTuple):
    """Arguments of a call by position: how many must be given, how many may; None is any number."""

    least: int
    most: int | None


def code_faults(source: bytes) -> list[CodeFault]:
    """The faults of a model.py, in the order of its lines; empty when none is certain."""
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(source)
            # This finds what the grammar alone allows, as a return outside a function.
            compile(tree, "model.py", "exec", dont_inherit=True)
    except SyntaxError as err:
        return [CodeFault(err.lineno or 1, f"is no Python: {err.msg}")]
    except (ValueError, RecursionError, MemoryError) as err:
        return [CodeFault(1, f"cannot be read as Python: {err}")]
    if any(_hides_names(node) for node in ast.walk(tree)):
        return []
    made = [node for node in _in_scope(tree) if "Model" in _bound_names(node)]
    if not made:
        return [CodeFault(1, "has no class Model: write `class Model:` with a method `predict(self, inputs)`")]
    (model, *others) = made
    if others or not isinstance(model, ast.ClassDef) or model.decorator_list or model.keywords:
        return []
    return sorted(_class_faults(model))


def _hides_names(node: ast.AST) -> bool:
    """Whether the text may give a name or method in a way that is not followed here."""
    match node:
        case ast.ImportFrom():
            return any(alias.name == "*" for alias in node.names)
        case ast.Global():
            return "Model" in node.names
        case ast.Attribute(ctx=ast.Store()):
            return node.attr in _LOOKED_FOR
        case ast.Attribute():
            return node.attr in _HIDDEN_WAYS
        case ast.Name():
            return node.id in _HIDDEN_WAYS
        case ast.FunctionDef():
            return node.name in _HIDDEN_WAYS
    return False


def _in_scope(owner: ast.AST) -> Iterator[ast.AST]:
    """What is run in the scope of a module, class or function, whatever `if` or `try` it stands under."""
    for node in ast.iter_child_nodes(owner):
        yield node
        if not isinstance(node, _SCOPES):
            yield from _in_scope(node)


def _bound_names(node: ast.AST) -> set[str]:
    if isinstance(node, _SCOPES) and not isinstance(node, ast.Lambda):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else set()


def _class_faults(model: ast.ClassDef) -> Iterator[CodeFault]:
    methods: dict[str, list[ast.AST]] = {}
    for node in _in_scope(model):
        for name in _bound_names(node):
            methods.setdefault(name, []).append(node)
    inherits = any(not (isinstance(base, ast.Name) and base.id == "object") for base in model.bases)
    if "predict" not in methods and not inherits:
        yield CodeFault(model.lineno, "class Model has no method predict: write `def predict(self, inputs):`")
    checks = {"predict": _predict_faults, "load": _load_faults, "__init__": _init_faults}
    for name, check in checks.items():
        found = methods.get(name, [])
        if len(found) == 1 and isinstance(found[0], _Function):
            yield from check(found[0])


def _predict_faults(method: _Function) -> Iterator[CodeFault]:
    if method.decorator_list and not _is_static(method):
        return  # a decorator may change what is taken, and how it is called
    if isinstance(method, ast.AsyncFunctionDef) or _yields(method):
        yield CodeFault(method.lineno, "predict must be a plain function: write `def predict`, without async and yield")
    taken = _taken(method)
    if taken is None or taken.least > 2 or taken.most == 0:
        yield CodeFault(
            method.lineno,
            f"predict takes ({ast.unparse(method.args)}): write `predict(self, inputs)` or "
            "`predict(self, inputs, parameters)`",
        )


def _load_faults(method: _Function) -> Iterator[CodeFault]:
    taken = _taken(method)
    if not method.decorator_list and (taken is None or taken.least > 1 or taken.most == 0):
        yield CodeFault(method.lineno, f"load takes ({ast.unparse(method.args)}): write `load(self, context)`")


def _init_faults(method: _Function) -> Iterator[CodeFault]:
    taken = _taken(method)
    if not method.decorator_list and (taken is None or taken.least > 0):
        yield CodeFault(method.lineno, f"__init__ takes ({ast.unparse(method.args)}): write `__init__(self)`")


def _is_static(method: _Function) -> bool:
    return [node.id for node in method.decorator_list if isinstance(node, ast.Name)] == ["staticmethod"]


def _yields(method: _Function) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _in_scope(method))


def _taken(method: _Function) -> _Taken | None:
    """What a caller gives by position, beside self; None when a call by position can never do."""
    arguments = method.args
    own = 0 if _is_static(method) else 1
    places = len(arguments.posonlyargs) + len(arguments.args)
    if (places < own and arguments.vararg is None) or None in arguments.kw_defaults:
        return None
    least = max(0, places - len(arguments.defaults) - own)
    return _Taken(least, None if arguments.vararg is not None else places - own)
