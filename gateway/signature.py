"""Whether inputs fit the signature that a model announced: a bad request is refused before it costs a round trip.

The worker judges again and has the last word; what was not announced is not checked here.
"""

from __future__ import annotations

from collections.abc import Mapping

from producer_sdk.announcements import Announcement, TensorAnnouncement
from producer_sdk.errors import InvalidRequest
from producer_sdk.oip import UNLIKE
from producer_sdk.tensors import Tensor

from .ask import Ask

MOST_LIKENESSES = 256


class Fitting:
    """Checks requests; of those that are like one that fitted the same signature, only the first."""

    def __init__(self) -> None:
        self._fitted: dict[int, tuple[object, Announcement]] = {}  # by identity; kept, or their ids would go on

    def check(self, announcement: Announcement, ask: Ask) -> None:
        """Raises InvalidRequest: it does not fit."""
        fitted = self._fitted.get(id(ask.like))
        if fitted is not None and fitted[0] is ask.like and fitted[1] is announcement:
            return
        check_inputs(announcement, ask.inputs)
        check_outputs(announcement, ask.outputs)
        if ask.like is not UNLIKE:
            if len(self._fitted) >= MOST_LIKENESSES:
                self._fitted.clear()
            self._fitted[id(ask.like)] = ask.like, announcement


def check_inputs(announcement: Announcement, inputs: Mapping[str, Tensor]) -> None:
    """Check names, datatypes, shapes and rows of the inputs.

    Raises:
        InvalidRequest: saying which input, what it is and what it should be.
    """
    if not announcement.inputs:
        return
    rows: dict[int, str] = {}
    found = 0
    for expected in announcement.inputs:
        tensor = inputs.get(expected.name)
        if tensor is None:
            if expected.optional:
                continue
            raise InvalidRequest(f"input '{expected.name}' is missing: the model takes {_names(announcement.inputs)}")
        found += 1
        _check_tensor(expected, tensor)
        if expected.batched:
            rows.setdefault(tensor.shape[0], expected.name)
    if found < len(inputs):
        raise _unknown_input(announcement, inputs)
    _check_rows(rows, announcement.max_batch_size)


def check_outputs(announcement: Announcement, outputs: tuple[str, ...] | None) -> None:
    """Check that the outputs asked for exist.

    Raises:
        InvalidRequest: naming the first that does not.
    """
    if outputs is None or not announcement.outputs:
        return
    known = {output.name for output in announcement.outputs}
    for name in outputs:
        if name not in known:
            raise InvalidRequest(f"there is no output {name[:80]!r}: the model gives {_names(announcement.outputs)}")


def full_shape(tensor: TensorAnnouncement) -> list[int]:
    """The shape as Open Inference Protocol tells it: with -1 for the batch axis, where there is one."""
    return [-1, *tensor.shape] if tensor.batched else list(tensor.shape)


def _unknown_input(announcement: Announcement, inputs: Mapping[str, Tensor]) -> InvalidRequest:
    known = {expected.name for expected in announcement.inputs}
    extra = next(name for name in inputs if name not in known)
    return InvalidRequest(f"there is no input {extra[:80]!r}: the model takes {_names(announcement.inputs)}")


def _check_tensor(expected: TensorAnnouncement, tensor: Tensor) -> None:
    if tensor.datatype != expected.datatype:
        raise InvalidRequest(f"input '{expected.name}' is {tensor.datatype}: the model takes {expected.datatype}")
    shape = tensor.shape
    if expected.batched:
        shape = shape[1:]
        if not tensor.shape:
            raise _wrong_shape(expected, tensor)
    if shape == expected.shape:
        return
    if len(shape) != len(expected.shape):
        raise _wrong_shape(expected, tensor)
    for size, wanted in zip(shape, expected.shape, strict=True):
        if wanted not in (-1, size):
            raise _wrong_shape(expected, tensor)


def _wrong_shape(expected: TensorAnnouncement, tensor: Tensor) -> InvalidRequest:
    takes = f"{full_shape(expected)}{', rows first' if expected.batched else ''} (-1 is any size)"
    return InvalidRequest(f"input '{expected.name}' has shape {list(tensor.shape)}: the model takes {takes}")


def _check_rows(rows: dict[int, str], max_batch_size: int) -> None:
    if len(rows) > 1:
        said = ", ".join(f"'{name}' has {count}" for count, name in rows.items())
        raise InvalidRequest(f"all inputs must have the same number of rows: {said}")
    for count, name in rows.items():
        if count == 0:
            raise InvalidRequest(f"input '{name}' has no rows: give at least one")
        if max_batch_size and count > max_batch_size:
            raise InvalidRequest(f"the request has {count} rows: the model takes at most {max_batch_size} at once")


def _names(tensors: tuple[TensorAnnouncement, ...]) -> str:
    return ", ".join(f"'{tensor.name}'" for tensor in tensors)
