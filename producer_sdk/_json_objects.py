"""The objects of Open Inference Protocol JSON, as one pass over a body decodes them.

`keys` counts those of an object and of what it holds: fewer than the body has tell that one was there twice.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from ._limits import MAX_NAME_CHARS, MAX_TENSORS, Scalar
from .dataref import DataRef
from .tensors import MAX_DIMENSIONS, Datatype, Tensor

_ABSENT = Raw(b"")
_NULL = Raw(b"null")

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
Dimension = Annotated[int, Meta(ge=0, lt=2**32)]
Shape = Annotated[tuple[Dimension, ...], Meta(max_length=MAX_DIMENSIONS)]


class TensorBody(Struct, frozen=True, gc=False):
    """An item of `inputs` or `outputs`."""

    name: Name
    datatype: Datatype
    shape: Shape
    parameters: dict[str, Any] | UnsetType | None = UNSET
    data: Raw = _ABSENT

    @property
    def has_data(self) -> bool:
        return self.data is not _ABSENT and self.data != _NULL

    def keys(self) -> int:
        return 3 + _map_keys(self.parameters) + (self.data is not _ABSENT)


class WantedOutput(Struct, frozen=True, gc=False):
    """An item of a request's `outputs`."""

    name: Name
    parameters: dict[str, Any] | UnsetType | None = UNSET

    def keys(self) -> int:
        return 1 + _map_keys(self.parameters)


class RequestBody(Struct, frozen=True, gc=False):
    """A body of a request: `inputs`, or the keys of a reference, which mean nothing where `dataref` is missing."""

    inputs: Annotated[list[TensorBody], Meta(max_length=MAX_TENSORS)] | UnsetType | None = UNSET
    id: str | UnsetType | None = UNSET
    parameters: dict[str, Scalar] | UnsetType | None = UNSET
    outputs: list[WantedOutput] | UnsetType | None = UNSET
    dataref: Any = UNSET
    sha256: Any = UNSET
    bytes: Any = UNSET
    expires_ms: Any = UNSET

    def keys(self) -> int:
        own = (self.inputs is not UNSET) + (self.id is not UNSET) + (self.outputs is not UNSET)
        own += sum(part is not UNSET for part in (self.dataref, self.sha256, self.bytes, self.expires_ms))
        items = sum(item.keys() for item in self.inputs or ()) + sum(item.keys() for item in self.outputs or ())
        return own + _map_keys(self.parameters) + items


class FloatsBody(TensorBody, frozen=True, gc=False, kw_only=True):
    """One whose data is a flat list of numbers, read in the one pass over the objects."""

    data: Annotated[list[float], Meta(min_length=1)]  # type: ignore[assignment]


class IntegersBody(TensorBody, frozen=True, gc=False, kw_only=True):
    data: Annotated[list[int], Meta(min_length=1)]  # type: ignore[assignment]


class FloatsRequest(RequestBody, frozen=True, gc=False, kw_only=True):
    """One whose inputs are there: a default would be counted among the keys of the body."""

    inputs: Annotated[list[FloatsBody], Meta(min_length=1, max_length=MAX_TENSORS)]  # type: ignore[assignment]


class IntegersRequest(RequestBody, frozen=True, gc=False, kw_only=True):
    inputs: Annotated[list[IntegersBody], Meta(min_length=1, max_length=MAX_TENSORS)]  # type: ignore[assignment]


class Likeness:
    """Stands for bodies that differ in the bytes of their tensors alone. It says nothing of a body: all are equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Likeness)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "Likeness()"


UNLIKE = Likeness()  # where it is not known what a body is like


class InferBody(Struct, frozen=True):
    """A request body as read.

    Attributes:
        id: None where it has none.
        inputs: tensors by name; empty where they are stored.
        parameters: all of them, `reply_to`, `deadline_s`, `tenant` and `version` among them (`read_options`).
        outputs: names of the outputs wanted; None means all.
        ref: where the inputs are stored; None means that they are here.
        binary_data: wishes of single outputs for their bytes behind the JSON, or against them.
        like: the same object, told by `is`, in bodies that differ in the bytes of their tensors alone.
    """

    id: str | None
    inputs: dict[str, Tensor]
    parameters: dict[str, Scalar]
    outputs: tuple[str, ...] | None
    ref: DataRef | None = None
    binary_data: dict[str, bool] = {}
    like: Likeness = UNLIKE


class ReplyBody(Struct, frozen=True, gc=False):
    """A body of a reply: `outputs`, or `error` and `code`; the keys of a reference where it is stored."""

    id: str | None = None
    model_name: str = ""
    model_version: str = ""
    parameters: dict[str, Any] | None = None
    outputs: list[TensorBody] | None = None
    error: str | None = None
    code: str = "INTERNAL"
    dataref: Any = None
    sha256: Any = None
    bytes: Any = None
    expires_ms: Any = None


def _map_keys(parameters: dict[str, Any] | UnsetType | None) -> int:
    """Keys of an optional object and the key that it stands under."""
    return 0 if parameters is UNSET else 1 + len(parameters or ())
