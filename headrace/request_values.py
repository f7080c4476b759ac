"""`--input NAME=VALUE` and `--parameter NAME=VALUE` as tensors and parameters."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headrace.failure import UsageError
from producer_sdk.announcements import Announcement, TensorAnnouncement
from producer_sdk.errors import InvalidRequest
from producer_sdk.tensors import Array, Datatype, numpy_dtype

WHOLE_NUMBERS = {each for each in Datatype if each.startswith(("INT", "UINT"))}


def read_inputs(pairs: Sequence[str], announced: Announcement | None) -> dict[str, Array]:
    """Arrays by input name, of the datatype that the model announces, with the row axis where it was left out.

    For a model that nobody announces: text is BYTES, true is BOOL, 1 is INT64, 1.0 is FP32, in at least two axes.

    Raises:
        UsageError: a pair cannot be read, or does not fit what the model takes.
    """
    specs = {each.name: each for each in announced.inputs} if announced is not None else {}
    inputs = {}
    for pair in pairs:
        name, text = split_pair(pair, "--input")
        if specs and name not in specs:
            raise UsageError(f"--input {name}: the model has no such input, only {', '.join(specs)}.")
        try:
            inputs[name] = to_array(_read_value(text, f"--input {name}"), specs.get(name))
        except (ValueError, TypeError, OverflowError, OSError, InvalidRequest) as err:
            raise UsageError(f"--input {name} cannot be made an array: {err}.") from err
    return inputs


def read_parameters(pairs: Sequence[str]) -> dict[str, Any]:
    """Parameters by name; values are JSON, else text. Raises UsageError."""
    texts = dict(split_pair(pair, "--parameter") for pair in pairs)
    parameters = {name: _json_or_text(text, f"--parameter {name}") for name, text in texts.items()}
    wrong = [name for name, value in parameters.items() if not isinstance(value, bool | int | float | str)]
    if wrong:
        raise UsageError(f"--parameter {wrong[0]} is no text, number or boolean: give one of these.")
    return parameters


def split_pair(pair: str, flag: str) -> tuple[str, str]:
    """Name and value of `NAME=VALUE`. Raises UsageError."""
    name, equals, text = pair.partition("=")
    if not name or not equals:
        raise UsageError(f"{flag} {pair!r} cannot be read: write {flag} NAME=VALUE.")
    return name, text


def _read_value(text: str, where: str) -> Any:
    return Path(text[1:]) if text.startswith("@") else _json_or_text(text, where)


def _json_or_text(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError as err:
        raise UsageError(f"{where} has too many lists within lists: give one for each axis.") from err


def to_array(value: Any, spec: TensorAnnouncement | None) -> Array:
    """The array of one input; `value` is JSON, or the path of a `.npy` file.

    Raises:
        ValueError, TypeError, OverflowError, OSError: the value has no such shape or datatype; the file is none.
        InvalidRequest: BF16 needs the package ml_dtypes, which is not installed.
    """
    if isinstance(value, Path):
        array: Array = np.load(value, allow_pickle=False)
    else:
        array = _from_json(value, spec.datatype if spec is not None else None)
    axes = 2 if spec is None else len(spec.shape) + int(spec.batched)
    return array.reshape((1,) * (axes - array.ndim) + array.shape) if array.ndim < axes else array


def _from_json(value: Any, datatype: Datatype | None) -> Array:
    plain = np.array(value)
    if datatype is None:
        guesses = {"U": object, "b": np.bool_, "i": np.int64, "f": np.float32}
        if plain.dtype.kind not in guesses:
            raise ValueError("give text, numbers or booleans, in lists of equal length")
        return np.array(value, guesses[plain.dtype.kind])
    if datatype is Datatype.BYTES:
        if plain.dtype.kind != "U":
            raise ValueError("the model takes text here")
        return np.array(value, object)
    if plain.dtype.kind not in ("biu" if datatype in WHOLE_NUMBERS else "biuf"):
        raise ValueError(f"the model takes {datatype} here")
    return np.array(value, numpy_dtype(datatype))
