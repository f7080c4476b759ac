"""Admission: how many requests, and how many body bytes, the gateway holds at once. Full means 503 at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from producer_sdk.errors import QueueFull


class Admission:
    """Counts what is in flight. Belongs to the event loop; other threads may read the attributes.

    Attributes:
        inflight: HTTP requests being answered, whatever they ask.
        inflight_by_model: inference requests on their way to a model and back, by model.
        body_bytes: bytes of request bodies held.
    """

    def __init__(self, *, max_inflight: int, max_inflight_per_model: int, max_body_bytes_held: int) -> None:
        self._max_inflight = max_inflight
        self._max_per_model = max_inflight_per_model
        self._max_bytes = max_body_bytes_held
        self.inflight = 0
        self.inflight_by_model: dict[str, int] = {}
        self.body_bytes = 0

    def enter(self) -> None:
        """Count one HTTP request in; `leave` counts it out.

        Raises:
            QueueFull: the gateway holds as many requests as it may.
        """
        if self.inflight >= self._max_inflight:
            raise QueueFull(f"the gateway holds {self.inflight} requests, as many as it may: try again later")
        self.inflight += 1

    def leave(self) -> None:
        self.inflight -= 1

    def hold(self, body_bytes: int) -> None:
        """Count body bytes in; `drop` counts them out.

        Raises:
            QueueFull: the gateway holds as many bytes of bodies as it may.
        """
        if self.body_bytes + body_bytes > self._max_bytes:
            raise QueueFull(f"the gateway holds {self.body_bytes} bytes of requests, as many as it may: try later")
        self.body_bytes += body_bytes

    def drop(self, body_bytes: int) -> None:
        self.body_bytes -= body_bytes

    @contextmanager
    def slot(self, model: str) -> Iterator[None]:
        """One of the model's places, for as long as its request is on its way.

        Raises:
            QueueFull: the model has as many requests on their way as it may.
        """
        taken = self.inflight_by_model.get(model, 0)
        if taken >= self._max_per_model:
            raise QueueFull(f"model '{model}' has {taken} requests on their way, as many as it may: try again later")
        self.inflight_by_model[model] = taken + 1
        try:
            yield
        finally:
            self._free(model)

    def _free(self, model: str) -> None:
        left = self.inflight_by_model[model] - 1
        if left:
            self.inflight_by_model[model] = left
        else:
            del self.inflight_by_model[model]
