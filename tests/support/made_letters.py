"""Dead letters made by hand."""

import math
from typing import Any

import numpy as np

from headrace.dead_reader import Letter
from producer_sdk._read_record import ReadRecord
from producer_sdk.dead_letters import Facts, headers
from producer_sdk.tensors import Tensor
from producer_sdk.topics import ReplyTo
from producer_sdk.wire import Request, encode_request

NOW_MS = 1_780_000_000_000
INPUTS = {"x": Tensor.from_array(np.array([[0.1, math.inf]], np.float32))}
REQUEST = Request("a-1", INPUTS, deadline_ms=NOW_MS + 5000, reply_to=ReplyTo("p.replies", 1), version="1")
PACKED = encode_request(REQUEST)


def letter(
    value: bytes | None = PACKED, original: Any = (), at: tuple[int, int, int] = (0, 17, NOW_MS), **facts: Any
) -> Letter:
    """A letter of the record `value`, at this partition, offset and time of the dead topic p.m.dead."""
    known = Facts(**{"topic": "p.m.async", "partition": 1, "offset": 5, "timestamp_ms": NOW_MS, "group": "p.m",
                     "attempts": 5, "code": "INTERNAL", "message": "why"} | facts)  # fmt: skip
    partition, offset, timestamp_ms = at
    return Letter(ReadRecord("p.m.dead", partition, offset, timestamp_ms, b"k", value, headers(known, original)))
