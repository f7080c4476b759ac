"""`headrace infer`."""

import asyncio
import sys
import time

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
from headrace.show_reply import print_reply
from producer_sdk.client import Client
from producer_sdk.errors import HeadraceError
from producer_sdk.oip import encode_json_error
from producer_sdk.settings import KafkaSettings
from producer_sdk.wire import Reply

app = plain_app()
FAILED, INTERRUPTED = 1, 130  # the second as shells count a death by Ctrl-C
EPILOG = """\
\b
Text, numbers, an array in a file:
  headrace infer shout --input prompt=hello --parameter repeat=2
  headrace infer sum --input x='[1, 2, 3.5]'
  headrace infer resnet --input image=@image.npy --json
An Open Inference Protocol request:
  headrace infer sum --json-body - < request.json

Values take the datatype that the model announces; the row axis may be left out of a single row.
"""


@verb(app, KafkaSettings, epilog=EPILOG)
def infer(
    settings: KafkaSettings,
    model: Model,
    inputs: Inputs = None,
    json_body: JsonBody = None,
    parameters: Parameters = None,
    id: Id = None,
    version: Version = None,
    tenant: Tenant = None,
    lane: LaneName = "interactive",
    deadline_s: Deadline = None,
    encoding: Encoding = "msgpack",
    as_json: Json = False,
) -> int:
    """Ask a model over Kafka and wait for its answer (30 s, unless --deadline-s says otherwise)."""
    given = Given(model, inputs or (), json_body, parameters or (), id, version, tenant, deadline_s)
    try:
        reply, latency_s = asyncio.run(_ask(settings, given, lane, encoding))
    except HeadraceError as error:
        if not as_json or error.id is None:
            raise
        print(encode_json_error(error.id, error).decode())
        return FAILED
    except KeyboardInterrupt:
        print("given up; the request is cancelled", file=sys.stderr)
        return INTERRUPTED
    print_reply(reply, latency_s, as_json)
    return 0


async def _ask(settings: KafkaSettings, given: Given, lane: str, encoding: Encoding) -> tuple[Reply, float]:
    asked = await question(given, settings)
    asked.arguments.pop("reply_to", None)
    async with Client(settings.broker(), prefix=settings.prefix, encoding=encoding, s3=settings.s3()) as client:
        started = time.perf_counter()
        reply = await client.infer(asked.model, asked.inputs, lane=lane, **asked.arguments)
        return reply, time.perf_counter() - started
