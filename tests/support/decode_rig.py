"""A decoder of a small model, and records for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from producer_sdk.broker import Headers, TopicPartition
from producer_sdk.tensors import Datatype
from producer_sdk.topics import Lane, ReplyTo, Topics
from workers.commit import PartitionLedger
from workers.decode import Decoder, Now
from workers.runners.engine import Loaded, ModelSpec, Signature, TensorSpec
from workers.work import Referred, Rejected, Source, Work

NOW = Now(monotonic=100.0, epoch_ms=1_000_000)
SOURCE = Source(PartitionLedger(TopicPartition("p.m.async", 3)), 7)
X = TensorSpec("x", Datatype.FP32, (2,))
REPLIES = ReplyTo("p.replies", 1)


class ARecord(NamedTuple):
    value: bytes | None
    timestamp: int = NOW.epoch_ms
    headers: Headers = ()
    key: bytes | None = b"key"
    topic: str = "p.m.async"
    partition: int = 3
    offset: int = 7


def decoder(
    *inputs: TensorSpec, default_deadline_s: float | None = None, max_batch_size: int = 8, **keywords: Any
) -> Decoder:
    spec = ModelSpec("m", "2", Path(), "python", default_deadline_s=default_deadline_s)
    outputs = (TensorSpec("y", Datatype.FP32, (2,)), TensorSpec("z", Datatype.FP32, ()))
    loaded = Loaded(Signature(inputs or (X,), outputs), "python", max_batch_size)
    return Decoder(Topics("p"), spec, loaded, **keywords)


def read(record: ARecord, by: Decoder | None = None) -> Work | Rejected:
    works, others, _ = (by or decoder()).decode([record], 0, SOURCE.ledger, Lane.ASYNC, NOW)
    (item,) = [*works, *others]
    assert not isinstance(item, Referred)
    return item


def accepted(decoded: Work | Rejected) -> Work:
    assert isinstance(decoded, Work), decoded
    return decoded


def refused(decoded: Work | Rejected) -> Rejected:
    assert isinstance(decoded, Rejected)
    return decoded


def rows(count: int = 1, width: int = 2, dtype: Any = np.float32) -> Any:
    return np.ones((count, width), dtype)


def json_record(timestamp: int, **parameters: Any) -> ARecord:
    inputs = [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]
    return ARecord(json.dumps({"parameters": parameters, "inputs": inputs}).encode(), timestamp)
