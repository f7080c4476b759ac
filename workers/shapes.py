"""What the inputs of a request amount to: rows, bytes, and the requests that it may share a batch with. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from operator import le
from typing import NamedTuple

from msgspec import Struct

from producer_sdk.errors import InvalidRequest
from producer_sdk.tensors import Buffer, Datatype, Tensor, item_bytes

from .cost import compile_cost
from .runners.engine import TensorSpec
from .runners.variable import Variable, variable_axes, variable_of

_SHORT = 32  # bytes that a bucket holds of an unbatched input


class Fit(Struct, frozen=True, gc=False):
    """What the inputs of a request amount to.

    Attributes:
        rows: its rows.
        nbytes: bytes that they take in a batch of their bucket.
        bucket: only requests of one bucket can share a batch.
        cost: what the request costs; its rows where the model declares nothing.
    """

    rows: int
    nbytes: int
    bucket: object
    cost: float


class Bucket(NamedTuple):
    """What requests that share a batch have in common.

    Attributes:
        exact: what must be equal: shapes that are not padded, and inputs without rows.
        sizes: what their padded dimensions are padded to; smaller ones fit into a batch of larger ones.
    """

    exact: tuple[object, ...]
    sizes: tuple[int, ...] = ()


def fits_into(small: object, large: object) -> bool:
    """Whether requests of the bucket `small` can run in a batch of `large`, padded further; so can those of itself."""
    if not isinstance(small, Bucket) or not isinstance(large, Bucket):
        return small == large
    return small.exact == large.exact and all(map(le, small.sizes, large.sizes))


def bucket_label(bucket: object) -> str:
    """A bucket in short, as `16` or `3x224,16`, without what unbatched inputs hold; empty where nothing varies."""
    if not isinstance(bucket, Bucket):
        return ""
    shapes = [each if isinstance(each, tuple) else () for each in bucket.exact]
    words = ["x".join(map(str, shape[0] if _is_unbatched(shape) else shape)) for shape in shapes]
    return ",".join([*filter(None, words), *map(str, bucket.sizes)])


class Shapes:
    """Fits requests to the inputs of one model, of which a record may have `max_rows` rows.

    `cost` is the expression of workers/cost.py that a request's cost is worked out by; None counts rows.
    """

    def __init__(self, inputs: Sequence[TensorSpec], max_rows: int, cost: str | None = None) -> None:
        self._variable = variable = variable_of(tuple(inputs))
        self._inputs = tuple(inputs) if variable is None else variable.asked
        self._masks = frozenset[str]() if variable is None else variable.masks
        self._masked = [spec for spec in self._inputs if spec.mask is not None]
        self._mask_axes = {spec.name: variable_axes(spec) for spec in self._inputs if spec.name in self._masks}
        self._max_rows = max_rows
        self._varies = any(-1 in spec.shape or not spec.batched for spec in self._inputs)
        ranks = {spec.name: len(spec.shape) + spec.batched for spec in self._inputs}
        self._cost = None if cost is None else compile_cost(cost, ranks)

    def fit(self, inputs: Mapping[str, Tensor]) -> Fit:
        """Rows, bytes, bucket and cost of inputs that fit the signature.

        Raises:
            InvalidRequest: naming the input and what is wrong with it.
        """
        rows = nbytes = left_out = 0
        for spec in self._inputs:
            tensor = inputs.get(spec.name)
            if tensor is None:
                if spec.name in self._masks:
                    left_out += 1
                    continue
                raise InvalidRequest(f"input {spec.name!r} is missing: the model takes {self._names()}")
            shape = tensor.shape
            nbytes += len(tensor.data)
            if tensor.datatype is not spec.datatype or (shape[1:] if spec.batched else shape) != spec.shape:
                _check_tensor(spec, tensor)
            if spec.batched:
                if not shape:  # equal to the row's shape above where that has no dimension either
                    _check_tensor(spec, tensor)
                if rows and shape[0] != rows:
                    raise InvalidRequest(f"input {spec.name!r} has {shape[0]} rows, but another input has {rows}")
                rows = shape[0]
                if not 0 < rows <= self._max_rows:
                    raise InvalidRequest(f"input {spec.name!r} has {rows} rows: a record holds 1 to {self._max_rows}")
            if spec.datatype is Datatype.BYTES or spec.datatype is Datatype.BOOL:
                _check_content(spec, tensor)
        if len(inputs) != len(self._inputs) - left_out:
            unknown = sorted(set(inputs) - {spec.name for spec in self._inputs})
            raise InvalidRequest(f"input {unknown[0][:80]!r} is not known: the model takes {self._names()}")
        return self._sum_up(inputs, rows or 1, nbytes)

    def _sum_up(self, inputs: Mapping[str, Tensor], rows: int, nbytes: int) -> Fit:
        if self._variable is not None:
            return self._sum_up_padded(inputs, rows, self._variable)
        cost = float(rows)
        if self._cost is not None:
            cost = self._cost({name: tensor.shape for name, tensor in inputs.items()}, rows)
        return Fit(rows, nbytes, self._bucket(inputs) if self._varies else (), cost)

    def _sum_up_padded(self, inputs: Mapping[str, Tensor], rows: int, variable: Variable) -> Fit:
        real = variable.real(inputs)
        self._check_sizes(inputs, real, variable)
        sizes = variable.padded(real)
        shapes: dict[str, tuple[int, ...]] = {}
        nbytes, exact = 0, []
        for spec in self._inputs:
            tensor = inputs.get(spec.name)
            if tensor is not None and spec.name not in variable.own:
                shapes[spec.name], size = tensor.shape, len(tensor.data)
                exact.append(_exact(spec, tensor))
            else:
                shape = shapes[spec.name] = variable.shape(spec, rows, sizes)
                size = math.prod(shape) * item_bytes(spec.datatype)
                if tensor is not None and spec.datatype is Datatype.BYTES:
                    size = len(tensor.data) + 4 * (math.prod(shape) - math.prod(tensor.shape))
            nbytes += size
        padded = tuple([number for size, number in zip(variable.sizes, sizes, strict=True) if size.pad_to])
        cost = float(rows) if self._cost is None else self._cost(shapes, rows)
        return Fit(rows, nbytes, Bucket(tuple(exact), padded), cost)

    def _check_sizes(self, inputs: Mapping[str, Tensor], real: tuple[int, ...], variable: Variable) -> None:
        """What is padded has something in it, and what shares a mask has the size of it."""
        for size, number in zip(variable.sizes, real, strict=True):
            if not number and size.pad_to:
                shape = list(inputs[size.name].shape)
                raise InvalidRequest(f"input {size.name!r} has shape {shape}: there is nothing in it that is real")
        for spec in self._masked:
            assert spec.mask is not None, "only those that have one are in it"
            own = [real[place] for place in variable.own[spec.name]]
            mask = inputs.get(spec.mask)
            if mask is None:
                masked = [real[place] for place in variable.own[spec.mask]]
            else:
                masked = [mask.shape[axis] for axis in self._mask_axes[spec.mask]]
            if own != masked:
                raise InvalidRequest(
                    f"input {spec.name!r} has shape {list(inputs[spec.name].shape)}, but its mask {spec.mask!r} is "
                    f"for {masked} elements, not {own}: they must agree"
                )

    def _bucket(self, inputs: Mapping[str, Tensor]) -> Bucket:
        return Bucket(tuple([_exact(spec, inputs[spec.name]) for spec in self._inputs]))

    def _names(self) -> str:
        return ", ".join(f"{spec.name} {spec.datatype} {_shape_text(spec)}" for spec in self._inputs)


def _exact(spec: TensorSpec, tensor: Tensor) -> object:
    return tensor.shape[1:] if spec.batched else (tensor.shape, _content(tensor.data))


def _content(data: Buffer) -> bytes:
    """Equal for equal contents alone. Buckets are remembered long after their requests, so they must not hold these."""
    return bytes(data) if len(data) <= _SHORT else hashlib.blake2b(data, digest_size=_SHORT).digest()


def _is_unbatched(shape: tuple[object, ...]) -> bool:
    return len(shape) == 2 and isinstance(shape[1], bytes)


def _shape_text(spec: TensorSpec) -> str:
    return str([*(["rows"] if spec.batched else []), *spec.shape]).replace("'", "")


def _check_tensor(spec: TensorSpec, tensor: Tensor) -> None:
    if tensor.datatype != spec.datatype:
        raise InvalidRequest(f"input {spec.name!r} is {tensor.datatype}, but the model takes {spec.datatype}")
    expected = (-1, *spec.shape) if spec.batched else spec.shape
    fits = len(tensor.shape) == len(expected) and all(
        want in (-1, got) for want, got in zip(expected, tensor.shape, strict=True)
    )
    if not fits:
        raise InvalidRequest(
            f"input {spec.name!r} has shape {list(tensor.shape)}, but the model takes {_shape_text(spec)}"
            + (" (-1 is any size)" if -1 in spec.shape else "")
        )


def _check_content(spec: TensorSpec, tensor: Tensor) -> None:
    try:
        tensor.check_content()
    except InvalidRequest as err:
        raise InvalidRequest(f"input {spec.name!r}: {err}") from err
