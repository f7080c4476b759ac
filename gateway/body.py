"""Reading a request body: never more than the cap in memory, never longer than the time given."""

from __future__ import annotations

import asyncio

from producer_sdk.errors import Cancelled, InvalidRequest, PayloadTooLarge

from .admit import Admission
from .call import Call, header


async def read_body(call: Call, admission: Admission, *, max_bytes: int, timeout_s: float) -> bytes:
    """The body that `take_whole` did not find. Its bytes are held in `admission` until the caller drops as many.

    Raises:
        PayloadTooLarge: more than `max_bytes`, by its Content-Length or while it streams.
        QueueFull: the gateway holds as many bytes of bodies as it may.
        InvalidRequest: a bad Content-Length, or it did not arrive within the time.
        Cancelled: the caller went away.
    """
    _check_length(call, max_bytes)
    held = 0
    chunks: list[bytes] = []
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                message = await call.receive()
                if message["type"] == "http.disconnect":
                    raise Cancelled("the caller went away before its body was read")
                chunk: bytes = message.get("body", b"")
                if held + len(chunk) > max_bytes:
                    raise _too_large(max_bytes)
                admission.hold(len(chunk))
                held += len(chunk)
                chunks.append(chunk)
                if not message.get("more_body", False):
                    call.body_read = True
                    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
    except BaseException as err:
        admission.drop(held)
        if isinstance(err, TimeoutError):
            call.close = True
            raise InvalidRequest(f"the body did not arrive within {timeout_s:g} s") from err
        raise


def take_whole(call: Call, admission: Admission, max_bytes: int) -> bytes | None:
    """The body where it came with its head, as nearly always; else None, and `read_body` waits for it.

    Holds and raises as `read_body` does.

    Raises:
        InvalidRequest: a content coding.
    """
    coding = header(call, b"content-encoding")
    if coding not in (None, b"identity"):
        raise InvalidRequest("content codings are not supported here: send the body without Content-Encoding")
    whole = None if call.caller is None else call.caller.whole_body()
    if whole is None:
        return None
    if len(whole) > max_bytes:
        raise _too_large(max_bytes)
    admission.hold(len(whole))
    call.body_read = True
    return whole


def _check_length(call: Call, max_bytes: int) -> None:
    length = header(call, b"content-length")
    if length is None:
        return
    if not length.isdigit():
        raise InvalidRequest("Content-Length is not a number")
    if len(length) > 15 or int(length) > max_bytes:
        raise _too_large(max_bytes)


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the request body is larger than the {max_bytes} bytes that this gateway takes")
