"""`POST /v1/infer`: one prompt in, one output out, for callers who know no tensors."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from producer_sdk.announcements import TensorAnnouncement
from producer_sdk.errors import InferenceFailed, InvalidRequest
from producer_sdk.oip import read_object
from producer_sdk.tensors import Array, Datatype, Tensor, pack_bytes
from producer_sdk.wire import Reply, Scalar

from .aside import aside
from .ask import Ask, options_over_http, read_id
from .call import Answer, Call
from .models import Models, Served

OUTPUT = "output"
OPTIONS = ("version", "deadline_s", "tenant")


class V1Surface:
    """Reads and writes bodies of `/v1/infer`."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def read(self, call: Call, body: bytes, served: Served | None) -> Ask:
        """Raises HeadraceError: the body is not valid, or the model it means does not answer."""
        fields = await aside(len(body), read_object, body)
        call.id = read_id(fields.pop("id", None), call.id)
        named = fields.pop("model", None)
        if named is not None and not isinstance(named, str):
            raise InvalidRequest("'model' must be text")
        prompt = fields.pop("prompt", None)
        if not isinstance(prompt, str):
            raise InvalidRequest("'prompt' is missing" if prompt is None else "'prompt' must be text")
        options = options_over_http(_scalars(fields), None)
        served = await self._models.serving(call, self._models.v1_model(named), options.version)
        name, tensor = _input(served, prompt)
        chosen = _output_name(served)
        return Ask(call.id, served, {name: tensor}, options, None if chosen is None else (chosen,))

    def write(self, call: Call, ask: Ask, reply: Reply) -> Answer:
        served = ask.served
        name = _output_name(served) or served.announcement.v1_output or OUTPUT
        if name not in reply.outputs:
            name = next(iter(reply.outputs), name)
        if name not in reply.outputs:
            raise InferenceFailed("the model gave no output")
        array = reply.outputs[name]
        declared = {output.name: output for output in served.announcement.outputs}.get(name)
        if array.shape[:1] == (1,) and (declared is None or declared.batched):
            array = array.reshape(array.shape[1:])
        latency_ms = round(1000 * (time.monotonic() - call.started_s), 3)
        return Answer(msgspec.json.encode({"id": reply.id, "output": plain(array), "latency_ms": latency_ms}))


def plain(array: Array) -> object:
    """An output as JSON: BYTES as text (UTF-8; what is not becomes U+FFFD), one element alone; all else as a list.

    NaN and infinities are the strings that they are in Open Inference Protocol JSON too.
    """
    if array.dtype.kind == "O":
        texts = _each(array, lambda element: element.decode("utf-8", "replace"))
        return texts.item() if array.size == 1 else texts.tolist()
    if array.dtype.kind in "biu":
        return array.tolist()
    if array.dtype.kind != "f":  # BF16 comes from outside NumPy, which cannot list it
        array = array.astype(np.float32)
    return (array if np.isfinite(array).all() else _each(array, _spelled)).tolist()


def _each(array: Array, change: Callable[[Any], object]) -> Array:
    changed: Array = np.empty(array.size, object)
    changed[:] = [change(element) for element in array.reshape(-1).tolist()]
    return changed.reshape(array.shape)


def _spelled(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _scalars(fields: dict[str, Any]) -> dict[str, Scalar]:
    for name, value in list(fields.items()):
        if value is None and name in OPTIONS:
            del fields[name]
        elif not isinstance(value, bool | int | float | str):
            raise InvalidRequest(f"{name[:80]!r} must be text, a number or a boolean: it becomes a request parameter")
    return fields


def _input(served: Served, prompt: str) -> tuple[str, Tensor]:
    """The prompt as one row of the model's input."""
    name = served.announcement.v1_input
    try:
        data = pack_bytes([prompt.encode()])
    except UnicodeEncodeError as err:
        raise InvalidRequest("'prompt' holds half of a surrogate pair, which is no text") from err
    declared = {each.name: each for each in served.announcement.inputs}
    expected = declared.get(name)
    if expected is None and declared:
        raise InvalidRequest(
            f"model '{served.name}' has no input '{name}' to take the prompt: it has {', '.join(declared)}; "
            "v1: {input: NAME} in its model.yaml says which"
        )
    return name, Tensor(Datatype.BYTES, _one_row(served, expected), data)


def _one_row(served: Served, expected: TensorAnnouncement | None) -> tuple[int, ...]:
    if expected is None:
        return (1,)
    if expected.datatype is not Datatype.BYTES:
        raise InvalidRequest(f"input '{expected.name}' of model '{served.name}' is {expected.datatype}, no text")
    if any(size not in (-1, 1) for size in expected.shape):
        raise InvalidRequest(
            f"input '{expected.name}' of model '{served.name}' takes {math.prod(expected.shape)} texts a row, not one"
        )
    ones = (1,) * len(expected.shape)
    return (1, *ones) if expected.batched else ones


def _output_name(served: Served) -> str | None:
    """The output to ask for, or None where the model announces none."""
    declared = [output.name for output in served.announcement.outputs]
    wanted = served.announcement.v1_output or OUTPUT
    if not declared:
        return None
    return wanted if wanted in declared or served.announcement.v1_output else declared[0]
