"""`headrace topics create` and `headrace topics list`."""

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated

import typer

from headrace.broker_admin import admin_of
from headrace.cli import Json, plain_app
from headrace.dev_models import model_names
from headrace.failure import UsageError
from headrace.flags import verb
from headrace.topic_settings import TopicSettings
from producer_sdk.broker import Topic
from producer_sdk.errors import InvalidRequest
from producer_sdk.model_topics import RESULT_PARTITIONS, model_topics
from producer_sdk.system_topics import system_topics
from producer_sdk.topics import Topics, parse_reply_to

app = plain_app(help="Create a model's topics; list topics.", no_args_is_help=True)
Models = Annotated[list[str] | None, typer.Argument(metavar="MODEL...", help="Names of models.")]
ReplyTopics = Annotated[
    list[str] | None,
    typer.Option("--reply-topic", metavar="TOPIC", help="A topic for replies, under the prefix; may be repeated."),
]
EPILOG = """\
\b
For two models, with room for 24 workers each:
  headrace topics create resnet50 whisper --partitions 24 --replication-factor 3
For every model of a directory:
  headrace topics create --models ./models
For replies of your own, to be named by headrace publish --reply-to:
  headrace topics create --reply-topic headrace.mine.results

Topics that exist are left as they are.
"""


@verb(app, TopicSettings, name="create", epilog=EPILOG)
def create(
    settings: TopicSettings, model: Models = None, reply_topic: ReplyTopics = None, as_json: Json = False
) -> int:
    """Create the topics of models, and those that all models share, where they are missing."""
    names, replies = list(model or ()), list(reply_topic or ())
    if settings.models is not None:
        names += sorted(model_names(settings.models) - set(names))
    if not names and not replies:
        raise UsageError("Name the models, a model directory by --models DIR, or a topic by --reply-topic TOPIC.")
    created = asyncio.run(_create(settings, wanted_topics(settings, names, replies)))
    if as_json:
        print(json.dumps({"created": created}))
    for topic in [] if as_json else created:
        print(f"created {topic}")
    if not created and not as_json:
        print("Nothing to create: all these topics exist.")
    return 0


@verb(app, TopicSettings, name="list")
def list_topics(settings: TopicSettings, as_json: Json = False) -> int:
    """List the topics under the prefix with their numbers of partitions."""
    found = asyncio.run(_list(settings))
    if as_json:
        print(json.dumps([{"topic": name, "partitions": partitions} for name, partitions in found.items()]))
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table("topic", "partitions", box=None, pad_edge=False)
    for name, partitions in found.items():
        table.add_row(name, str(partitions))
    Console().print(table)
    return 0


def wanted_topics(settings: TopicSettings, models: list[str], replies: list[str]) -> list[Topic]:
    """The shared topics, those of each model, and those for replies. Raises InvalidRequest: a name is not valid."""
    topics, copies = Topics(settings.prefix), settings.replication_factor
    shared = system_topics(topics, copies, settings.reply_partitions)
    own = [model_topics(topics, model, partitions=settings.partitions, replication_factor=copies) for model in models]
    for name in replies:
        if parse_reply_to(name).partition is not None or not topics.may_reply_to(name):
            raise InvalidRequest(f"replies cannot go to a topic {name!r}: name one under {topics.prefix}.")
    for_replies = [Topic(name, RESULT_PARTITIONS, copies) for name in replies]
    return [*shared, *(topic for each in own for topic in each), *for_replies]


async def _create(settings: TopicSettings, wanted: list[Topic]) -> list[str]:
    async with admin_of(settings.broker()) as admin:
        existing = await admin.topics()
        return sorted(await admin.create_topics([topic for topic in wanted if topic.name not in existing]))


async def _list(settings: TopicSettings) -> Mapping[str, int]:
    async with admin_of(settings.broker()) as admin:
        found = await admin.topics()
    return {name: found[name] for name in sorted(found) if name.startswith(f"{settings.prefix}.")}
