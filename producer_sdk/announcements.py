"""What workers announce on the control topic: which models they serve, with their signatures and state.

Key `worker/<worker>/<model>`, value JSON; a tombstone when the worker leaves. An announcement older than three of its
own heartbeats is stale.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec
from msgspec import Struct

from .tensors import Datatype

HEARTBEATS_UNTIL_STALE = 3


class ModelState(StrEnum):
    """State of a model in one worker."""

    LOADING = "LOADING"  # the runner loads or warms it up
    READY = "READY"  # it answers
    UNAVAILABLE = "UNAVAILABLE"  # it failed to load, or its runner keeps dying; `reason` says why


class TensorAnnouncement(Struct, frozen=True):
    """One input or output; `shape` is without the batch axis, -1 is variable, `batched` False has no batch axis."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    batched: bool = True


class Announcement(Struct, frozen=True, omit_defaults=True):
    """One worker's word on one model.

    Attributes:
        worker: the worker's id.
        model: name.
        versions: versions served; the last is the default.
        state: see ModelState.
        at_ms: epoch milliseconds by the worker's clock.
        heartbeat_s: how often it is repeated.
        platform: Open Inference Protocol platform name.
        inputs, outputs: signature of the default version; empty until loaded.
        max_batch_size: most rows a record may hold.
        max_record_bytes: largest record that the worker publishes and takes.
        v1_input, v1_output: tensors that `/v1/infer` uses; `v1_output` None takes `output`, else the first.
        default_deadline_s: deadline of requests that name none.
        reason: why it is not ready.
    """

    worker: str
    model: str
    versions: tuple[str, ...]
    state: ModelState
    at_ms: int
    heartbeat_s: float
    platform: str = ""
    inputs: tuple[TensorAnnouncement, ...] = ()
    outputs: tuple[TensorAnnouncement, ...] = ()
    max_batch_size: int = 0
    max_record_bytes: int = 0
    v1_input: str = "prompt"
    v1_output: str | None = None
    default_deadline_s: float | None = None
    reason: str = ""

    @property
    def key(self) -> bytes:
        return f"worker/{self.worker}/{self.model}".encode()

    def is_stale(self, now_ms: int) -> bool:
        return now_ms - self.at_ms > HEARTBEATS_UNTIL_STALE * self.heartbeat_s * 1000


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Announcement)


def encode_announcement(announcement: Announcement) -> bytes:
    return _encoder.encode(announcement)


def decode_announcement(value: bytes) -> Announcement | None:
    """The announcement, or None for a value that is none (of a later release, or foreign)."""
    try:
        return _decoder.decode(value)
    except msgspec.MsgspecError:
        return None
