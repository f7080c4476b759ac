"""Inference requests that need no task of their own: nearly all.

The reply itself sets off the answer: a task for each request, and what it waits for, took a large part of the gateway's
time. What has to wait for anything else (a large body, a model that is not announced, a full buffer) goes the way of
`infer.py`, from its beginning.
"""

from __future__ import annotations

import time

from producer_sdk import Client
from producer_sdk.errors import Cancelled, HeadraceError
from producer_sdk.topics import new_id
from producer_sdk.wire import Reply

from .admit import Admission, Slot
from .aside import LARGE_BYTES, aside
from .ask import Ask
from .call import Call
from .exchange import Exchange
from .infer import Inference, reply_bytes
from .oip import OipSurface
from .outcomes import Outcomes

INFER = "/v2/models/{m}/infer"


class AtOnce:
    """Begins them. Belongs to the event loop."""

    def __init__(
        self, client: Client, admission: Admission, inference: Inference, surface: OipSurface, outcomes: Outcomes
    ) -> None:
        self.client = client
        self.admission = admission
        self.inference = inference
        self.surface = surface
        self.outcomes = outcomes

    def begin(self, exchange: Exchange) -> bool:
        """Whether it is begun, or answered with an error already; if not, nothing of it is left."""
        head = exchange.head
        target = head.target
        if target is None or target.template != INFER or head.method != "POST" or target.model is None:
            return False
        began_s = exchange.began_s or time.monotonic()
        call = Call(new_id(), exchange.receive, head.headers, began_s, target.model, target.version)
        call.caller = exchange
        asking = _Asking(self, exchange, call)
        try:
            return asking.begin(target.model)
        except Exception as err:  # noqa: BLE001 - the top of a request; `Outcomes.failed` logs it
            asking.fail(err)
            return True


class _Asking:
    """One of them. Implements the client's `Waiter`, and `Asking` of the exchange."""

    __slots__ = ("_ask", "_at_once", "_body_bytes", "_call", "_exchange", "_is_in", "_slot")

    def __init__(self, at_once: AtOnce, exchange: Exchange, call: Call) -> None:
        self._at_once = at_once
        self._exchange = exchange
        self._call = call
        self._ask: Ask | None = None
        self._body_bytes = 0
        self._slot: Slot | None = None
        self._is_in = False

    def begin(self, model: str) -> bool:
        """The steps of `Inference.answer` up to the sixth; False where one of them takes a wait."""
        at_once, call, exchange = self._at_once, self._call, self._exchange
        at_once.admission.enter()
        self._is_in = True
        call.surface = "oip"
        served = at_once.inference.known(call, model)  # 1
        body = None if served is None else at_once.inference.take_whole(call)  # 2
        if served is None or body is None:
            self._leave()
            return False
        self._body_bytes = len(body)
        ask = self._ask = at_once.surface.read_at_once(call, body, served)  # 3
        if ask is not None:
            deadline_s, self._slot = at_once.inference.admit(call, ask)  # 4, 5
            if at_once.inference.send_at_once(ask, deadline_s, self):  # 6
                exchange.asking = self
                return True
        self._leave()
        exchange.give_back(body)
        return False

    def settle(self, outcome: Reply | HeadraceError) -> None:
        """The request has its outcome: answer the caller."""
        if isinstance(outcome, HeadraceError):
            self.fail(outcome)
            return
        self._give_back()
        self._call.version = outcome.version
        try:
            self._write(outcome)
        except Exception as err:  # noqa: BLE001 - as above: it must not keep other replies from their callers
            self.fail(err)

    def lose(self) -> None:
        """The caller went away: nobody needs the result."""
        if self._ask is not None:
            self._at_once.client.give_up(self._ask.id)
        self.fail(Cancelled("the caller went away before the answer"))

    def fail(self, err: Exception) -> None:
        self._leave()
        self._exchange.answer_at_once(self._call, self._at_once.outcomes.failed(self._call, err))

    def _write(self, reply: Reply) -> None:
        assert self._ask is not None
        nbytes = reply_bytes(reply)
        if nbytes > LARGE_BYTES:
            self._exchange.asking = None  # as in `Inference.answer`, which looks for the caller no more
            self._exchange.go_on(self._write_aside(nbytes, self._ask, reply))
            return
        answer = self._at_once.surface.write(self._call, self._ask, reply)  # 7
        self._leave()
        self._at_once.outcomes.answered(self._call)
        self._exchange.answer_at_once(self._call, answer)

    async def _write_aside(self, nbytes: int, ask: Ask, reply: Reply) -> None:
        try:
            answer = await aside(nbytes, self._at_once.surface.write, self._call, ask, reply)
            self._at_once.outcomes.answered(self._call)
        except Exception as err:  # noqa: BLE001 - as above
            answer = self._at_once.outcomes.failed(self._call, err)
        finally:
            self._leave()
        await self._exchange.answer(self._call, answer)

    def _give_back(self) -> None:
        """The places and the room that it took."""
        self._at_once.admission.drop(self._body_bytes)
        self._body_bytes = 0
        if self._slot is not None:
            self._slot.give_back()
            self._slot = None

    def _leave(self) -> None:
        self._give_back()
        if self._is_in:
            self._is_in = False
            self._at_once.admission.leave()
