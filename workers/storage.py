"""reply -> S3: an outcome is stored whole, and then a pointer to it is published in its place."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from producer_sdk.claim_keys import KEPT_MS
from producer_sdk.dataref import DataRef
from producer_sdk.errors import HeadraceError
from producer_sdk.forms import headers_of
from producer_sdk.payloads import Payloads, Stored
from producer_sdk.records import decode_reply_record
from producer_sdk.wire import AnyForm

from .log import bug
from .pointer import pointer, unstored
from .work import OK, Outcome, Storing

PATIENCE_S = 300.0  # longest time to store one outcome, where no deadline ends it sooner: then the caller is told
LEAST_S = 5.0  # also past its deadline: what is answered is not thrown away by a moment
READ_S = 60.0
ERROR_S = 10.0  # an error that cannot be stored is told all the same, which need not wait long
_log = logging.getLogger("headrace.worker")


class Storage:
    """Stores outcomes of one model version. Any task of one event loop may call it."""

    def __init__(self, payloads: Payloads, model: str, version: str) -> None:
        self._payloads = payloads
        self._model = model
        self._version = version
        self.stored = 0
        self.failed = 0

    async def put(self, outcome: Outcome) -> Outcome:
        """What is to be published of an outcome once it is stored, or because it cannot be; never raises."""
        try:
            stored = await self._put(outcome)
            if stored.existed and outcome.code == OK and await self._error_in(stored.ref, outcome.form) is not None:
                stored = await self._put(outcome, only_new=False)  # a result takes the place of an earlier error
            published = await self._pointer(outcome, stored)
        except HeadraceError as err:
            self.failed += 1
            _log.warning("An outcome of model %s is not stored: %s", self._model, err, extra={"action": "not_stored"})
            return unstored(outcome, self._model, self._version, err)
        except Exception as err:  # noqa: BLE001 - the top of a task: a bug of ours must still answer the request
            return unstored(outcome, self._model, self._version, bug("storing a reply", self._model, err))
        self.stored += 1
        return published

    async def _put(self, outcome: Outcome, *, only_new: bool = True) -> Stored:
        """Store it, unless something is there already.

        Raises:
            PayloadUnavailable, Misconfigured, InvalidRequest: it cannot be.
        """
        storing, value = outcome.storing, outcome.outgoing.value
        assert storing is not None, "only outcomes to be stored come here"
        assert value is not None
        budget = budget_s(storing, time.monotonic())
        if storing.place is None:
            expires_ms = int(time.time() * 1000) + KEPT_MS
            return Stored(await self._payloads.claim(value, expires_ms=expires_ms, budget_s=budget), existed=False)
        place = storing.place
        return await self._payloads.put(
            place.bucket, place.key, value, metadata=self._metadata(outcome), only_new=only_new, budget_s=budget
        )

    def _metadata(self, outcome: Outcome) -> Mapping[str, str]:
        return {
            "headrace-id": outcome.id,
            "headrace-model": self._model,
            "headrace-version": self._version,
            "headrace-code": outcome.code,
        }

    async def _pointer(self, outcome: Outcome, stored: Stored) -> Outcome:
        """The pointer to what is there now: where an earlier run has stored its answer, that one counts."""
        assert outcome.storing is not None
        error = await self._error_in(stored.ref, outcome.form) if stored.existed else outcome.storing.error
        return pointer(outcome, self._model, self._version, stored.ref, error)

    async def _error_in(self, ref: DataRef, form: AnyForm) -> HeadraceError | None:
        """The error that an earlier run has stored; None where it was a result."""
        value = await self._payloads.get(ref, budget_s=READ_S, max_bytes=ref.nbytes)
        found = decode_reply_record(value, headers_of(form))
        return found if isinstance(found, HeadraceError) else None


def budget_s(storing: Storing, now: float) -> float:
    """How long storing may take."""
    most = PATIENCE_S if storing.error is None else ERROR_S
    return most if storing.expires is None else max(LEAST_S, min(most, storing.expires - now))
