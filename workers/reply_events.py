"""Replies as CloudEvents: for requests that came as one, and for all of a model with `profile: cloudevents`."""

from __future__ import annotations

import time
from collections.abc import Callable

from producer_sdk.broker import Headers, Record
from producer_sdk.cloudevents import NO_CAUSE, cause_of, reply_headers
from producer_sdk.forms import headers_of
from producer_sdk.wire import AnyForm

from .retry_records import origin_of


class EventWriter:
    """Writes the headers of a model's replies. Pure but for its clock, seconds since 1970.

    The version of the model is no part of the source: a request that is answered again by another version gets the
    same event again, which readers drop.
    """

    def __init__(self, prefix: str, model: str, *, always: bool, clock: Callable[[], float] = time.time) -> None:
        self._source = f"/{prefix}/{model}"
        self._always = always
        self._clock = clock

    def headers(self, record: Record, id: str, form: AnyForm, *, is_error: bool) -> Headers:
        """Those of the reply to the request of this id in a record; without need of an event, those of its form."""
        if not record.headers and not self._always:
            return headers_of(form)
        cause = cause_of(record.value, origin_of(record).headers) if record.headers else NO_CAUSE
        if not cause.is_event and not self._always:
            return headers_of(form)
        return reply_headers(cause, id, self._source, form, is_error=is_error, at_s=self._clock())


def size_of(headers: Headers) -> int:
    """Bytes that headers take in a record."""
    return sum(len(name) + len(content or b"") + 4 for name, content in headers)
