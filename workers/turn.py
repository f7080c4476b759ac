"""Whose turn it is to try suspects. While it is a model's turn no other model of the worker takes or runs anything."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct


class _Member(Struct, frozen=True):
    is_busy: Callable[[], bool]
    wake: Callable[[], None]


class Turn:
    """Models take turns, so that the end of a worker during a trial has one cause. One event loop touches it."""

    def __init__(self) -> None:
        self._members: dict[str, _Member] = {}
        self._asking: list[str] = []

    def join(self, model: str, is_busy: Callable[[], bool], wake: Callable[[], None]) -> None:
        """`is_busy` tells whether requests of the model wait or run; `wake` is called when it may go on."""
        self._members[model] = _Member(is_busy, wake)

    def ask(self, model: str) -> None:
        """It has suspects to try."""
        if model not in self._asking:
            self._asking.append(model)

    def leave(self, model: str) -> None:
        """It has tried them, or will not."""
        if model in self._asking:
            self._asking.remove(model)
            for member in self._members.values():
                member.wake()

    def is_of_another(self, model: str) -> bool:
        """Whether this model has to stand still."""
        return bool(self._asking) and self._asking[0] != model

    def others_are_busy(self, model: str) -> bool:
        return any(member.is_busy() for name, member in self._members.items() if name != model)
