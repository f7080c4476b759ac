"""What an ONNX file takes and gives, reconciled with what model.yaml declares. Pure; onnxrt.py reads the file."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from producer_sdk.tensors import Datatype

from .engine import LoadFailed, Signature, TensorSpec

_DATATYPES = {
    "bool": Datatype.BOOL,
    "uint8": Datatype.UINT8,
    "uint16": Datatype.UINT16,
    "uint32": Datatype.UINT32,
    "uint64": Datatype.UINT64,
    "int8": Datatype.INT8,
    "int16": Datatype.INT16,
    "int32": Datatype.INT32,
    "int64": Datatype.INT64,
    "float16": Datatype.FP16,
    "float": Datatype.FP32,
    "double": Datatype.FP64,
    "string": Datatype.BYTES,
    "bfloat16": Datatype.BF16,
}


class Node(Struct, frozen=True):
    """An input or output as onnxruntime tells it: a type as `tensor(float)`, dimensions as sizes, names or None."""

    name: str
    type: str
    shape: tuple[int | str | None, ...]

    @property
    def datatype(self) -> Datatype:
        inner = self.type.removeprefix("tensor(").removesuffix(")")
        if inner not in _DATATYPES:
            raise LoadFailed(f"{self.name!r} in model.onnx is a {self.type}: only plain tensors can be served")
        return _DATATYPES[inner]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Dimensions, -1 where they vary."""
        return tuple(size if isinstance(size, int) and size >= 0 else -1 for size in self.shape)


class OnnxSignature(Struct, frozen=True):
    """What the file takes and gives, and its fixed number of rows a batch, if it has one."""

    signature: Signature
    fixed_rows: int | None
    warnings: tuple[str, ...] = ()


def reconcile(
    inputs: Sequence[Node], outputs: Sequence[Node], declared: tuple[Sequence[TensorSpec], Sequence[TensorSpec]]
) -> OnnxSignature:
    """The signature to serve: the file's, narrowed by the declared inputs and outputs.

    Raises:
        LoadFailed: file and declaration contradict each other, or the batch axis cannot be told.
    """
    declared_inputs = {spec.name: spec for spec in declared[0]}
    declared_outputs = {spec.name: spec for spec in declared[1]}
    _check_names("input", inputs, declared_inputs)
    _check_names("output", outputs, declared_outputs)
    offsets = {spec.offsets for spec in declared[0]}
    ragged = {spec.name for spec in declared[0] if spec.ragged}
    batched = [node for node in inputs if _is_batched(node, declared_inputs) and node.name not in offsets]
    fixed_rows = _fixed_rows([node for node in batched if node.name not in ragged], declared_inputs, ragged)
    taken = tuple(
        _merge("input", node, node in batched, declared_inputs.get(node.name), end_to_end=node.name in ragged)
        for node in inputs
    )
    by_name = {node.name: node for node in outputs}
    given, warnings = [], []
    for name in declared_outputs or by_name:
        node, spec = by_name[name], declared_outputs.get(name)
        has_rows = spec.batched if spec else _has_rows(node, fixed_rows)
        if not spec and node.sizes and not has_rows:
            warnings.append(
                f"output {name!r} has the fixed shape {list(node.sizes)} in model.onnx, so each record gets all of it: "
                "declare it in model.yaml if it has a row for each row of the batch"
            )
        given.append(_merge("output", node, has_rows, spec, end_to_end=spec is not None and spec.cut_like in ragged))
    return OnnxSignature(Signature(taken, tuple(given)), fixed_rows, tuple(warnings))


def _check_names(what: str, nodes: Sequence[Node], declared: dict[str, TensorSpec]) -> None:
    names = [node.name for node in nodes]
    for name in declared:
        if name not in names:
            raise LoadFailed(f"model.yaml declares the {what} {name!r}, but the {what}s of model.onnx are {names}")


def _is_batched(node: Node, declared: dict[str, TensorSpec]) -> bool:
    return declared[node.name].batched if node.name in declared else bool(node.shape)


def _has_rows(node: Node, fixed_rows: int | None) -> bool:
    return bool(node.sizes) and node.sizes[0] in (-1, fixed_rows)


def _fixed_rows(batched: Sequence[Node], declared: dict[str, TensorSpec], ragged: set[str]) -> int | None:
    """The fixed batch dimension that the batched inputs share; None where it is free. Ragged ones have none."""
    if not batched and ragged:
        return None
    if not batched:
        raise LoadFailed("no input of model.onnx has a batch axis: headrace needs one input with rows")
    axes = {node.name: declared[node.name].batch_axis if node.name in declared else 0 for node in batched}
    rows = {node.name: node.sizes[axes[node.name] :][:1] or (-1,) for node in batched}
    if len(set(rows.values())) > 1:
        found = ", ".join(f"{name!r} {'free' if size == -1 else size}" for name, (size,) in rows.items())
        what = "dimensions along the batch axes" if any(axes.values()) else "leading dimensions"
        raise LoadFailed(
            f"the {what} of model.onnx's inputs differ ({found}): in model.yaml declare `batched: false` "
            "for the inputs without a batch axis"
        )
    (size,) = next(iter(rows.values()))
    if size != -1 and ragged:
        raise LoadFailed(
            f"model.onnx fixes the batch dimension at {size}, but an input is ragged: export it with a free one"
        )
    return None if size == -1 else size


def _merge(
    what: str, node: Node, batched: bool, declared: TensorSpec | None, *, end_to_end: bool = False
) -> TensorSpec:
    """The tensor as served; `end_to_end`: the file's shape has no batch axis, for rows lie behind each other."""
    axis = declared.batch_axis if declared else 0
    sizes = node.sizes
    if batched and not end_to_end:
        sizes = (*sizes[:axis], *sizes[axis + 1 :])
    if declared is None:
        return TensorSpec(node.name, node.datatype, sizes, batched)
    if declared.datatype is not node.datatype:
        raise LoadFailed(
            f"model.yaml declares {what} {node.name!r} as {declared.datatype}, but it is {node.datatype} in model.onnx"
        )
    # A node without dimensions may be a scalar or of unknown rank; onnxruntime tells them alike.
    if node.sizes and not _narrows(declared.shape, sizes):
        rows = " beside the batch axis" if axis else " behind the batch axis" if batched else ""
        raise LoadFailed(
            f"model.yaml declares {what} {node.name!r} with shape {list(declared.shape)}, but it is "
            f"{list(sizes)}{rows} in model.onnx (-1 is variable)"
        )
    return declared


def _narrows(declared: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    return len(declared) == len(sizes) and all(own in (-1, said) for own, said in zip(sizes, declared, strict=True))
