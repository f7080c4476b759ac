"""Which claim checks have expired, page by page, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from producer_sdk.claim_keys import CLAIMS, DAY_MS, end_of_day_ms
from producer_sdk.payloads import Payloads, StoredObject

PAGE = 100  # after each, progress is told
BUDGET_S = 60.0  # of one request, whatever was asked before


class Swept(Struct, frozen=True):
    """What a sweep has seen and done so far.

    Attributes:
        looked_at: objects under claims/ whose day has come.
        expired, bytes: claim checks that have expired, and their sizes.
        oldest_ms: when the first of them expired, milliseconds since 1970; None without any.
        unknown: objects without an expiry in their metadata, or with another kind of key; they are left alone.
        first_unknown: the key of the first of them; None without any.
        deleted: how many are gone.
        refused: keys that the store would not delete, each with the reason.
        uploads: uploads in parts that were begun more than a day ago and never completed.
    """

    looked_at: int = 0
    expired: int = 0
    bytes: int = 0
    oldest_ms: int | None = None
    unknown: int = 0
    first_unknown: str | None = None
    deleted: int = 0
    refused: tuple[tuple[str, str], ...] = ()
    uploads: int = 0


async def sweep(
    payloads: Payloads, bucket: str, now_ms: int, *, deletes: bool, progress: Callable[[Swept], None]
) -> Swept:
    """Look at all claim checks whose day has come, and with `deletes` delete those that have expired.

    `progress` hears after each page. Raises as `Payloads.put`.
    """
    swept, after, more = Swept(), "", True
    while more:
        page = await payloads.list(bucket, CLAIMS, after=after, most=PAGE, budget_s=BUDGET_S)
        due = [each for each in page.objects if _may_be_due(each.key, now_ms)]
        swept = await _page(payloads, bucket, due, now_ms, deletes, swept)
        progress(swept)
        # Keys sort by day: behind the first that is not due nothing is.
        more = page.more and len(due) == len(page.objects)
        after = page.objects[-1].key if page.objects else ""
    return await _uploads(payloads, bucket, now_ms, deletes, swept)


def _may_be_due(key: str, now_ms: int) -> bool:
    end_ms = end_of_day_ms(key)
    return end_ms is None or end_ms - DAY_MS <= now_ms


async def _page(
    payloads: Payloads, bucket: str, due: list[StoredObject], now_ms: int, deletes: bool, swept: Swept
) -> Swept:
    # The day in the key says where to look; the metadata decides.
    claims = [each for each in due if end_of_day_ms(each.key) is not None]
    ends = await payloads.expiries_ms(bucket, [each.key for each in claims], budget_s=BUDGET_S)
    known = [(each, end) for each, end in zip(claims, ends, strict=True) if end is not None]
    unknown = [each.key for each in due if each.key not in {claim.key for claim, _ in known}]
    expired = [(each, end) for each, end in known if end <= now_ms]
    oldest = [end for _, end in expired] + ([] if swept.oldest_ms is None else [swept.oldest_ms])
    swept = msgspec.structs.replace(
        swept,
        looked_at=swept.looked_at + len(due),
        expired=swept.expired + len(expired),
        bytes=swept.bytes + sum(each.nbytes for each, _ in expired),
        oldest_ms=min(oldest, default=None),
        unknown=swept.unknown + len(unknown),
        first_unknown=swept.first_unknown or next(iter(unknown), None),
    )
    if not deletes or not expired:
        return swept
    deleted = await payloads.delete(bucket, [each.key for each, _ in expired], budget_s=BUDGET_S)
    return msgspec.structs.replace(
        swept, deleted=swept.deleted + len(deleted.keys), refused=swept.refused + deleted.refused
    )


async def _uploads(payloads: Payloads, bucket: str, now_ms: int, deletes: bool, swept: Swept) -> Swept:
    begun = await payloads.unfinished(bucket, CLAIMS, budget_s=BUDGET_S)
    left = [each for each in begun if each.begun_ms + DAY_MS <= now_ms]
    if deletes:
        await payloads.abandon(bucket, left, budget_s=BUDGET_S)
    return msgspec.structs.replace(swept, uploads=len(left))
