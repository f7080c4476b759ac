"""The ASGI application: which endpoint answers which path, and how errors leave.

A table and a few lines in place of a framework: measured, a routing framework costs as much as the rest of the route.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Mapping

from producer_sdk.broker import NotAllowed
from producer_sdk.errors import HeadraceError, Internal
from producer_sdk.topics import new_id

from .admit import Admission
from .answers import error_answer
from .call import Answer, Call, Endpoint, Receive, Scope, Send, send_answer
from .exchange import Exchange
from .infer import Inference
from .metadata import StatusPages
from .metrics import NO_MODEL, OK, UNKNOWN_MODEL, GatewayMetrics
from .oip import OipSurface
from .route import find_target
from .status import MethodNotAllowed, NoSuchPath
from .v1 import V1Surface

log = logging.getLogger("headrace.gateway")

Endpoints = Mapping[str, Mapping[str, Endpoint]]


def endpoints(pages: StatusPages, inference: Inference, oip: OipSurface, v1: V1Surface) -> Endpoints:
    """Path template -> method -> endpoint."""

    def oip_infer(call: Call) -> Awaitable[Answer]:
        call.surface = "oip"
        return inference.answer(call, oip)

    def v1_infer(call: Call) -> Awaitable[Answer]:
        call.surface = "v1"
        return inference.answer(call, v1)

    def get(endpoint: Endpoint) -> dict[str, Endpoint]:
        return {"GET": endpoint, "HEAD": endpoint}

    return {
        "/": get(pages.index),
        "/v2": get(pages.server),
        "/v2/health/live": get(pages.live),
        "/v2/health/ready": get(pages.ready),
        "/v2/models/{m}": get(pages.model),
        "/v2/models/{m}/ready": get(pages.model_ready),
        "/v2/models/{m}/infer": {"POST": oip_infer},
        "/v1/infer": {"POST": v1_infer},
    }


class App:
    """One ASGI callable, HTTP only; our own server asks it by `respond`. Belongs to the event loop."""

    def __init__(self, endpoints: Endpoints, admission: Admission, metrics: GatewayMetrics) -> None:
        self._endpoints = endpoints
        self._admission = admission
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"this application answers HTTP only, not {scope['type']}")
        call = Call(new_id(), receive, scope["headers"], time.monotonic())
        await send_answer(send, call, await self._surely(call, scope["method"], scope["raw_path"]))

    async def respond(self, exchange: Exchange) -> None:
        """Answer a request on a connection of our own server."""
        call = Call(new_id(), exchange.receive, exchange.headers, time.monotonic(), caller=exchange)
        await exchange.answer(call, await self._surely(call, exchange.method, exchange.raw_path))

    async def _surely(self, call: Call, method: str, raw_path: bytes) -> Answer:
        """The answer, whatever goes wrong; counted."""
        code = OK
        try:
            answer = await self._answer(call, method, raw_path)
        except NotAllowed as error:  # who calls need not read principals and commands
            log.error("%s.", error.message, extra={"action": "not_allowed", "id": call.id})
            hidden = Internal("the gateway lacks a right in Kafka: its log says which, under the request id")
            code, answer = hidden.code, error_answer(call, hidden)
        except HeadraceError as error:
            code, answer = error.code, error_answer(call, error)
        except Exception:  # the top of a request: a fault here must not leave the caller without an answer
            log.exception("A request failed inside the gateway.", extra={"action": "request_failed", "id": call.id})
            internal = Internal("the gateway failed on this request; its log says more under the request id")
            code, answer = internal.code, error_answer(call, internal)
        self._count(call, str(code))
        return answer

    async def _answer(self, call: Call, method: str, raw_path: bytes) -> Answer:
        target = find_target(raw_path)
        call.model, call.url_version = target.model, target.version
        methods = self._endpoints.get(target.template)
        if methods is None:
            raise NoSuchPath("there is nothing at this path: GET / lists what there is")
        endpoint = methods.get(method)
        if endpoint is None:
            allow = ", ".join(methods)
            raise MethodNotAllowed(f"this path does not take {method}: use {allow}", allow)
        self._admission.enter()
        try:
            return await endpoint(call)
        finally:
            self._admission.leave()

    def _count(self, call: Call, code: str) -> None:
        model = call.known_model or (NO_MODEL if call.model is None else UNKNOWN_MODEL)
        self._metrics.count(model, call.surface, code, time.monotonic() - call.started_s)
