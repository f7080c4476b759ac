"""A declared cost is arithmetic over shapes and nothing else; what it gives is a number above 0, or a refusal."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer_sdk.errors import InvalidRequest
from workers.cost import BadCost, check_cost, compile_cost

SHAPES = {"ids": (3, 16), "image": (3, 4, 32, 64), "x.1": (3, 5)}


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("rows", 3),
        ("rows * ids[1]", 48),
        ("image[2] * image[3] / 1e3", 2.048),
        ('"x.1"[1] + 1', 6),
        ("ids[1] // 3 + 16 % 5", 6),
        ("max(ids[1], 20, rows) + min(1, 2)", 21),
        ("ids[1] ** 2 / 2", 128),
        ("-(1 - ids[0]) + +1", 3),
        (" (rows)\n", 3),
    ],
)
def test_a_cost_is_worked_out_from_shapes(text: str, cost: float) -> None:
    assert check_cost(text, list(SHAPES)) is None
    assert compile_cost(text)(SHAPES, 3) == cost


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "'' is no expression"),
        ("rows *", "'rows *' is no expression"),
        ("(" * 400, "is no expression"),
        ("1 +" * 200, "it has 600 characters: give at most 500"),
        ("cols", "'cols' is not known: write `rows`, or a dimension of an input"),
        ("ids", "ids alone is no number: name one of its dimensions, as ids[1]"),
        ("mask[1]", "'mask' is none of the inputs ['ids', 'image', 'x.1']"),
        ("ids[2]", "ids[2] does not exist: input 'ids' has 2 dimensions, [0] is the rows"),
        ("ids[rows]", "'ids[rows]' is not allowed in a cost: it takes rows"),
        ("ids[True]", "'ids[True]' is not allowed"),
        ("ids[1][0]", "'ids[1][0]' is not allowed"),
        ("ids.shape[1]", "'ids.shape[1]' is not allowed"),
        ("__import__('os').system('true')", "is not allowed"),
        ("rows if rows else 1", "is not allowed"),
        ("[rows for rows in (1,)]", "is not allowed"),
        ("(lambda: 1)()", "is not allowed"),
        ("min(rows)", "'min(rows)' is not allowed"),
        ("max(*ids)", "'max(*ids)' is not allowed"),
        ("min(rows, 1, key=max)", "is not allowed"),
        ("1 << 70", "'1 << 70' is not allowed"),
        ("'a' * 9", "\"'a'\" is not allowed"),
        ("1j", "'1j' is not allowed"),
        ("1e999", "is not allowed"),
        ("rows < 2", "is not allowed"),
        ("(rows := 2)", "is not allowed"),
        ("f'{rows}'", "is not allowed"),
    ],
)
def test_all_else_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    ranks = {name: len(shape) for name, shape in SHAPES.items()}
    assert sentence in (check_cost(text, ranks) or "nothing")
    with pytest.raises(BadCost):
        compile_cost(text, ranks)


@pytest.mark.parametrize(
    "text",
    ["rows - 3", "rows - 4", "1 / (rows - 3)", "(1 - rows) ** 0.5", "9 ** 9 ** 9 ** 9", "ids[7]", "1e10 * 1e10"],
)
def test_a_cost_that_is_no_number_above_zero_refuses_the_request(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"the cost '"):
        compile_cost(text)(SHAPES, 3)


@given(st.text(alphabet="rows idsmax()[]0123456789+-*/%.,'\"", max_size=60))
def test_no_text_does_more_than_arithmetic(text: str) -> None:
    if check_cost(text) is not None:
        return
    try:
        cost = compile_cost(text)({"ids": (3, 16)}, 3)
    except InvalidRequest:
        return
    assert cost > 0
    assert math.isfinite(cost)
