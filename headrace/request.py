"""What `headrace infer` and `headrace publish` ask: their common flags, and one request made from them."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from msgspec import Struct

from headrace.failure import UsageError
from headrace.request_values import read_inputs, read_parameters
from producer_sdk.announcements import Announcement
from producer_sdk.directory import ModelDirectory
from producer_sdk.oip import read_infer_body, read_options
from producer_sdk.settings import KafkaSettings
from producer_sdk.topics import Topics

Model = Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model.")]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input", metavar="NAME=VALUE", help="An input: JSON, else plain text; @FILE.npy is an array in a file."
    ),
]
JsonBody = Annotated[
    str | None,
    typer.Option("--json-body", metavar="FILE|-", help="An Open Inference Protocol v2 request instead of --input."),
]
Parameters = Annotated[
    list[str] | None, typer.Option("--parameter", metavar="NAME=VALUE", help="A parameter for the model.")
]
Id = Annotated[str | None, typer.Option("--id", metavar="TEXT", help="Id of the request.  [default: a fresh one]")]
Version = Annotated[str | None, typer.Option("--version", metavar="TEXT", help="Version of the model.")]
Tenant = Annotated[str | None, typer.Option("--tenant", metavar="TEXT", help="Whom the request is counted for.")]
LaneName = Annotated[str, typer.Option("--lane", metavar="interactive|async|bulk", help="How urgent it is.")]
Deadline = Annotated[float | None, typer.Option("--deadline-s", metavar="F", help="Seconds after which it expires.")]
Encoding = Annotated[
    Literal["msgpack", "json"], typer.Option("--encoding", metavar="msgpack|json", help="How it is written.")
]


class Given(Struct, frozen=True):
    """What the flags say; None or empty where one was not given."""

    model: str
    inputs: Sequence[str]
    json_body: str | None
    parameters: Sequence[str]
    id: str | None
    version: str | None
    tenant: str | None
    deadline_s: float | None


class Question(Struct, frozen=True):
    """One request, as the SDK's client takes it."""

    model: str
    inputs: dict[str, Any]
    arguments: dict[str, Any]


async def question(given: Given, settings: KafkaSettings) -> Question:
    """The request that the flags describe; flags win over the same words in a JSON body.

    Raises:
        UsageError: neither inputs nor body, or both, or one that does not fit the model.
        InvalidRequest: the body is no Open Inference Protocol request.
        BrokerError: Kafka does not answer.
    """
    if (given.json_body is None) == (not given.inputs):
        raise UsageError("Give the request by --input NAME=VALUE, or by --json-body FILE; one of the two.")
    inputs, arguments = _from_body(given.json_body) if given.json_body is not None else ({}, {})
    if given.inputs:
        inputs = read_inputs(given.inputs, await announcement(given.model, settings))
    flags = {
        "id": given.id,
        "version": given.version,
        "tenant": given.tenant,
        "deadline_s": given.deadline_s,
        "parameters": {**arguments.get("parameters", {}), **read_parameters(given.parameters)} or None,
    }
    arguments |= {name: value for name, value in flags.items() if value is not None}
    return Question(given.model, inputs, arguments)


async def announcement(model: str, settings: KafkaSettings) -> Announcement | None:
    """What a worker has announced of the model; None where none has loaded it. Raises BrokerError."""
    directory = ModelDirectory(settings.broker(), Topics(settings.prefix))
    await directory.start()
    try:
        view = directory.get(model)
    finally:
        await directory.close()
    return view.newest if view is not None and view.newest.inputs else None


def _from_body(source: str) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        text = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as err:
        raise UsageError(f"--json-body {source} cannot be read: {err.strerror}.") from err
    body = read_infer_body(text)
    options = read_options(body.parameters)
    found = {
        "id": body.id,
        "outputs": body.outputs,
        "version": options.version,
        "tenant": options.tenant,
        "deadline_s": options.deadline_s,
        "parameters": options.parameters or None,
        "reply_to": None if options.reply_to is None else str(options.reply_to),
    }
    return dict(body.inputs), {name: value for name, value in found.items() if value is not None}
