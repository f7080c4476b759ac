"""One inference request: validate, admit, call, answer. The surfaces (oip.py, v1.py) read and write its bodies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Coroutine
from typing import Any, Protocol, TypeVar

from producer_sdk import Client
from producer_sdk.errors import Cancelled, DeadlineExceeded, HeadraceError, InvalidRequest
from producer_sdk.wire import Reply, TensorReply

from .admit import Admission, Slot, queue_of
from .aside import LARGE_BYTES, aside, bytes_of
from .ask import Ask
from .body import read_body, take_whole
from .call import Answer, Call, Receive
from .models import Models, Served
from .settings import GatewaySettings
from .signature import Fitting

T = TypeVar("T")


class Waiter(Protocol):
    """Told the outcome of a request."""

    def settle(self, outcome: Reply | HeadraceError) -> None: ...


class Surface(Protocol):
    """One way to write requests and answers."""

    async def read(self, call: Call, body: bytes, served: Served | None) -> Ask:
        """What is asked, and of which model: `served` is the one of the path, if any.

        Sets `call.id` as soon as it is known. Raises HeadraceError.
        """
        ...

    def write(self, call: Call, ask: Ask, reply: Reply) -> Answer:
        """The answer; may be called in a thread."""
        ...


class Inference:
    """Knows the order of steps of one inference request. Belongs to the event loop."""

    def __init__(self, client: Client, models: Models, admission: Admission, settings: GatewaySettings) -> None:
        self._client = client
        self._models = models
        self._admission = admission
        self._settings = settings
        self._body_bytes = settings.body_bytes
        self._fitting = Fitting()

    async def answer(self, call: Call, surface: Surface) -> Answer:
        """Answer one call.

        1. find the model, where the path names it: an unknown one costs nothing more
        2. read the body, within its caps
        3. read what is asked, and find the model where only the body names it
        4. check the inputs against the model's signature
        5. take one of the model's places
        6. call it through Kafka, until its deadline or until the caller goes away, which cancels the request
        7. write the answer

        Raises:
            HeadraceError: any typed error.
        """
        served = None
        if call.model is not None:
            served = self.known(call, call.model)  # 1
            served = served or await self._models.serving(call, call.model, call.url_version)
        settings = self._settings
        body = self.take_whole(call)  # 2
        if body is None:
            body = await read_body(
                call, self._admission, max_bytes=settings.body_bytes, timeout_s=settings.body_timeout_s
            )
        try:
            ask = await surface.read(call, body, served)  # 3
            deadline_s, slot = self.admit(call, ask)  # 4, 5
            with slot:
                reply = await self._unless_gone(call, self._call(ask, deadline_s))  # 6
        finally:
            self._admission.drop(len(body))
        call.version = reply.version
        nbytes = reply_bytes(reply)
        if nbytes <= LARGE_BYTES:
            return surface.write(call, ask, reply)  # 7
        return await aside(nbytes, surface.write, call, ask, reply)

    def known(self, call: Call, model: str) -> Served | None:
        """The first step, where the path names a model that is announced."""
        return self._models.known(call, model, call.url_version)

    def take_whole(self, call: Call) -> bytes | None:
        """The second step, where the body is there."""
        return take_whole(call, self._admission, self._body_bytes)

    def admit(self, call: Call, ask: Ask) -> tuple[float, Slot]:
        """Steps 4 and 5: the seconds that are left, and the place that was taken."""
        if ask.served.signature is not None:
            self._fitting.check(ask.served.signature, ask)
        deadline_s = self._deadline_s(call, ask)
        queue = queue_of(ask.served.announcement, ask.options.parameters.get("priority"))
        return deadline_s, self._admission.slot(ask.served.name, queue)

    def send_at_once(self, ask: Ask, deadline_s: float, waiter: Waiter) -> bool:
        """Step 6 for who has no task to wait in; False where sending takes a wait."""
        options = ask.options
        return self._client.infer_at_once(
            ask.served.name,
            ask.inputs,
            waiter,
            id=ask.id,
            version=options.version,
            lane="interactive",
            deadline_s=deadline_s,
            tenant=options.tenant,
            parameters=options.parameters,
            outputs=ask.outputs,
        )

    @staticmethod
    def _unless_gone(call: Call, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        return unless_gone(call.receive, work) if call.caller is None else call.caller.unless_gone(work)

    def _call(self, ask: Ask, deadline_s: float) -> Coroutine[Any, Any, Reply]:
        return self._client.infer(
            ask.served.name,
            ask.inputs,
            id=ask.id,
            version=ask.options.version,
            lane="interactive",
            deadline_s=deadline_s,
            tenant=ask.options.tenant,
            parameters=ask.options.parameters,
            outputs=ask.outputs,
        )

    def _deadline_s(self, call: Call, ask: Ask) -> float:
        """What is left of the deadline, which counts from the head of the HTTP request."""
        asked = (
            ask.options.deadline_s or ask.served.announcement.default_deadline_s or self._settings.default_deadline_s
        )
        if asked > self._settings.max_deadline_s:
            raise InvalidRequest(
                f"a deadline of {asked:g} s is longer than the {self._settings.max_deadline_s:g} s that this gateway "
                "waits: publish to Kafka instead"
            )
        left = asked - (time.monotonic() - call.started_s)
        if left <= 0:
            raise DeadlineExceeded(f"the deadline of {asked:g} s passed while the request arrived")
        return left


def reply_bytes(reply: Reply) -> int:
    """Bytes of the outputs."""
    if isinstance(reply, TensorReply):
        return sum([len(tensor.data) for tensor in reply.tensors.values()])
    return bytes_of(reply.outputs)


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The work's result; the work is cancelled when the HTTP caller goes away.

    Raises:
        Cancelled: the caller went away.
    """
    me = asyncio.current_task()
    assert me is not None
    watch = asyncio.create_task(_watch(receive, me), name="headrace-caller-watch")
    try:
        return await work
    except asyncio.CancelledError:
        if not watch.done() or watch.cancelled():
            raise
        # Only one of two cancellations is ours: one from the server's end must go on.
        if me.uncancel() > 0:
            raise
        raise Cancelled("the caller went away before the answer") from None
    finally:
        watch.cancel()


async def _watch(receive: Receive, work: asyncio.Task[Any]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    work.cancel()
