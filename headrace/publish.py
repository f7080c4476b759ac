"""`headrace publish`."""

import asyncio
import json
from typing import Annotated

import typer

from headrace.broker_admin import admin_of
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
from producer_sdk.broker import Broker
from producer_sdk.client import Client
from producer_sdk.dataref import is_s3_uri
from producer_sdk.errors import InvalidRequest
from producer_sdk.settings import KafkaSettings
from producer_sdk.topics import ReplyTo, Topics, parse_reply_to

app = plain_app()
EPILOG = """\
\b
The reply goes to the model's results topic:
  headrace publish shout --input prompt=hello
  headrace replies shout
or where --reply-to says, to a topic under the same prefix, which must exist:
  headrace topics create --reply-topic headrace.mine.results
  headrace publish sum --input x='[1, 2]' --reply-to headrace.mine.results --lane bulk
  headrace replies --topic headrace.mine.results
or to a bucket of HEADRACE_S3_BUCKETS, as an object, with a pointer to it on the results topic:
  headrace publish sum --input x='[1, 2]' --reply-to s3://my-results/nightly/

The model need not be running, but its topics must exist (headrace topics create MODEL).
"""
Address = Annotated[
    str | None,
    typer.Option(
        "--reply-to",
        metavar="TOPIC[:PARTITION]|s3://BUCKET/PREFIX/",
        help="Where the reply goes: a topic under the same prefix, or a bucket of HEADRACE_S3_BUCKETS.",
    ),
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
    reply_to: Address = None,
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
    if "reply_to" in arguments and not is_s3_uri(arguments["reply_to"]):
        await check_address(settings.broker(), settings.prefix, parse_reply_to(arguments["reply_to"]))
    async with Client(settings.broker(), prefix=settings.prefix, encoding=encoding, s3=settings.s3()) as client:
        return await client.publish(asked.model, asked.inputs, lane=lane, **arguments)


async def check_address(broker: Broker, prefix: str, address: ReplyTo) -> None:
    """See that a reply can go there: the worker could only say so on the results topic, which nobody may read.

    Raises:
        InvalidRequest: the topic is not under the prefix, or there is no such topic or partition.
        BrokerError: Kafka does not answer.
    """
    topic, partition = address
    if not Topics(prefix).may_reply_to(topic):
        raise InvalidRequest(f"reply_to {str(address)!r} is not allowed: use a topic under {prefix}.")
    async with admin_of(broker) as admin:
        partitions = (await admin.topics()).get(topic, 0)
    if not partitions:
        make = f"headrace topics create --reply-topic {topic}"
        raise InvalidRequest(f"there is no topic {topic} for the reply: make it by `{make}`")
    if partition is not None and partition >= partitions:
        raise InvalidRequest(f"reply_to {str(address)!r} does not exist: {topic} has partitions 0 to {partitions - 1}")
