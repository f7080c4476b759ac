"""Upper-cases each prompt; the request parameter `repeat` says how often (1 to 100)."""

from typing import Any

import numpy as np

MOST_REPEATS = 100


class Model:
    """Answers row by row, so that a bad row fails alone."""

    def load(self, context: Any) -> None:
        """There is nothing to load."""

    def predict(self, inputs: dict[str, Any], parameters: list[dict[str, Any]]) -> list[dict[str, Any] | Exception]:
        """One answer, or one error, a row."""
        return [shout(row[0], given) for row, given in zip(inputs["prompt"], parameters, strict=True)]


def shout(prompt: bytes, parameters: dict[str, Any]) -> dict[str, Any] | Exception:
    """The louder text, or what is wrong with the request."""
    repeat = parameters.get("repeat", 1)
    if type(repeat) is not int or not 1 <= repeat <= MOST_REPEATS:
        return ValueError(f"repeat is {repeat!r}: give a whole number from 1 to {MOST_REPEATS}")
    try:
        text = prompt.decode().upper()
    except UnicodeDecodeError:
        return ValueError("the prompt is not UTF-8 text")
    return {"output": np.array([" ".join([text] * repeat).encode()], dtype=object)}
