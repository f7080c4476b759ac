"""What the store's answer to a HEAD says of an object, in our words. Pure."""

from __future__ import annotations

from typing import Any

from .dataref import UNKNOWN_BYTES, DataRef, S3Key
from .errors import InvalidRequest

SHA256 = "headrace-sha256"
EXPIRES = "headrace-expires-ms"


def as_ref(place: S3Key, head: dict[str, Any]) -> DataRef:
    """A reference to the object; what somebody else's metadata says wrongly counts as unknown."""
    metadata = head.get("Metadata", {})
    size = int(head.get("ContentLength", UNKNOWN_BYTES))
    try:
        return DataRef(str(place), str(metadata.get(SHA256, "")), size, expiry(metadata))
    except InvalidRequest:
        return DataRef(str(place), nbytes=size, expires_ms=expiry(metadata))


def expiry(metadata: dict[str, Any]) -> int | None:
    """Milliseconds since 1970, None where the metadata has no such number."""
    text = str(metadata.get(EXPIRES, ""))
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None
