"""The ASGI application: which endpoint answers which path, and how errors leave.

A table and a few lines in place of a framework: measured, a routing framework costs as much as the rest of the route.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Mapping

from producer_sdk.topics import new_id

from .admit import Admission
from .at_once import INFER, AtOnce
from .call import Answer, Call, Endpoint, Receive, Scope, Send, send_answer
from .exchange import Exchange
from .infer import Inference
from .metadata import StatusPages
from .oip import OipSurface
from .outcomes import Outcomes
from .route import find_target
from .status import MethodNotAllowed, NoSuchPath
from .v1 import V1Surface

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
        INFER: {"POST": oip_infer},
        "/v1/infer": {"POST": v1_infer},
    }


class App:
    """One ASGI callable, HTTP only. Belongs to the event loop.

    Our own server asks it by `begin`, and where that is False by `respond`.
    """

    def __init__(self, endpoints: Endpoints, admission: Admission, outcomes: Outcomes, at_once: AtOnce) -> None:
        self._endpoints = endpoints
        self._admission = admission
        self._outcomes = outcomes
        self.begin = at_once.begin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"this application answers HTTP only, not {scope['type']}")
        call = Call(new_id(), receive, scope["headers"], time.monotonic())
        await send_answer(send, call, await self._surely(call, scope["method"], scope["raw_path"]))

    async def respond(self, exchange: Exchange) -> None:
        """Answer a request on a connection of our own server."""
        head = exchange.head
        call = Call(new_id(), exchange.receive, head.headers, exchange.began_s or time.monotonic(), caller=exchange)
        await exchange.answer(call, await self._surely(call, head.method, head.raw_path))

    async def _surely(self, call: Call, method: str, raw_path: bytes) -> Answer:
        """The answer, whatever goes wrong; counted."""
        try:
            answer = await self._answer(call, method, raw_path)
        except Exception as err:  # noqa: BLE001 - the top of a request, whose caller gets an answer; `failed` logs it
            return self._outcomes.failed(call, err)
        self._outcomes.answered(call)
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
