"""A declared cost: arithmetic over the shapes of one request's inputs, as `rows * input_ids[1]`. Pure.

    rows                 rows of the request
    image[2]             size of an input's dimension; [0] is the rows, a name that is no word is written "image.1"[2]
    + - * / // % **      and brackets
    min(a, b), max(a, b)

A dimension that is padded counts as what it is padded to, one that is laid end to end as what it is.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection, Mapping

from producer_sdk.errors import InvalidRequest

Shape = tuple[int, ...]
Cost = Callable[[Mapping[str, Shape], int], float]
MAX_CHARS = 500
MAX_COST = 1e15
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
_FUNCTIONS = {"min": min, "max": max}
_TAKES = "it takes rows, sizes as input[1], numbers, + - * / // % ** min() max() and brackets"


class BadCost(ValueError):
    """A cost expression is refused; the message says why."""


def check_cost(text: str, inputs: Collection[str] | Mapping[str, int] | None = None) -> str | None:
    """What is wrong with a cost expression, as a sentence; None where nothing is.

    `inputs` are the names it may use, as a mapping with the number of dimensions of each, rows included; None allows
    any name.
    """
    try:
        _parse(text, inputs)
    except BadCost as err:
        return str(err)
    return None


def compile_cost(text: str, inputs: Collection[str] | Mapping[str, int] | None = None) -> Cost:
    """The cost as a function of the shapes (rows first) of a request's inputs, by name, and its rows.

    The function raises InvalidRequest where the cost of a request is not a number above 0.

    Raises:
        BadCost: the expression is refused, as by `check_cost`.
    """
    tree = ast.fix_missing_locations(ast.Expression(_Rewriter().visit(_parse(text, inputs))))
    work_out = _callable(tree)

    def cost(shapes: Mapping[str, Shape], rows: int) -> float:
        try:
            value = float(work_out(shapes, rows))
        except (ArithmeticError, ValueError) as err:
            raise InvalidRequest(f"the cost {text!r} cannot be worked out for this request: {err}") from err
        except (LookupError, TypeError) as err:
            raise InvalidRequest(f"the cost {text!r} asks for a dimension that this request has not: {err}") from err
        if not 0 < value <= MAX_COST:
            raise InvalidRequest(f"the cost {text!r} of this request is {value:g}: it must lie above 0, up to 1e15")
        return value

    return cost


def _callable(tree: ast.Expression) -> Callable[[Mapping[str, Shape], int], float]:
    """Python's own compiler makes it fast; `_parse` has seen to it that nothing but arithmetic is in it."""
    names = {"__builtins__": {}, "_power": math.pow, **_FUNCTIONS}
    arguments = ast.parse("lambda shapes, rows: 0", mode="eval")
    assert isinstance(arguments.body, ast.Lambda)
    arguments.body.body = tree.body
    made: Callable[[Mapping[str, Shape], int], float] = eval(compile(arguments, "<cost>", "eval"), names)
    return made


class _Rewriter(ast.NodeTransformer):
    """Names of inputs become look-ups; a power is of floats, which overflow in place of growing."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        name = node.value.id if isinstance(node.value, ast.Name) else node.value.value  # type: ignore[attr-defined]
        shape = ast.Subscript(ast.Name("shapes", ast.Load()), ast.Constant(name), ast.Load())
        return ast.Subscript(shape, node.slice, ast.Load())

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        left, right = self.visit(node.left), self.visit(node.right)
        if isinstance(node.op, ast.Pow):
            return ast.Call(ast.Name("_power", ast.Load()), [left, right], [])
        return ast.BinOp(left, node.op, right)


def _parse(text: str, inputs: Collection[str] | Mapping[str, int] | None) -> ast.expr:
    if len(text) > MAX_CHARS:
        raise BadCost(f"it has {len(text)} characters: give at most {MAX_CHARS}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as err:
        raise BadCost(f"{text!r} is no expression: {_TAKES}") from err
    _check(tree, inputs)
    return tree


def _check(node: ast.expr, inputs: Collection[str] | Mapping[str, int] | None) -> None:
    match node:
        case ast.BinOp(left, op, right) if isinstance(op, (*_OPERATORS, ast.Pow)):
            _check(left, inputs)
            _check(right, inputs)
        case ast.UnaryOp(ast.USub() | ast.UAdd(), operand):
            _check(operand, inputs)
        case ast.Constant(int() | float() as value) if not isinstance(value, bool) and value <= MAX_COST:
            pass
        case ast.Name("rows"):
            pass
        case ast.Name(name):
            raise BadCost(_not_a_size(name, inputs))
        case ast.Subscript(ast.Name(name) | ast.Constant(str(name)), ast.Constant(index)) if type(index) is int:
            _check_size(name, index, inputs)
        case ast.Call(ast.Name("min" | "max"), [_, _, *_] as arguments, []):
            for argument in arguments:
                _check(argument, inputs)
        case _:
            raise BadCost(f"{_shown(node)} is not allowed in a cost: {_TAKES}")


def _check_size(name: str, index: int, inputs: Collection[str] | Mapping[str, int] | None) -> None:
    if inputs is None:
        return
    if name not in inputs:
        raise BadCost(f"{name!r} is none of the inputs {sorted(inputs)}")
    if isinstance(inputs, Mapping) and index >= inputs[name]:
        raise BadCost(f"{name}[{index}] does not exist: input {name!r} has {inputs[name]} dimensions, [0] is the rows")


def _not_a_size(name: str, inputs: Collection[str] | Mapping[str, int] | None) -> str:
    if inputs is not None and name in inputs:
        return f"{name} alone is no number: name one of its dimensions, as {name}[1]"
    return f"{name!r} is not known: write `rows`, or a dimension of an input, as input[1]"


def _shown(node: ast.expr) -> str:
    return repr(ast.unparse(node)[:80])
