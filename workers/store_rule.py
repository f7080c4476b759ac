"""Which replies are stored in S3, and where. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from producer_sdk.dataref import S3Prefix
from producer_sdk.errors import HeadraceError
from producer_sdk.forms import name_of
from producer_sdk.payloads import Payloads
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import AnyForm

from .runners.engine import ModelSpec
from .work import Storing

MAX_STORED_BYTES = 256 * 1024 * 1024
RECORD_OVERHEAD_BYTES = 512  # key, headers and framing of one record


class StoreRule(Struct, frozen=True):
    """What a worker's settings and its model say of stored replies.

    Attributes:
        can_store: whether there is a payload store at all.
        claim_bytes: larger replies are stored, too, and what is published points to them; None: none are.
        default: where the model's outcomes go that have no return address; None is the results topic.
    """

    can_store: bool = False
    claim_bytes: int | None = None
    default: S3Prefix | None = None

    def plain_bytes(self, most: int) -> int:
        """Results up to this size are never stored, unless their request wants it; `most` is what a record holds."""
        if self.default is not None:
            return -1
        return most if self.claim_bytes is None else min(most, self.claim_bytes)

    def of(
        self,
        store: S3Prefix | None,
        reply_to: ReplyTo | None,
        id: str,
        form: AnyForm,
        nbytes: int,
        expires: float | None,
        parameters: Mapping[str, Any],
        error: HeadraceError | None = None,
    ) -> Storing | None:
        """Where an outcome of so many bytes is stored; None: nowhere.

        Where the caller or the model wants it: by its id, which is the same at every run, so that a redelivery finds
        what is there. Else, where it is a result too large for a record: anywhere, as a claim check.
        """
        if not self.can_store:
            return None
        wanted = store or (self.default if reply_to is None else None)
        if wanted is not None:
            return Storing(wanted.key(f"{id}.{name_of(form)}"), parameters, expires, error)
        if error is None and self.claim_bytes is not None and nbytes > self.claim_bytes:
            return Storing(None, parameters, expires)
        return None


def store_rule(spec: ModelSpec, payloads: Payloads | None, max_record_bytes: int) -> StoreRule:
    """The rule of one model."""
    if payloads is None:
        return StoreRule()
    settings = payloads.settings
    # What no record holds is stored, whatever the setting says.
    claim_bytes = min(settings.claim_bytes, max_record_bytes - RECORD_OVERHEAD_BYTES)
    return StoreRule(True, None if settings.claim_bucket is None else claim_bytes, spec.store)
