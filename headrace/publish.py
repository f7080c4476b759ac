"""`headrace publish`."""

import asyncio
import json
from typing import Annotated

import typer

from headrace.cli import Json, plain_app
from headrace.flags import verb
from headrace.request import (
    Deadline,
    Encoding,
    Given,
    Id,
    Inputs,
    JsonBody,
    LaneName,
    Model,
    Parameters,
    Tenant,
    Version,
    question,
)
from producer_sdk.client import Client
from producer_sdk.settings import KafkaSettings

app = plain_app()
EPILOG = """\
\b
The reply goes to the model's results topic, or where --reply-to says:
  headrace publish shout --input prompt=hello
  headrace publish sum --input x='[1, 2]' --reply-to headrace.mine.results --lane bulk

The model need not be running, but its topics must exist (headrace topics create MODEL).
"""
ReplyTo = Annotated[
    str | None,
    typer.Option("--reply-to", metavar="TOPIC[:PARTITION]", help="Where the reply goes, under the same prefix."),
]


@verb(app, KafkaSettings, epilog=EPILOG)
def publish(
    settings: KafkaSettings,
    model: Model,
    inputs: Inputs = None,
    json_body: JsonBody = None,
    parameters: Parameters = None,
    id: Id = None,
    version: Version = None,
    tenant: Tenant = None,
    lane: LaneName = "async",
    deadline_s: Deadline = None,
    reply_to: ReplyTo = None,
    encoding: Encoding = "msgpack",
    as_json: Json = False,
) -> int:
    """Queue a request for a model; prints its id once Kafka has it for good."""
    given = Given(model, inputs or (), json_body, parameters or (), id, version, tenant, deadline_s)
    published = asyncio.run(_publish(settings, given, lane, reply_to, encoding))
    print(json.dumps({"id": published, "model": model, "lane": lane}) if as_json else published)
    return 0


async def _publish(settings: KafkaSettings, given: Given, lane: str, reply_to: str | None, encoding: Encoding) -> str:
    asked = await question(given, settings)
    arguments = asked.arguments if reply_to is None else {**asked.arguments, "reply_to": reply_to}
    async with Client(settings.broker(), prefix=settings.prefix, encoding=encoding) as client:
        return await client.publish(asked.model, asked.inputs, lane=lane, **arguments)
