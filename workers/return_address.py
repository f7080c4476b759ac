"""Reads the return address of a record in a process of its own: reading this record may be what ends a process.

python -m workers.return_address < encoded `_Question` > encoded `_Found`
"""

from __future__ import annotations

import asyncio
import os
import sys

import msgspec
from msgspec import Struct

from producer_sdk.broker import Record
from producer_sdk.errors import HeadraceError
from producer_sdk.forms import content_type_of, form_of
from producer_sdk.records import decode_record
from producer_sdk.topics import derived_id
from producer_sdk.wire import Form, Refused
from producer_sdk.wire import read_return_address as address_of

from .retry_records import Origin

TIMEOUT_S = 30.0


class _Question(Struct, array_like=True):
    value: bytes
    headers: list[tuple[str, bytes]]
    fallback_id: str
    timestamp_ms: int


class _Found(Struct, array_like=True):
    id: str
    content_type: str
    return_address: str | None


async def read_return_address(record: Record, origin: Origin, error: HeadraceError) -> Refused | None:
    """The record refused with this error; None when nobody can be told, as where reading it ends the process."""
    id = derived_id(origin.topic, origin.partition, origin.offset)
    headers = [(name, value or b"") for name, value in origin.headers]
    question = _Question(record.value or b"", headers, id, origin.timestamp_ms)
    # The child imports what this process would, whatever the current folder is.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", __name__),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
        )
    except OSError:  # no process or no memory is left for it
        return None
    try:
        async with asyncio.timeout(TIMEOUT_S):
            written, _ = await child.communicate(msgspec.msgpack.encode(question))
        found = msgspec.msgpack.decode(written, type=_Found)
        address = (None, None) if found.return_address is None else address_of(found.return_address)
        return Refused(found.id, error, form_of(found.content_type) or Form.MSGPACK, *address)
    except (TimeoutError, msgspec.MsgspecError, HeadraceError):
        return None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


def main() -> None:
    question = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=_Question)
    try:
        request = decode_record(question.value, question.headers, question.fallback_id, question.timestamp_ms)
    except HeadraceError:
        sys.exit(1)
    address = request.reply_to or request.store
    found = _Found(request.id, content_type_of(request.form), None if address is None else str(address))
    sys.stdout.buffer.write(msgspec.msgpack.encode(found))


if __name__ == "__main__":
    main()
