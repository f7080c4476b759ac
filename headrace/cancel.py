"""`headrace cancel`."""

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated

import typer

from headrace.cli import Json, plain_app
from headrace.flags import verb
from producer_sdk.client import Client
from producer_sdk.settings import KafkaSettings
from producer_sdk.topics import check_id

app = plain_app()
EPILOG = """\
\b
The id is what headrace publish printed, or what --id named:
  headrace publish shout --input prompt=hello --id job-7
  headrace cancel job-7
A request without an id of its own has its place as one, TOPIC:PARTITION:OFFSET:
  headrace cancel headrace.shout.async:3:141

Each request still gets one outcome: CANCELLED, or the one that was published before. Which of the two, and
whether there is a request of that id at all, cannot be told here: look for its reply (headrace replies MODEL).
A cancel counts for requests published before it, of every model, by this machine's clock; it is kept for an hour.
"""
Ids = Annotated[list[str], typer.Argument(metavar="ID", help="Ids of requests.")]


@verb(app, KafkaSettings, epilog=EPILOG)
def cancel(settings: KafkaSettings, id: Ids, as_json: Json = False) -> int:
    """Ask that requests end, unless they have their outcome; returns once Kafka has that for good."""
    ids = [check_id(each) for each in dict.fromkeys(id)]
    asyncio.run(_cancel(settings, ids))
    print(json.dumps({"asked": ids}) if as_json else "\n".join(f"asked to end {each}" for each in ids))
    return 0


async def _cancel(settings: KafkaSettings, ids: Sequence[str]) -> None:
    async with Client(settings.broker(), prefix=settings.prefix) as client:
        for each in ids:
            await client.cancel(each)
