"""A model that is served somewhere, as its workers announce it, made into a subject of requests."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
from msgspec import Struct

from benchmarks.subjects import ROWS_KEPT, Array, Subject
from headrace.sample_request import shape
from producer_sdk.announcements import ModelState, TensorAnnouncement
from producer_sdk.directory import ModelDirectory
from producer_sdk.kafka import KafkaBroker
from producer_sdk.tensors import Datatype
from producer_sdk.topics import Lane, Topics

TYPES = {Datatype.FP16: "float16", Datatype.FP32: "float32", Datatype.FP64: "float64", Datatype.BOOL: "bool"}


class NotServed(Exception):
    """No worker announces the model as ready, or its inputs cannot be made up."""


class Announced(Struct, frozen=True):
    """The subject, and where its requests and replies go."""

    subject: Subject
    partitions: int
    reply_partition: int


async def announced_subject(servers: str, prefix: str, model: str, lane: Lane) -> Announced:
    """Read the announcements. Raises NotServed, BrokerError."""
    broker, topics = KafkaBroker(servers), Topics(prefix)
    directory = ModelDirectory(broker, topics)
    await directory.start()
    view = directory.get(model)
    await directory.close()
    if view is None or view.state is not ModelState.READY:
        raise NotServed(f"No worker under the prefix {prefix!r} at {servers} says that it serves {model!r}.")
    admin = broker.admin()
    await admin.start()
    try:
        known = await admin.topics()
    finally:
        await admin.stop()
    rows = {tensor.name: _rows(tensor) for tensor in view.newest.inputs}
    subject = Subject(model, Path(), view.newest.max_batch_size, rows)
    requests, replies = topics.requests(model, lane), topics.replies
    return Announced(subject, known[requests], random.randrange(known[replies]))


def _rows(tensor: TensorAnnouncement) -> Array:
    """Equal rows of ones, which are a token, a mask and a type to most models. Raises NotServed."""
    dtype = TYPES.get(tensor.datatype, tensor.datatype.value.lower())
    if not tensor.batched or tensor.datatype in (Datatype.BYTES, Datatype.BF16):
        raise NotServed(
            f"Rows of input {tensor.name!r} cannot be made up: it is {tensor.datatype.value}, or unbatched."
        )
    return np.ones((ROWS_KEPT, *shape(tensor)[1:]), dtype)
