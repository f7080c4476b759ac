"""What workers announce on the control topic: which models they serve, with their signatures and state.

Key `worker/<worker>/<model>`, value JSON; a tombstone when the worker leaves. A worker not heard for three of its own
heartbeats is stale.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from .errors import InvalidRequest
from .tensors import Datatype
from .topics import check_model_name, shown

HEARTBEATS_UNTIL_STALE = 3
MAX_HEARTBEAT_S = 60.0
MAX_NAME_CHARS = 128


class ModelState(StrEnum):
    """State of a model in one worker."""

    LOADING = "LOADING"  # the runner loads or warms it up
    READY = "READY"  # it answers
    UNAVAILABLE = "UNAVAILABLE"  # it failed to load, or its runner keeps dying; `reason` says why


class TensorAnnouncement(Struct, frozen=True):
    """One input or output; `shape` is without the batch axis, -1 is variable, `batched` False has no batch axis.

    Requests may leave out an `optional` input.
    """

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    batched: bool = True
    optional: bool = False


class Announcement(Struct, frozen=True, omit_defaults=True):
    """One worker's word on one model.

    Attributes:
        worker: the worker's id.
        model: name.
        versions: versions served; the last is the default.
        state: see ModelState.
        at_ms: epoch milliseconds by the worker's clock, which nothing else is judged by.
        heartbeat_s: how often it is repeated; at most a minute.
        platform: Open Inference Protocol platform name.
        inputs, outputs: signature of the default version; empty until loaded.
        max_batch_size: most rows a record may hold.
        max_record_bytes: largest record that the worker publishes and takes.
        v1_input, v1_output: tensors that `/v1/infer` uses; `v1_output` None takes `output`, else the first.
        default_deadline_s: deadline of requests that name none.
        queue_limits: most requests of a priority level that a gateway lets wait; level 0 is for levels not named.
        priority_levels: how many there are; a request of another level is one of the default.
        default_priority: level of requests that name none.
        reason: why it is not ready.
    """

    worker: str
    model: str
    versions: tuple[str, ...]
    state: ModelState
    at_ms: int
    heartbeat_s: Annotated[float, Meta(gt=0, le=MAX_HEARTBEAT_S)]
    platform: str = ""
    inputs: tuple[TensorAnnouncement, ...] = ()
    outputs: tuple[TensorAnnouncement, ...] = ()
    max_batch_size: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)] = 0
    max_record_bytes: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)] = 0
    v1_input: str = "prompt"
    v1_output: str | None = None
    default_deadline_s: Annotated[float, Meta(gt=0)] | None = None
    queue_limits: Mapping[int, int] = {}
    priority_levels: int = 0
    default_priority: int = 0
    reason: str = ""

    @property
    def key(self) -> bytes:
        return f"worker/{self.worker}/{self.model}".encode()

    @property
    def stale_after_s(self) -> float:
        return HEARTBEATS_UNTIL_STALE * self.heartbeat_s


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Announcement)


def encode_announcement(announcement: Announcement) -> bytes:
    return _encoder.encode(announcement)


def read_announcement(value: bytes) -> Announcement:
    """The announcement of a record.

    Raises:
        InvalidRequest: it is none (of a later release, or foreign), or says what no worker can mean.
    """
    try:
        announcement = _decoder.decode(value)
    except msgspec.MsgspecError as err:
        raise InvalidRequest(str(err)) from err
    check_model_name(announcement.model)
    for name in (announcement.worker, *announcement.versions):
        if not 0 < len(name) <= MAX_NAME_CHARS or not name.isprintable():
            raise InvalidRequest(
                f"worker or version {shown(name)} is not valid: use 1 to {MAX_NAME_CHARS} printable characters"
            )
    return announcement


def decode_announcement(value: bytes) -> Announcement | None:
    """As `read_announcement`, but None for a value that is none."""
    try:
        return read_announcement(value)
    except InvalidRequest:
        return None
