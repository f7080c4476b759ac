"""Keys of claim checks: `claims/<yyyy>/<mm>/<dd>/<32 hex>`, the day being that on which they expire (UTC). Pure.

Keys sort by that day, so a sweep lists what has expired and nothing behind it.
"""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

CLAIMS = "claims/"
DAY_MS = 86_400_000
KEPT_MS = 7 * DAY_MS  # of claim checks without a deadline: as long as Kafka keeps records unless told otherwise
_CLAIM_KEY = re.compile(r"claims/(\d{4})/(\d{2})/(\d{2})/[0-9a-f]{32}", re.ASCII)
_LAST_MS = 253_402_300_799_999  # of the year 9999: later ones have no such key


def claim_key(expires_ms: int) -> str:
    """A new key, which nobody can guess, for what expires at `expires_ms` (milliseconds since 1970)."""
    return f"{day_prefix(expires_ms)}{secrets.token_hex(16)}"


def day_prefix(expires_ms: int) -> str:
    """What the keys of all that expires on that day begin with."""
    day = datetime.fromtimestamp(min(expires_ms, _LAST_MS) / 1000, UTC)
    return f"{CLAIMS}{day.year:04}/{day.month:02}/{day.day:02}/"


def end_of_day_ms(key: str) -> int | None:
    """The end of the day that a claim's key names, milliseconds since 1970; None for other keys."""
    named = _CLAIM_KEY.fullmatch(key)
    if named is None:
        return None
    try:
        day = datetime(*map(int, named.groups()), tzinfo=UTC)  # type: ignore[misc,arg-type]
    except ValueError:
        return None
    return int(day.timestamp() * 1000) + DAY_MS
