"""Engine `onnxruntime`: a `model.onnx`, on the CPU or on one CUDA device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from producer_sdk.errors import InvalidRequest
from producer_sdk.tensors import Array, Datatype
from producer_sdk.wire import Scalar

from .engine import Loaded, LoadFailed, LoadFault, ModelSpec, RowItem, Signature, TensorSpec, check_complete
from .faults import load_failed
from .misfits import check_signature
from .onnx_bfloat import BfloatCall, has_bfloat
from .onnx_binding import BoundSession, binding_for, check_bindable
from .onnx_signature import Node, OnnxSignature, reconcile
from .warm_up import warm_ups

_LFS_POINTER = b"version https://git-lfs"


class OnnxRuntime:
    """One session; the signature comes from the file, narrowed by model.yaml."""

    def __init__(self) -> None:
        self._session: Any = None
        self.bound: BoundSession | None = None
        self._bfloats: BfloatCall | None = None
        self._signature = Signature((), ())
        self._output_names: list[str] = []
        self._texts: tuple[str, ...] = ()
        self._fixed_rows: int | None = None
        self._has_items = True

    def load(self, spec: ModelSpec) -> Loaded:
        check_complete(spec)
        runtime = _import_runtime(spec)
        file = spec.folder / "model.onnx"
        _check_file(file)
        self.bound = binding_for(runtime, spec)
        self._session = _open_session(runtime, file, spec, self.bound.provider_options if self.bound else {})
        found = reconcile(
            _nodes(self._session.get_inputs()), _nodes(self._session.get_outputs()), (spec.inputs, spec.outputs)
        )
        self._take(found)
        if has_bfloat(found.signature):
            self._bfloats = BfloatCall(runtime, self._session)
        if self.bound is not None:
            check_bindable(found.signature)
            self.bound.use(self._session)
        check_signature(found.signature, spec.batching.cost)
        rows, warnings = _clamp(spec.max_batch_size, found)
        return Loaded(found.signature, "onnx_onnxv1", rows, warnings + self._warm_up(rows))

    def run(
        self, inputs: Mapping[str, Array], parameters: Sequence[Mapping[str, Scalar]]
    ) -> Mapping[str, Array] | Sequence[RowItem]:
        rows = len(parameters)
        if not self._texts and self._fixed_rows in (None, rows):
            return self._call(inputs)
        return self._run_adapted(inputs, rows)

    def close(self) -> None:
        if self.bound is not None:
            self.bound.close()
        self._session = self._bfloats = None

    def _call(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        if self.bound is not None:
            return self.bound.run(inputs, self._output_names)
        if self._bfloats is not None:
            return self._bfloats.run(inputs, self._output_names)
        return dict(zip(self._output_names, self._session.run(self._output_names, inputs), strict=True))

    def _take(self, found: OnnxSignature) -> None:
        signature = found.signature
        self._signature, self._fixed_rows = signature, found.fixed_rows
        self._output_names = [output.name for output in signature.outputs]
        self._texts = tuple(input.name for input in signature.inputs if input.datatype is Datatype.BYTES)
        ragged = {input.name for input in signature.inputs if input.ragged}
        # One value for the whole batch, or rows that lie end to end, would come of a bad row too.
        self._has_items = all(each.batched and each.cut_like not in ragged for each in signature.outputs)

    def _run_adapted(self, inputs: Mapping[str, Array], rows: int) -> Mapping[str, Array] | Sequence[RowItem]:
        """Run with texts decoded and rows padded to a fixed batch; rows that are no text fail alone."""
        feeds, bad = dict(inputs), dict[int, InvalidRequest]()
        for spec in self._signature.inputs:
            if spec.name in self._texts:
                feeds[spec.name] = _decode(spec, feeds[spec.name], bad)
            if self._fixed_rows is not None and spec.batched:
                feeds[spec.name] = _pad(feeds[spec.name], self._fixed_rows, spec.batch_axis)
        if bad and not self._has_items:
            raise next(iter(bad.values()))
        outputs = self._call(feeds)
        axes = {spec.name: spec.batch_axis for spec in self._signature.outputs if spec.batched}
        for name, axis in axes.items() if self._fixed_rows is not None else ():
            outputs[name] = outputs[name].take(range(rows), axis)
        if not bad:
            return outputs
        return [
            bad.get(row) or {name: outputs[name].take(row, axis) for name, axis in axes.items()} for row in range(rows)
        ]

    def _warm_up(self, max_rows: int) -> tuple[str, ...]:
        """Run zeros.

        Raises:
            LoadFailed: it failed although every dimension is known, or gave other numbers of rows.
        """
        inputs = self._signature.inputs
        for zeros in warm_ups(inputs, max_rows):
            rows = next((zeros[each.name].shape[each.batch_axis] for each in inputs if each.batched), 1)
            try:
                outputs = self.run(zeros, [{}] * rows)
            except Exception as err:  # the border to the native library
                if any(-1 in input.shape for input in inputs):
                    return (f"not warmed up, for zeros with variable dimensions as 1 do not run: {err}"[:1000],)
                raise load_failed(err, f"the warm-up of {rows} rows of zeros failed") from err
            assert isinstance(outputs, Mapping), "zeros are valid texts"
            self._check_rows(outputs, rows)
        return ()

    def _check_rows(self, outputs: Mapping[str, Array], rows: int) -> None:
        for spec in self._signature.outputs:
            shape = outputs[spec.name].shape
            if spec.batched and shape[spec.batch_axis :][:1] != (rows,):
                raise LoadFailed(
                    f"output {spec.name!r} has shape {list(shape)} for a batch of {rows}, so it has no row for each "
                    "row of the batch: declare `batched: false` for it in model.yaml, or leave it out of `outputs`"
                )


def _import_runtime(spec: ModelSpec) -> Any:
    extra = "onnx-gpu" if spec.device.startswith("cuda") else "onnx"
    try:
        import onnxruntime
    except ImportError as err:
        raise LoadFailed(
            f'engine onnxruntime needs the package onnxruntime: pip install "headrace[{extra}]" ({err})',
            LoadFault.DEPENDENCY,
        ) from err
    return onnxruntime


def _check_file(file: Path) -> None:
    try:
        with file.open("rb") as opened:
            head = opened.read(len(_LFS_POINTER))
    except OSError as err:
        raise load_failed(err, f"{file} cannot be read") from err
    if not head:
        raise LoadFailed(f"{file} is empty")
    if head == _LFS_POINTER:
        raise LoadFailed(f"{file} is a Git LFS pointer, not the model: fetch it with git lfs pull")


def _open_session(runtime: Any, file: Path, spec: ModelSpec, more_options: Mapping[str, str]) -> Any:
    options = runtime.SessionOptions()
    options.intra_op_num_threads = spec.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Threads that spin between batches take cores from the worker's loop and from other runners.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    provider, provider_options = _provider(runtime, spec.device)
    try:
        session = runtime.InferenceSession(
            str(file), options, providers=[provider], provider_options=[{**provider_options, **more_options}]
        )
    except Exception as err:  # the border to the native library, whose exceptions have no common ancestor
        raise load_failed(err, f"{file} cannot be opened by onnxruntime") from err
    session.disable_fallback()
    if session.get_providers()[0] != provider:
        raise LoadFailed(
            f"device {spec.device} asks for {provider}, but onnxruntime opened the model with "
            f"{', '.join(session.get_providers())}: check the NVIDIA driver, CUDA and cuDNN",
            LoadFault.DEPENDENCY,
        )
    return session


def _provider(runtime: Any, device: str) -> tuple[str, dict[str, str]]:
    """The execution provider of a device. There is no quiet fallback: a model for a GPU never runs on the CPU."""
    kind, _, index = device.partition(":")
    if kind == "cpu":
        return "CPUExecutionProvider", {}
    if kind != "cuda":
        raise LoadFailed(f"device {device!r} is not known to engine onnxruntime: use cpu or cuda:N")
    available = runtime.get_available_providers()
    if "CUDAExecutionProvider" not in available:
        raise LoadFailed(
            f"device {device} needs CUDAExecutionProvider, but this onnxruntime has {', '.join(available)}: "
            'pip uninstall onnxruntime, then pip install "headrace[onnx-gpu]"',
            LoadFault.DEPENDENCY,
        )
    return "CUDAExecutionProvider", {"device_id": index or "0"}


def _nodes(arguments: Sequence[Any]) -> list[Node]:
    return [Node(argument.name, argument.type, tuple(argument.shape)) for argument in arguments]


def _clamp(max_batch_size: int, found: OnnxSignature) -> tuple[int, tuple[str, ...]]:
    """Most rows a batch, and warnings."""
    fixed = found.fixed_rows
    if fixed is None or max_batch_size <= fixed:
        return max_batch_size, found.warnings
    warning = f"model.onnx fixes the batch dimension at {fixed}: max_batch_size {max_batch_size} is lowered to {fixed}"
    return fixed, (*found.warnings, warning)


def _decode(spec: TensorSpec, array: Array, bad: dict[int, InvalidRequest]) -> Array:
    """Texts as onnxruntime takes them; a row that is not UTF-8 is noted in `bad` and left empty."""
    array = np.moveaxis(array, spec.batch_axis, 0) if spec.batch_axis else array
    texts = np.empty(array.size, dtype=object)
    rows = array.shape[0] if spec.batched and array.size else 1
    for place, element in enumerate(array.reshape(-1).tolist()):
        try:
            texts[place] = element.decode()
        except UnicodeDecodeError as err:
            wrong = InvalidRequest(f"input {spec.name!r} is not valid UTF-8: {err}")
            if not spec.batched or spec.ragged:
                raise wrong from err
            bad[place * rows // array.size] = wrong
            texts[place] = ""
    return np.moveaxis(texts.reshape(array.shape), 0, spec.batch_axis)


def _pad(array: Array, rows: int, axis: int) -> Array:
    """Repeat the last row up to a fixed number of rows."""
    missing = rows - array.shape[axis]
    if missing <= 0:
        return array
    return np.concatenate([array, np.repeat(array.take([-1], axis), missing, axis)], axis)
