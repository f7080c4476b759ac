"""`headrace topics create` and `headrace topics list`."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from headrace.cli import Json, plain_app
from headrace.dev_models import model_names
from headrace.failure import UsageError
from headrace.flags import verb
from headrace.topic_settings import TopicSettings
from producer_sdk.broker import Admin, Topic
from producer_sdk.model_topics import model_topics
from producer_sdk.system_topics import system_topics
from producer_sdk.topics import Topics

app = plain_app(help="Create a model's topics; list topics.", no_args_is_help=True)
Models = Annotated[list[str] | None, typer.Argument(metavar="MODEL...", help="Names of models.")]
EPILOG = """\
\b
For two models, with room for 24 workers each:
  headrace topics create resnet50 whisper --partitions 24 --replication-factor 3
For every model of a directory:
  headrace topics create --models ./models

Topics that exist are left as they are.
"""


@verb(app, TopicSettings, name="create", epilog=EPILOG)
def create(settings: TopicSettings, model: Models = None, as_json: Json = False) -> int:
    """Create the topics of models, and those that all models share, where they are missing."""
    names = list(model or ())
    if settings.models is not None:
        names += sorted(model_names(settings.models) - set(names))
    if not names:
        raise UsageError("Name the models, or a model directory by --models DIR.")
    created = asyncio.run(_create(settings, names))
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


def wanted_topics(settings: TopicSettings, models: list[str]) -> list[Topic]:
    """The shared topics and those of each model. Raises InvalidRequest: a name cannot be part of a topic's name."""
    topics, copies = Topics(settings.prefix), settings.replication_factor
    shared = system_topics(topics, copies, settings.reply_partitions)
    own = [model_topics(topics, model, partitions=settings.partitions, replication_factor=copies) for model in models]
    return [*shared, *(topic for each in own for topic in each)]


async def _create(settings: TopicSettings, models: list[str]) -> list[str]:
    wanted = wanted_topics(settings, models)
    async with _admin(settings) as admin:
        existing = await admin.topics()
        return sorted(await admin.create_topics([topic for topic in wanted if topic.name not in existing]))


async def _list(settings: TopicSettings) -> Mapping[str, int]:
    async with _admin(settings) as admin:
        found = await admin.topics()
    return {name: found[name] for name in sorted(found) if name.startswith(f"{settings.prefix}.")}


@asynccontextmanager
async def _admin(settings: TopicSettings) -> AsyncIterator[Admin]:
    admin = settings.broker().admin()
    try:
        await admin.start()
        yield admin
    finally:
        await admin.stop()
