"""What `headrace topics` can be told."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from producer_sdk.model_topics import REQUEST_PARTITIONS
from producer_sdk.settings import KafkaSettings
from producer_sdk.system_topics import REPLY_PARTITIONS


class TopicSettings(KafkaSettings, frozen=True, kw_only=True):
    """Settings for creating and listing topics."""

    models: Annotated[Path | None, Meta(description="A model directory: its models' topics are created.")] = None
    partitions: Annotated[
        int, Meta(description="Partitions of each request topic that is created.", ge=1, le=10_000)
    ] = REQUEST_PARTITIONS
    reply_partitions: Annotated[
        int, Meta(description="Partitions of the replies topic when it is created.", ge=1, le=10_000)
    ] = REPLY_PARTITIONS
    replication_factor: Annotated[
        int, Meta(description="Copies of each topic that is created; -1 leaves it to the brokers.", ge=-1, le=32767)
    ] = -1
