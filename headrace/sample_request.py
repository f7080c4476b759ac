"""A request that a model takes, made from its announced signature: as a curl line and as a Python line."""

import json
import math
import shlex
from pathlib import Path
from typing import Any

from producer_sdk.announcements import Announcement, TensorAnnouncement
from producer_sdk.tensors import Datatype

INLINE_CHARS = 600
NUMPY_TYPES = {
    Datatype.BOOL: "bool",
    Datatype.FP16: "np.float16",
    Datatype.FP32: "np.float32",
    Datatype.FP64: "np.float64",
    Datatype.BYTES: "object",
}


class SampleRequest:
    """One row for the model. `folder` takes bodies too long for a command line."""

    def __init__(self, announcement: Announcement, folder: Path) -> None:
        self._model = announcement
        self._folder = folder

    def curl(self, gateway: str) -> str:
        """A command line that asks over HTTP; `gateway` is its URL without a path."""
        text = self._model.v1_input
        if [(each.name, each.datatype) for each in self._model.inputs] == [(text, Datatype.BYTES)]:
            return f"curl -s {gateway}/v1/infer -d {self._data({'model': self._model.model, 'prompt': 'hello'})}"
        inputs = [
            {"name": each.name, "datatype": each.datatype, "shape": shape(each), "data": values(each)}
            for each in self._model.inputs
        ]
        return f"curl -s {gateway}/v2/models/{self._model.model}/infer -d {self._data({'inputs': inputs})}"

    def python(self, python: str, bootstrap_servers: str, prefix: str) -> str:
        """A command line that asks through the SDK; `python` is the interpreter to name."""
        client = quoted(bootstrap_servers) + ("" if prefix == "headrace" else f", prefix={quoted(prefix)}")
        inputs = ", ".join(f"{quoted(each.name)}: {array(each)}" for each in self._model.inputs)
        code = (
            "import numpy as np; from producer_sdk.sync import Client; "
            f"client = Client({client}); client.start(); "
            f"print(client.infer({quoted(self._model.model)}, {{{inputs}}}).outputs); client.close()"
        )
        return f"{python} -c {shlex.quote(code)}"

    def _data(self, body: dict[str, Any]) -> str:
        text = json.dumps(body)
        if len(text) <= INLINE_CHARS:
            return shlex.quote(text)
        file = self._folder / f"{self._model.model}.json"
        file.write_text(text)
        return shlex.quote(f"@{file}")


def shape(tensor: TensorAnnouncement) -> list[int]:
    """One row; variable axes get a length that most models bear: 3 for text and lists, 64 for images."""
    variable = 64 if len(tensor.shape) >= 3 else 3
    row = [variable if length < 0 else length for length in tensor.shape]
    return [1, *row] if tensor.batched else row


def values(tensor: TensorAnnouncement) -> list[Any]:
    """As many values as `shape` holds. Whole numbers are 1, which is a token, a mask and a type to most models."""
    count = math.prod(shape(tensor))
    if tensor.datatype is Datatype.BYTES:
        return ["hello"] * count
    if tensor.datatype is Datatype.BOOL:
        return [True] * count
    if tensor.datatype in (Datatype.FP16, Datatype.FP32, Datatype.FP64, Datatype.BF16):
        return [float(number) for number in range(1, count + 1)] if count <= 8 else [0.0] * count
    return [1] * count


def array(tensor: TensorAnnouncement) -> str:
    """A Python expression for those values; `np` is numpy."""
    dtype = NUMPY_TYPES.get(tensor.datatype, f"np.{tensor.datatype.lower()}")
    if tensor.datatype is Datatype.BF16:
        dtype = '__import__("ml_dtypes").bfloat16'
    flat = values(tensor)
    if len(set(flat)) == 1:
        value = quoted(flat[0]) if isinstance(flat[0], str) else repr(flat[0])
        return f"np.full({tuple(shape(tensor))}, {value}, {dtype})"
    return f"np.array({flat!r}, {dtype}).reshape({tuple(shape(tensor))})"


def quoted(text: str) -> str:
    """A Python string literal without single quotes, which a shell's command line would have to escape."""
    return json.dumps(text).replace("'", "\\u0027")
