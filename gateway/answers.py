"""Error answers: one shape whatever went wrong."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from producer_sdk.errors import HeadraceError
from producer_sdk.wire import sendable

from .call import Answer, Call, header
from .status import RETRY_AFTER_S, MethodNotAllowed, status_of


def error_answer(call: Call, error: HeadraceError, beside: Mapping[str, object] | None = None) -> Answer:
    """`{"id", "error", "code"}` with the status of the code; `beside` adds keys."""
    status = status_of(error)
    headers: list[tuple[bytes, bytes]] = []
    retry_after_s = RETRY_AFTER_S.get(error.code)
    if retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % retry_after_s))
    if isinstance(error, MethodNotAllowed):
        headers.append((b"allow", error.allow.encode("ascii")))
    # A caller that waits for "100 Continue" may, once refused, send the body or its next request: nobody can tell.
    if call.close or (not call.body_read and header(call, b"expect") is not None):
        headers.append((b"connection", b"close"))
    body = {**(beside or {}), "id": call.id, "error": sendable(error.message), "code": str(error.code)}
    return Answer(msgspec.json.encode(body), status, headers)
