"""What `headrace dev` can be told."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from producer_sdk.topics import Topics


class DevSettings(Struct, frozen=True, kw_only=True):
    """Settings of the development stack.

    Raises:
        ValueError: the prefix cannot begin a topic's name.
    """

    models: Annotated[
        Path | None,
        Meta(
            description="The model directory.", extra={"default": "./models where it exists, else a built-in example"}
        ),
    ] = None
    model: Annotated[tuple[str, ...], Meta(description="Serve only the models of these names.")] = ()
    port: Annotated[
        int | None,
        Meta(
            description="The gateway's port on 127.0.0.1; 0 takes a free one.",
            ge=0,
            le=65535,
            extra={"default": "8000, or a free one when that is taken"},
        ),
    ] = None
    prefix: Annotated[str, Meta(description="What all topics and groups begin with: 1 to 24 of A-Z a-z 0-9 _ -.")] = (
        "headrace"
    )

    def __post_init__(self) -> None:
        Topics(self.prefix)
