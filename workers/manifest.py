"""A model's `model.yaml`: what its keys mean, in headrace's words and in Triton's. Pure; models.py reads the files.

A Triton word is taken where it means the same, and refused by name where headrace does not have what it means.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from .manifest_artifacts import ARTIFACT_KEYS, read_artifacts
from .manifest_batching import BATCHING_KEYS, read_batching
from .manifest_delivery import DELIVERY_KEYS, read_delivery
from .manifest_shapes import read_batch_input, read_tensor, shape_faults
from .manifest_values import Wrong, convert, unknown
from .runners.engine import TensorSpec

Positive = Annotated[float, Meta(gt=0, le=1e9)]
ENGINES = {
    "onnxruntime": "onnxruntime",
    "onnxruntime_onnx": "onnxruntime",
    "onnx_onnxv1": "onnxruntime",
    "python": "python",
}
_TYPES: dict[str, Any] = {
    "max_wait_ms": Annotated[float, Meta(ge=0, le=3_600_000)],
    "device": Annotated[str, Meta(pattern=r"^(cpu|cuda:[0-9]{1,3})$", description="cpu or cuda:N, such as cuda:0")],
    "isolation": Literal["process", "inline"],
    "attempt_timeout_s": Positive,
    "default_deadline_s": Positive,
    "threads": Annotated[int, Meta(ge=1, le=1024)],
    "replicas": Annotated[int, Meta(ge=1, le=256)],
    "parameters": dict[str, Any],
}
_V1 = Annotated[dict[str, Annotated[str, Meta(min_length=1)]], Meta(description="`input: NAME` and `output: NAME`")]
_TRITON_LATER = frozenset(
    {
        "batch_output",
        "cc_model_filenames",
        "default_model_filename",
        "ensemble_scheduling",
        "metric_tags",
        "model_metrics",
        "model_operations",
        "model_repository_agents",
        "model_transaction_policy",
        "model_warmup",
        "optimization",
        "rate_limiter",
        "response_cache",
        "runtime",
        "scheduling_choice",
        "sequence_batching",
    }
)
KEYS = frozenset(
    {
        "batch_input",
        "name",
        "engine",
        "backend",
        "platform",
        "max_batch_size",
        "inputs",
        "input",
        "outputs",
        "output",
        "instance_group",
        "version_policy",
        "v1",
        *ARTIFACT_KEYS,
        *BATCHING_KEYS,
        *DELIVERY_KEYS,
        *_TYPES,
    }
)


_SAME = {
    "artifacts": ("artifacts",),
    "engine": ("engine", "backend", "platform"),
    "inputs": ("inputs", "input"),
    "outputs": ("outputs", "output"),
}


class Fault(Struct, frozen=True):
    """Something wrong with a model directory.

    Attributes:
        file: file or folder that it is in.
        key: key of model.yaml, with its path inside (`inputs[0].datatype`); empty for the file as a whole.
        reason: what is wrong and what to do, a sentence.
        fatal: the model cannot be served; else it is only worth knowing.
    """

    file: str
    key: str
    reason: str
    fatal: bool = True

    def __str__(self) -> str:
        return f"{self.file}: {self.key}: {self.reason}" if self.key else f"{self.file}: {self.reason}"


class Manifest:
    """The settings in a model.yaml, as keyword arguments of ModelSpec, and the faults found on the way."""

    def __init__(self, model: str, file: str, content: Mapping[str, Any]) -> None:
        self.settings: dict[str, Any] = {}
        self.faults: list[Fault] = []
        self._model = model
        self.file = file
        self._content = content
        for reader in (self._read_names, self._read_plain, self._read_engine):
            self._gather(reader)
        self._gather(partial(read_artifacts, content, self.settings))
        self._gather(partial(read_delivery, content, self.settings))
        for key in ("inputs", "outputs"):
            self._gather(partial(self._read_tensors, key, key.removesuffix("s")))
        self._gather(partial(read_batching, content, self.settings))
        for reader in (self._read_batched, self._read_device, self._read_v1, self._read_versions):
            self._gather(reader)

    def doubts(self, key: str) -> bool:
        """Whether what the file says of one of the keys in `_SAME` is told to be wrong, or may be misspelt.

        What follows from such a fault is none of its own.
        """
        for fault in self.faults:
            word = re.split(r"[.\[]", fault.key)[0]
            near = [word] if word in KEYS else difflib.get_close_matches(word, KEYS, 1)
            if near and near[0] in _SAME[key]:
                return True
        return False

    def _gather(self, reader: Callable[[], Iterator[Wrong]]) -> None:
        """A reader yields what is wrong and goes on, or raises it and stops."""
        try:
            for wrong in reader():
                self.faults.append(Fault(self.file, wrong.key, str(wrong)))
        except Wrong as wrong:
            self.faults.append(Fault(self.file, wrong.key, str(wrong)))

    def _read_names(self) -> Iterator[Wrong]:
        for key in self._content:
            if key in _TRITON_LATER:
                yield Wrong(key, "this setting of Triton is not supported yet: remove it")
            elif key not in KEYS:
                yield Wrong(str(key), unknown(str(key), KEYS))
        if self._content.get("name", self._model) != self._model:
            yield Wrong("name", f"{self._content['name']!r} differs from the folder's name {self._model!r}")

    def _read_plain(self) -> Iterator[Wrong]:
        for key, kind in _TYPES.items():
            if key in self._content:
                try:
                    self.settings[key] = convert(key, self._content[key], kind)
                except Wrong as wrong:
                    yield wrong
        if "max_batch_size" in self._content:
            size = self._content["max_batch_size"]
            if size == 0 and size is not False:
                raise Wrong(
                    "max_batch_size",
                    "0 (in Triton: the model has no batch axis) is not supported: each model needs an input with rows "
                    "along its first axis; one that takes a single row at a time has max_batch_size 1",
                )
            self.settings["max_batch_size"] = convert("max_batch_size", size, Annotated[int, Meta(ge=1, le=1_000_000)])
            self.settings["states_rows"] = True
        try:
            msgspec.msgpack.encode(self.settings.get("parameters"))
        except (TypeError, OverflowError, ValueError) as err:
            raise Wrong("parameters", f"holds a value that cannot be handed to the model: {err}") from err

    def _read_engine(self) -> Iterator[Wrong]:
        found: dict[str, str] = {}
        for key in ("engine", "backend", "platform"):
            word = convert(key, self._content.get(key, ""), str)
            if word and word not in ENGINES:
                known = ", ".join(sorted(set(ENGINES.values())))
                yield Wrong(key, f"{word!r} is not an engine of headrace: use one of {known}")
            elif word:
                found[key] = ENGINES[word]
        if len(set(found.values())) > 1:
            words = " and ".join(f"{key} {self._content[key]!r}" for key in found)
            raise Wrong(list(found)[-1], f"{words} contradict each other: they mean the same thing, give one")
        if found:
            self.settings["engine"] = next(iter(found.values()))

    def _read_tensors(self, plural: str, singular: str) -> Iterator[Wrong]:
        if plural in self._content and singular in self._content:
            raise Wrong(singular, f"{singular} and {plural} mean the same thing: give one")
        key = plural if plural in self._content else singular
        items = convert(key, self._content.get(key, []), list[dict[str, Any]])
        specs: list[TensorSpec] = []
        for place, item in enumerate(items):
            try:
                specs.append(read_tensor(f"{key}[{place}]", item))
            except Wrong as wrong:
                yield wrong
        names = [spec.name for spec in specs]
        if len(set(names)) < len(names):
            yield Wrong(key, f"one name is there twice: {', '.join(sorted(names))}")
        self.settings[plural] = tuple(specs)

    def _read_batched(self) -> Iterator[Wrong]:
        inputs = self.settings.get("inputs")
        if inputs and not self.doubts("inputs") and not any(spec.batched for spec in inputs):
            yield Wrong("inputs", "no input is batched: headrace needs one with rows along its first axis")
        if self.doubts("inputs") or self.doubts("outputs"):
            return
        items = convert("batch_input", self._content.get("batch_input", []), list[dict[str, Any]])
        inputs = self.settings["inputs"] = read_batch_input(items, inputs or ())
        complete = self.settings.get("engine") == "python"
        yield from shape_faults(inputs, self.settings.get("outputs") or (), complete=complete)

    def _read_device(self) -> Iterator[Wrong]:
        """`instance_group` where it means the same as `device` and `replicas`: instances on one named device."""
        if "instance_group" not in self._content:
            return
        groups = convert("instance_group", self._content["instance_group"], list[dict[str, Any]])
        if len(groups) != 1:
            raise Wrong("instance_group", f"{len(groups)} groups are not supported yet: give one")
        device = _group_device(groups[0])
        if self.settings.get("device", device) != device:
            raise Wrong("instance_group", f"means device {device}, but device is {self.settings['device']}")
        self.settings["device"] = device
        replicas = _group_replicas(groups[0])
        if self.settings.setdefault("replicas", replicas) != replicas:
            raise Wrong("instance_group", f"means {replicas} replicas, but replicas is {self.settings['replicas']}")
        yield from ()

    def _read_v1(self) -> Iterator[Wrong]:
        v1 = convert("v1", self._content.get("v1", {}), _V1)
        for key, name in v1.items():
            if key not in ("input", "output"):
                yield Wrong(f"v1.{key}", unknown(key, {"input", "output"}))
                continue
            self.settings[f"v1_{key}"] = name
            declared = [spec.name for spec in self.settings.get(f"{key}s", ())]
            if declared and name not in declared and not self.doubts(f"{key}s"):
                yield Wrong(f"v1.{key}", f"{name!r} is none of the declared {key}s {declared}")

    def _read_versions(self) -> Iterator[Wrong]:
        policy = self._content.get("version_policy")
        if policy not in (None, {"latest": {}}, {"latest": {"num_versions": 1}}):
            yield Wrong("version_policy", "only `latest` with one version is supported yet: the highest is served")


def _group_replicas(group: Mapping[str, Any]) -> int:
    count = group.get("count", 1)
    return int(convert("instance_group.count", count, Annotated[int, Meta(ge=1, le=256)]))


def _group_device(group: Mapping[str, Any]) -> str:
    for key in group:
        if key not in ("name", "count", "kind", "gpus"):
            raise Wrong(f"instance_group.{key}", "is not supported yet: remove it")
    kind, gpus = group.get("kind"), group.get("gpus", [])
    if kind == "KIND_CPU" and not gpus:
        return "cpu"
    if kind == "KIND_GPU" and isinstance(gpus, list) and len(gpus) == 1 and isinstance(gpus[0], int):
        return f"cuda:{gpus[0]}"
    raise Wrong(
        "instance_group.kind",
        "only KIND_CPU, or KIND_GPU with one number in gpus, has a counterpart: else write `device: cpu` or cuda:N",
    )
