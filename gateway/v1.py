"""`POST /v1/infer`: one prompt in, one output out, for callers who know no tensors."""

from __future__ import annotations

import math
import time
from typing import Any

import msgspec
import numpy as np

from producer_sdk.announcements import TensorAnnouncement
from producer_sdk.errors import InferenceFailed, InvalidRequest
from producer_sdk.tensors import Array, Datatype, Tensor, pack_bytes
from producer_sdk.wire import MAX_NAME_CHARS, MAX_PARAMETERS, Reply, Scalar

from .ask import Ask, read_id, take_terms
from .call import Call
from .models import Models, Served

OUTPUT = "output"
_body = msgspec.json.Decoder(dict[str, Any])


class V1Surface:
    """Reads and writes bodies of `/v1/infer`."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def read(self, call: Call, body: bytes) -> Ask:
        """Raises HeadraceError: the body is not valid, or the model it means does not answer."""
        fields = _read_object(body)
        call.id = read_id(fields.pop("id", None), call.id)
        named = fields.pop("model", None)
        if named is not None and not isinstance(named, str):
            raise InvalidRequest("'model' must be text")
        prompt = fields.pop("prompt", None)
        if not isinstance(prompt, str):
            raise InvalidRequest("'prompt' is missing" if prompt is None else "'prompt' must be text")
        parameters = _scalars(fields)
        terms = take_terms(parameters, None)
        call.model = self._models.v1_model(named)
        call.known_model = self._models.known(call.model)
        served = await self._models.serving(call.model, terms.version)
        call.version = served.version
        name, tensor = _input(served, prompt)
        chosen = _output_name(served)
        outputs = None if chosen is None else (chosen,)
        return Ask(
            call.id, call.model, {name: tensor}, parameters, terms.version, outputs, terms.deadline_s, terms.tenant
        )

    def write(self, call: Call, served: Served, reply: Reply) -> bytes:
        name = _output_name(served) or served.announcement.v1_output or OUTPUT
        if name not in reply.outputs:
            name = next(iter(reply.outputs), name)
        if name not in reply.outputs:
            raise InferenceFailed("the model gave no output")
        array = reply.outputs[name]
        declared = {output.name: output for output in served.announcement.outputs}.get(name)
        if array.ndim and (declared is None or declared.batched):
            array = array[0]
        latency_ms = round(1000 * (time.monotonic() - call.started_s), 3)
        return msgspec.json.encode({"id": reply.id, "output": plain(array), "latency_ms": latency_ms})


def plain(array: Array) -> object:
    """An output as JSON: BYTES as text (UTF-8; what is not becomes U+FFFD), one element alone; all else as a list."""
    if array.dtype.kind != "O":
        return _numbers(array)
    texts = np.frompyfunc(lambda element: element.decode("utf-8", "replace"), 1, 1)(array)
    return texts.item() if array.size == 1 else texts.tolist()


def _read_object(body: bytes) -> dict[str, Any]:
    try:
        return _body.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as err:
        raise InvalidRequest(f"the body is no JSON object: {err}") from err


def _scalars(fields: dict[str, Any]) -> dict[str, Scalar]:
    if len(fields) > MAX_PARAMETERS:
        raise InvalidRequest(f"the request has {len(fields)} parameters: at most {MAX_PARAMETERS}")
    for key in [key for key in ("version", "deadline_s", "tenant") if fields.get(key, ...) is None]:
        del fields[key]
    for name, value in fields.items():
        if not isinstance(value, bool | int | float | str):
            raise InvalidRequest(f"{name[:80]!r} must be text, a number or a boolean: it becomes a request parameter")
        if not 0 < len(name) <= MAX_NAME_CHARS:
            raise InvalidRequest(f"a parameter's name has 1 to {MAX_NAME_CHARS} characters")
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
