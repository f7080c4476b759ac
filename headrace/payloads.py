"""`headrace payloads sweep`."""

import asyncio
import sys
import time
from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer

from headrace.cli import Json, plain_app
from headrace.failure import FAILED, UsageError
from headrace.flags import verb
from headrace.payload_sweep import Swept, sweep
from producer_sdk.payload_settings import PayloadSettings
from producer_sdk.payloads import Payloads

app = plain_app(help="Look after what large inputs and outputs leave in S3.", no_args_is_help=True)
WAITING_S = 5.0
# Settings of who puts and fetches.
NO_BEARING = frozenset(("s3_buckets", "s3_model_buckets", "claim_check_bytes", "s3_kms_key"))
Yes = Annotated[bool, typer.Option("--yes", help="Delete; without it nothing is.")]
EPILOG = """\
\b
What is there to delete:
  headrace payloads sweep --s3-claim-bucket my-claims
Delete it:
  headrace payloads sweep --s3-claim-bucket my-claims --yes

Claim checks are the objects under claims/; one that has not expired is never deleted, nor anything whose
metadata says no expiry. Uploads in parts that were begun more than a day ago are aborted too.

\b
A lifecycle rule of the bucket does the same without a command: see
docs/large-payloads.md
"""


@app.callback()
def payloads() -> None:
    """Look after what large inputs and outputs leave in S3."""


@verb(app, PayloadSettings, name="sweep", epilog=EPILOG, hides=NO_BEARING)
def sweep_claims(settings: PayloadSettings, yes: Yes = False, as_json: Json = False) -> int:
    """Say how many claim checks have expired; with --yes delete them."""
    if settings.s3_claim_bucket is None:
        raise UsageError("There is nothing to sweep without a bucket: give --s3-claim-bucket.")
    swept = asyncio.run(_sweep(settings, settings.s3_claim_bucket, yes, as_json))
    if as_json:
        print(msgspec.json.encode({"bucket": settings.s3_claim_bucket, "dry_run": not yes, **_fields(swept)}).decode())
    else:
        print("\n".join(sentences(swept, settings.s3_claim_bucket, yes)))
    return FAILED if swept.refused else 0


async def _sweep(settings: PayloadSettings, bucket: str, deletes: bool, as_json: bool) -> Swept:
    store = settings.payloads()
    assert isinstance(store, Payloads)
    say = _pass_over if as_json or not sys.stderr.isatty() else _say
    waiting = asyncio.get_running_loop().call_later(WAITING_S, _tell_of_waiting, store.settings.endpoint_url)

    def progress(swept: Swept) -> None:
        waiting.cancel()
        say(swept)

    try:
        now_ms = time.time_ns() // 1_000_000
        return await sweep(store, bucket, now_ms, deletes=deletes, progress=progress)
    finally:
        waiting.cancel()
        await store.close()


def sentences(swept: Swept, bucket: str, deletes: bool) -> list[str]:
    """What there was and what was done, for people."""
    where = f"under s3://{bucket}/claims/"
    told = []
    if swept.oldest_ms is None:
        told.append(f"No expired claim checks {where}.")
    else:
        oldest = datetime.fromtimestamp(swept.oldest_ms / 1000, UTC)
        size = f"{swept.bytes / 1e6:,.1f} MB"
        when = f"{oldest:%Y-%m-%d %H:%M}Z"
        told.append(
            f"1 expired claim check {where}, {size}; it expired {when}."
            if swept.expired == 1
            else f"{swept.expired:,} expired claim checks {where}, {size}; the oldest expired {when}."
        )
    if swept.uploads:
        uploads = "1 upload" if swept.uploads == 1 else f"{swept.uploads:,} uploads"
        told.append(f"{uploads} begun more than a day ago and never completed.")
    if swept.unknown == 1:
        told.append(f"1 object {where} says no expiry, {swept.first_unknown}; it is left alone.")
    elif swept.unknown:
        told.append(
            f"{swept.unknown:,} objects {where} say no expiry, the first is {swept.first_unknown}; they are left alone."
        )
    told += [f"{key} was not deleted: {reason}." for key, reason in swept.refused]
    if deletes:
        told.append(f"Deleted {swept.deleted}.")
    elif swept.expired or swept.uploads:
        told.append("Nothing was deleted: add --yes.")
    return told


def _say(swept: Swept) -> None:
    print(f"looked at {swept.looked_at}, {swept.expired} expired, {swept.deleted} deleted", file=sys.stderr)


def _tell_of_waiting(url: str | None) -> None:
    print(f"Waiting for the store at {url or 'Amazon'} ...", file=sys.stderr)


def _pass_over(swept: Swept) -> None:
    """A program that reads what is printed gets the end alone."""


def _fields(swept: Swept) -> dict[str, object]:
    fields = msgspec.structs.asdict(swept)
    fields["refused"] = [{"key": key, "reason": reason} for key, reason in swept.refused]
    return fields
