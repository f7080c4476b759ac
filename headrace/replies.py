"""`headrace replies`."""

import asyncio
import os
import sys
from typing import Annotated

import typer

from headrace.broker_admin import admin_of
from headrace.cli import Json, plain_app
from headrace.failure import UsageError
from headrace.flags import verb
from headrace.known_model import check_has_topics
from headrace.reply_reader import open_replies
from headrace.show_reply import reply_text
from producer_sdk.settings import KafkaSettings
from producer_sdk.topics import Topics, check_model_name

app = plain_app()
EPILOG = """\
\b
The last ten replies of a model; then each new one as it comes, until Ctrl-C:
  headrace replies sum
  headrace replies sum --follow
Of a topic that --reply-to of headrace publish named, new ones alone, for a program:
  headrace replies --topic headrace.mine.results --limit 0 --follow --json

--json prints one line for each reply, as Open Inference Protocol JSON, whichever way it was written.
Reading takes nothing away: everybody can read the same replies again.
"""
Model = Annotated[str | None, typer.Argument(metavar="MODEL", help="Name of the model, whose results topic is read.")]
Topic = Annotated[
    str | None, typer.Option("--topic", metavar="TOPIC", help="Read this topic instead of a model's results topic.")
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with each reply that comes, until Ctrl-C.")]
Limit = Annotated[
    int, typer.Option("--limit", "-n", metavar="N", min=0, max=10_000, help="How many of the replies that are there.")
]


@verb(app, KafkaSettings, epilog=EPILOG)
def replies(
    settings: KafkaSettings,
    model: Model = None,
    topic: Topic = None,
    follow: Follow = False,
    limit: Limit = 10,
    as_json: Json = False,
) -> int:
    """Show the replies to published requests: the newest ones, oldest of them first."""
    if model is None and topic is None:
        raise UsageError("Name the model whose replies to show, or a topic by --topic TOPIC.")
    try:
        asyncio.run(_show(settings, model, topic, limit, follow, as_json))
    except KeyboardInterrupt:
        if not follow:
            raise
    except BrokenPipeError:
        # Whoever read has read enough, as `| head` does; what is left in the buffer must not fail at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


async def _show(
    settings: KafkaSettings, model: str | None, topic: str | None, limit: int, follow: bool, as_json: bool
) -> None:
    name = topic or await _results_topic(settings, model or "")
    async with open_replies(settings.broker(), name) as reader:
        records = await reader.last(limit)
        while records or follow:
            for record in records:
                print(reply_text(record, as_json), flush=True)
            records = await reader.next() if follow else []


async def _results_topic(settings: KafkaSettings, model: str) -> str:
    """Raises UnknownModel: the model has no topics."""
    topics = Topics(settings.prefix)
    topic = topics.results(check_model_name(model))
    async with admin_of(settings.broker()) as admin:
        check_has_topics(model, topics, await admin.topics())
    return topic
