"""How requests ended: counted, and what a caller is told of a failure."""

from __future__ import annotations

import logging
import time

from producer_sdk.broker import NotAllowed
from producer_sdk.errors import HeadraceError, Internal

from .answers import error_answer
from .call import Answer, Call
from .metrics import NO_MODEL, OK, UNKNOWN_MODEL, GatewayMetrics

log = logging.getLogger("headrace.gateway")


class Outcomes:
    """Belongs to the event loop."""

    def __init__(self, metrics: GatewayMetrics) -> None:
        self._metrics = metrics

    def answered(self, call: Call) -> None:
        self._count(call, OK)

    def failed(self, call: Call, err: Exception) -> Answer:
        """The answer to a request that failed."""
        error = _told(call, err)
        self._count(call, str(error.code))
        return error_answer(call, error)

    def _count(self, call: Call, code: str) -> None:
        model = call.known_model or (NO_MODEL if call.model is None else UNKNOWN_MODEL)
        self._metrics.count(model, call.surface, code, time.monotonic() - call.started_s)


def _told(call: Call, err: Exception) -> HeadraceError:
    """What the caller may know; the log has the rest."""
    if isinstance(err, NotAllowed):  # who calls need not read principals and commands
        log.error("%s.", err.message, extra={"action": "not_allowed", "id": call.id})
        return Internal("the gateway lacks a right in Kafka: its log says which, under the request id")
    if isinstance(err, HeadraceError):
        return err
    log.error("A request failed inside the gateway.", exc_info=err, extra={"action": "request_failed", "id": call.id})
    return Internal("the gateway failed on this request; its log says more under the request id")
