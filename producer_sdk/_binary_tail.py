"""Binary tensors of Open Inference Protocol over HTTP: the JSON describes them, their bytes follow it, in its order."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from .errors import InvalidRequest
from .tensors import Datatype, Tensor, check_size, item_bytes
from .topics import shown

SIZE = "binary_data_size"


class Part(NamedTuple):
    """A tensor whose bytes fill its shape, whatever they are."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    nbytes: int

    @staticmethod
    def of(name: str, datatype: Datatype, shape: tuple[int, ...], nbytes: object) -> Part | None:
        """None where that is not so, or where the bytes themselves have to be looked at."""
        if datatype in (Datatype.BYTES, Datatype.BOOL) or type(nbytes) is not int or not nbytes:
            return None
        return Part(name, datatype, shape, nbytes) if prod(shape) * item_bytes(datatype) == nbytes else None


class Tail:
    """The bytes behind the JSON, from `start` on, taken one tensor after another."""

    __slots__ = ("_at", "_content")

    def __init__(self, content: memoryview, start: int = 0) -> None:
        self._content = content
        self._at = start

    @property
    def left(self) -> int:
        return len(self._content) - self._at

    def tensors(self, parts: Sequence[Part]) -> dict[str, Tensor]:
        """Those that so many bytes are there for."""
        content, at, tensors = self._content, self._at, dict[str, Tensor]()
        for name, datatype, shape, nbytes in parts:
            tensors[name] = Tensor(datatype, shape, content[at : at + nbytes])
            at += nbytes
        self._at = at
        return tensors

    def take(self, nbytes: object) -> memoryview:
        """The next so many bytes.

        Raises:
            InvalidRequest: that is no number of bytes, or there are not so many.
        """
        if not isinstance(nbytes, int) or isinstance(nbytes, bool) or nbytes < 0:
            raise InvalidRequest(f"{SIZE} {shown(nbytes)} is not valid: give a number of bytes")
        start, self._at = self._at, self._at + nbytes
        if self.left < 0:
            raise InvalidRequest(
                f"its {shown(nbytes)} bytes do not follow the JSON: {len(self._content) - start} are left"
            )
        return self._content[start : self._at]

    def check_end(self) -> None:
        """Raises InvalidRequest: bytes are left that belong to no tensor."""
        if self.left:
            raise InvalidRequest(f"{self.left} bytes follow the JSON that no input's {SIZE} takes")


def read_binary(datatype: Datatype, shape: tuple[int, ...], content: memoryview) -> Tensor:
    """A tensor of its bytes. Raises InvalidRequest: they do not fill the shape, or are no such elements."""
    check_size(datatype, shape, len(content))
    tensor = Tensor(datatype, shape, content)
    tensor.check_content()
    return tensor
