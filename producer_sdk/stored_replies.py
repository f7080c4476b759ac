"""Replies that are stored: what a pointer points to is fetched and read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ._ce_types import type_header
from ._s3_errors import PayloadUnavailable
from .broker import Misconfigured
from .byte_gate import ByteGate
from .dataref import DataRef
from .errors import HeadraceError, InputGone, InvalidRequest, ResultGone
from .records import decode_reply_record
from .wire import Reply, Undecodable

if TYPE_CHECKING:
    from .payloads import Payloads

MAX_REPLY_BYTES = 1 << 30
MAX_BYTES_AT_ONCE = 256 << 20
IN_A_THREAD_BYTES = 1 << 20  # reading more than this would hold up the event loop


class StoredReplies:
    """Fetches replies for one client. Belongs to its event loop.

    At most 256 MiB of them are on their way at once, and none above 1 GiB is taken.
    """

    def __init__(self, payloads: Payloads | None) -> None:
        self._payloads = payloads
        self._room = ByteGate(MAX_BYTES_AT_ONCE)

    async def fetch(self, pointer: Reply, budget_s: float) -> Reply | HeadraceError:
        """What a pointer points to: the whole reply, or the error that was stored.

        Raises:
            ResultGone: it expired, was deleted or changed, or is no reply to this request.
            PayloadUnavailable: the store did not give it within the budget, or others were fetched for as long.
            PayloadTooLarge: it is larger than 1 GiB.
            Misconfigured: this client has no store, may not read the bucket, or the store refuses its credentials.
        """
        assert pointer.ref is not None, "only pointers are fetched"
        try:
            return await self._fetch(pointer, pointer.ref, budget_s)
        except HeadraceError as err:
            err.id, err.ref = pointer.id, pointer.ref
            raise

    async def _fetch(self, pointer: Reply, ref: DataRef, budget_s: float) -> Reply | HeadraceError:
        if self._payloads is None:
            raise Misconfigured(
                f"the result is stored at {ref.uri}, and this client has no S3 settings to fetch it: "
                "set HEADRACE_S3_BUCKETS, or give Client(s3=...)"
            )
        loop = asyncio.get_running_loop()
        ends_at_s = loop.time() + budget_s
        nbytes = self._room.most if ref.nbytes < 0 else ref.nbytes
        try:
            async with asyncio.timeout_at(ends_at_s) as limit, self._room.room_for(nbytes):
                limit.reschedule(None)  # the store keeps the time itself, and says more when it is over
                left_s = max(0.001, ends_at_s - loop.time())
                data = await self._payloads.get(ref, budget_s=left_s, max_bytes=MAX_REPLY_BYTES)
                if len(data) <= IN_A_THREAD_BYTES:
                    return read_stored(pointer, data)
                return await asyncio.to_thread(read_stored, pointer, data)
        except TimeoutError as err:
            raise PayloadUnavailable(
                f"Could not get {ref.uri} within {budget_s:.3g} s: other stored results were fetched meanwhile."
            ) from err
        except InputGone as err:
            raise ResultGone(f"the stored result is gone: {err.message}") from err
        except InvalidRequest as err:
            raise Misconfigured(f"the result cannot be fetched: {err.message}") from err


def read_stored(pointer: Reply, data: bytes) -> Reply | HeadraceError:
    """The reply that an object holds.

    Raises:
        ResultGone: it holds no reply to this request, or another pointer.
    """
    ref = pointer.ref
    assert ref is not None, "only pointers are read"
    try:
        outcome = decode_reply_record(data, type_header(pointer.content_type))
    except Undecodable as err:
        raise ResultGone(f"{ref.uri} holds no reply: {err.message}") from err
    if outcome.id != pointer.id:
        raise ResultGone(f"{ref.uri} holds the reply to another request, {outcome.id}")
    if isinstance(outcome, HeadraceError):
        outcome.ref = ref
        return outcome
    if outcome.ref is not None:
        raise ResultGone(f"{ref.uri} holds a pointer in place of a reply")
    return outcome
