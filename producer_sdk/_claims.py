"""Claim checks: a request that is too large for a record is stored, and a record that refers to it is published."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from .broker import Outgoing
from .byte_gate import ByteGate
from .claim_keys import KEPT_MS
from .dataref import DataRef
from .errors import DeadlineExceeded, PayloadTooLarge

if TYPE_CHECKING:
    from .payloads import Payloads

STORE_S = 60.0  # longest time to store a request without a deadline
MARGIN_MS = 3600 * 1000  # clocks differ, and a worker may look a little later
MAX_BYTES_AT_ONCE = 128 << 20


class Claim(NamedTuple):
    """What it takes to publish a reference in place of a record.

    Attributes:
        refer: the record value that refers to where this one is stored.
        deadline_s: of the request, from its encoding; None has none.
        expires_ms: when the stored one may be deleted.
    """

    refer: Callable[[DataRef], bytes]
    deadline_s: float | None
    expires_ms: int


class Sending(NamedTuple):
    """A request that is encoded: its id and its record, and a claim where the record is to be stored first."""

    id: str
    record: Outgoing
    claim: Claim | None = None


def claim_expiry_ms(now_ms: int, deadline_ms: int | None) -> int:
    """When what is stored for a request may be deleted."""
    return MARGIN_MS + (now_ms + KEPT_MS if deadline_ms is None else deadline_ms)


class Claims:
    """Stores requests of one client. Belongs to its event loop.

    Attributes:
        limit: record values above it are stored; larger than any where there is no bucket for them.
    """

    def __init__(self, payloads: Payloads | None) -> None:
        is_on = payloads is not None and payloads.settings.claim_bucket is not None
        self._payloads = payloads if is_on else None
        self.limit = payloads.settings.claim_bytes if payloads is not None and is_on else sys.maxsize
        self._room = ByteGate(MAX_BYTES_AT_ONCE)

    async def store(self, sending: Sending) -> Sending:
        """The sending whose record refers to that of this one, which is stored then.

        Raises:
            PayloadUnavailable: the store did not take it within the request's deadline.
            DeadlineExceeded: the deadline passed while others were stored.
            Misconfigured: the store refuses credentials, bucket or rights.
        """
        claim, value = sending.claim, sending.record.value
        if claim is None or value is None or self._payloads is None:
            return sending
        loop = asyncio.get_running_loop()
        ends_at_s = loop.time() + (STORE_S if claim.deadline_s is None else claim.deadline_s)
        try:
            async with asyncio.timeout_at(ends_at_s) as limit, self._room.room_for(len(value)):
                limit.reschedule(None)  # the store keeps the time itself, and says more when it is over
                left_s = max(0.001, ends_at_s - loop.time())
                ref = await self._payloads.claim(value, expires_ms=claim.expires_ms, budget_s=left_s)
        except TimeoutError as err:
            raise DeadlineExceeded("the deadline passed while the inputs waited to be stored", id=sending.id) from err
        return Sending(sending.id, sending.record._replace(value=claim.refer(ref)))

    def advised(self, err: PayloadTooLarge) -> PayloadTooLarge:
        """The refusal of a record by the broker, with the way out."""
        way = (
            "name a bucket for what is larger: Client(s3=...), or HEADRACE_S3_CLAIM_BUCKET of headrace's own programs"
            if self._payloads is None
            else "set HEADRACE_CLAIM_CHECK_BYTES below that"
        )
        return err if way in err.message else PayloadTooLarge(f"{err.message}; {way}", id=err.id)
