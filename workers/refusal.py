"""Rejections: who is told that a record will not run, as far as anybody may be told. Pure."""

from __future__ import annotations

from collections.abc import Callable

from producer_sdk.broker import Outgoing, Record
from producer_sdk.errors import HeadraceError
from producer_sdk.payloads import Payloads
from producer_sdk.topics import Lane, derived_id
from producer_sdk.wire import Refused

from .retry_records import origin_of
from .work import Rejected, Source


class Refusals:
    """Of one model. `may_reply_to` says of a topic whether it may be replied to."""

    def __init__(self, may_reply_to: Callable[[str], bool], payloads: Payloads | None) -> None:
        self._may_reply_to = may_reply_to
        self._payloads = payloads

    def of(self, refused: Refused, record: Record, source: Source, lane: Lane, arrived: float) -> Rejected:
        """The rejection of a record whose return address can be read; it is used if it is allowed."""
        reply_to, store, error = refused.reply_to, refused.store, refused.error
        if reply_to is not None and not self._may_reply_to(reply_to.topic):
            reply_to = None
        if store is not None and (self._payloads is None or store.bucket not in self._payloads.settings.allowed):
            store = None
        return Rejected(refused.id, error, source, lane, arrived, refused.form, reply_to, record=record, store=store)

    def unreadable(self, record: Record, error: HeadraceError, source: Source, lane: Lane, arrived: float) -> Rejected:
        """The rejection of a record whose return address cannot be read: it becomes a dead letter."""
        origin = origin_of(record)
        id = derived_id(origin.topic, origin.partition, origin.offset)
        dead = Outgoing(record.key, record.value, record.headers, record.timestamp)
        return Rejected(id, error, source, lane, arrived, dead=dead, record=record)
